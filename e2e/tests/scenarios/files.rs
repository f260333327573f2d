//! Commands that read files: what they make and what they say is what the API server takes.

use super::Scenario;
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::crds;
use dependency_watchdog_e2e::{Env, Output, Seed};
use serde_json::Value;
use std::{fs, path::Path, process::Stdio};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_a_configuration_becomes_policies_that_the_api_server_takes,
        e2e_check_says_what_the_api_server_says,
    ]
}

/// Runs the product with these arguments.
async fn product(args: &[&str]) -> Result<Output> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().skip(1).find(|dir| !dir.ends_with("deps"));
    let path = target.context("not run from Cargo's target directory")?;
    let output = tokio::process::Command::new(path.join("dependency-watchdog"))
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(Output {
        success: output.status.success(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

fn schema_of(kind: &str) -> Result<Value> {
    let crd = crds().into_iter().find(|crd| crd.spec.names.kind == kind);
    let versions = crd.context("no such kind")?.spec.versions;
    let schema = versions.into_iter().next().and_then(|it| it.schema);
    let schema = schema.and_then(|it| it.open_api_v3_schema);
    Ok(serde_json::to_value(schema)?)
}

/// Fills in a schema's defaults, as the API server does.
fn fill_defaults(value: &mut Value, schema: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(object) = value.as_object_mut() {
        for (name, property) in properties.into_iter().flatten() {
            if let Some(default) = property.get("default") {
                object.entry(name).or_insert_with(|| default.clone());
            }
        }
        for (name, value) in object {
            let known = properties.and_then(|it| it.get(name));
            if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
                fill_defaults(value, schema);
            }
        }
    }
    if let Some(schema) = schema.get("items") {
        for item in value.as_array_mut().into_iter().flatten() {
            fill_defaults(item, schema);
        }
    }
}

async fn e2e_a_configuration_becomes_policies_that_the_api_server_takes(env: Env) -> Result<()> {
    let seed = env.own_seed("convert").await?;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/gardener");
    for name in ["prober", "weeder", "former"] {
        let fixture = fixtures.join(format!("{name}.yaml"));
        let fixture = fixture.to_str().context("a path that is no text")?;
        let converted = product(&["convert", "-f", fixture, "--name", name]).await?;
        ensure!(converted.success, "{name}: {}", converted.stderr);
        ensure!(
            converted.stderr.contains("note: "),
            "{name}: nothing is said"
        );
        let file = seed.directory().join(format!("converted-{name}.yaml"));
        fs::write(&file, &converted.stdout)?;
        let file = file.to_str().context("a path that is no text")?;
        let checked = product(&["check", "-f", file]).await?;
        ensure!(checked.success, "{name}: {}", checked.stdout);
        let kubectl = seed.kubectl();
        kubectl
            .run(&["apply", "--validate=strict", "-f", file])
            .await?;
        let policies: Vec<Value> = serde_saphyr::from_multiple(&converted.stdout)?;
        ensure!(!policies.is_empty(), "{name}: no policies");
        for mut policy in policies {
            let kind = policy.get("kind").and_then(Value::as_str);
            let kind = kind.context("no kind")?.to_owned();
            let stored: String = kubectl.run(&["get", &kind, name, "-o", "json"]).await?;
            let stored: Value = serde_json::from_str(&stored)?;
            fill_defaults(&mut policy, &schema_of(&kind)?);
            let (stored, policy) = (stored.get("spec"), policy.get("spec"));
            // Numbers may lose their point on the way.
            ensure!(
                stored.zip(policy).is_some_and(|(a, b)| alike(a, b)),
                "{name}: {stored:?} is not {policy:?}"
            );
        }
    }
    Ok(())
}

/// Whether two values are the same, 1 and 1.0 being one number.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same =
                |(key, value): (&String, &Value)| b.get(key).is_some_and(|b| alike(value, b));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => a == b,
    }
}

const POLICY: &str = "\
apiVersion: dependency-watchdog.gardener.cloud/v1alpha1
kind: WeedPolicy
metadata:
  name: checked
spec:
  watchDuration: 5m
  servicesAndDependantSelectors:
    etcd-main-client:
      podSelectors:
      - matchLabels: {role: apiserver}
  mode: Enforce
";

/// A change of the policy, and whether it is still one.
const CASES: [(&str, &str, bool); 45] = [
    ("", "", true),
    ("5m", "null", true),
    ("5m", "1h30m", true),
    ("5m", "5", false),
    ("5m", "'5'", false),
    ("5m", "24h1s", false),
    ("5m", "0", false),
    ("watchDuration", "watchduration", false),
    ("watchDuration: 5m", "suspend: on", true),
    ("watchDuration: 5m", "suspend: 'on'", false),
    ("watchDuration: 5m", "suspend: y", true),
    ("mode: Enforce", "mode: DryRun", true),
    ("mode: Enforce", "mode: dryRun", false),
    ("watchDuration: 5m", "namespaceSelector: {}", true),
    ("watchDuration: 5m", "namespaceSelector: []", false),
    ("role: apiserver", "role: off", false),
    ("role: apiserver", "role: 010", false),
    ("role: apiserver", "role: 1.5", false),
    ("role: apiserver", "role: 2001-01-01", true),
    ("role: apiserver", "1_0: x", true),
    ("role: apiserver", "-role: x", false),
    ("role: apiserver", "", false),
    ("{role: apiserver}", "~", false),
    ("etcd-main-client", "etcd.main", false),
    ("name: checked", "name: Checked", false),
    ("name: checked", "name: checked\n  label: {}", false),
    ("spec:", "specification:", false),
    ("gardener.cloud", "gardner.cloud", false),
    ("dependency-watchdog.gardener.cloud/", "", false),
    ("v1alpha1", "v1alpha0", false),
    ("WeedPolicy", "WeedPolicys", false),
    ("spec:", "status: ~\nspec:", true),
    // What is merged after a key replaces it.
    ("mode: Enforce", "mode: No\n  <<: {mode: DryRun}", true),
    ("mode: Enforce", "<<: {mode: No}\n  mode: DryRun", true),
    ("mode: Enforce", "mode: DryRun\n  <<: {mode: No}", false),
    // A null in a mapping is dropped, one in a list is not.
    ("{role: apiserver}", "{role: apiserver, zone: ~}", true),
    (
        "- matchLabels",
        "- matchExpressions:\n        matchLabels",
        true,
    ),
    ("- matchLabels: {role: apiserver}", "- ~", false),
    ("watchDuration: 5m", "watch: ~", false),
    ("spec:", "  labels: {a: b c}\nspec:", false),
    ("spec:", "  labels: {A/b: c}\nspec:", false),
    ("spec:", "  annotations: {A/b: c d}\nspec:", true),
    ("spec:", "  annotations: {a/b/c: d}\nspec:", false),
    ("spec:", "  uid: 5\nspec:", false),
    ("spec:", "  generation: x\nspec:", false),
];

const PROBE_POLICY: &str = "\
apiVersion: dependency-watchdog.gardener.cloud/v1alpha1
kind: ProbePolicy
metadata:
  name: checked
spec:
  mode: Enforce
  kubeConfigSecretName: kubeconfig
  kcmNodeMonitorGraceDuration: 40s
  priority: 0
  dependentResourceInfos:
  - ref: &kcm {apiVersion: apps/v1, kind: Deployment, name: kube-controller-manager}
    optional: false
    scaleUp: {level: 0}
";

const PROBE_CASES: [(&str, &str, bool); 16] = [
    ("priority: 0", "priority: 1.0", true),
    ("priority: 0", "priority: 1.5", false),
    ("priority: 0", "priority: 1e2", true),
    ("priority: 0", "priority: 0x10", true),
    ("priority: 0", "priority: '1'", false),
    ("priority: 0", "priority: 2147483648", false),
    ("priority: 0", "priority: ", true),
    ("priority: 0", "nodeLeaseFailureFraction: 1", true),
    ("priority: 0", "nodeLeaseFailureFraction: 0.0", false),
    ("optional: false", "optional: null", false),
    ("optional: false", "optional: no", true),
    ("{level: 0}", "null", true),
    ("{level: 0}", "{}", false),
    ("{level: 0}", "{level: 0, levle: 1}", false),
    ("kube-controller-manager", "'on'", true),
    (
        "    scaleUp:",
        "  - {ref: {<<: *kcm, name: other}, optional: true}\n  - ref: *kcm\n    optional: true\n    scaleUp:",
        false,
    ),
];

async fn e2e_check_says_what_the_api_server_says(env: Env) -> Result<()> {
    let seed: &Seed = &*env.seed().await?;
    let kubectl = seed.kubectl();
    let cases = CASES.into_iter().map(|case| (POLICY, case));
    let cases = cases.chain(PROBE_CASES.into_iter().map(|case| (PROBE_POLICY, case)));
    for (index, (policy, (from, to, good))) in cases.enumerate() {
        let file = seed.directory().join(format!("checked-{index}.yaml"));
        fs::write(&file, policy.replacen(from, to, 1))?;
        let file = file.to_str().context("a path that is no text")?;
        let checked = product(&["check", "-f", file]).await?;
        ensure!(
            checked.success == good,
            "check on {to:?} for {from:?}: {}{}",
            checked.stdout,
            checked.stderr
        );
        let applied = kubectl
            .try_run(&[
                "create",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                file,
            ])
            .await?;
        ensure!(
            applied.success == good,
            "kubectl on {to:?} for {from:?}: {}{}",
            applied.stdout,
            applied.stderr
        );
    }
    Ok(())
}
