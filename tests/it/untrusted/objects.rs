//! Objects of the seed that others write: Clusters with their Shoots, Machines, EndpointSlices,
//! Pods; policies that no rule of the API server has seen; records of ours that were edited.

use std::{collections::BTreeMap, sync::Arc};

use dependency_watchdog::{
    api::{
        ClusterHealth, ClusterHealthStatus, DependentStatus, MAX_UNHEALTHY_NODES, ObserverSettings,
        ProbePolicy, ProbePolicyStatus,
    },
    cluster::{Index, PolicyHold, eligibility},
    gardener::{Cluster, Machine},
    observer::{NodeCounts, observation::Observation},
    prober::{
        debts::Debts,
        machine::{ClusterMachine, Input},
        treatment::ClusterObject,
    },
    status::conditions::{condition, conditions},
    util::now::Now,
    weeder::{
        pod::{Pod, left_alone},
        policy::{Policy, Stored},
        slice::EndpointSlice,
    },
};
use k8s_openapi::jiff::Timestamp;
use kube::{
    core::{DeserializeGuard, ObjectList},
    runtime::watcher::Event,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{fuzz::fuzzed, mutate::changed};

/// The documents of an example.
fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents
        .map(|it| serde_saphyr::from_str(it).unwrap())
        .collect()
}

fn of_kind(text: &str, kind: &str) -> Vec<Value> {
    let mut documents = documents(text);
    documents.retain(|it| it["kind"] == kind);
    for object in &mut documents {
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("7");
        object["metadata"]["creationTimestamp"] = json!("2026-11-20T11:02:33Z");
    }
    assert!(!documents.is_empty(), "{kind}");
    documents
}

pub(crate) fn clusters() -> Vec<Value> {
    of_kind(
        include_str!("../../../docs/examples/cluster.yaml"),
        "Cluster",
    )
}

pub(crate) fn probe_policies() -> Vec<Value> {
    let plain = include_str!("../../../docs/examples/probe-policy.yaml");
    let checks = include_str!("../../../docs/examples/checks.yaml");
    [
        of_kind(plain, "ProbePolicy"),
        of_kind(checks, "ProbePolicy"),
    ]
    .concat()
}

pub(crate) fn weed_policies() -> Vec<Value> {
    of_kind(
        include_str!("../../../docs/examples/weed-policy.yaml"),
        "WeedPolicy",
    )
}

pub(crate) fn healths() -> Vec<Value> {
    let dependent = |name: &str| {
        json!({
            "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "recordedReplicas": 3, "owed": true, "level": 1, "initialDelay": "0s", "timeout": "30s",
        })
    };
    vec![json!({
        "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1", "kind": "ClusterHealth",
        "metadata": {"name": "shoot--a--b", "resourceVersion": "7"}, "spec": {},
        "status": {
            "state": "ONLINE", "protection": "Active", "policy": "p", "reason": "Outage",
            "message": "m", "lastTransitionTime": "2026-11-20T11:02:33Z",
            "lastProbeTime": "2026-11-20T11:02:33Z", "nodes": "3/3",
            "leases": {"candidates": 3, "expired": 3, "unknown": 0},
            "dependents": [dependent("kube-controller-manager"), dependent("cluster-autoscaler")],
        },
    })]
}

fn machines() -> Value {
    let machine = |name: &str| {
        json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "namespace": "shoot--a--b", "labels": {"node": name}},
            "status": {"currentStatus": {"phase": "Running"}},
        })
    };
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineList",
        "metadata": {"resourceVersion": "7"}, "items": [machine("a"), machine("b")],
    })
}

fn slices() -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "etcd-1", "namespace": "shoot--a--b",
            "labels": {"kubernetes.io/service-name": "etcd-main-client"},
            "creationTimestamp": "2026-01-01T12:00:05Z", "generation": 7,
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T13:00:00Z"},
        },
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": true, "terminating": false}},
            {"addresses": ["10.0.0.2"], "conditions": null}, null,
        ],
    })
}

fn pods() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "shoot--a--b", "uid": "u", "resourceVersion": "7",
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "v", "controller": true,
            }],
        },
        "status": {
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{
                "name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 7,
            }],
        },
    })
}

/// Whatever is read of it can be shown.
fn shown(text: &str, object: &impl std::fmt::Debug) {
    assert!(!format!("{object:?}").is_empty(), "{text}");
}

fuzzed!(
    any_cluster_and_policy_are_selected_or_told,
    200,
    (changed(clusters(), 4), changed(probe_policies(), 4)),
    |(cluster, policy)| {
        let mut index = Index::default();
        let decoded = serde_json::from_str(&policy.text);
        if let Ok(policy) = decoded as Result<DeserializeGuard<ProbePolicy>, _> {
            index.policy_event(Event::Apply(policy));
        }
        let Ok(cluster) = serde_json::from_str::<Cluster>(&cluster.text) else {
            return Ok(());
        };
        shown("", &eligibility(&cluster));
        if let Err(unreadable) = &cluster.shoot {
            prop_assert!(unreadable.to_string().chars().count() <= 256);
        }
        index.cluster_event(Event::Apply(cluster));
        for (name, assignment) in index.assignments() {
            shown(name, &assignment.decision());
            shown(name, &assignment.dependents().len());
        }
        for policy in index.policies() {
            shown("", &policy.problems());
        }
        Ok(())
    }
);

fuzzed!(
    an_odd_shoot_hides_no_other_cluster,
    200,
    changed(
        clusters()
            .iter()
            .map(|it| it["spec"]["shoot"].clone())
            .collect(),
        5
    ),
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
            clusters()[0]
        );
        let list: ObjectList<Cluster> = serde_json::from_str(&list).unwrap();
        prop_assert_eq!(list.items.len(), 2);
        prop_assert!(list.items[1].shoot.is_ok());
        Ok(())
    }
);

fuzzed!(
    any_weed_policy_is_followed_or_told,
    200,
    changed(weed_policies(), 4),
    |policy| {
        let decoded = serde_json::from_str(&policy.text);
        let Ok(stored) = decoded as Result<Stored, _> else {
            return Ok(());
        };
        let policy = Policy::new(&stored.policy);
        prop_assert_eq!(policy.problems().is_empty() && !policy.in_force(), false);
        for service in policy.services() {
            shown(service, &policy.terms(service));
        }
        shown(
            "",
            &policy.selects(&BTreeMap::from([("a".to_owned(), "b".to_owned())])),
        );
        Ok(())
    }
);

/// What is owed by a record, but for what it contradicts itself about.
fn owed(dependents: &[DependentStatus]) -> Vec<&DependentStatus> {
    let once =
        |one: &DependentStatus| dependents.iter().filter(|it| it.r#ref == one.r#ref).count() == 1;
    dependents.iter().filter(|it| it.owed && once(it)).collect()
}

fn is_kept(debts: &Debts, owed: &[&DependentStatus]) -> bool {
    let kept = debts.status();
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
    changed(healths(), 4),
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
        let mut debts = Debts::recall(&status);
        let owed = owed(&status.dependents);
        prop_assert!(is_kept(&debts, &owed), "what is owed is forgotten");
        let (gone, now) = (ClusterObject::Gone(PolicyHold::default()), Now::read());
        let mut machine = ClusterMachine::recall(Some(&status), gone.clone(), (false, false), now);
        let _ = machine.step(Input::Objects(gone), now);
        if let Some(mono) = machine.due() {
            shown("", &machine.step(Input::Time, Now { mono, ..now }));
        }
        debts.adopt(&[]);
        prop_assert!(is_kept(&debts, &owed), "what is owed is forgotten");
        Ok(())
    }
);

/// The part of a record that is about the state of the cluster.
fn observed() -> Vec<Value> {
    let check = |name: &str, role: Value| {
        json!({
            "name": name, "role": role, "type": "HttpGet", "result": "Failing",
            "since": "2026-11-20T11:02:33Z", "message": "m",
        })
    };
    let mut status = healths()[0]["status"].clone();
    for (field, value) in [
        ("state", json!("UNHEALTHY")),
        ("stateMessage", json!("1 of 3 nodes is not ready")),
        ("nodes", json!("1/3")),
        ("nodesPidPressure", json!("1/3")),
        ("nodesMemoryPressure", json!("0/3")),
        ("nodesDiskPressure", json!("0/3")),
        (
            "unhealthyNodes",
            json!([
                {"name": "a", "problems": ["NotReady"]}, {"name": "b", "problems": ["PIDPressure"]},
            ]),
        ),
        (
            "checks",
            json!([check("a", json!("Gate")), check("b", Value::Null)]),
        ),
    ] {
        status[field] = value;
    }
    vec![status]
}

fuzzed!(
    /// It is shown again, until the nodes are seen.
    any_state_of_an_earlier_run_is_recalled_within_its_bounds,
    300,
    changed(observed(), 4),
    |status| {
        let Ok(status) = serde_json::from_str::<ClusterHealthStatus>(&status.text) else {
            return Ok(());
        };
        let settings: ObserverSettings = serde_json::from_value(json!({})).unwrap();
        let now = Instant::now();
        let observation = Observation::new(Arc::new(settings), Some(&status), now, 0.5);
        let Some(counts) = observation.view().nodes else {
            return Ok(());
        };
        prop_assert!(counts.unhealthy.len() <= MAX_UNHEALTHY_NODES.min(counts.all));
        let NodeCounts { pid_pressure, memory_pressure, disk_pressure, .. } = counts;
        for some in [counts.well, counts.not_ready, pid_pressure, memory_pressure, disk_pressure] {
            prop_assert!(some <= counts.all, "{:?}", counts);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-. ()".contains(c);
        for node in &counts.unhealthy {
            prop_assert!(node.name.len() <= 253 && node.name.chars().all(plain), "{:?}", node);
            prop_assert!(node.problems.len() <= 4, "{:?}", node);
        }
        Ok(())
    }
);

fuzzed!(
    any_status_of_a_policy_is_followed_by_one_that_holds,
    300,
    changed(
        vec![json!({
            "observedGeneration": 3, "clusters": {"selected": 1, "protected": 1},
            "protectedClusters": ["shoot--a--b"],
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "AsExpected", "message": "m",
                 "observedGeneration": 3, "lastTransitionTime": "2026-11-20T11:02:33Z"},
                {"type": "Protecting", "status": "True", "reason": "r", "message": "m",
                 "observedGeneration": 3, "lastTransitionTime": "2026-11-20T11:02:33Z"},
            ],
        })],
        4
    ),
    |status| {
        let Ok(before) = serde_json::from_str::<ProbePolicyStatus>(&status.text) else {
            return Ok(());
        };
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let ready = || condition("Ready", true, "AsExpected", "all is well");
        let after = conditions(vec![ready()], &before.conditions, Some(4), now);
        // Nothing of it stays but since when the same has held.
        let [condition] = &after[..] else {
            return Err(TestCaseError::fail("one was wanted"));
        };
        let held = before
            .conditions
            .iter()
            .filter(|it| it.type_ == "Ready" && it.status == "True");
        let since: Vec<_> = held.map(|it| it.last_transition_time.0).collect();
        let stands = condition.last_transition_time.0;
        prop_assert!(stands == now || since.contains(&stands), "{:?}", condition);
        prop_assert_eq!(&*condition.message, "all is well");
        Ok(())
    }
);

fuzzed!(
    any_object_of_the_seed_is_read_or_refused,
    300,
    (
        changed(vec![machines()], 4),
        changed(vec![slices()], 4),
        changed(vec![pods()], 4)
    ),
    |(machines, slice, pod)| {
        if let Ok(machines) = serde_json::from_str::<ObjectList<Machine>>(&machines.text) {
            for machine in &machines.items {
                shown(&format!("{:?}", machine.phase), &machine.node());
            }
        }
        if let Ok(slice) = serde_json::from_str::<EndpointSlice>(&slice.text) {
            shown("", &slice);
        }
        if let Ok(pod) = serde_json::from_str::<Pod>(&pod.text) {
            shown(
                &format!("{}", pod.is_looping()),
                &left_alone(pod.controller.as_ref()).map(|reason| reason.message()),
            );
        }
        Ok(())
    }
);
