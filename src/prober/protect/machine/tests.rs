use k8s_openapi::jiff::Timestamp;

use super::*;
use crate::{
    api::ClusterHealthStatus,
    cluster::{Assignment, Deletion, Eligibility, PolicyHold, Selected, SettingsError, Skip},
    prober::{
        fixtures::dependent,
        flow::What,
        plan::{Aim, Purpose, Settled},
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
        selected: Some(Selected {
            policy: policy.clone(),
            hold: PolicyHold::default(),
            settings: Err(SettingsError::Policy { policy, problems }),
            outranked: vec![],
        }),
        former: None,
    }))
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
    let [Effect::Tell(noted), ..] = &*told else {
        panic!("{told:?}");
    };
    assert_eq!((noted.owed_before, noted.owed), (Some(Some(3)), None));
    let reason = noted.problem.as_ref().map(|problem| problem.reason);
    assert_eq!(reason, Some("IgnoredAtZero"));
    assert!(!machine.is_engaged());
}
