use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::SignedDuration};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    api::DependentStatus,
    cluster::{Assignment, PolicyHold, Selected, Settings},
    prober::{
        fixtures::dependent,
        lease_judge::Conclusion,
        verdict::{Assessment, Doubt, Verdict},
    },
};

fn now() -> Now {
    Now {
        mono: Instant::now(),
        wall: k8s_openapi::jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A Cluster that is probed with Enforce, and may be protected for ten minutes. This is its grace period.
fn probed(grace: u64) -> Box<Assignment> {
    let spec = serde_json::from_value(json!({
        "mode": "Enforce", "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
        "initialDelay": "0s", "maxProtection": "10m", "dependentResourceInfos": [],
    }));
    let cluster = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {"shoot": {"spec": {"kubernetes": {
            "kubeControllerManager": {"nodeMonitorGracePeriod": format!("{grace}s")},
        }}}},
    }));
    let template = Settings::of_policy("p".into(), &spec.unwrap());
    Box::new(Assignment {
        uid: "uid".into(),
        skip: None,
        selected: Some(Selected {
            policy: "p".into(),
            hold: PolicyHold::default(),
            settings: template.for_cluster(&cluster.unwrap()).map(Arc::new),
            outranked: vec![],
        }),
        former: None,
    })
}

/// A cluster that an earlier run has left protected for so many minutes.
fn protected(minutes: i64, protection: Protection) -> Decider {
    recalled(minutes, protection, &["d"])
}

/// The same with these dependents, of which the first is owed its replicas.
fn recalled(minutes: i64, protection: Protection, names: &[&str]) -> Decider {
    let ago = |minutes| Time(now().wall - SignedDuration::from_mins(minutes));
    let dependents = names
        .iter()
        .enumerate()
        .map(|(place, name)| DependentStatus {
            r#ref: dependent(name, 0, 0).reference,
            recorded_replicas: Some(3),
            owed: place == 0,
            keeps_mark: false,
            level: 0,
            initial_delay: Duration::ZERO.into(),
            timeout: Duration::ZERO.into(),
        });
    let known = ClusterHealthStatus {
        protection,
        protected_since: Some(ago(minutes)),
        dependents: dependents.collect(),
        ..ClusterHealthStatus::default()
    };
    let (object, flags) = (probed(40), (false, true));
    let mut decider = Decider::recall(Some(&known), object.clone(), flags, now());
    let _ = learn(&mut decider, Input::Objects(object));
    decider
}

/// The leases are judged like this, which were read of a cluster that was protected, or was not.
fn judge(decider: &mut Decider, verdict: Verdict, protected: bool) -> Vec<Effect> {
    let conclusion = conclusion(verdict, protected);
    learn(decider, Input::Leases(Ok(&conclusion), None))
}

/// It learns this, and need not wait for its turn.
fn learn(decider: &mut Decider, input: Input<'_>) -> Vec<Effect> {
    let now = now();
    decider.step(input, now, || now.mono)
}

fn conclusion(verdict: Verdict, protected: bool) -> Conclusion {
    Conclusion {
        verdict,
        assessment: Assessment {
            candidates: 3,
            expired: 3,
            silent: 3,
            needed: 2,
            protected,
            period: Duration::from_secs(10),
            ..Assessment::default()
        },
        provable: None,
        decides: true,
        onset: None,
        returning: Returning::default(),
    }
}

/// Whether `maxProtection` ends it.
#[rstest]
#[case::not_yet(9, Protection::Active, Verdict::Outage, false)]
#[case::too_long(10, Protection::Active, Verdict::Outage, true)]
#[case::under_way(10, Protection::Restoring, Verdict::Healthy, false)]
#[case::stuck(
    10,
    Protection::Restoring,
    Verdict::Undetermined(Doubt::Recovering),
    true
)]
#[case::silent_again(10, Protection::Restoring, Verdict::Outage, true)]
#[case::healthy(10, Protection::Active, Verdict::Healthy, false)]
fn a_protection_is_ended(
    #[case] minutes: i64,
    #[case] protection: Protection,
    #[case] verdict: Verdict,
    #[case] expected: bool,
) {
    let mut decider = protected(minutes, protection);
    let _ = judge(&mut decider, verdict, true);
    assert_eq!(decider.cut().is_some(), expected);
}

/// Fresh leases that do not count are evidence against an outage that begins, and none for its end.
#[test]
fn a_verdict_on_a_cluster_that_was_not_protected_restores_nothing() {
    let mut decider = protected(1, Protection::Active);
    let _ = judge(&mut decider, Verdict::Healthy, false);
    assert_eq!(decider.dependents.aim(), Aim::Leave);
    let _ = judge(&mut decider, Verdict::Healthy, true);
    assert_eq!(decider.dependents.aim(), Aim::Up);
}

/// What was asked before the Cluster changed says nothing of what there is now.
#[test]
fn a_change_is_confirmed_anew() {
    let (object, flags) = (probed(40), (false, true));
    let mut decider = Decider::recall(None, object.clone(), flags, now());
    let _ = learn(&mut decider, Input::Objects(object));
    let asked = judge(&mut decider, Verdict::Outage, false);
    assert!(asked.contains(&Effect::Confirm), "{asked:?}");
    let asked = learn(&mut decider, Input::Objects(probed(40)));
    assert!(asked.contains(&Effect::Confirm), "{asked:?}");
    assert_eq!(decider.dependents.aim(), Aim::Leave);
    let _ = learn(&mut decider, Input::Confirmed(Confirmation::AsKnown));
    assert_eq!(decider.dependents.aim(), Aim::Down);
}

/// What an earlier leader has left may be a part of what is to be down.
#[test]
fn what_a_new_leader_takes_is_confirmed() {
    let mut in_part = recalled(1, Protection::Active, &["d", "e"]);
    let asked = judge(&mut in_part, Verdict::Outage, true);
    assert!(asked.contains(&Effect::Confirm), "{asked:?}");
}

fn after(seconds: u64) -> Now {
    let Now { mono, wall } = now();
    let seconds = Duration::from_secs(seconds);
    Now {
        mono: mono + seconds,
        wall: wall + seconds,
    }
}

/// The verdict may be too old when its turn comes, and a Gate that does not pass comes before it.
#[rstest]
#[case::in_time(10, None, true)]
#[case::too_late(400, None, false)]
#[case::held_back(10, Some("it fails"), false)]
fn a_restore_begins_with_its_turn(
    #[case] seconds: u64,
    #[case] gate: Option<&str>,
    #[case] expected: bool,
) {
    let mut decider = protected(9, Protection::Active);
    let healthy = conclusion(Verdict::Healthy, true);
    let turn = || after(seconds).mono;
    let leases = Input::Leases(Ok(&healthy), gate.map(str::to_owned));
    let _ = decider.step(leases, now(), turn);
    assert_eq!(
        decider.told.held_back == Some(HeldBack::PACED),
        gate.is_none()
    );
    assert_eq!(decider.dependents.aim(), Aim::Leave);
    let _ = decider.step(Input::Time, after(seconds + 1), turn);
    assert_eq!(decider.dependents.aim() == Aim::Up, expected);
}
