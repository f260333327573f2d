//! Samples in YAML are true: of a policy, the rules of the API server accept them within the example of its kind;
//! of values, the chart has them. Objects of other kinds are read, and no more.

use std::path::Path;

use dependency_watchdog::check::problems;
use serde_json::{Value, json};

use super::{commands::scripts, documents, root};

const PROBE_POLICY: &str = "docs/examples/probe-policy.yaml";
const WEED_POLICY: &str = "docs/examples/weed-policy.yaml";
const CHART: &str = "charts/dependency-watchdog";

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(root().join(file)).unwrap()).unwrap()
}

/// Fails unless the example is valid with this sample in it.
fn is_accepted(example: &str, sample: &Value, said: &str) {
    let mut policy = yaml(example);
    json_patch::merge(&mut policy, sample);
    assert_eq!(problems(&policy), Some(vec![]), "{said}: {sample}");
}

/// Fails unless the schema of values has each field, or leaves them open.
fn are_values(values: &Value, schema: &Value, said: &str) {
    for (name, value) in values.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(part) => are_values(value, part, said),
            None if schema["additionalProperties"] == false => {
                panic!("{said}: the chart has no value {name}")
            }
            None => (),
        }
    }
}

#[test]
fn samples_are_accepted() {
    let schema = format!("{CHART}/values.schema.json");
    let schema = std::fs::read_to_string(root().join(schema)).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let (mut policies, mut values) = (0, 0);
    for (path, text) in documents() {
        let said = path.display().to_string();
        for sample in scripts(&text, "yaml") {
            let sample: Value = serde_saphyr::from_str(&sample)
                .unwrap_or_else(|error| panic!("{said}: {error}: {sample}"));
            match sample["apiVersion"].as_str() {
                Some("operator.gardener.cloud/v1alpha1") => {
                    let inside = &sample["spec"]["deployment"]["extension"]["values"];
                    are_values(inside, &schema, &said);
                    let mut with_gardeners = inside.clone();
                    let gardeners = yaml(&format!("{CHART}/values-gardener.yaml"));
                    json_patch::merge(&mut with_gardeners, &gardeners);
                    assert_eq!(&with_gardeners, inside, "{said}");
                    values += 1;
                }
                Some(_) => (),
                None if path.starts_with(Path::new(CHART)) => {
                    are_values(&sample, &schema, &said);
                    values += 1;
                }
                None => {
                    match sample.get("spec") {
                        Some(_) => is_accepted(PROBE_POLICY, &sample, &said),
                        None => is_accepted(WEED_POLICY, &json!({ "spec": sample }), &said),
                    }
                    policies += 1;
                }
            }
        }
    }
    assert!(policies > 2 && values > 2, "{policies}, {values}");
}
