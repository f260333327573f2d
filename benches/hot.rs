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
    prober::{candidates::Roster, heartbeat::LeaseSnapshot, verdict::LeaseRules, watch::Watch},
    shoot::LeaseList,
    util::mono_time::MonoTime,
};
use divan::{Bencher, counter::BytesCount};
use jiff::Timestamp;
use serde_json::json;

/// As many nodes as Kubernetes supports in one cluster.
const LEASES: i64 = 5_000;
/// Ten times as many clusters as a seed is meant to host.
const CLUSTERS: usize = 10_000;
/// Nodes of each of these.
const FEW_LEASES: i64 = 5;
/// From one cluster to the one that is asked next. Prime to their number, so that each has its turn, and so
/// long that memory is not met in its order.
const STRIDE: usize = 3_571;
/// The `Date` of the first list, in seconds since the Unix epoch.
const DATE: i64 = 1_800_000_000;
/// How many lists follow each other: kubelets renew between any two of them.
const LISTS: i64 = 4;

const RULES: LeaseRules = LeaseRules {
    grace: Duration::from_secs(40),
    fraction: 0.6,
    recovery: 0.6,
    minimum: 2,
    interval: Duration::from_secs(10),
    jitter_factor: 0.2,
    timeout: Duration::from_secs(30),
    failure_threshold: 1,
    success_threshold: 1,
};

/// The bodies of successive lists of leases, as a kube-apiserver encodes what kubelets renew.
static LEASE_LISTS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| (0..LISTS).map(|number| leases(number, 0, LEASES)).collect());

fn main() {
    divan::main();
}

/// How a list of leases is written: in protobuf, unless what serves it knows JSON alone.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Protobuf,
    Json,
}

/// One list of leases, from its bytes.
#[divan::bench(args = [Encoding::Protobuf, Encoding::Json])]
fn decode_5000_leases(bencher: Bencher<'_, '_>, encoding: Encoding) {
    let binary = LEASE_LISTS.first().unwrap();
    let text = leases_in_json(0, 0, LEASES);
    let decoded = |body: &[u8]| LeaseList::decode(body).unwrap();
    assert_eq!(decoded(&text), decoded(binary), "they are the same");
    let body = match encoding {
        Encoding::Protobuf => binary,
        Encoding::Json => &text,
    };
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
        watch.learn(Roster::default(), moment(number), true);
    }
    bencher
        .with_inputs(|| watch.clone())
        .bench_local_refs(|watch| {
            watch.observe(&snapshot(last, before.len()));
            watch.conclude();
            watch.next(moment(before.len()), 0.5)
        });
}

/// When each of many clusters is read next. Each has its own memory, most of which no cache holds when it is
/// its turn.
#[divan::bench]
fn schedule_10000_clusters(bencher: Bencher<'_, '_>) {
    let watch = |shoot| {
        let list = LeaseList::decode(&leases(0, shoot, FEW_LEASES)).unwrap();
        let mut watch = Watch::new(RULES);
        watch.observe(&snapshot(&list, 0));
        watch.learn(Roster::default(), moment(0), true);
        watch
    };
    let watches: Vec<Watch> = (0..CLUSTERS).map(watch).collect();
    let next = || {
        let turns = (0..CLUSTERS).map(|turn| turn * STRIDE % CLUSTERS);
        turns
            .filter_map(|place| {
                let draw = place as f64 / CLUSTERS as f64;
                let watch = watches.get(place)?;
                Some(watch.next(moment(0), black_box(draw)).0)
            })
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

/// A lease in the list with a number.
struct Renewed {
    name: String,
    node: i64,
    version: i64,
    created: Timestamp,
    renewed: Timestamp,
    /// When the server saw it, in whole seconds.
    stamp: Timestamp,
}

/// What a kubelet owns of it.
fn owned(uid: &str) -> String {
    format!(
        r#"{{"f:metadata":{{"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{uid}\"}}":{{}}}}}},"f:spec":{{"f:holderIdentity":{{}},"f:leaseDurationSeconds":{{}},"f:renewTime":{{}}}}}}"#
    )
}

impl Renewed {
    /// The leases of this shoot in the list with this number, ten seconds after the one before.
    fn all(number: i64, shoot: usize, count: i64) -> impl Iterator<Item = Self> {
        let at = Timestamp::from_second(DATE + 10 * number).unwrap();
        (0..count).map(move |node| {
            // Each renews at its own moment of the ten seconds, and is under way for a while.
            let written = at - Duration::from_micros(2_000 * node.unsigned_abs());
            Self {
                name: format!("shoot--bench--s{shoot:04}-worker-z1-5d7f9-{node:05}"),
                node,
                version: version(number) + node,
                created: at,
                renewed: written - Duration::from_millis(3),
                stamp: Timestamp::from_second(written.as_second()).unwrap(),
            }
        })
    }

    fn uid(&self) -> String {
        format!("00000001-0001-4000-8000-{:012x}", self.node)
    }

    /// The UID of its Node.
    fn owner(&self) -> String {
        format!("00000001-0000-4000-8000-{:012x}", self.node)
    }

    fn protobuf(&self) -> Vec<u8> {
        let (name, owner) = (&self.name, self.owner());
        let references = [(1, "Node"), (3, name), (4, &owner), (5, "v1")];
        let manager = [
            texts(&[(1, "kubelet"), (2, "Update"), (3, "coordination.k8s.io/v1")]),
            field(4, time(self.stamp)),
            field(6, "FieldsV1"),
            field(7, field(1, owned(&owner))),
            field(8, ""),
        ];
        let metadata = [
            texts(&[(1, name), (2, ""), (3, "kube-node-lease"), (4, "")]),
            field(5, self.uid()),
            field(6, self.version.to_string()),
            number_field(7, 0),
            field(8, time(self.created)),
            field(13, texts(&references)),
            field(17, manager.concat()),
        ];
        let spec = [
            field(1, name),
            number_field(2, 40),
            field(4, time(self.renewed)),
        ];
        [field(1, metadata.concat()), field(2, spec.concat())].concat()
    }

    /// With its fields in the order in which a kube-apiserver writes them.
    fn json(&self) -> String {
        let (name, node, uid, version) = (&self.name, self.owner(), self.uid(), self.version);
        let (created, renewed, stamp) = (self.created, self.renewed, self.stamp);
        let owned = owned(&node);
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"kube-node-lease","uid":"{uid}","resourceVersion":"{version}","creationTimestamp":"{created}","ownerReferences":[{{"apiVersion":"v1","kind":"Node","name":"{name}","uid":"{node}"}}],"managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"coordination.k8s.io/v1","time":"{stamp}","fieldsType":"FieldsV1","fieldsV1":{owned}}}]}},"spec":{{"holderIdentity":"{name}","leaseDurationSeconds":40,"renewTime":"{renewed:.6}"}}}}"#
        )
    }
}

/// The resourceVersion of the first lease in the list with this number; that of the list is later.
fn version(number: i64) -> i64 {
    1_000_000 + 10_000 * number
}

/// The list of a shoot with this number, in protobuf.
fn leases(number: i64, shoot: usize, count: i64) -> Vec<u8> {
    let newest = version(number + 1).to_string();
    let mut list = field(1, texts(&[(1, ""), (2, &newest), (3, "")]));
    list.extend(Renewed::all(number, shoot, count).flat_map(|it| field(2, it.protobuf())));
    let kind = texts(&[(1, "coordination.k8s.io/v1"), (2, "LeaseList")]);
    let body = [field(1, kind), field(2, list), field(3, ""), field(4, "")];
    [b"k8s\0", &*body.concat()].concat()
}

/// The same in JSON.
fn leases_in_json(number: i64, shoot: usize, count: i64) -> Vec<u8> {
    let items: Vec<String> = Renewed::all(number, shoot, count)
        .map(|it| it.json())
        .collect();
    let (newest, items) = (version(number + 1), items.join(","));
    format!(
        r#"{{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","metadata":{{"resourceVersion":"{newest}"}},"items":[{items}]}}"#
    )
    .into_bytes()
}

/// A time as a message.
fn time(at: Timestamp) -> Vec<u8> {
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
fn moment(number: usize) -> MonoTime {
    MonoTime::from_nanos(1_000_000_000_000)
        + Duration::from_secs(10) * u32::try_from(number).unwrap()
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
