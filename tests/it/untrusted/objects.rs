//! Objects of the seed whose readers forgive: Shoots within Clusters, and records of ours that were edited.

use dependency_watchdog::{
    api::{ClusterHealth, DependentStatus},
    cluster::Assignment,
    gardener::Cluster,
    prober::{
        decide::{Decider, Input},
        dependents::Dependents,
    },
    util::now::Now,
};
use kube::core::{DeserializeGuard, ObjectList};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{fuzz::fuzzed, mutate::changed};

fn cluster() -> Value {
    serde_saphyr::from_str(include_str!("../../../docs/examples/cluster.yaml")).unwrap()
}

fn health() -> Value {
    let dependent = |name: &str| {
        json!({
            "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "recordedReplicas": 3, "owed": true, "level": 1, "initialDelay": "0s", "timeout": "30s",
        })
    };
    json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "ClusterHealth",
        "metadata": {"name": "shoot--a--b", "resourceVersion": "7"}, "spec": {},
        "status": {
            "state": "ONLINE", "protection": "Active", "policy": "p", "reason": "Outage",
            "message": "m", "lastTransitionTime": "2026-11-20T11:02:33Z",
            "lastProbeTime": "2026-11-20T11:02:33Z", "nodes": "3/3",
            "leases": {"candidates": 3, "expired": 3, "unknown": 0},
            "dependents": [dependent("kube-controller-manager"), dependent("cluster-autoscaler")],
        },
    })
}

fuzzed!(
    an_odd_shoot_hides_no_other_cluster,
    200,
    changed(vec![cluster()["spec"]["shoot"].clone()], 5),
    |shoot| {
        // What cannot be read as JSON is no answer of an API server.
        prop_assume!(serde_json::from_str::<Value>(&shoot.text).is_ok());
        let odd = format!(
            r#"{{"metadata": {{"name": "odd"}}, "spec": {{"shoot": {}}}}}"#,
            shoot.text
        );
        let list = format!(
            r#"{{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "ClusterList",
                "metadata": {{}}, "items": [{odd}, {}]}}"#,
            cluster()
        );
        let list: ObjectList<Cluster> = serde_json::from_str(&list).unwrap();
        prop_assert_eq!(list.items.len(), 2);
        prop_assert!(list.items[1].shoot.is_ok());
        Ok(())
    }
);

/// What is owed by a record, but for what it contradicts itself about.
fn owed(dependents: &[DependentStatus]) -> Vec<&DependentStatus> {
    let once =
        |one: &DependentStatus| dependents.iter().filter(|it| it.r#ref == one.r#ref).count() == 1;
    dependents.iter().filter(|it| it.owed && once(it)).collect()
}

fn is_kept(dependents: &Dependents, owed: &[&DependentStatus]) -> bool {
    let kept = dependents.status();
    owed.iter().all(|one| {
        let mut kept = kept.iter();
        kept.any(|it| {
            it.r#ref == one.r#ref && it.owed && it.recorded_replicas == one.recorded_replicas
        })
    })
}

fuzzed!(
    any_record_of_an_earlier_run_is_recalled_or_left,
    300,
    changed(vec![health()], 4),
    |health| {
        let decoded = serde_json::from_str(&health.text);
        let Ok(DeserializeGuard(Ok(health))) =
            decoded as Result<DeserializeGuard<ClusterHealth>, _>
        else {
            return Ok(());
        };
        let Some(status) = health.status else {
            return Ok(());
        };
        let owed = owed(&status.dependents);
        let (mut gone, now) = (Box::<Assignment>::default(), Now::read());
        gone.bury();
        let mut decider = Decider::recall(Some(&status), gone.clone(), (false, false), now);
        prop_assert!(
            is_kept(decider.dependents(), &owed),
            "what is owed is forgotten"
        );
        let _ = decider.step(Input::Objects(gone), now, || now.mono);
        prop_assert!(
            is_kept(decider.dependents(), &owed),
            "what is owed is forgotten"
        );
        if let Some(mono) = decider.due() {
            let _ = decider.step(Input::Time, Now { mono, ..now }, || mono);
        }
        Ok(())
    }
);
