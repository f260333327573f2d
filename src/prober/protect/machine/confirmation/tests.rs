use k8s_openapi::jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    api::{ClusterHealthStatus, DependentStatus, Protection},
    cluster::{Assignment, Eligibility, PolicyHold, Selected, Skip, Template},
    prober::{
        fixtures,
        flow::{Ending, FlowEvent, What},
        machine::{Input, Leases},
        plan::Settled,
        treatment::ClusterObject,
        verdict::{Assessment, Returning},
    },
    util::now::Now,
};
use Confirmation::{Heard, Otherwise, Read, Unknown};

const PERIOD: Duration = Duration::from_secs(10);

/// A cluster with one dependent, that is probed or has no workers.
fn cluster(mode: &str, probed: bool) -> ClusterObject {
    let spec = serde_json::from_value(json!({
        "mode": mode, "kubeConfigSecretName": "dwd", "kcmNodeMonitorGraceDuration": "40s",
        "initialDelay": "0s",
        "dependentResourceInfos": [
            {"ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "optional": false},
        ],
    }));
    let cluster = json!({"metadata": {"name": "c"}, "spec": {"shoot": {}}});
    let cluster = serde_json::from_value(cluster).unwrap();
    let template = Template::new("p".into(), &spec.unwrap()).unwrap();
    ClusterObject::There(Box::new(Assignment {
        uid: "uid".into(),
        eligibility: match probed {
            true => Eligibility::Probed,
            false => Eligibility::Skipped(Skip::NoWorkers),
        },
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

struct Stage {
    machine: ClusterMachine,
    began: Instant,
}

impl Stage {
    fn new(mode: &str) -> Self {
        let began = Instant::now();
        let now = at(began, 0.0);
        let mut machine = ClusterMachine::recall(None, cluster(mode, true), (false, true), now);
        let _ = machine.step(Input::Objects(cluster(mode, true)), now);
        Self { machine, began }
    }

    /// What is begun and asked at that second.
    fn step(&mut self, second: f64, input: Input<'_>) -> Vec<&'static str> {
        let effects = self.machine.step(input, at(self.began, second));
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Start(plan) if plan.purpose.aim == Aim::Protect => Some("start"),
            Effect::Confirm(_) => Some("ask"),
            _ => None,
        });
        told.collect()
    }

    fn leases(&mut self, second: f64, verdict: Verdict, expires: u64) -> Vec<&'static str> {
        let conclusion = conclusion(verdict, second, expires);
        self.step(second, Input::Leases(Leases::Judged(&conclusion), None))
    }

    fn outage(&mut self, second: f64) -> Vec<&'static str> {
        self.leases(second, Verdict::Outage, 0)
    }

    fn answer(&mut self, second: f64, confirmation: Confirmation) -> Vec<&'static str> {
        self.step(second, Input::Confirmed(confirmation))
    }

    fn reason(&self) -> Option<&'static str> {
        self.machine.held_back().map(HeldBack::reason)
    }
}

fn at(began: Instant, second: f64) -> Now {
    Now {
        mono: began + Duration::from_secs_f64(second),
        wall: Timestamp::UNIX_EPOCH,
    }
}

fn moment(second: f64) -> MonoTime {
    MonoTime::from_nanos((second * 1e9) as i128)
}

/// Leases that were read at that second, and are certainly expired at the other.
fn conclusion(verdict: Verdict, second: f64, expires: u64) -> Conclusion {
    Conclusion {
        verdict,
        assessment: Assessment {
            at: moment(second),
            candidates: 3,
            expired: 3,
            silent: 3,
            needed: 2,
            period: PERIOD,
            suspect_at: Some(moment(0.0)),
            expires_at: Some(moment(expires as f64)),
            ..Assessment::default()
        },
        provable: None,
        decides: true,
        onset: None,
        returning: Returning::default(),
    }
}

#[rstest]
#[case::read(Read, &["start"], None)]
#[case::heard(Heard, &["start"], None)]
#[case::unknown(Unknown, &[], Some("Unconfirmed"))]
#[case::otherwise(Otherwise, &[], Some("Unconfirmed"))]
fn nothing_is_taken_before_it_is_confirmed(
    #[case] confirmation: Confirmation,
    #[case] begun: &[&str],
    #[case] reason: Option<&str>,
) {
    let mut stage = Stage::new("Enforce");
    assert_eq!(stage.outage(0.0), ["ask"]);
    assert_eq!((stage.outage(0.3), stage.reason()), (vec![], None));
    assert_eq!(stage.answer(0.5, confirmation), begun);
    assert_eq!(stage.reason(), reason);
    if begun.is_empty() {
        // It is asked again for the next verdict, and why nothing was done stands until the answer.
        assert_eq!(stage.outage(3.0), ["ask"]);
        assert_eq!(stage.reason(), reason);
        assert_eq!(stage.answer(3.1, Read), ["start"]);
        assert_eq!(stage.reason(), None);
    }
}

/// By the second at which the leases are read that are certainly expired at 15.
#[rstest]
#[case::long_before(8.0, unproven(9.0), &[])]
#[case::two_thirds_of_a_period_before(9.0, unproven(9.0), &["ask"])]
#[case::not_known_yet(9.0, Verdict::Undetermined(Doubt::UnknownLeases), &["ask"])]
#[case::proven_later(12.0, unproven(20.0), &[])]
#[case::nodes_are_waited_for(16.0, Verdict::Undetermined(Doubt::FactsOutdated), &["ask"])]
#[case::too_few(16.0, Verdict::Undetermined(Doubt::TooFewSilent), &[])]
#[case::nobody_writes(16.0, Verdict::Undetermined(Doubt::NoWrites), &[])]
#[case::healthy(16.0, Verdict::Healthy, &[])]
fn it_is_asked_beside_the_proof(
    #[case] second: f64,
    #[case] verdict: Verdict,
    #[case] asked: &[&str],
) {
    let mut stage = Stage::new("Enforce");
    assert_eq!(stage.leases(second, verdict, 15), asked);
    let mut stage = Stage::new("DryRun");
    assert_eq!(stage.leases(second, verdict, 15), [""; 0]);
}

fn unproven(until: f64) -> Verdict {
    Verdict::Undetermined(Doubt::Unproven(moment(until)))
}

#[test]
fn what_was_asked_beside_the_proof_counts_for_one_and_a_half_periods() {
    for (second, expected) in [(24.5, "start"), (24.6, "ask")] {
        let mut stage = Stage::new("Enforce");
        assert_eq!(stage.leases(9.0, unproven(15.0), 15), ["ask"]);
        assert_eq!(stage.answer(9.5, Read), [""; 0]);
        assert_eq!(stage.leases(12.0, unproven(15.0), 15), [""; 0]);
        assert_eq!(stage.outage(second), [expected]);
    }
}

/// An answer to what was asked before something changed says nothing of what there is now.
#[rstest]
#[case::another_cluster(|stage: &mut Stage| {
    stage.step(0.2, Input::Objects(cluster("Enforce", false)));
    stage.step(0.3, Input::Objects(cluster("Enforce", true)));
})]
#[case::the_same_after_all(|stage: &mut Stage| {
    let ClusterObject::There(mut assignment) = cluster("Enforce", true) else { return };
    assignment.reconciled = false;
    stage.step(0.2, Input::Objects(ClusterObject::There(assignment)));
})]
fn an_answer_that_comes_after_a_change_does_not_count(#[case] change: fn(&mut Stage)) {
    let mut stage = Stage::new("Enforce");
    assert_eq!(stage.outage(0.0), ["ask"]);
    change(&mut stage);
    let is_asked_anew = stage.machine.flows.confirmed.asked.is_some();
    if !is_asked_anew {
        assert_eq!(stage.answer(0.5, Read), [""; 0]);
        assert_eq!(stage.outage(1.0), ["ask"]);
    }
    assert!(!stage.machine.flows.confirmed.lets_take(stage.began));
    assert_eq!(stage.answer(1.1, Read), ["start"]);
}

/// An outage that is over while it is asked begins nothing.
#[test]
fn an_answer_after_a_recovery_begins_nothing() {
    let mut stage = Stage::new("Enforce");
    assert_eq!(stage.outage(0.0), ["ask"]);
    assert_eq!(stage.leases(0.2, Verdict::Healthy, 30), [""; 0]);
    assert_eq!(stage.answer(0.5, Read), [""; 0]);
}

/// A mark that was found says nothing of the other dependents. Before they are scaled down, the Cluster is confirmed.
#[test]
fn what_is_taken_beside_a_mark_that_was_found_is_confirmed() {
    let mut stage = Stage::new("Enforce");
    let healthy = conclusion(Verdict::Healthy, 0.0, 30);
    let leases = Input::Leases(Leases::Judged(&healthy), Some(String::new()));
    assert_eq!(stage.machine.step(leases, at(stage.began, 0.0)), []);
    let begun = stage.machine.step(Input::Time, at(stage.began, 0.0));
    let [Effect::Start(look)] = &*begun else {
        panic!("{begun:?}");
    };
    assert_eq!(look.purpose.aim, Aim::Look);
    let event = FlowEvent {
        at: stage.began,
        dependent: look.tasks[0].dependent.clone(),
        uid: None,
        what: What::Settled(Settled::Seen { marked: true }, None),
    };
    stage.step(0.1, Input::Flow(&event));
    stage.step(0.2, Input::FlowEnded(Ending::Complete));
    assert_eq!(stage.machine.protection(), Protection::Active);
    assert_eq!(stage.outage(1.0), ["ask"]);
    assert_eq!(stage.answer(1.1, Read), ["start"]);
    assert_eq!(stage.machine.protection(), Protection::Active);
    stage.step(2.0, Input::FlowEnded(Ending::Complete));
    // All is down.
    assert_eq!(stage.outage(60.0), ["start"]);
}

/// What an earlier leader has left may be a part of what is to be down.
#[rstest]
#[case::in_part(false, "ask")]
#[case::in_full(true, "start")]
fn what_a_new_leader_takes_is_confirmed_unless_all_is_down(
    #[case] owed: bool,
    #[case] expected: &str,
) {
    let dependents = [("d", owed), ("e", true)].map(|(name, owed)| DependentStatus {
        r#ref: fixtures::dependent(name, 0, 0).reference,
        recorded_replicas: Some(3),
        owed,
        keeps_mark: false,
        level: 0,
        initial_delay: Duration::ZERO.into(),
        timeout: Duration::ZERO.into(),
    });
    let known = ClusterHealthStatus {
        protection: Protection::Active,
        dependents: dependents.into(),
        ..ClusterHealthStatus::default()
    };
    let began = Instant::now();
    let (flags, now) = ((false, true), at(began, 0.0));
    let object = cluster("Enforce", true);
    let mut machine = ClusterMachine::recall(Some(&known), object.clone(), flags, now);
    let _ = machine.step(Input::Objects(object), now);
    let mut stage = Stage { machine, began };
    assert_eq!(stage.outage(1.0), [expected]);
}

/// What a restore asks has more time, for which a scale-down does not wait.
#[test]
fn a_scale_down_does_not_wait_for_what_a_restore_has_asked() {
    let mut confirmed = Confirmed::default();
    let of_a_restore = confirmed.ask_within(BEFORE_RESTORE);
    assert_eq!(of_a_restore, Some(Effect::Confirm(BEFORE_RESTORE)));
    assert_eq!(confirmed.ask_within(BEFORE_RESTORE), None);
    assert_eq!(confirmed.ask(), Some(Effect::Confirm(BEFORE_SCALE_DOWN)));
    assert_eq!(
        (confirmed.ask(), confirmed.ask_within(BEFORE_RESTORE)),
        (None, None)
    );
}
