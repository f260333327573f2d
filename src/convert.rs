//! Turns the configuration of Gardener's dependency-watchdog into policies. The fields have kept their names, so
//! only what differs is changed, and each change is reported. What remains is decoded strictly.

use serde_json::{Map, Value, json};

use crate::{
    api::GROUP,
    check::{documents, objects, problems},
};

/// Field that each configuration of the prober has, and each of the weeder.
const PROBER: &str = "dependentResourceInfos";
const WEEDER: &str = "servicesAndDependantSelectors";

/// Fields that later versions of the tool have renamed.
const RENAMED: [(&str, &str); 2] = [
    ("internalKubeConfigSecretName", "kubeConfigSecretName"),
    ("leaseFailureThresholdFraction", "nodeLeaseFailureFraction"),
];
/// Fields of earlier versions of the tool that have no counterpart.
const DROPPED: [&str; 3] = [
    "externalKubeConfigSecretName",
    "apiServerProbeFailureBackoffDuration",
    "internalProbeFailureBackoffDuration",
];

const GRACE: &str = "kcmNodeMonitorGraceDuration";
/// The tool's DefaultKCMNodeMonitorGraceDuration.
const DEFAULT_GRACE: &str = "40s";

/// Dependents that replace machines, and would replace those whose nodes are not Ready when they start.
const REPLACE_MACHINES: [&str; 2] = ["machine-controller-manager", "cluster-autoscaler"];
/// Wait of these dependents for the nodes: kubelets need up to a minute to be back.
const AWAIT_NODES: &str = "2m";

type Object = Map<String, Value>;

/// Policies, and notes about what was changed.
#[derive(Debug, Default)]
pub struct Converted {
    /// The policies, as YAML documents.
    pub yaml: String,
    /// One line per change.
    pub notes: Vec<String>,
}

/// Turns the configurations in a text, as they are or in ConfigMaps, into policies of this name.
///
/// # Errors
/// Each problem, or that there is no configuration.
pub fn convert(text: &str, name: &str) -> Result<Converted, Vec<String>> {
    let found = configurations(text).map_err(|error| vec![error])?;
    if found.is_empty() {
        return Err(vec![format!(
            "there is no configuration of Gardener's dependency-watchdog: one of the prober has \
             {PROBER}, one of the weeder has {WEEDER}"
        )]);
    }
    let mut converted = Converted::default();
    let mut refusals = Vec::new();
    for (kind, field) in [("ProbePolicy", PROBER), ("WeedPolicy", WEEDER)] {
        let mut of_kind = found
            .iter()
            .filter_map(|it| it.as_object().filter(|it| it.contains_key(field)));
        let Some(mut spec) = of_kind.next().cloned() else {
            continue;
        };
        if of_kind.next().is_some() {
            refusals.push(format!(
                "there are several configurations with {field}: name the ConfigMap that the tool's \
                 Deployment mounts"
            ));
        }
        let mut note = |text: String| converted.notes.push(format!("{kind}: {text}"));
        if kind == "ProbePolicy" {
            prober_fields(&mut spec, &mut note);
        }
        spec.insert("mode".to_owned(), "Enforce".into());
        note("added mode: Enforce".to_owned());
        let policy = json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let problems = problems(&policy).unwrap_or_default().into_iter();
        refusals.extend(problems.map(|it| format!("{kind}/{name} {it}")));
        match serde_saphyr::to_string(&policy) {
            Ok(policy) => converted.yaml += &format!("---\n{policy}"),
            Err(error) => refusals.push(format!("{kind}/{name} cannot be written: {error}")),
        }
    }
    match refusals.is_empty() {
        true => Ok(converted),
        false => Err(refusals),
    }
}

/// Returns the configurations of prober and weeder in a text.
fn configurations(text: &str) -> Result<Vec<Value>, String> {
    let is_one = |it: &Value| it.get(PROBER).is_some() || it.get(WEEDER).is_some();
    let mut found: Vec<_> = documents(text)?.into_iter().flat_map(objects).collect();
    // Those of the ConfigMaps among them.
    let data = found.iter().filter_map(|it| it.get("data")?.as_object());
    let texts = data.flat_map(Object::values).filter_map(Value::as_str);
    let texts = texts.filter(|text| text.contains(PROBER) || text.contains(WEEDER));
    let inside: Result<Vec<_>, _> = texts.map(documents).collect();
    found.extend(inside?.into_iter().flatten());
    found.retain(is_one);
    Ok(found)
}

fn prober_fields(spec: &mut Object, note: &mut impl FnMut(String)) {
    for (from, to) in RENAMED {
        if !spec.contains_key(to)
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
            note(format!("renamed {from} to {to}"));
        }
    }
    for field in DROPPED {
        if spec.remove(field).is_some() {
            note(format!("dropped {field}, which has no counterpart"));
        }
    }
    if !spec.contains_key(GRACE) {
        spec.insert(GRACE.to_owned(), DEFAULT_GRACE.into());
        note(format!(
            "assumed {GRACE}: {DEFAULT_GRACE}, as the tool does; the nodeMonitorGracePeriod of a Shoot counts before it"
        ));
    }
    let dependents = spec.get_mut(PROBER).and_then(Value::as_array_mut);
    for dependent in dependents.into_iter().flatten() {
        if let Some(dependent) = dependent.as_object_mut() {
            dependent_fields(dependent, note);
        }
    }
}

fn dependent_fields(dependent: &mut Object, note: &mut impl FnMut(String)) {
    let name = dependent.get("ref").and_then(|it| it.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(&Value::Bool(should_exist)) = dependent.get("shouldExist") {
        dependent.remove("shouldExist");
        dependent.insert("optional".to_owned(), (!should_exist).into());
        note(format!(
            "renamed shouldExist of {name} to optional, its opposite"
        ));
    }
    for way in ["scaleUp", "scaleDown"] {
        let scale = dependent.get_mut(way).and_then(Value::as_object_mut);
        if scale.is_some_and(|it| it.remove("replicas").is_some()) {
            note(format!(
                "dropped {way}.replicas of {name}: it gets back the number that it had"
            ));
        }
    }
    if REPLACE_MACHINES.contains(&&*name) {
        let up = dependent.entry("scaleUp").or_insert_with(|| json!({}));
        if let Some(up) = up.as_object_mut() {
            up.insert("awaitNodes".to_owned(), AWAIT_NODES.into());
            note(format!("added scaleUp.awaitNodes: {AWAIT_NODES} of {name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GARDENERS_PROBER: &str = include_str!("../tests/fixtures/gardener/prober.yaml");
    const GARDENERS_WEEDER: &str = include_str!("../tests/fixtures/gardener/weeder.yaml");

    /// A configuration of an earlier version of the tool.
    const FORMER: &str = "internalKubeConfigSecretName: internal
externalKubeConfigSecretName: external
internalProbeFailureBackoffDuration: 30s
kcmNodeMonitorGraceDuration: 2m0s
leaseFailureThresholdFraction: 0.7
initialDelay:
dependentResourceInfos:
- ref: {apiVersion: apps/v1, kind: Deployment, name: cluster-autoscaler}
  shouldExist: false
  scaleUp: {level: 1, replicas: 1}
  scaleDown: {level: 0}
- ref: {apiVersion: apps/v1, kind: Deployment, name: other}
  optional: false
  scaleUp: {level: 2}
  scaleDown: {level: 0}
";

    fn spec(text: &str) -> (Value, Vec<String>) {
        let converted = convert(text, "default").unwrap();
        let policy: Value = serde_saphyr::from_str(&converted.yaml).unwrap();
        (policy["spec"].clone(), converted.notes)
    }

    /// The configuration inside a ConfigMap.
    fn inside(config_map: &str) -> Value {
        let config_map: Value = serde_saphyr::from_str(config_map).unwrap();
        serde_saphyr::from_str(config_map["data"]["dep-config.yaml"].as_str().unwrap()).unwrap()
    }

    #[test]
    fn gardeners_prober_is_converted() {
        let (spec, notes) = spec(GARDENERS_PROBER);
        let mut expected = inside(GARDENERS_PROBER);
        expected["mode"] = json!("Enforce");
        expected["kcmNodeMonitorGraceDuration"] = json!("40s");
        for dependent in [1, 2] {
            expected["dependentResourceInfos"][dependent]["scaleUp"]["awaitNodes"] = json!("2m");
        }
        assert_eq!(spec, expected);
        assert_eq!(
            notes,
            [
                "ProbePolicy: assumed kcmNodeMonitorGraceDuration: 40s, as the tool does; the \
             nodeMonitorGracePeriod of a Shoot counts before it",
                "ProbePolicy: added scaleUp.awaitNodes: 2m of machine-controller-manager",
                "ProbePolicy: added scaleUp.awaitNodes: 2m of cluster-autoscaler",
                "ProbePolicy: added mode: Enforce",
            ]
        );
    }

    #[test]
    fn gardeners_weeder_is_converted() {
        let (spec, notes) = spec(GARDENERS_WEEDER);
        let mut expected = inside(GARDENERS_WEEDER);
        expected["mode"] = json!("Enforce");
        assert_eq!(spec, expected);
        assert_eq!(notes, ["WeedPolicy: added mode: Enforce"]);
    }

    #[test]
    fn both_are_converted_from_what_kubectl_prints() {
        let item = |text: &str| {
            format!(
                "- {}\n",
                text.trim_start_matches(|c| c != '\n')
                    .trim()
                    .replace('\n', "\n  ")
            )
        };
        let other = "- kind: ConfigMap\n  data: {a: 'b: ['}\n- kind: Secret\n";
        let list = format!(
            "kind: List\nitems:\n{}{}{other}",
            item(GARDENERS_PROBER),
            item(GARDENERS_WEEDER)
        );
        let converted = convert(&list, "shoots").unwrap();
        let policies: Vec<Value> = serde_saphyr::from_multiple(&converted.yaml).unwrap();
        let kinds: Vec<_> = policies.iter().map(crate::check::name).collect();
        assert_eq!(kinds, ["ProbePolicy/shoots", "WeedPolicy/shoots"]);
    }

    #[test]
    fn fields_of_earlier_versions_are_renamed_or_dropped() {
        let (spec, notes) = spec(FORMER);
        assert_eq!(
            spec,
            json!({
                "mode": "Enforce",
                "kubeConfigSecretName": "internal",
                "kcmNodeMonitorGraceDuration": "2m0s",
                "nodeLeaseFailureFraction": 0.7,
                "dependentResourceInfos": [
                    {
                        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cluster-autoscaler"},
                        "optional": true,
                        "scaleUp": {"level": 1, "awaitNodes": "2m"},
                        "scaleDown": {"level": 0},
                    },
                    {
                        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"},
                        "optional": false,
                        "scaleUp": {"level": 2},
                        "scaleDown": {"level": 0},
                    },
                ],
            })
        );
        for said in [
            "renamed internalKubeConfigSecretName to kubeConfigSecretName",
            "renamed leaseFailureThresholdFraction to nodeLeaseFailureFraction",
            "dropped externalKubeConfigSecretName",
            "dropped internalProbeFailureBackoffDuration",
            "renamed shouldExist of cluster-autoscaler to optional, its opposite",
            "dropped scaleUp.replicas of cluster-autoscaler",
            "added scaleUp.awaitNodes: 2m of cluster-autoscaler",
            "added mode: Enforce",
        ] {
            assert!(
                notes.iter().any(|note| note.contains(said)),
                "{said}: {notes:#?}"
            );
        }
        assert_eq!(notes.len(), 8, "{notes:#?}");
    }

    #[test]
    fn what_is_not_understood_is_refused_by_its_field() {
        for (from, to, says) in [
            (
                "initialDelay:",
                "initialDelays: 5s",
                "spec.initialDelays: unknown field",
            ),
            ("initialDelay:", "checks: {}", "spec.checks: invalid type"),
            (
                "initialDelay:",
                "kubeConfigSecretName: x",
                "spec.internalKubeConfigSecretName: unknown",
            ),
            (
                "2m0s",
                "2",
                "spec.kcmNodeMonitorGraceDuration: invalid type",
            ),
            (
                "shouldExist: false",
                "shouldExist: 1",
                "dependentResourceInfos.0.shouldExist: unknown",
            ),
            (
                "0.7",
                "70",
                "spec.nodeLeaseFailureFraction: must be at most 1",
            ),
            ("0.7", "[70", "line "),
            ("dependent", "dependant", "there is no configuration"),
        ] {
            let refusals = convert(&FORMER.replacen(from, to, 1), "default").unwrap_err();
            assert!(
                refusals.iter().any(|it| it.contains(says)),
                "{says}: {refusals:#?}"
            );
        }
        let refusals = convert(&format!("{FORMER}---\n{FORMER}"), "default").unwrap_err();
        assert!(
            refusals[0].starts_with("there are several configurations"),
            "{refusals:?}"
        );
    }
}
