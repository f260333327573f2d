use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    api::ClusterHealthStatus,
    cluster::{
        Assignment, Deletion, Eligibility, PolicyHold, Selected, SettingsError, Skip, Template,
    },
    prober::{
        fixtures::dependent,
        flow::What,
        plan::{Aim, Purpose, Settled},
        verdict::{Assessment, Doubt, Verdict},
        watch::Conclusion,
    },
};

fn now() -> Now {
    Now {
        mono: Instant::now(),
        wall: Timestamp::UNIX_EPOCH,
    }
}

/// A Cluster that is being deleted, and selected by a policy.
fn deleting() -> ClusterObject {
    let problems = String::new();
    let policy: Arc<str> = "p".into();
    ClusterObject::There(Box::new(Assignment {
        uid: "uid".into(),
        eligibility: Eligibility::Skipped(Skip::Deleting(Deletion::Cluster)),
        reconciled: true,
        selected: Some(Selected {
            policy: policy.clone(),
            hold: PolicyHold::default(),
            settings: Err(SettingsError::Policy { policy, problems }),
            outranked: vec![],
        }),
        former: None,
    }))
}

/// A Cluster that is probed, of which this is the grace period, and perhaps not yet that of its
/// kube-controller-manager.
fn probed(grace: u64, reconciled: bool) -> ClusterObject {
    let spec = serde_json::from_value(json!({
        "mode": "Enforce", "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
        "dependentResourceInfos": [],
    }));
    let cluster = serde_json::from_value(json!({
        "metadata": {"name": "c"},
        "spec": {"shoot": {"spec": {"kubernetes": {
            "kubeControllerManager": {"nodeMonitorGracePeriod": format!("{grace}s")},
        }}}},
    }));
    let template = Template::new("p".into(), &spec.unwrap()).unwrap();
    let settings = template.settings(&cluster.unwrap()).map(Arc::new);
    ClusterObject::There(Box::new(Assignment {
        uid: "uid".into(),
        eligibility: Eligibility::Probed,
        reconciled,
        selected: Some(Selected {
            policy: "p".into(),
            hold: PolicyHold::default(),
            settings,
            outranked: vec![],
        }),
        former: None,
    }))
}

/// What an earlier run has left, and what the Cluster says one time after the other: its grace period, and
/// whether Gardener has reconciled that.
#[rstest]
#[case::the_first_that_is_known(None, &[(120, false)], 120)]
#[case::longer_and_reconciled(None, &[(40, true), (120, true)], 120)]
#[case::longer_and_not_yet(None, &[(40, true), (120, false)], 40)]
#[case::longer_and_then_reconciled(None, &[(40, true), (120, false), (120, true)], 120)]
#[case::shorter_and_not_yet(None, &[(120, true), (40, false)], 40)]
#[case::taken_back(None, &[(40, true), (120, false), (40, false), (120, false)], 40)]
#[case::longer_over_a_failover(Some(40), &[(120, false)], 40)]
#[case::reconciled_over_a_failover(Some(40), &[(120, true)], 120)]
#[case::shorter_over_a_failover(Some(120), &[(40, false)], 40)]
// Whoever leads while the policy is suspended keeps what is known.
#[case::not_probed(Some(40), &[], 40)]
#[case::nonsense(Some(0), &[(120, false)], 120)]
fn the_grace_that_counts_is_the_one_that_the_cluster_has(
    #[case] recorded: Option<u16>,
    #[case] told: &[(u64, bool)],
    #[case] grace: u64,
) {
    let known = ClusterHealthStatus {
        node_monitor_grace_period: recorded.map(crate::api::Duration::from_secs),
        ..ClusterHealthStatus::default()
    };
    let gone = ClusterObject::Gone(PolicyHold::default());
    let mut machine = ClusterMachine::recall(Some(&known), gone, (false, true), now());
    for (grace, reconciled) in told {
        let _ = machine.step(Input::Objects(probed(*grace, *reconciled)), now());
    }
    assert_eq!(machine.grace(), Some(Duration::from_secs(grace)));
}

/// What is found of the last dependent that is owed anything is told, although the cluster is forgotten by
/// that.
#[test]
fn what_is_left_at_zero_is_told_when_nothing_is_owed_any_more() {
    let it = dependent("d", 0, 0);
    let mut debts = Debts::default();
    debts.adopt(std::slice::from_ref(&it));
    let taken = What::Did(crate::prober::plan::Step::ScaleDown { from: 3 }, None);
    debts.note(&it, &taken, false, now().mono);
    let known = ClusterHealthStatus {
        protection: Protection::Active,
        dependents: debts.status(),
        ..ClusterHealthStatus::default()
    };
    let flags = (false, true);
    let mut machine = ClusterMachine::recall(Some(&known), deleting(), flags, now());
    let begun = machine.step(Input::Objects(deleting()), now());
    assert_eq!(begun, [], "it is due at once");
    let begun = machine.step(Input::Time, now());
    let [Effect::Start(plan)] = &*begun else {
        panic!("{begun:?}");
    };
    assert_eq!(plan.purpose, Purpose::of(Aim::Release));
    let event = FlowEvent {
        at: now().mono,
        dependent: it,
        uid: None,
        what: What::Settled(Settled::Ignored { at_zero: true }, None),
    };
    let told = machine.step(Input::Flow(&event), now());
    let [Effect::Tell { problem, owed }, ..] = &*told else {
        panic!("{told:?}");
    };
    let reason = problem.as_ref().map(|problem| problem.reason);
    assert_eq!((reason, *owed), (Some("IgnoredAtZero"), None));
    assert!(!machine.is_engaged());
}

/// A cluster that is probed with Enforce, and may be protected for ten minutes.
fn bounded() -> ClusterObject {
    let spec = serde_json::from_value(json!({
        "mode": "Enforce", "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
        "initialDelay": "0s", "maxProtection": "10m",
        "dependentResourceInfos": [
            {"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "optional": false},
        ],
    }));
    let cluster = json!({"metadata": {"name": "c"}, "spec": {"shoot": {}}});
    let cluster = serde_json::from_value(cluster).unwrap();
    let template = Template::new("p".into(), &spec.unwrap()).unwrap();
    ClusterObject::There(Box::new(Assignment {
        uid: "uid".into(),
        eligibility: Eligibility::Probed,
        selected: Some(Selected {
            policy: "p".into(),
            hold: PolicyHold::default(),
            settings: Ok(template.settings(&cluster).unwrap().into()),
            outranked: vec![],
        }),
        former: None,
        reconciled: true,
    }))
}

fn an_outage() -> Conclusion {
    Conclusion {
        verdict: Verdict::Outage,
        assessment: Assessment {
            candidates: 3,
            expired: 3,
            silent: 3,
            needed: 2,
            protected: true,
            period: Duration::from_secs(10),
            ..Assessment::default()
        },
        provable: None,
        decides: true,
        onset: None,
        returning: Returning::default(),
    }
}

/// The outage at hand may have begun within a restore.
#[rstest]
#[case::young(20, 9, false)]
#[case::old(20, 10, true)]
#[case::of_a_protection_before(9, 20, false)]
fn a_new_leader_measures_from_the_last_outage(
    #[case] since: i64,
    #[case] last: i64,
    #[case] expected: bool,
) {
    let mut machine = protected_again(since, Some(last), Protection::Active);
    let _ = machine.step(Input::Leases(Leases::Judged(&an_outage()), None), now());
    assert_eq!(machine.cut().is_some(), expected);
}

/// A restore is under way, or stuck since too few nodes are back.
#[rstest]
#[case::stuck(Verdict::Undetermined(Doubt::Recovering), true)]
// That is another protection.
#[case::silent_again(Verdict::Outage, false)]
#[case::under_way(Verdict::Healthy, false)]
fn a_restore_that_is_stuck_is_ended(#[case] verdict: Verdict, #[case] expected: bool) {
    let mut machine = protected(10, Protection::Restoring);
    let _ = judge(&mut machine, verdict, now());
    assert_eq!(machine.cut().is_some(), expected);
}

/// A cut that has yet to come is not believed.
#[test]
fn a_cut_of_the_future_is_none() {
    for (minutes, expected) in [(-5, true), (5, false)] {
        let at = now().wall + k8s_openapi::jiff::SignedDuration::from_mins(minutes);
        let known = ClusterHealthStatus {
            max_protection_reached: Some(Time(at)),
            ..ClusterHealthStatus::default()
        };
        let object = bounded();
        let machine = ClusterMachine::recall(Some(&known), object, (false, true), now());
        assert_eq!(machine.cut().is_some(), expected);
    }
}

/// A cluster that has been protected for so many minutes.
fn protected(minutes: i64, protection: Protection) -> ClusterMachine {
    protected_again(minutes, None, protection)
}

/// The same, whose last outage began so many minutes ago.
fn protected_again(minutes: i64, last: Option<i64>, protection: Protection) -> ClusterMachine {
    let it = dependent("d", 0, 0);
    let mut debts = Debts::default();
    debts.adopt(std::slice::from_ref(&it));
    let taken = What::Did(crate::prober::plan::Step::ScaleDown { from: 3 }, None);
    debts.note(&it, &taken, false, now().mono);
    let ago = |minutes| Time(now().wall - k8s_openapi::jiff::SignedDuration::from_mins(minutes));
    let known = ClusterHealthStatus {
        protection,
        protected_since: Some(ago(minutes)),
        recent_protections: last.into_iter().map(ago).collect(),
        dependents: debts.status(),
        ..ClusterHealthStatus::default()
    };
    let flags = (false, true);
    let mut machine = ClusterMachine::recall(Some(&known), bounded(), flags, now());
    let _ = machine.step(Input::Objects(bounded()), now());
    machine
}

/// Flapping counts a protection from its first request, however long it took to scale everything down.
#[test]
fn a_protection_begins_with_its_scale_down() {
    let mut machine = protected(5, Protection::ScalingDown);
    let since = machine.protected_since().unwrap();
    let conclusion = an_outage();
    let _ = machine.step(Input::Leases(Leases::Judged(&conclusion), None), now());
    let _ = machine.step(Input::Confirmed(Confirmation::Read), now());
    assert_eq!(machine.recent_protections(), []);
    let _ = machine.step(Input::FlowEnded(Ending::Complete), now());
    assert_eq!(machine.protection(), Protection::Active);
    assert_eq!(machine.recent_protections(), [since.stamp]);
}

/// A protection of so many minutes.
#[rstest]
#[case::too_long(10, true)]
#[case::not_yet(9, false)]
fn a_protection_is_ended(#[case] minutes: i64, #[case] expected: bool) {
    let mut machine = protected(minutes, Protection::Active);
    let conclusion = an_outage();
    let _ = machine.step(Input::Leases(Leases::Judged(&conclusion), None), now());
    assert_eq!(machine.cut().is_some(), expected);
}

/// The leases are judged like this, and nothing else is amiss.
fn judge(machine: &mut ClusterMachine, verdict: Verdict, now: Now) -> Vec<Effect> {
    let conclusion = Conclusion {
        verdict,
        ..an_outage()
    };
    let leases = Leases::Judged(&conclusion);
    machine.step(Input::Leases(leases, None), now)
}

fn after(seconds: u64) -> Now {
    let now = now();
    Now {
        mono: now.mono + Duration::from_secs(seconds),
        wall: now.wall + Duration::from_secs(seconds),
    }
}

/// It was protected while the leases were read, of which less is asked of a cluster that is not: fresh leases that
/// do not count are evidence against an outage that begins, and none for its end.
#[test]
fn a_verdict_on_a_cluster_that_was_not_protected_restores_nothing() {
    let mut machine = protected(1, Protection::Active);
    let mut conclusion = an_outage();
    conclusion.verdict = Verdict::Healthy;
    conclusion.assessment.protected = false;
    let effects = machine.step(Input::Leases(Leases::Judged(&conclusion), None), now());
    assert!(effects.is_empty(), "{effects:?}");
    assert_eq!(machine.awaits_turn(), None);
    assert!(judge(&mut machine, Verdict::Healthy, now()).is_empty());
    assert!(machine.awaits_turn().is_some());
}

/// A protection of a minute, and a healthy verdict.
fn waiting() -> ClusterMachine {
    let mut machine = protected(1, Protection::Active);
    assert!(judge(&mut machine, Verdict::Healthy, now()).is_empty());
    assert_eq!(machine.held_back(), Some(&HeldBack::Paced));
    machine
}

#[rstest]
#[case::in_time(10, true)]
#[case::when_the_verdict_does_not_count_any_more(300, false)]
fn a_restore_begins_with_its_turn(#[case] later: u64, #[case] begins: bool) {
    let mut machine = waiting();
    let effects = machine.step(Input::Turn, after(later));
    let begun = matches!(effects[..], [Effect::Start(_)]);
    assert_eq!(begun, begins);
    let protection = match begins {
        true => Protection::Restoring,
        false => Protection::Active,
    };
    assert_eq!(machine.protection(), protection);
    assert_eq!(machine.held_back(), None);
    assert_eq!(machine.awaits_turn(), None);
}

#[test]
fn doubt_ends_the_wait_for_a_turn_but_keeps_its_place() {
    let mut machine = waiting();
    let place = machine.awaits_turn();
    assert!(place.is_some());
    let doubt = Verdict::Undetermined(Doubt::NoWrites);
    assert!(judge(&mut machine, doubt, after(5)).is_empty());
    assert_eq!((machine.awaits_turn(), machine.held_back()), (None, None));
    assert!(machine.step(Input::Turn, after(6)).is_empty());
    assert!(judge(&mut machine, Verdict::Healthy, after(10)).is_empty());
    assert_eq!(machine.awaits_turn(), place);
    // An outage begins it anew.
    let _ = judge(&mut machine, Verdict::Outage, after(15));
    assert_eq!(machine.awaits_turn(), None);
}

/// It may be restored, which `maxProtection` has no part in.
#[test]
fn no_protection_is_ended_that_waits_for_its_turn() {
    let mut machine = protected(9, Protection::Active);
    for seconds in [0, 120] {
        assert!(judge(&mut machine, Verdict::Healthy, after(seconds)).is_empty());
    }
    assert_eq!(machine.cut(), None);
    assert!(machine.awaits_turn().is_some());
}
