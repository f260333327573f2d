//! The tables of the API server's answers, run through the offline validation: both agree.

use super::*;
use crate::{api::crds, yaml::MAX_BYTES};
use proptest::prelude::*;
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

const ACCEPTED: &str = include_str!("../../tests/fixtures/accepted.yaml");
const REFUSALS: &str = include_str!("../../tests/fixtures/refusals.yaml");

#[derive(Deserialize)]
struct Accepted {
    name: String,
    object: Json,
}

#[derive(Deserialize)]
struct Refusal {
    name: String,
    #[serde(default = "probe_policy")]
    kind: String,
    patch: Json,
    field: String,
}

fn probe_policy() -> String {
    "ProbePolicy".to_owned()
}

fn checked(text: &str) -> Report {
    let mut checker = Checker::new();
    checker.check("f", text);
    checker.report()
}

fn told(text: &str) -> Vec<String> {
    checked(text)
        .problems
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn accepted() -> Vec<Accepted> {
    serde_saphyr::from_str(ACCEPTED).unwrap()
}

#[test]
fn what_the_api_server_accepts_is_accepted() {
    for case in accepted() {
        let text = serde_saphyr::to_string(&case.object).unwrap();
        assert_eq!(told(&text), Vec::<String>::new(), "{}", case.name);
        assert_eq!(
            told(&case.object.to_string()),
            Vec::<String>::new(),
            "{}",
            case.name
        );
    }
}

#[test]
fn what_the_api_server_refuses_is_refused_at_the_same_field() {
    let cases: Vec<Refusal> = serde_saphyr::from_str(REFUSALS).unwrap();
    assert!(cases.len() > 50);
    for case in cases {
        let accepted = accepted().into_iter().map(|it| it.object);
        let mut bases = accepted.filter(|it| it["kind"] == case.kind.as_str());
        let mut object = bases.next().unwrap();
        json_patch::merge(&mut object, &case.patch);
        let report = checked(&serde_json::to_string_pretty(&object).unwrap());
        let fields: Vec<&str> = report
            .problems
            .iter()
            .filter_map(|it| it.field.as_deref())
            .collect();
        // Values of a map are named by their key, which the API server does not do.
        let same = |field: &&str| {
            field
                .strip_prefix(case.field.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        assert!(
            fields.iter().any(same),
            "{}: {:#?}",
            case.name,
            report.problems
        );
        assert!(
            report.problems.iter().all(|it| it.place.line > 1),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_policy_without_a_mode_is_told_what_to_write() {
    let mut object = accepted().remove(0).object;
    object["spec"].as_object_mut().unwrap().remove("mode");
    let [problem] = &told(&object.to_string())[..] else {
        panic!("{object}");
    };
    let expected = "ProbePolicy/minimal: spec.mode: must be set: write DryRun to observe only, or \
                    Enforce to also act";
    assert!(problem.ends_with(expected), "{problem}");
}

const WEED_POLICY: &str = "\
apiVersion: dependency-watchdog.gardener.cloud/v1alpha1
kind: WeedPolicy
metadata:
  name: default
spec:
  watchDuration: 5m
  servicesAndDependantSelectors:
    etcd-main-client:
      podSelectors:
      - matchLabels: {role: apiserver}
  mode: Enforce
";

#[rstest]
#[case::good("", "", &[])]
#[case::duration("5m", "25h", &["f:6:18: WeedPolicy/default: spec.watchDuration: must be a duration of at least 1s and at most 24h"])]
#[case::service("etcd-main-client", "Etcd", &["f:8:5: WeedPolicy/default: spec.servicesAndDependantSelectors: every key must be the name of a Service: at most 63 lower case letters, digits or '-', beginning and ending with a letter or digit"])]
#[case::empty_selector("{role: apiserver}", "{}", &["f:10:9: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors: every selector must name a label: an empty one would match every pod of the namespace"])]
#[case::no_selectors("\n      - matchLabels: {role: apiserver}", " []", &["f:9:21: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors: must have at least 1 item, not 0"])]
#[case::no_text("role: apiserver", "role: on", &["f:10:29: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors[0].matchLabels.role: must be a string, not a boolean: put it in quotes if it is meant"])]
#[case::unit("5m", "5", &["f:6:18: WeedPolicy/default: spec.watchDuration: must be a string, not a whole number: put it in quotes if it is meant"])]
#[case::no_duration("5m", "5 minutes", &["f:6:18: WeedPolicy/default: spec.watchDuration: \"5 minutes\" is not a duration: write numbers of h, m, s and ms, in this order and each at most once, such as 1m30s, 0.5s or 500ms"])]
#[case::default_for_null("5m", "null", &[])]
#[case::unknown_field("watchDuration: 5m", "watchduration: 5m", &["f:6:3: WeedPolicy/default: spec.watchduration: unknown field; there are mode, namespaceSelector, servicesAndDependantSelectors, suspend, watchDuration"])]
#[case::twice("mode: Enforce", "mode: DryRun\n  mode: Enforce", &["f:12:3: WeedPolicy/default: spec.mode: is there twice"])]
#[case::value("mode: Enforce", "mode: Observe", &["f:11:9: WeedPolicy/default: spec.mode: must be one of \"Enforce\", \"DryRun\""])]
#[case::no_spec("spec:", "specs:", &["f:5:1: WeedPolicy/default: specs: unknown field; there are apiVersion, kind, metadata and spec", "f:1:1: WeedPolicy/default: spec: is required"])]
#[case::no_name("name: default", "labels: {a: 1}", &["f:4:3: WeedPolicy/: metadata.name: is required", "f:4:15: WeedPolicy/: metadata.labels: \"a\" must be a string, not a whole number: put it in quotes"])]
#[case::name("default", "De_fault", &["f:4:9: WeedPolicy/De_fault: metadata.name: must be the name of an object: at most 253 lower case letters, digits, '-' or '.', beginning and ending with a letter or digit"])]
#[case::metadata("name: default", "name: default\n  nmae: x", &["f:5:3: WeedPolicy/default: metadata.nmae: unknown field; there are annotations, creationTimestamp, deletionGracePeriodSeconds, deletionTimestamp, finalizers, generateName, generation, labels, managedFields, name, namespace, ownerReferences, resourceVersion, selfLink, uid"])]
#[case::group_typo("gardener.cloud", "gardner.cloud", &["f:1:13: WeedPolicy/default: apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"])]
#[case::group_typo_in_front("dependency-", "depedency-", &["f:1:13: WeedPolicy/default: apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"])]
#[case::group_typos("dependency-watchdog.gardener.cloud", "depedency-watchdog.gardner.cloud", &["f:1:13: WeedPolicy/default: apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"])]
#[case::no_group("dependency-watchdog.gardener.cloud/", "", &["f:1:13: WeedPolicy/default: apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"])]
#[case::nulls_are_dropped("{role: apiserver}", "{role: apiserver, zone: ~}\n        matchExpressions:", &[])]
#[case::null_service("servicesAndDependantSelectors:", "servicesAndDependantSelectors:\n    vpn:", &[])]
#[case::null_in_a_list("- matchLabels: {role: apiserver}", "- ~", &["f:10:9: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors[0]: must be a mapping, not null"])]
#[case::required_null("\n      - matchLabels: {role: apiserver}", " ~", &["f:9:21: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors: is required"])]
#[case::only_nulls(":\n      podSelectors:\n      - matchLabels: {role: apiserver}", ": ~", &["f:8:5: WeedPolicy/default: spec.servicesAndDependantSelectors: must have at least 1 entry, not 0"])]
#[case::unknown_null("watchDuration: 5m", "watch: ~", &["f:6:3: WeedPolicy/default: spec.watch: unknown field; there are mode, namespaceSelector, servicesAndDependantSelectors, suspend, watchDuration"])]
#[case::labels_of_the_object("name: default", "name: default\n  labels: {a b: c, d: e f, g: ~}", &["f:5:12: WeedPolicy/default: metadata.labels: \"a b\" must be a label key: a name of at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit, optionally after a DNS subdomain and '/'", "f:5:23: WeedPolicy/default: metadata.labels: \"e f\" must be a label value: at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit, or empty"])]
#[case::annotations("name: default", "name: default\n  annotations: {A/b: any text, a/b/c: d}", &["f:5:32: WeedPolicy/default: metadata.annotations: \"a/b/c\" must be a label key: a name of at most 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit, optionally after a DNS subdomain and '/'"])]
#[case::types_in_metadata("name: default", "name: default\n  uid: 5\n  generation: x\n  finalizers: x\n  ownerReferences: ~", &["f:5:8: WeedPolicy/default: metadata.uid: must be a string, not a whole number", "f:6:15: WeedPolicy/default: metadata.generation: must be a whole number, not a string", "f:7:15: WeedPolicy/default: metadata.finalizers: must be a list, not a string"])]
#[case::version("v1alpha1", "v1", &["f:1:13: WeedPolicy/default: apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1"])]
#[case::kind("WeedPolicy", "WeedPolicies", &["f:2:7: WeedPolicies/default: kind: must be one of ClusterHealth, ProbePolicy, WeedPolicy"])]
#[case::no_version("apiVersion", "apiversion", &["f:1:1: WeedPolicy/default: apiVersion: must be dependency-watchdog.gardener.cloud/v1alpha1", "f:1:1: WeedPolicy/default: apiversion: unknown field; there are apiVersion, kind, metadata and spec"])]
#[case::label("{role: apiserver}", "{role: api server}", &["f:10:29: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors[0].matchLabels.role: must match ^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$, which \"api server\" does not"])]
#[case::key("matchLabels: {role: apiserver}", "matchExpressions: [{key: -a, operator: Exists}]", &["f:10:34: WeedPolicy/default: spec.servicesAndDependantSelectors.etcd-main-client.podSelectors[0].matchExpressions[0].key: must match ^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$, which \"-a\" does not (The label's key: a name of at most 63 letters, digits, '-', '_' or '.', optionally after a DNS subdomain and a slash)"])]
#[case::broken("{role: apiserver}", "{role: apiserver", &["f:11:7: this is no YAML that can be read: while parsing a flow mapping, did not find expected ',' or '}'"])]
fn problems(#[case] from: &str, #[case] to: &str, #[case] expected: &[&str]) {
    let text = WEED_POLICY.replacen(from, to, 1);
    assert_eq!(told(&text), expected, "{text}");
}

#[test]
fn another_group_is_passed_over() {
    let other = "apiVersion: v1\nkind: ConfigMap\n---\nreplicas: 1\n---\n# nothing\n---\napiVersion: example.org/v1\nkind: WeedPolicy\n";
    let report = checked(other);
    assert_eq!((report.checked, report.passed_over), (0, 3));
    assert_eq!(report.problems, []);
}

#[test]
fn items_of_lists_are_objects() {
    let item = WEED_POLICY.replace('\n', "\n  ");
    let list = format!(
        "apiVersion: v1\nkind: List\nitems:\n- {item}\n- apiVersion: v1\n  kind: Secret\n- {item}\n"
    );
    let report = checked(&list);
    assert_eq!((report.checked, report.passed_over), (2, 1));
    let told: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "f:21:11: WeedPolicy/default: metadata.name: there is another WeedPolicy of this name at f:7"
        ]
    );
}

/// What kubectl does not take as a list must not hide what is in it.
#[rstest]
#[case::in_a_list(
    "kind: List\nitems:\n- kind: List\n  items: []",
    "f:3:3: a List in a list, which kubectl does not take"
)]
#[case::no_items("kind: List", "f:1:1: a List must have items, as a list")]
#[case::items_no_list("kind: List\nitems: {}", "f:1:1: a List must have items, as a list")]
#[case::without_kinds(
    "apiVersion: dependency-watchdog.gardener.cloud/v1alpha1\nkind: WeedPolicyList\nitems:\n- metadata: {name: a}",
    "f:4:3: apiVersion and kind are required of each item"
)]
#[case::no_kind_of_ours(
    "apiVersion: dependency-watchdog.gardener.cloud/v1alpha1\nkind: WeedPolicyList\nitems: ~",
    "f:2:7: WeedPolicyList/: kind: must be one of ClusterHealth, ProbePolicy, WeedPolicy"
)]
fn lists_that_are_none(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(told(text), [expected]);
}

#[test]
fn kinds_do_not_share_names() {
    let probe = accepted().remove(0).object;
    let mut weed = WEED_POLICY.replace("name: default", "name: minimal");
    weed += &format!("---\n{probe}\n");
    assert_eq!(told(&weed), Vec::<String>::new());
}

#[test]
fn a_status_is_not_looked_at() {
    let text = format!("{WEED_POLICY}status: {{weeded: many}}\n");
    assert_eq!(told(&text), Vec::<String>::new());
}

#[test]
fn no_more_is_told_than_anybody_reads() {
    let mut text = WEED_POLICY.to_owned();
    for index in 0..1_000 {
        text += &format!("  field{index}: {}\n", "x".repeat(100));
    }
    let report = checked(&text);
    assert_eq!(report.problems.len(), MAX_PROBLEMS);
}

#[test]
fn many_documents_do_not_flood() {
    let report = checked(&"---\nkind: WeedPolicy\n".repeat(6_000));
    assert_eq!(report.checked, 6_000);
    assert_eq!(report.problems.len(), MAX_REPORTED);
    assert_eq!(report.omitted, 3 * 6_000 - MAX_REPORTED);
}

/// All keywords that a schema uses.
fn keywords(schema: &Json, used: &mut BTreeSet<String>) {
    let Some(schema) = schema.as_object() else {
        return;
    };
    for (keyword, value) in schema {
        used.insert(keyword.clone());
        match keyword.as_str() {
            "properties" => value
                .as_object()
                .unwrap()
                .values()
                .for_each(|it| keywords(it, used)),
            "items" | "additionalProperties" => keywords(value, used),
            "x-kubernetes-validations" => {
                for rule in value.as_array().unwrap() {
                    // The reason decides about the words of the API server alone.
                    let known = ["rule", "message", "fieldPath", "reason"];
                    assert!(
                        rule.as_object()
                            .unwrap()
                            .keys()
                            .all(|it| known.contains(&it.as_str()))
                    );
                }
            }
            // Only patterns stand side by side.
            "allOf" => {
                for side in value.as_array().unwrap() {
                    let keywords: Vec<_> = side.as_object().unwrap().keys().collect();
                    assert_eq!(keywords, ["pattern"]);
                }
            }
            "minLength" => assert_eq!(value, &json!(1)),
            _ => {}
        }
    }
}

/// What the validation knows: a keyword that is not here is not validated.
#[test]
fn no_keyword_of_the_definitions_is_unknown() {
    let known = [
        "additionalProperties",
        "allOf",
        "default",
        "description",
        "enum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
    ];
    let mut used = BTreeSet::new();
    for crd in crds() {
        let schema = crd.spec.versions[0]
            .schema
            .clone()
            .unwrap()
            .open_api_v3_schema
            .unwrap();
        keywords(&serde_json::to_value(schema).unwrap(), &mut used);
    }
    let unknown: Vec<_> = used
        .iter()
        .filter(|it| !known.contains(&it.as_str()))
        .collect();
    assert_eq!(unknown, Vec::<&String>::new());
    // Lists whose entries must differ are those of conditions, which stand in a status.
    assert!(used.contains("x-kubernetes-validations"));
}

// Each begins by compiling the rules, so that fewer cases have to do.
proptest! {
    #![proptest_config(crate::cases::fewer(48))]

    #[test]
    fn any_text_is_validated(text in "\\PC*") {
        checked(&text);
    }

    #[test]
    fn any_value_is_validated(field in 0..8usize, value in "[\\[\\]{}a-z0-9:., '\"&*|>-]{0,12}") {
        let fields = ["5m", "default", "apiserver}", "etcd-main-client", "{role: apiserver}", "v1alpha1", "WeedPolicy", "matchLabels"];
        checked(&WEED_POLICY.replacen(fields[field], &value, 1));
    }

    #[test]
    fn numbers_and_durations_are_judged_as_the_types_judge_them(
        fraction in -1.0..2.0f64, threshold in -1..102i32, interval in "[0-9]{1,5}(ms|s|m|h)",
    ) {
        let mut object = accepted().remove(0).object;
        object["spec"]["nodeLeaseFailureFraction"] = json!(fraction);
        object["spec"]["failureThreshold"] = json!(threshold);
        object["spec"]["probeInterval"] = json!(interval);
        let good = checked(&object.to_string()).problems.is_empty();
        let policy: crate::api::ProbePolicy = serde_json::from_value(object).unwrap();
        prop_assert_eq!(good, policy.spec.problems().is_empty());
    }
}

#[test]
fn the_longest_policy_is_validated() {
    let selector = |count: usize| {
        let key = |index: usize| format!("{}{index:03}", "k".repeat(60));
        let expressions = (0..count).map(|it| json!({"key": key(it), "operator": "Exists"}));
        json!({"matchExpressions": expressions.collect::<Vec<_>>()})
    };
    let mut services = serde_json::Map::new();
    for index in 0..64 {
        services.insert(
            format!("service-{index}"),
            json!({"podSelectors": [selector(2), selector(2)]}),
        );
    }
    let policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "WeedPolicy",
        "metadata": {"name": "long"},
        "spec": {"mode": "Enforce", "servicesAndDependantSelectors": services},
    });
    let text = policy.to_string();
    assert!(text.len() < MAX_BYTES);
    assert_eq!(told(&text), Vec::<String>::new());
}
