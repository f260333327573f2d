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
    prober::{lease_judge::LeaseJudge, verdict::LeaseRules},
    runtime::watch::Change,
    shoot::{Consistency, Lease, LeaseRead, List},
    util::mono_time::MonoTime,
};
use divan::{Bencher, counter::BytesCount};
use fake::farm::{self, Kubelets};
use jiff::Timestamp;
use serde_json::json;

/// As many nodes as Kubernetes supports in one cluster.
const LEASES: usize = 5_000;
/// Ten times as many clusters as a seed is meant to host.
const CLUSTERS: usize = 10_000;
/// Nodes of each of these.
const FEW_LEASES: usize = 5;
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

/// Successive lists of leases.
static LEASE_LISTS: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| (0..LISTS).map(|number| leases(number, 0, LEASES)).collect());

fn main() {
    divan::main();
}

/// One list of leases, from its bytes.
#[divan::bench]
fn decode_5000_leases(bencher: Bencher<'_, '_>) {
    let body = LEASE_LISTS.first().unwrap();
    bencher
        .counter(BytesCount::of_slice(body))
        .bench(|| List::<Lease>::decode(black_box(body)).unwrap());
}

/// What follows from a list in which all have renewed: ages, verdict, and when to read again.
#[divan::bench]
fn judge_5000_leases(bencher: Bencher<'_, '_>) {
    let lists = LEASE_LISTS.iter().enumerate();
    let lists = lists.map(|(number, body)| read(List::decode(body).unwrap(), number));
    let lists: Vec<LeaseRead> = lists.collect();
    let (last, before) = lists.split_last().unwrap();
    let mut watch = LeaseJudge::new(RULES);
    for list in before {
        watch.observe(list);
    }
    bencher
        .with_inputs(|| watch.clone())
        .bench_local_refs(|watch| {
            watch.observe(last);
            watch.conclude();
            watch.next(moment(before.len()), 0.5)
        });
}

/// When each of many clusters is read next. Each has its own memory, most of which no cache holds when it is
/// its turn.
#[divan::bench]
fn schedule_10000_clusters(bencher: Bencher<'_, '_>) {
    let watch = |shoot| {
        let list = List::<Lease>::decode(&leases(0, shoot, FEW_LEASES)).unwrap();
        let mut watch = LeaseJudge::new(RULES);
        watch.observe(&read(list, 0));
        watch
    };
    let watches: Vec<LeaseJudge> = (0..CLUSTERS).map(watch).collect();
    let next = || {
        let turns = (0..CLUSTERS).map(|turn| turn * STRIDE % CLUSTERS);
        turns
            .filter_map(|place| {
                let draw = place as f64 / CLUSTERS as f64;
                let watch = watches.get(place)?;
                Some(watch.next(moment(0), black_box(draw)))
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
            (index.clusters_changed(Change::All(clusters)), index)
        });
}

/// One Cluster of many changes, as each does at every reconciliation, but in nothing that matters.
#[divan::bench]
fn update_one_of_10000_clusters(bencher: Bencher<'_, '_>) {
    let mut index = selecting();
    index.clusters_changed(Change::All((0..CLUSTERS).map(cluster).collect()));
    bencher
        .with_inputs(|| cluster(CLUSTERS / 2))
        .bench_local_values(|cluster| index.clusters_changed(Change::Put(cluster)));
}

/// The list of a shoot with this number, as a kube-apiserver encodes what kubelets renew.
fn leases(number: i64, shoot: usize, nodes: usize) -> Vec<u8> {
    let begin = Timestamp::from_second(DATE).unwrap().as_microsecond();
    let kubelets = Kubelets::new(shoot, nodes, Duration::from_secs(10), begin);
    farm::leases(shoot, &kubelets, 40, begin + 10_000_000 * number)
}

/// When the list with this number was read, on our clock.
fn moment(number: usize) -> MonoTime {
    MonoTime::from_nanos(1_000_000_000_000)
        + Duration::from_secs(10) * u32::try_from(number).unwrap()
}

fn read(list: List<Lease>, number: usize) -> LeaseRead {
    let finished = moment(number);
    LeaseRead {
        started: finished - Duration::from_millis(20),
        finished,
        date: Some(DATE + 10 * i64::try_from(number).unwrap()),
        consistency: Consistency::Cached,
        bytes: 0,
        list,
    }
}

/// An index with a policy that selects all.
fn selecting() -> Index {
    let mut index = Index::default();
    let text = include_str!("../docs/examples/probe-policy.yaml");
    let policy: ProbePolicy = serde_saphyr::from_str(text).unwrap();
    index.policies_changed(Change::All(vec![Policy::new(&policy)]));
    index
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
