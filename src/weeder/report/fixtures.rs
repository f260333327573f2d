//! Reports for tests.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::WeedReport;
use crate::{
    api::WeedPolicyStatus,
    weeder::{
        case::Case,
        pod::Looping,
        policy::{Policy, Stored},
    },
};

/// A policy for one service.
pub(super) fn policy(change: impl FnOnce(&mut Value)) -> Arc<Policy> {
    let mut policy = json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
        "kind": "WeedPolicy",
        "metadata": {"name": "etcd", "uid": "uid", "generation": 7},
        "spec": {
            "mode": "Enforce",
            "servicesAndDependantSelectors": {
                "etcd-main-client": {"podSelectors": [{"matchLabels": {"app": "api"}}]},
            },
        },
    });
    change(&mut policy);
    let policy = serde_json::from_value(policy).unwrap();
    Arc::new(Stored::new(&policy, false).policy)
}

/// A policy that watches two services, of which both are ready, and has nothing to do.
pub(super) fn weed_report() -> WeedReport {
    WeedReport {
        policy: policy(|_| ()),
        listed: true,
        services: 2,
        ready: 2,
        not_ready: vec![],
        windows: 0,
        open: vec![],
        troubles: vec![],
        weeded: 0,
        last_weeds: vec![],
        left_alone: vec![],
        recorded: WeedPolicyStatus::default(),
    }
}

/// A pod that crashes as its service becomes ready.
pub(in crate::weeder) fn case(containers: &[&str]) -> Case {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-6b7", "uid": "uid-rs",
    });
    let pod = Looping {
        name: "api-6b7-x".into(),
        uid: "uid-pod".into(),
        version: "1".into(),
        labels: BTreeMap::new(),
        controller: Some(serde_json::from_value(owner).unwrap()),
        containers: containers.iter().map(|it| (*it).to_owned()).collect(),
        since: Instant::now(),
    };
    Case {
        namespace: "shoot".into(),
        pod,
        policy: policy(|_| ()),
        service: "etcd-main-client".into(),
        ready_since: Instant::now(),
        opened: Instant::now(),
        called_for: Instant::now(),
    }
}
