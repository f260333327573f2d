//! What becomes of configurations, and what is said about them.

use super::*;
use crate::validate::Checker;
use proptest::prelude::*;
use rstest::rstest;

const PROBER: &str = include_str!("../../tests/fixtures/gardener/prober.yaml");
const WEEDER: &str = include_str!("../../tests/fixtures/gardener/weeder.yaml");
const FORMER: &str = include_str!("../../tests/fixtures/gardener/former.yaml");

fn converted(text: &str) -> Converted {
    convert(text, None).unwrap()
}

fn told(remarks: &[Remark]) -> String {
    let line = |it: &Remark| match it.place {
        Some(place) => format!("{place}: {}", it.message),
        None => it.message.clone(),
    };
    remarks.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn refused(text: &str) -> String {
    told(&convert(text, None).unwrap_err())
}

#[test]
fn the_example_of_the_prober() {
    insta::assert_snapshot!("prober", converted(PROBER).yaml);
    insta::assert_snapshot!("prober-notes", told(&converted(PROBER).notes));
}

#[test]
fn the_example_of_the_weeder() {
    insta::assert_snapshot!("weeder", converted(WEEDER).yaml);
    insta::assert_snapshot!("weeder-notes", told(&converted(WEEDER).notes));
}

#[test]
fn former_versions() {
    let converted = converted(FORMER);
    insta::assert_snapshot!("former", converted.yaml);
    insta::assert_snapshot!("former-notes", told(&converted.notes));
}

#[test]
fn what_comes_out_is_in_order() {
    for text in [PROBER, WEEDER, FORMER] {
        let mut checker = Checker::new();
        checker.check("converted", &converted(text).yaml);
        let report = checker.report();
        assert_eq!(report.problems, []);
        assert!(report.checked > 0 && report.passed_over == 0);
    }
}

/// Nothing is written that was not there but the mode and a wait, and nothing of it is lost.
#[test]
fn a_configuration_of_today_is_the_specification() {
    let mut policy: serde_json::Value = serde_saphyr::from_str(&converted(WEEDER).yaml).unwrap();
    let mode = policy["spec"].as_object_mut().unwrap().remove("mode");
    assert_eq!(mode, Some("Enforce".into()), "the tool acts");
    let configuration: serde_json::Value = serde_saphyr::from_str(WEEDER).unwrap();
    assert_eq!(policy["spec"], configuration);
    let mut policy: serde_json::Value = serde_saphyr::from_str(&converted(PROBER).yaml).unwrap();
    let mode = policy["spec"].as_object_mut().unwrap().remove("mode");
    assert_eq!(mode, Some("Enforce".into()), "the tool acts");
    // kube-controller-manager comes back after cluster-autoscaler, and is not to wait for it.
    for (dependent, expected) in [(0, None), (1, Some("2m".into())), (2, None)] {
        let scale_up = &mut policy["spec"]["dependentResourceInfos"][dependent]["scaleUp"];
        let awaits = scale_up.as_object_mut().unwrap().remove("awaitNodes");
        assert_eq!(awaits, expected, "{dependent}");
    }
    let config_map: serde_json::Value = serde_saphyr::from_str(PROBER).unwrap();
    let configuration = config_map["data"]["dep-config.yaml"].as_str().unwrap();
    let configuration: serde_json::Value = serde_saphyr::from_str(configuration).unwrap();
    assert_eq!(policy["spec"], configuration);
}

#[rstest]
#[case::unknown_field(
    "    probeInterval:",
    "    probeIntervall:",
    "12:5: unknown field \"probeIntervall\": dependency-watchdog has kubeConfigSecretName, "
)]
// What a policy has beyond the tool is not taken for the tool's.
#[case::field_of_policies(
    "    probeInterval:",
    "    checks: []\n    probeInterval:",
    "12:5: unknown field \"checks\": dependency-watchdog has kubeConfigSecretName, "
)]
#[case::unknown_field_below(
    "          level: 2",
    "          levels: 2",
    "49:11: unknown field \"levels\": dependency-watchdog has level, initialDelay, timeout, replicas"
)]
#[case::no_unit(
    "20s",
    "20",
    "12:20: probeInterval: must be a duration with its unit, such as 30s, not a whole number"
)]
#[case::no_duration("20s", "20 s", "12:20: probeInterval: \"20 s\" is no duration: ")]
#[case::fine(
    "20s",
    "20ns",
    "12:20: probeInterval: \"20ns\" is finer than a microsecond: "
)]
#[case::our_rule(
    "20s",
    "20us",
    "12:20: probeInterval: must be a duration of at least 1s and at most 1h, not 0.020ms"
)]
#[case::fraction(
    "0.7",
    "70",
    "17:31: nodeLeaseFailureFraction: must be greater than 0 and at most 1, not 70"
)]
#[case::fraction_no_number(
    "0.7",
    "70%",
    "17:31: nodeLeaseFailureFraction: must be a number, not a string"
)]
#[case::level(
    "level: 2",
    "level: -2",
    "49:18: dependentResourceInfos[2].scaleDown.level: must be at least 0 and at most 2147483647, not -2"
)]
#[case::great_level(
    "level: 2",
    "level: 2147483648",
    "49:18: dependentResourceInfos[2].scaleDown.level: must be a whole number of 32 bits, not 2147483648"
)]
#[case::optional(
    "optional: true",
    "optional: maybe",
    "45:19: dependentResourceInfos[2].optional: must be true or false, not a string"
)]
#[case::no_secret(
    "    kubeConfigSecretName",
    "    # ",
    "12:5: kubeConfigSecretName is missing: name the Secret with the kubeconfig of the shoot"
)]
#[case::no_grace(
    "    kcmNodeMonitorGraceDuration",
    "    # ",
    "11:5: kcmNodeMonitorGraceDuration is missing: write what the kube-controller-managers"
)]
#[case::null_grace("2m0s", "~", "11:5: kcmNodeMonitorGraceDuration is missing: ")]
#[case::no_name_of_a_resource(
    "          name: \"cluster",
    "          # ",
    "42:11: dependentResourceInfos[2].ref.name is missing: write the name of the resource"
)]
#[case::one_twice(
    "machine-controller-manager",
    "kube-controller-manager",
    "19:7: dependentResourceInfos: every ref must be unique"
)]
#[case::field_twice(
    "    initialDelay: 5s",
    "    probeinterval: 5s",
    "13:5: probeInterval is there twice"
)]
#[case::broken(
    "    probeTimeout: 45s",
    "    probeTimeout: [45s",
    "15:24: this is no YAML that can be read: "
)]
#[case::broken_outside(
    "kind: ConfigMap",
    "kind: [ConfigMap",
    "4:9: this is no YAML that can be read: "
)]
fn refuses(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let text = PROBER.replacen(from, to, 1);
    assert_ne!(text, PROBER);
    let refusals = refused(&text);
    assert!(
        refusals.lines().any(|it| it.starts_with(expected)),
        "{refusals}"
    );
}

/// To Go, a null is a field that is not there.
#[rstest]
#[case::optional("optional: false", "optional: ~")]
#[case::level("level: 0", "level:")]
fn a_null_is_what_the_tool_assumes(#[case] from: &str, #[case] to: &str) {
    let text = PROBER.replacen(from, to, 1);
    assert_ne!(text, PROBER);
    let read = |text: &str| -> serde_json::Value {
        serde_saphyr::from_str(&converted(text).yaml).unwrap()
    };
    assert_eq!(read(&text), read(PROBER));
}

#[rstest]
#[case::twice("    probeTimeout", "    kubeConfigSecretName: other\n    probeTimeout", &["14:5: kubeConfigSecretName is there twice"])]
#[case::two_names("    probeTimeout", "    internalKubeConfigSecretName: other\n    probeTimeout", &["14:5: kubeConfigSecretName is there under two names: keep one"])]
#[case::refused_in_capitals("    kubeConfigSecretName: ", "    KUBECONFIGSECRETNAME: []\n    # ", &["11:27: kubeConfigSecretName: must be a string, not a list"])]
fn one_mistake_is_told_once(#[case] from: &str, #[case] to: &str, #[case] expected: &[&str]) {
    let text = PROBER.replacen(from, to, 1);
    assert_eq!(refused(&text).lines().collect::<Vec<_>>(), expected);
}

#[rstest]
#[case::empty_selector(
    "- matchExpressions:\n          - key: gardener.cloud/role\n            operator: In\n            values:\n              - controlplane\n          - key: role\n            operator: In\n            values:\n              - apiserver",
    "- {}",
    "5:7: servicesAndDependantSelectors.etcd-main-client.podSelectors: every selector must name a label"
)]
#[case::service(
    "etcd-main-client",
    "etcd.main",
    "3:3: servicesAndDependantSelectors: key \"etcd.main\" must be the name of a Service"
)]
#[case::operator(
    "NotIn",
    "Not",
    "22:23: servicesAndDependantSelectors.kube-apiserver.podSelectors[0].matchExpressions[1].operator: must be one of In, NotIn, Exists, DoesNotExist"
)]
#[case::long_window(
    "2m0s",
    "48h",
    "1:16: watchDuration: must be a duration of at least 1s and at most 24h, not 48h"
)]
#[case::no_mapping(
    "watchDuration: 2m0s\n",
    "watchDuration: 2m0s\nservicesanddependantselectors: []\n",
    "2:32: servicesAndDependantSelectors: must be a mapping, not a list"
)]
fn refuses_of_the_weeder(#[case] from: &str, #[case] to: &str, #[case] expected: &str) {
    let text = WEEDER.replacen(from, to, 1);
    assert_ne!(text, WEEDER);
    let refusals = refused(&text);
    assert!(
        refusals.lines().any(|it| it.starts_with(expected)),
        "{refusals}"
    );
}

#[rstest]
#[case::nothing("")]
#[case::another_kind("apiVersion: v1\nkind: Secret\ndata: {dep-config.yaml: c2VydmljZXM=}")]
#[case::other_data("apiVersion: v1\nkind: ConfigMap\ndata: {a: 'b: [', c: 'd: e'}")]
#[case::no_mapping("- dependentResourceInfos")]
fn says_what_was_looked_for(#[case] text: &str) {
    let refusals = refused(text);
    assert!(
        refusals.starts_with("there is no configuration of Gardener's dependency-watchdog"),
        "{refusals}"
    );
    assert!(
        refusals.contains("servicesAndDependantSelectors"),
        "{refusals}"
    );
}

#[rstest]
#[case("probes:\n- name: kube-apiserver\n  dependantScales: []\n")]
#[case("services:\n  etcd-main-client:\n    dependantPods: []\n")]
fn the_first_format_is_recognised(#[case] text: &str) {
    assert!(refused(text).starts_with("1:1: this is the format of the tool's first versions"));
}

#[test]
fn a_text_that_is_repeated_without_end_is_given_up() {
    let keys: String = (0..10_000).map(|it| format!("  k{it}: *x\n")).collect();
    let text = format!(
        "kind: ConfigMap\ndata:\n  k: &x '{}'\n{keys}",
        "a ".repeat(100_000)
    );
    assert!(refused(&text).contains("longer than 16 MiB"));
}

#[test]
fn more_configurations_than_anybody_has_are_given_up() {
    let text = format!("---\n{WEEDER}").repeat(101);
    assert!(refused(&text).starts_with("there are more than 100 configurations"));
    let keys: Vec<String> = (0..101)
        .map(|it| format!("  k{it}: 'servicesAndDependantSelectors: {{}}'\n"))
        .collect();
    let text = format!("kind: ConfigMap\ndata:\n{}", keys.concat());
    assert!(refused(&text).starts_with("there are more than 100 configurations"));
    let text = "---\nprobes: [{dependantScales: []}]\n".repeat(10_000);
    assert!(refused(&text).starts_with("there are more than 100 configurations"));
}

#[test]
fn names() {
    let name = |text: &str, name| {
        let converted = convert(text, name).map_err(|it| told(&it))?;
        let found = |line: &str| line.strip_prefix("  name: ").map(str::to_owned);
        Ok::<Vec<String>, String>(converted.yaml.lines().filter_map(found).collect())
    };
    assert_eq!(name(WEEDER, None), Ok(vec!["default".to_owned()]));
    assert_eq!(name(WEEDER, Some("mine")), Ok(vec!["mine".to_owned()]));
    assert!(
        name(WEEDER, Some("Mine"))
            .unwrap_err()
            .contains("the name of the policy must be")
    );
    // A ProbePolicy and a WeedPolicy do not share names.
    assert_eq!(name(FORMER, Some("mine")).unwrap().len(), 2);
    let second = PROBER.replace("name: dependency-watchdog-prober-config", "name: second");
    let two = format!("{PROBER}---\n{second}");
    assert_eq!(
        name(&two, None),
        Ok(vec![
            "dependency-watchdog-prober-config".to_owned(),
            "second".to_owned()
        ])
    );
    assert!(
        name(&two, Some("mine"))
            .unwrap_err()
            .contains("cannot all have the name given")
    );
    assert!(
        name(&format!("{PROBER}---\n{PROBER}"), None)
            .unwrap_err()
            .contains("there are two")
    );
    let bare = format!("{WEEDER}---\n{WEEDER}");
    assert!(
        name(&bare, None)
            .unwrap_err()
            .contains("without a name: convert each alone")
    );
}

#[test]
fn notes_are_about_what_is_there() {
    let notes = told(&converted(WEEDER).notes);
    assert!(
        notes.lines().all(|it| it.starts_with("WeedPolicy: ")),
        "{notes}"
    );
    let notes = told(&converted(PROBER).notes);
    assert!(
        notes.contains("scaleUp and scaleDown is waited only"),
        "{notes}"
    );
    assert!(!notes.contains("failureThreshold"), "{notes}");
    assert!(!notes.contains("Conflicted"), "{notes}");
    let second = PROBER.replace("name: dependency-watchdog-prober-config", "name: second");
    let notes = told(&converted(&format!("{PROBER}---\n{second}")).notes);
    assert!(
        notes.starts_with("ProbePolicy: there are several"),
        "{notes}"
    );
    let without = PROBER
        .replace("initialDelay: 1", "timeout: 1")
        .replace("timeout: 1m0s", "")
        .replace("timeout: 45s", "");
    let notes = told(&converted(&without).notes);
    assert!(
        !notes.contains("scaleUp and scaleDown is waited only"),
        "{notes}"
    );
}

#[rstest]
#[case::none("~", true)]
#[case::nothing("0s", true)]
#[case::shorter("29s999ms", true)]
#[case::gardeners("30s", false)]
#[case::as_go_may_write_it("30000000us", false)]
#[case::longer("1m0s", false)]
fn machine_controller_manager_has_to_wait(#[case] delay: &str, #[case] noted: bool) {
    let scale_up = "        scaleUp:\n          level: 1\n";
    let (before, after) = PROBER.rsplit_once(scale_up).unwrap();
    assert!(before.contains("machine-controller-manager") && !after.contains("machine"));
    let text = format!("{before}{scale_up}          initialDelay: {delay}\n{after}");
    let is_noted = |text: &str| {
        let notes = told(&converted(text).notes);
        notes.contains("has no scaleUp.initialDelay of at least 30s")
    };
    assert_eq!(is_noted(&text), noted);
    // Of others the tool asks for none.
    let other = text.replace("machine-controller-manager", "another");
    assert!(!is_noted(&other));
}

/// Words that YAML 1.1 takes for something else, which kubectl reads.
#[test]
fn a_text_stays_a_text() {
    let words = [
        "on",
        "No",
        "y",
        "N",
        "true",
        "null",
        "010",
        "0x1f",
        "0b1",
        "1e3",
        "7",
        "0.5",
        "2001-01-01",
        "60.0",
        "",
    ];
    for word in words {
        let text = WEEDER.replacen("- controlplane", &format!("- '{word}'"), 1);
        let yaml = converted(&text).yaml;
        let read = crate::yaml::documents(&yaml).next().unwrap().unwrap();
        let services = read
            .get("spec")
            .unwrap()
            .get("servicesAndDependantSelectors")
            .unwrap();
        let selectors = services
            .get("etcd-main-client")
            .unwrap()
            .get("podSelectors")
            .unwrap();
        let expressions = selectors.items()[0].get("matchExpressions").unwrap();
        let value = &expressions.items()[0].get("values").unwrap().items()[0];
        assert_eq!(value.text(), Some(word), "{yaml}");
    }
}

/// The documents that notes point to have such headings.
#[test]
fn pointers_lead_somewhere() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut notes = told(&converted(FORMER).notes);
    notes += &told(&converted(PROBER).notes);
    notes += &refused("probes: [{dependantScales: []}]");
    let pointer = regex::Regex::new(r"(docs/[a-z/]+\.md)(?:#([a-z-]+))?").unwrap();
    let mut followed = 0;
    for found in pointer.captures_iter(&notes) {
        let text = std::fs::read_to_string(root.join(&found[1])).unwrap();
        let heading = found.get(2).map(|it| it.as_str().replace('-', " "));
        let heads = |line: &str| line.trim_start_matches('#').trim().to_lowercase();
        let there = |heading| {
            text.lines()
                .any(|line| line.starts_with('#') && heads(line) == heading)
        };
        assert!(heading.is_none_or(there), "{}", &found[0]);
        followed += 1;
    }
    assert!(followed > 10, "{followed}");
}

proptest! {
    #![proptest_config(crate::cases::fewer(96))]

    #[test]
    fn any_text_is_converted_or_refused(text in "\\PC*") {
        let _ = convert(&text, None);
    }

    #[test]
    fn any_value_is_converted_or_refused(
        line in 0..48usize, value in "[\\[\\]{}a-z0-9:., '\"&*|>-]{0,12}",
    ) {
        let mut lines: Vec<String> = PROBER.lines().map(str::to_owned).collect();
        let start = lines[line].split_once(": ").map_or("", |it| it.0).to_owned();
        lines[line] = format!("{start}: {value}");
        if let Ok(converted) = convert(&lines.join("\n"), None) {
            let mut checker = Checker::new();
            checker.check("converted", &converted.yaml);
            let problems = checker.report().problems;
            prop_assert!(problems.is_empty(), "{}\n{problems:?}", converted.yaml);
        }
    }
}
