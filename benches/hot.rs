//! The pure code that every probe, and every change of a Cluster, goes through: how long it takes
//! for more leases in one shoot, and more clusters on one seed, than there should be.
//!
//! `make microbench` prints the figures; nothing is asserted of them.

#![allow(clippy::unwrap_used, reason = "what is made here can be read")]

use std::{fmt::Write as _, hint::black_box, sync::LazyLock, time::Duration};

use dependency_watchdog::{
    api::ProbePolicy,
    cluster::{Index, Policy},
    gardener::Cluster,
    prober::{
        candidates::Roster,
        heartbeat::LeaseSnapshot,
        moment::Moment,
        schedule::Pace,
        verdict::Thresholds,
        watch::{Rules, Watch},
    },
    shoot::LeaseList,
};
use divan::{Bencher, counter::BytesCount};
use serde_json::json;

/// As many nodes as Kubernetes supports in one cluster.
const LEASES: usize = 5_000;
/// Ten times as many clusters as a seed is meant to host.
const CLUSTERS: usize = 10_000;
/// The `Date` of the first list, in seconds since the unix epoch.
const DATE: i64 = 1_800_000_000;
/// How many lists follow each other: kubelets renew between any two of them.
const LISTS: i64 = 4;

const RULES: Rules = Rules {
    thresholds: Thresholds {
        grace: Duration::from_secs(40),
        fraction: 0.6,
    },
    pace: Pace {
        interval: Duration::from_secs(10),
        jitter_factor: 0.2,
        timeout: Duration::from_secs(30),
    },
    failure_threshold: 1,
    success_threshold: 1,
};

/// The bodies of successive lists of leases, as large as those of a kube-apiserver.
static LEASE_LISTS: LazyLock<Vec<String>> = LazyLock::new(|| (0..LISTS).map(leases).collect());

fn main() {
    divan::main();
}

/// One list of leases, from its bytes.
#[divan::bench]
fn decode_5000_leases(bencher: Bencher<'_, '_>) {
    let body = LEASE_LISTS.first().unwrap().as_bytes();
    bencher
        .counter(BytesCount::of_slice(body))
        .bench(|| LeaseList::decode(black_box(body)).unwrap());
}

/// What follows from a list in which all have renewed: ages, verdict, and when to read again.
#[divan::bench]
fn judge_5000_leases(bencher: Bencher<'_, '_>) {
    let lists: Vec<LeaseList> = LEASE_LISTS
        .iter()
        .map(|body| LeaseList::decode(body.as_bytes()).unwrap())
        .collect();
    let (last, before) = lists.split_last().unwrap();
    let mut watch = Watch::new(RULES);
    for (number, list) in before.iter().enumerate() {
        watch.observe(&snapshot(list, number));
        watch.learn(Roster::default(), moment(number));
    }
    bencher
        .with_inputs(|| watch.clone())
        .bench_local_refs(|watch| {
            watch.observe(&snapshot(last, before.len()));
            watch.conclude();
            watch.next(moment(before.len()), 0.5)
        });
}

/// When each of many clusters is read next.
#[divan::bench]
fn schedule_10000_clusters(bencher: Bencher<'_, '_>) {
    let list = LeaseList::decode(leases(0).as_bytes()).unwrap();
    let mut watch = Watch::new(RULES);
    watch.observe(&snapshot(&list, 0));
    watch.learn(Roster::default(), moment(0));
    let next = || {
        let draws = (0..CLUSTERS).map(|number| number as f64 / CLUSTERS as f64);
        draws
            .map(|draw| watch.next(moment(0), black_box(draw)).at)
            .min()
    };
    bencher.bench(next);
}

/// Every Cluster of a seed is listed for the first time.
#[divan::bench]
fn index_10000_clusters(bencher: Bencher<'_, '_>) {
    bencher
        .with_inputs(|| (selecting(), (0..CLUSTERS).map(cluster).collect::<Vec<_>>()))
        .bench_local_values(|(mut index, clusters)| {
            let changed = index.replace_clusters(clusters).len();
            (changed, index)
        });
}

/// One Cluster of many changes, as each does at every reconciliation, but in nothing that matters.
#[divan::bench]
fn update_one_of_10000_clusters(bencher: Bencher<'_, '_>) {
    let mut index = selecting();
    index.replace_clusters((0..CLUSTERS).map(cluster));
    bencher
        .with_inputs(|| cluster(CLUSTERS / 2))
        .bench_local_values(|cluster| index.apply_cluster(cluster));
}

/// The policy of many clusters changes: all settings are made anew.
#[divan::bench]
fn change_the_policy_of_10000_clusters(bencher: Bencher<'_, '_>) {
    let mut index = selecting();
    index.replace_clusters((0..CLUSTERS).map(cluster));
    let mut fractions = [0.5, 0.6].into_iter().cycle();
    bencher
        .with_inputs(|| policy(fractions.next().unwrap()))
        .bench_local_values(|policy| index.apply_policy(policy).len());
}

/// The list with this number, ten seconds after the one before.
fn leases(number: i64) -> String {
    let at = DATE + 10 * number;
    let time = |offset: i64, form: &str| {
        let moment = jiff::Timestamp::from_microsecond(at * 1_000_000 - offset).unwrap();
        moment.strftime(form).to_string()
    };
    let mut body = format!(
        r#"{{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{{"resourceVersion":"{}"}},"items":["#,
        1_000_000 + 10_000 * (number + 1)
    );
    for node in 0..LEASES {
        // Each renews at its own moment of the ten seconds.
        let offset = i64::try_from(node).unwrap() * 2_000;
        let name = format!("shoot--bench--s0001-worker-z1-5d7f9-{node:05}");
        let owner = format!("00000001-0000-4000-8000-{node:012x}");
        let lease = json!({
            "metadata": {
                "name": name,
                "namespace": "kube-node-lease",
                "uid": format!("00000001-0001-4000-8000-{node:012x}"),
                "resourceVersion": (1_000_000 + 10_000 * number + i64::try_from(node).unwrap()).to_string(),
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner}],
                "managedFields": [{
                    "manager": "kubelet",
                    "operation": "Update",
                    "apiVersion": "coordination.k8s.io/v1",
                    "time": time(offset, "%Y-%m-%dT%H:%M:%SZ"),
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:ownerReferences": {".": {}, format!("k:{{\"uid\":\"{owner}\"}}"): {}}},
                        "f:spec": {"f:holderIdentity": {}, "f:leaseDurationSeconds": {}, "f:renewTime": {}},
                    },
                }],
            },
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": 40,
                "renewTime": time(offset + 3_000, "%Y-%m-%dT%H:%M:%S%.6fZ"),
            },
        });
        let comma = if node == 0 { "" } else { "," };
        write!(body, "{comma}{lease}").unwrap();
    }
    body.push_str("]}\n");
    body
}

/// When the list with this number was read, on our clock.
fn moment(number: usize) -> Moment {
    Moment::from_nanos(1_000_000_000_000) + Duration::from_secs(10) * u32::try_from(number).unwrap()
}

fn snapshot(list: &LeaseList, number: usize) -> LeaseSnapshot<'_> {
    let finished = moment(number);
    LeaseSnapshot {
        started: finished - Duration::from_millis(20),
        finished,
        date: Some(DATE + 10 * i64::try_from(number).unwrap()),
        consistent: false,
        resource_version: list.resource_version,
        leases: &list.leases,
    }
}

/// An index with a policy that selects all.
fn selecting() -> Index {
    let mut index = Index::default();
    index.replace_policies([policy(0.6)]);
    index
}

fn policy(fraction: f64) -> Policy {
    let text = include_str!("../docs/examples/probe-policy.yaml");
    let mut object: ProbePolicy = serde_saphyr::from_str(text).unwrap();
    object.spec.node_lease_failure_fraction = fraction;
    Policy::new(&object)
}

fn cluster(number: usize) -> Cluster {
    let name = format!("shoot--bench--s{number:05}");
    let object = json!({
        "metadata": {"name": name, "uid": format!("00000000-0000-4000-8000-{number:012x}")},
        "spec": {"shoot": {
            "metadata": {"labels": {"shoot.gardener.cloud/status": "healthy"}},
            "spec": {"provider": {"workers": [{"name": "worker"}]}},
            "status": {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}},
        }},
    });
    serde_json::from_value(object).unwrap()
}
