use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::prober::fixtures::{self, at};

const RULES: LeaseRules = LeaseRules {
    jitter_factor: 0.2,
    ..fixtures::RULES
};

/// Read at 100 s, with a renewal period of 9 s.
fn seen(suspect_at: Option<f64>, expires_at: Option<f64>) -> Assessment {
    Assessment {
        at: at(100.0),
        candidates: 5,
        needed: 3,
        period: Duration::from_secs(9),
        suspect_at: suspect_at.map(at),
        expires_at: expires_at.map(at),
        lacks_machines: true,
        ..Assessment::default()
    }
}

/// Complete at `complete`, which is 13.5 s after it has begun.
fn proof(complete: f64) -> Proof {
    let mut proof = Proof::default();
    for (number, before) in [(1, 16.5), (2, 13.5), (3, 10.5)] {
        proof.read(at(complete - before), true, number, Duration::from_secs(9));
    }
    proof
}

fn unwritten() -> Proof {
    let mut proof = Proof::default();
    proof.read(at(97.0), true, 1, Duration::from_secs(9));
    proof
}

const READ: ReadOutcome = ReadOutcome::Read;
const COUNTED: ReadOutcome = ReadOutcome::Counted;
const THROTTLED: ReadOutcome = ReadOutcome::Throttled(Duration::from_secs(3));

const fn failed(in_a_row: u32) -> ReadOutcome {
    ReadOutcome::Failed { in_a_row }
}

const CALM: (Option<f64>, Option<f64>) = (None, None);
/// Suspect, and not expired for a while.
const SUSPECT: (Option<f64>, Option<f64>) = (Some(99.0), Some(130.0));

/// A read from 100 s to 101 s.
#[rstest]
#[case::calm(READ, CALM, Proof::default(), 110.0)]
#[case::calm_after_a_watch(READ, CALM, proof(120.0), 110.0)]
#[case::suspicion_first(READ, (Some(105.0), Some(130.0)), Proof::default(), 105.0)]
#[case::suspicion_while_reading(READ, (Some(100.5), Some(130.0)), Proof::default(), 101.0)]
#[case::suspicion_later(READ, (Some(115.0), Some(130.0)), Proof::default(), 110.0)]
#[case::proof_begins_at_once(READ, SUSPECT, Proof::default(), 101.0)]
#[case::a_third_of_the_period(READ, SUSPECT, proof(120.0), 103.0)]
#[case::expires_after_the_proof(READ, (Some(99.0), Some(102.5)), proof(101.5), 102.5)]
#[case::expires_before_the_proof(READ, (Some(99.0), Some(90.0)), proof(101.5), 101.5)]
#[case::deadline_while_reading(READ, (Some(99.0), Some(100.5)), proof(100.2), 101.0)]
#[case::deadline_at_the_read(READ, (Some(80.0), Some(100.0)), proof(100.0), 103.0)]
#[case::one_more_verdict(COUNTED, (Some(80.0), Some(90.0)), proof(95.0), 101.0)]
#[case::no_write_yet(READ, SUSPECT, unwritten(), 101.0)]
#[case::failed(failed(1), CALM, Proof::default(), 110.0)]
#[case::failed_before_suspicion(failed(1), (Some(105.0), None), Proof::default(), 105.0)]
#[case::failed_under_suspicion(failed(1), SUSPECT, Proof::default(), 102.0)]
#[case::failed_twice(failed(2), SUSPECT, Proof::default(), 103.0)]
#[case::failed_three_times(failed(3), SUSPECT, Proof::default(), 105.0)]
#[case::failed_four_times(failed(4), SUSPECT, Proof::default(), 109.0)]
#[case::up_to_the_interval(failed(5), SUSPECT, Proof::default(), 110.0)]
#[case::failed_for_ever(failed(u32::MAX), SUSPECT, Proof::default(), 110.0)]
#[case::failed_often_before_suspicion(failed(5), (Some(105.0), None), Proof::default(), 105.0)]
#[case::suspicion_while_failing(failed(1), (Some(100.5), None), Proof::default(), 101.0)]
#[case::throttled(THROTTLED, SUSPECT, Proof::default(), 104.0)]
#[case::outdated(ReadOutcome::Outdated, CALM, Proof::default(), 101.0)]
fn the_next_read(
    #[case] outcome: ReadOutcome,
    #[case] (suspect_at, expires_at): (Option<f64>, Option<f64>),
    #[case] proof: Proof,
    #[case] expected: f64,
) {
    let last = LastRead {
        started: at(100.0),
        finished: at(101.0),
        outcome,
    };
    let seen = seen(suspect_at, expires_at);
    let next = RULES.next(&last, Some(&seen), &proof, 0.0);
    assert_eq!(next, at(expected));
}

fn outcomes() -> impl Strategy<Value = ReadOutcome> {
    prop_oneof![
        Just(ReadOutcome::Read),
        Just(ReadOutcome::Counted),
        any::<u32>().prop_map(failed),
        (1_000..30_000_u64).prop_map(|wait| ReadOutcome::Throttled(Duration::from_millis(wait))),
    ]
}

proptest! {
    /// The next read never starts before the last has ended, nor where it started.
    #[test]
    fn no_hot_loop(
        outcome in outcomes(),
        length in 0.0..40.0_f64,
        suspect_at in prop::option::of(50.0..150.0_f64),
        expires_at in prop::option::of(50.0..150.0_f64),
        complete in 50.0..150.0_f64,
        draw in 0.0..1.0_f64,
    ) {
        let finished = at(100.0 + length);
        let assessment = seen(suspect_at, expires_at);
        let last = LastRead { started: at(100.0), finished, outcome };
        let next = RULES.next(&last, Some(&assessment), &proof(complete), draw);
        prop_assert!(next >= finished);
        prop_assert!(next > last.started, "{next:?}");
        if !matches!(outcome, ReadOutcome::Throttled(_)) {
            prop_assert!(next <= finished.max(at(112.0)), "later than the interval: {next:?}");
        }
    }
}
