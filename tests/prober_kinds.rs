//! The kinds of dependents over a scripted seed: how often they are looked up, and what is believed
//! when a seed does not serve one any more.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::time::Duration;

use dependency_watchdog::{
    api::Protection,
    prober::{guard::Guard, plan::Aim, scale::Resources},
    runtime::seed::REQUEST_LIMIT,
};
use futures::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};
use support::{Call, Failure, INTERVAL, Seed, Stage, info, put_workload, run};
use tokio::time::{Instant, timeout_at};

const DISCOVERY: &str = "GET /apis/druid.gardener.cloud/v1alpha1";

fn lookups(seed: &Seed) -> usize {
    let briefs = seed.briefs();
    briefs.iter().filter(|call| *call == DISCOVERY).count()
}

fn optional(kind: &str, name: &str, level: i32) -> Value {
    let mut info = info(kind, name, level);
    info["optional"] = json!(true);
    info
}

/// Whatever is of the kind, and its discovery, is not served any more.
fn withdraw(seed: &Seed) {
    seed.fail(Failure::Unserved, (0, usize::MAX), |call: &Call| {
        call.resource.contains("druid") || call.resource.starts_with("etcds")
    });
}

/// The policy names a version that an upgrade of the kind's owner has withdrawn. The object is still
/// there, at zero.
#[test]
fn what_is_owed_is_not_gone_with_its_version() {
    run(async {
        let mut stage = Stage::new(&[optional("Etcd", "first", 0), info("Deployment", "kcm", 1)]);
        stage.act(Aim::Protect).await;
        stage.assert_down("etcds", "first", "protected");
        withdraw(&stage.seed);
        stage.act(Aim::Restore).await;
        let problems = stage.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].reason, "KindUnknown");
        assert_ne!(stage.guard.protection(), Protection::None);
        stage.assert_down("etcds", "first", "not served");

        // The policy is corrected, or the version served again.
        stage.seed.heal();
        stage.act(Aim::Restore).await;
        stage.assert_up("etcds", "first", "served again");
        assert_eq!(stage.guard.protection(), Protection::None);
    });
}

/// A proxy that has lost its way says nothing of a Deployment.
#[test]
fn what_is_owed_is_not_gone_with_its_path() {
    run(async {
        let mut stage = Stage::new(&[optional("Deployment", "first", 0)]);
        stage.act(Aim::Protect).await;
        stage.seed.fail(Failure::Unserved, (0, usize::MAX), |call| {
            call.resource == "deployments"
        });
        stage.act(Aim::Restore).await;
        assert_eq!(stage.problems()[0].reason, "ScalingFailed");
        stage.assert_down("deployments", "first", "not served");
        stage.seed.heal();
        stage.act(Aim::Restore).await;
        stage.assert_up("deployments", "first", "served again");
    });
}

/// It is looked for again and again, by the path that is known.
#[test]
fn a_dependent_that_is_absent_sends_one_discovery() {
    run(async {
        let mut stage = Stage::new(&[optional("Etcd", "first", 0)]);
        stage.seed.delete("etcds", "a", "first");
        for aim in [Aim::Protect, Aim::Restore, Aim::Protect, Aim::Restore] {
            stage.act(aim).await;
            assert_eq!(stage.problems(), []);
        }
        let reads = stage.seed.briefs();
        let reads = reads.iter().filter(|call| *call == "GET etcds/first");
        assert!(reads.count() >= 4);
        assert_eq!(lookups(&stage.seed), 1);
    });
}

/// Clusters that have the same dependent, with what they know of kinds in common.
fn guards(stage: &Stage) -> Vec<Guard> {
    let resources = Resources::default();
    let guard = |cluster: &str| {
        put_workload(&stage.seed, "Etcd", cluster, "first", 3);
        let seed = stage.seed.unlimited();
        let mut guard = Guard::new(cluster.into(), seed, resources.clone(), None);
        guard.adopt(&stage.settings.dependents);
        guard
    };
    ["a", "b", "c"].map(guard).into()
}

/// Follows what is under way for that long.
async fn follow(guards: &mut [Guard], time: Duration) {
    let follow = async |guard: &mut Guard| {
        let end = Instant::now() + time;
        while timeout_at(end, guard.progress(INTERVAL)).await.is_ok() {}
    };
    join_all(guards.iter_mut().map(follow)).await;
}

/// The flows of many clusters begin at the same moment.
#[rstest]
#[case::served(None)]
#[case::not_served(Some(Failure::Unserved))]
fn who_asks_together_asks_once(#[case] failure: Option<Failure>) {
    run(async move {
        let stage = Stage::new(&[info("Etcd", "first", 0)]);
        if let Some(failure) = failure {
            let discovery = |call: &Call| call.brief() == DISCOVERY;
            stage.seed.fail(failure, (0, usize::MAX), discovery);
        }
        let release = stage.seed.hold(|call| call.brief() == DISCOVERY);
        let mut guards = guards(&stage);
        for guard in &mut guards {
            guard.act(stage.order(Aim::Protect), String::new);
        }
        // All of them have begun, and wait.
        let time = Duration::from_secs(5);
        follow(&mut guards, time).await;
        assert_eq!(lookups(&stage.seed), 1);
        release.send(()).unwrap();
        follow(&mut guards, time).await;
        assert_eq!(lookups(&stage.seed), 1);
        for guard in &guards {
            let active = guard.protection() == Protection::Active;
            assert_eq!(active, failure.is_none());
        }
    });
}

/// Discovery hangs. If each asked anew, one after the other, the last would hear of it when its evidence
/// has long lapsed.
#[test]
fn who_waits_together_fails_together() {
    run(async {
        let stage = Stage::new(&[info("Etcd", "first", 0)]);
        let discovery = |call: &Call| call.brief() == DISCOVERY;
        stage.seed.fail(Failure::Hang, (0, 1), discovery);
        let mut guards = guards(&stage);
        for guard in &mut guards {
            guard.act(stage.order(Aim::Protect), String::new);
        }
        follow(&mut guards, REQUEST_LIMIT + Duration::from_millis(1)).await;
        assert_eq!(lookups(&stage.seed), 1);
        for guard in &guards {
            let problems: Vec<_> = guard.ledger().problems().collect();
            assert_eq!(problems[0].reason, "ScalingFailed");
            assert!(problems[0].message.contains("did not answer"));
        }
        // It is not remembered.
        for guard in &mut guards {
            guard.act(stage.order(Aim::Protect), String::new);
        }
        follow(&mut guards, Duration::from_secs(5)).await;
        assert_eq!(lookups(&stage.seed), 2);
        for guard in &guards {
            assert_eq!(guard.protection(), Protection::Active);
        }
    });
}

/// It is asked for at every look of every cluster.
#[test]
fn a_kind_that_is_not_served_is_asked_for_now_and_then() {
    run(async {
        let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
        withdraw(&stage.seed);
        for lookups_by_then in [1, 1, 1, 2] {
            stage.guard.act(stage.order(Aim::Protect), String::new);
            stage.advance(Duration::from_millis(3_400)).await;
            assert_eq!(lookups(&stage.seed), lookups_by_then);
            assert_eq!(stage.problems()[0].reason, "KindUnknown");
        }
    });
}
