//! What the operator has to say of the policy, and of each cluster, where all is well and nothing is owed.

use anyhow::{Result, ensure};
use dependency_watchdog::api::{
    ClusterCounts, ClusterHealth, ClusterState, FINALIZER, ProbePolicy, Protection,
};
use kube::ResourceExt as _;

/// Fails unless the policy has been seen as it is now, all shoots are judged, and it holds nothing.
pub(crate) fn ensure_policy(policy: &ProbePolicy, shoots: usize) -> Result<()> {
    let status = policy.status.clone().unwrap_or_default();
    let (generation, observed) = (policy.metadata.generation, status.observed_generation);
    ensure!(
        generation.is_some() && observed == generation,
        "the policy's status is of generation {observed:?}, not {generation:?}"
    );
    let shoots = i32::try_from(shoots)?;
    let wanted = ClusterCounts {
        selected: shoots,
        probing: shoots,
        ..ClusterCounts::default()
    };
    ensure!(
        status.clusters == wanted,
        "the policy counts {:?}",
        status.clusters
    );
    let protected = status.protected_clusters;
    ensure!(
        protected.is_empty(),
        "the policy says that it protects {protected:?}"
    );
    // All others tell of something that is not over: an outage, trouble, what is yet to be seen.
    let conditions = status.conditions.iter();
    let on: Vec<_> = conditions.filter(|it| it.status == "True").collect();
    let is_ready = matches!(on.as_slice(), [ready] if ready.type_ == "Ready");
    let told = || {
        let told = status.conditions.iter();
        let told = told.map(|it| format!("{}: {} ({})", it.type_, it.status, it.reason));
        told.collect::<Vec<_>>().join(", ")
    };
    ensure!(is_ready, "the policy is not Ready alone: {}", told());
    // It is there exactly as long as the policy protects a cluster.
    let is_held = policy.finalizers().iter().any(|it| it == FINALIZER);
    ensure!(!is_held, "the policy is held by its finalizer");
    Ok(())
}

/// Fails unless the cluster is seen to be well, and nothing is owed to it.
pub(crate) fn ensure_health(health: &ClusterHealth) -> Result<()> {
    let (name, status) = (health.name_any(), health.status.clone().unwrap_or_default());
    let is_so = status.protection == Protection::None
        && status.reason.as_deref() == Some("Healthy")
        && status.state == Some(ClusterState::Online);
    ensure!(
        is_so,
        "{name}: {:?}, {:?}, {:?}: {:?}",
        status.state,
        status.protection,
        status.reason,
        status.message
    );
    let owed = status.dependents.iter().find(|it| it.owed);
    let owed = owed.map(|it| &it.r#ref.name);
    ensure!(owed.is_none(), "{name}: {owed:?} is owed its replicas");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The changes, each of which is to be noticed by these words.
    type Cases<'a> = &'a [(Value, &'a str)];

    fn check(object: &Value, cases: Cases<'_>, ensure: impl Fn(Value) -> Result<()>) -> Result<()> {
        ensure(object.clone())?;
        for (change, expected) in cases {
            let mut changed = object.clone();
            json_patch::merge(&mut changed, change);
            let said = ensure(changed).expect_err(expected).to_string();
            assert!(said.contains(expected), "{said}");
        }
        Ok(())
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-11-22T00:00:00Z", "observedGeneration": 3,
        })
    }

    #[test]
    fn a_policy_that_is_not_as_it_should_be_is_noticed() -> Result<()> {
        let policy = include_str!("../../../../docs/examples/probe-policy.yaml");
        let mut policy: Value = serde_saphyr::from_str(policy)?;
        let conditions = |ready: &str, degraded: &str| {
            json!([
                condition("Ready", ready, "Probing"),
                condition("Protecting", "False", "NoOutage"),
                condition("Degraded", degraded, "ScalingTrouble"),
                condition("Conflicted", "False", "NoConflict"),
            ])
        };
        let well = json!({
            "metadata": {"generation": 3, "finalizers": ["gitops/another"]},
            "status": {
                "observedGeneration": 3,
                "clusters": {"selected": 4, "probing": 4},
                "conditions": conditions("True", "False"),
            },
        });
        json_patch::merge(&mut policy, &well);
        let status = |status: Value| json!({"status": status});
        let counts = |counts: Value| status(json!({"clusters": counts}));
        check(
            &policy,
            &[
                (json!({"status": null}), "generation None, not Some(3)"),
                (
                    status(json!({"observedGeneration": 2})),
                    "generation Some(2)",
                ),
                (json!({"metadata": {"generation": 4}}), "not Some(4)"),
                (counts(json!({"selected": 3})), "selected: 3"),
                (counts(json!({"probing": 3, "skipped": 1})), "skipped: 1"),
                (counts(json!({"protected": 1})), "protected: 1"),
                (counts(json!({"undetermined": 1})), "undetermined: 1"),
                (status(json!({"protectedClusters": ["a"]})), r#"["a"]"#),
                (status(json!({"conditions": []})), "not Ready alone"),
                (
                    status(json!({"conditions": conditions("False", "False")})),
                    "Ready: False (Probing)",
                ),
                (
                    status(json!({"conditions": conditions("True", "True")})),
                    "Degraded: True (ScalingTrouble)",
                ),
                (
                    json!({"metadata": {"finalizers": ["gitops/another", FINALIZER]}}),
                    "held by its finalizer",
                ),
            ],
            |policy| ensure_policy(&serde_json::from_value(policy)?, 4),
        )
    }

    #[test]
    fn a_cluster_that_is_not_well_or_is_owed_something_is_noticed() -> Result<()> {
        let dependent = |name: &str, owed: bool| {
            json!({
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "owed": owed, "level": 0, "initialDelay": "0s", "timeout": "30s",
            })
        };
        let health = json!({
            "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
            "kind": "ClusterHealth",
            "metadata": {"name": "shoot--a"},
            "spec": {},
            "status": {
                "state": "ONLINE", "protection": "None", "reason": "Healthy",
                "dependents": [dependent("kcm", false), dependent("mcm", false)],
            },
        });
        let status = |status: Value| json!({"status": status});
        check(
            &health,
            &[
                (json!({"status": null}), "shoot--a: None, None, None"),
                (status(json!({"state": "NOTREADY"})), "NotReady"),
                (status(json!({"protection": "Restoring"})), "Restoring"),
                (status(json!({"reason": "Suspect"})), "Suspect"),
                (
                    status(
                        json!({"dependents": [dependent("kcm", false), dependent("mcm", true)]}),
                    ),
                    r#"shoot--a: Some("mcm") is owed its replicas"#,
                ),
            ],
            |health| ensure_health(&serde_json::from_value(health)?),
        )
    }
}
