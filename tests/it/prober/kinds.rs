//! The kinds of dependents over a scripted seed: how often they are looked up, and what is believed
//! when a seed does not serve one any more.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use crate::support::{
    Call, Failure, Seed, Stage, deselected, info, new_protector, put_workload, run, selected,
    verdict,
};
use dependency_watchdog::{
    api::Protection,
    prober::{plan::Aim, protector::Protector, scale::Scaler},
    runtime::seed::{Budget, REQUEST_LIMIT, Seed as Turns},
};
use futures::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};
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

/// The policy names a version that an upgrade of the kind's owner has withdrawn, and the version that
/// takes its place is not served yet. The object is still there, at zero.
#[test]
fn what_is_owed_is_not_gone_with_its_version() {
    run(async {
        let mut stage = Stage::new(&[optional("Etcd", "first", 0), info("Deployment", "kcm", 1)]);
        stage.act(Aim::Protect).await;
        stage.assert_down("etcds", "first", "protected");
        stage.seed.serve_etcds(&[]);
        // However often it is said: the policy names it.
        for _ in 0..5 {
            stage.act(Aim::Restore).await;
            let problems = stage.problems();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!(problems[0].reason, "KindUnknown");
            assert_ne!(stage.protector.machine().protection(), Protection::None);
            stage.assert_down("etcds", "first", "not served");
        }
        stage.seed.serve_etcds(&["v1alpha1"]);
        stage.act(Aim::Restore).await;
        stage.assert_up("etcds", "first", "served again");
        assert_eq!(stage.protector.machine().protection(), Protection::None);
    });
}

/// The object is the same under each version. A version may be served without the scale subresource.
#[rstest]
fn what_is_owed_is_reached_by_another_version(
    #[values(false, true)] let_go: bool,
    #[values(&["v1", "v1beta1"], &["v1alpha1", "v1"])] served: &'static [&'static str],
) {
    run(async move {
        let mut stage = Stage::new(&[info("Etcd", "first", 0), info("Deployment", "kcm", 1)]);
        stage.act(Aim::Protect).await;
        stage.assert_down("etcds", "first", "protected");
        stage.seed.serve_etcds(served);
        stage.seed.serve_etcds_without_scale(&["v1alpha1"]);
        if let_go {
            stage.protector.learn(deselected(&stage.settings));
        }
        stage.seed.forget_calls();
        stage.act(Aim::Restore).await;
        assert_eq!(stage.problems(), []);
        assert_eq!(stage.replicas("etcds", "first"), 3);
        assert_eq!(stage.replicas("deployments", "kcm"), 3);
        assert_eq!(stage.protector.machine().protection(), Protection::None);
        let writes = stage.seed.writes();
        let of_etcds = writes
            .iter()
            .filter(|call| call.resource.starts_with("etcds"));
        let versions: BTreeSet<&str> = of_etcds.map(|call| &*call.api_version).collect();
        assert_eq!(versions, BTreeSet::from(["druid.gardener.cloud/v1"]));
    });
}

/// A policy is written for the next release of the kind's owner, or for the last.
#[test]
fn what_is_served_in_another_version_is_protected() {
    run(async {
        let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
        stage.seed.serve_etcds(&["v1beta1"]);
        for _ in 0..3 {
            stage.act(Aim::Protect).await;
            stage.assert_down("etcds", "first", "protected");
            stage.act(Aim::Restore).await;
            stage.assert_up("etcds", "first", "restored");
        }
        assert_eq!(lookups(&stage.seed), 1);
    });
}

/// That the path is not there is no word of the kind, unless it is the seed that says so.
#[rstest]
#[case::a_proxy_that_has_lost_its_way(Failure::Unserved)]
#[case::forbidden(Failure::Status(403))]
#[case::unavailable(Failure::Status(503))]
fn a_kind_is_not_unknown_unless_the_groups_are_known(#[case] failure: Failure) {
    run(async move {
        let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
        stage.seed.serve_etcds(&[]);
        stage
            .seed
            .fail(failure, (0, usize::MAX), |call| call.resource == "/apis");
        stage.act(Aim::Protect).await;
        assert_ne!(stage.problems()[0].reason, "KindUnknown");
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
fn protectors(stage: &Stage) -> Vec<Protector> {
    let scaler = Scaler::new(stage.seed.unlimited());
    ["a", "b", "c"]
        .map(|cluster| protector(stage, cluster, &scaler))
        .into()
}

fn protector(stage: &Stage, cluster: &str, scaler: &Scaler) -> Protector {
    put_workload(&stage.seed, "Etcd", cluster, "first", 3);
    let mut protector = new_protector(cluster, scaler, None);
    protector.learn(selected(&stage.settings));
    protector
}

/// Follows what is under way for that long.
async fn follow(protectors: &mut [Protector], time: Duration) {
    let follow = async |protector: &mut Protector| {
        let end = Instant::now() + time;
        while timeout_at(end, protector.progress()).await.is_ok() {}
    };
    join_all(protectors.iter_mut().map(follow)).await;
}

/// The flows of many clusters begin at the same moment.
#[rstest]
#[case::served(true)]
#[case::not_served(false)]
fn who_asks_together_asks_once(#[case] served: bool) {
    run(async move {
        let stage = Stage::new(&[info("Etcd", "first", 0)]);
        if !served {
            stage.seed.serve_etcds(&[]);
        }
        let release = stage.seed.hold(|call| call.brief() == DISCOVERY);
        let mut protectors = protectors(&stage);
        for protector in &mut protectors {
            verdict(protector, Aim::Protect);
        }
        // All of them have begun, and wait.
        let time = Duration::from_secs(5);
        follow(&mut protectors, time).await;
        assert_eq!(lookups(&stage.seed), 1);
        release.send(()).unwrap();
        follow(&mut protectors, time).await;
        assert_eq!(lookups(&stage.seed), 1);
        for protector in &protectors {
            let active = protector.machine().protection() == Protection::Active;
            assert_eq!(active, served);
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
        let mut protectors = protectors(&stage);
        for protector in &mut protectors {
            verdict(protector, Aim::Protect);
        }
        follow(&mut protectors, REQUEST_LIMIT + Duration::from_millis(1)).await;
        assert_eq!(lookups(&stage.seed), 1);
        for protector in &protectors {
            let problems: Vec<_> = protector.machine().debts().problems().collect();
            assert_eq!(problems[0].reason, "ScalingFailed");
            assert!(problems[0].message.contains("did not answer"));
        }
        // It is not remembered.
        for protector in &mut protectors {
            verdict(protector, Aim::Protect);
        }
        follow(&mut protectors, Duration::from_secs(5)).await;
        assert_eq!(lookups(&stage.seed), 2);
        for protector in &protectors {
            assert_eq!(protector.machine().protection(), Protection::Active);
        }
    });
}

/// It was another one's, and over before it was the turn of this.
#[test]
fn who_has_not_waited_for_a_failure_does_not_fail_by_it() {
    run(async {
        let stage = Stage::new(&[info("Etcd", "first", 0)]);
        stage
            .seed
            .fail(Failure::Status(503), (0, usize::MAX), |call| {
                call.brief() == DISCOVERY
            });
        let budget = Budget {
            qps: 1.0,
            burst: NonZeroU32::MIN,
        };
        let busy = Turns::new(stage.seed.unlimited().client().clone(), budget);
        busy.turn().await;
        let idle = Scaler::new(stage.seed.unlimited());
        let busy = idle.by(busy);
        let mut protectors = [protector(&stage, "a", &busy), protector(&stage, "b", &idle)];
        for protector in &mut protectors {
            verdict(protector, Aim::Protect);
        }
        let failed = |protector: &Protector| {
            let mut problems = protector.machine().debts().problems();
            problems.any(|it| it.reason == "ScalingFailed")
        };
        follow(&mut protectors, Duration::from_millis(1)).await;
        assert_eq!(protectors.each_ref().map(failed), [false, true]);
        stage.seed.heal();
        follow(&mut protectors, Duration::from_secs(1)).await;
        assert_eq!(lookups(&stage.seed), 2);
        assert_eq!(protectors.each_ref().map(failed), [false, true]);
    });
}

/// It is asked for at every look of every cluster.
#[test]
fn a_kind_that_is_not_served_is_asked_for_now_and_then() {
    run(async {
        let mut stage = Stage::new(&[info("Etcd", "first", 0)]);
        stage.seed.serve_etcds(&[]);
        for lookups_by_then in [1, 1, 1, 2] {
            stage.verdict(Aim::Protect);
            stage.advance(Duration::from_millis(3_400)).await;
            assert_eq!(lookups(&stage.seed), lookups_by_then);
            assert_eq!(stage.problems()[0].reason, "KindUnknown");
        }
    });
}
