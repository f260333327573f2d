//! The pure code that every probe, and every change of a Cluster, goes through: how long it takes
//! for more leases in one shoot, and more clusters on one seed, than there should be.
//!
//! `make microbench` prints the figures; nothing is asserted of them.

#![allow(clippy::unwrap_used, reason = "what is made here can be read")]

use std::{hint::black_box, sync::LazyLock, time::Duration};

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
const LEASES: i64 = 5_000;
/// Ten times as many clusters as a seed is meant to host.
const CLUSTERS: usize = 10_000;
/// The `Date` of the first list, in seconds since the Unix epoch.
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

/// The bodies of successive lists of leases, as a kube-apiserver encodes what kubelets renew.
static LEASE_LISTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| (0..LISTS).map(leases).collect());

fn main() {
    divan::main();
}

/// One list of leases, from its bytes.
#[divan::bench]
fn decode_5000_leases(bencher: Bencher<'_, '_>) {
    let body = LEASE_LISTS.first().unwrap();
    bencher
        .counter(BytesCount::of_slice(body))
        .bench(|| LeaseList::decode(black_box(body)).unwrap());
}

/// What follows from a list in which all have renewed: ages, verdict, and when to read again.
#[divan::bench]
fn judge_5000_leases(bencher: Bencher<'_, '_>) {
    let lists: Vec<LeaseList> = LEASE_LISTS
        .iter()
        .map(|body| LeaseList::decode(body).unwrap())
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
    let list = LeaseList::decode(&leases(0)).unwrap();
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

/// The list with this number, ten seconds after the one before, in protobuf.
fn leases(number: i64) -> Vec<u8> {
    let at = jiff::Timestamp::from_second(DATE + 10 * number).unwrap();
    let version = 1_000_000 + 10_000 * number;
    let lease = |node: i64| {
        // Each renews at its own moment of the ten seconds, and is under way for a while.
        let written = at - Duration::from_micros(2_000 * node.unsigned_abs());
        let renewed = written - Duration::from_millis(3);
        let stamp = jiff::Timestamp::from_second(written.as_second()).unwrap();
        let name = format!("shoot--bench--s0001-worker-z1-5d7f9-{node:05}");
        let owner = format!("00000001-0000-4000-8000-{node:012x}");
        let owned = format!(
            r#"{{"f:metadata":{{"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{owner}\"}}":{{}}}}}},"f:spec":{{"f:holderIdentity":{{}},"f:leaseDurationSeconds":{{}},"f:renewTime":{{}}}}}}"#
        );
        let owner = [(1, "Node"), (3, &name), (4, &owner), (5, "v1")];
        let manager = [
            texts(&[(1, "kubelet"), (2, "Update"), (3, "coordination.k8s.io/v1")]),
            field(4, time(stamp)),
            field(6, "FieldsV1"),
            field(7, field(1, owned)),
            field(8, ""),
        ];
        let metadata = [
            texts(&[(1, &name), (2, ""), (3, "kube-node-lease"), (4, "")]),
            field(5, format!("00000001-0001-4000-8000-{node:012x}")),
            field(6, (version + node).to_string()),
            number_field(7, 0),
            field(8, time(at)),
            field(13, texts(&owner)),
            field(17, manager.concat()),
        ];
        let spec = [
            field(1, &name),
            number_field(2, 40),
            field(4, time(renewed)),
        ];
        [field(1, metadata.concat()), field(2, spec.concat())].concat()
    };
    let newest = (version + 10_000).to_string();
    let mut list = field(1, texts(&[(1, ""), (2, &newest), (3, "")]));
    list.extend((0..LEASES).flat_map(|node| field(2, lease(node))));
    let kind = texts(&[(1, "coordination.k8s.io/v1"), (2, "LeaseList")]);
    let body = [field(1, kind), field(2, list), field(3, ""), field(4, "")];
    [b"k8s\0", &*body.concat()].concat()
}

/// A time as a message.
fn time(at: jiff::Timestamp) -> Vec<u8> {
    let nanos = at.subsec_nanosecond().unsigned_abs();
    let seconds = at.as_second().unsigned_abs();
    [number_field(1, seconds), number_field(2, nanos.into())].concat()
}

fn texts(fields: &[(u8, &str)]) -> Vec<u8> {
    let fields = fields.iter();
    fields
        .flat_map(|(number, text)| field(*number, text))
        .collect()
}

/// A field that is a text, or a message.
fn field(number: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    let tag = varint(u64::from(number) << 3 | 2);
    [tag, varint(value.len() as u64), value.to_vec()].concat()
}

fn number_field(number: u8, value: u64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
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
