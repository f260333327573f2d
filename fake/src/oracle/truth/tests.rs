use super::*;
use crate::oracle::policy::{Edit, Hold};

const SECOND: Micros = 1_000_000;
const START: Micros = 1_800_000_000 * SECOND;
const PERIOD: Duration = Duration::from_secs(5);

fn truth() -> Truth {
    Truth::new(2, 10, PERIOD, START, Policy::FIRST)
}

fn after(seconds: i64) -> Micros {
    START + seconds * SECOND
}

/// Cut off at 100 s, back at 160 s; leases expire after 15 s.
#[test]
fn a_shoot_is_taken_while_it_is_silent_and_given_back_while_it_is_not() {
    let mut truth = truth();
    truth.cut(0, 10, after(100));
    truth.restore(0, after(160));
    for (at, taken, given) in [
        (90, false, true),
        (105, false, true),
        (117, true, true),
        (140, true, false),
        (158, true, false),
        // What was decided before the end may be written a little later.
        (168, true, true),
        (190, false, true),
    ] {
        let may = |shoot| {
            let taken = truth.may_be_taken(shoot, after(at));
            (taken, truth.may_be_given_back(shoot, after(at)))
        };
        assert_eq!(may(0), (taken, given), "{at}");
        assert_eq!(may(1), (false, true), "{at}");
    }
    let outages: Vec<_> = truth.outages().collect();
    assert_eq!(outages.len(), 1);
    assert_eq!(outages[0].until, Some(after(160)));
    assert_eq!(truth.expires(&outages[0]), after(100) + 15_600_000);
}

#[test]
fn few_silent_nodes_are_no_outage() {
    for (nodes, taken) in [(5, false), (6, true)] {
        let mut truth = truth();
        truth.cut(0, nodes, after(100));
        assert_eq!(truth.may_be_taken(0, after(140)), taken, "{nodes}");
        assert_eq!(truth.outages().count(), usize::from(taken), "{nodes}");
    }
}

/// Cut off at 100 s; dead meanwhile.
#[test]
fn who_does_not_answer_is_not_judged() {
    for (died, revived, cases) in [
        // What was seen before is a reason for a while, and so is what is watched afterwards.
        (
            130,
            150,
            &[(135, true), (145, false), (153, false), (156, true)][..],
        ),
        // Expired while nobody could see it.
        (
            101,
            150,
            &[(120, false), (150, false), (153, false), (156, true)],
        ),
        (150, 156, &[(149, true), (158, true)]),
        // So short that all reads may have been answered.
        (110, 116, &[(117, true)]),
        (108, 116, &[(117, false), (122, true)]),
    ] {
        let mut truth = truth();
        truth.cut(0, 10, after(100));
        truth.dead(0, after(died) - 1, after(died), true);
        truth.dead(0, after(revived), after(revived) + 1, false);
        for (at, expected) in cases {
            let taken = truth.may_be_taken(0, after(*at));
            assert_eq!(taken, *expected, "dead from {died} to {revived}, at {at}");
        }
    }
}

/// Dead from 100 s to 140 s; then the kubelets renew again, each at its next turn.
#[test]
fn whose_api_server_was_away_is_not_taken_for_silent() {
    let mut truth = truth();
    truth.dead(0, after(100), after(101), true);
    truth.dead(0, after(140), after(141), false);
    for at in 90..200 {
        assert!(!truth.may_be_taken(0, after(at)), "{at}");
    }
    for (at, given) in [(110, true), (120, false), (138, false), (147, true)] {
        assert_eq!(truth.may_be_given_back(0, after(at)), given, "{at}");
    }
}

#[test]
fn a_hold_lasts_after_it_was_seen_and_until_it_is_let_go() {
    for hold in [Hold::DryRun, Hold::Suspended, Hold::Half] {
        let mut truth = truth();
        let held = Policy::FIRST.edited(Edit::Hold(hold));
        truth.policy(after(200), after(201), held);
        truth.policy(after(300), after(301), Policy::FIRST);
        for shoot in 0..2 {
            truth.cut(shoot, 10, after(100));
        }
        for (at, free) in [
            (199, true),
            (215, true),
            (217, false),
            (298, false),
            (300, true),
        ] {
            assert_eq!(truth.may_be_taken(1, after(at)), free, "{hold:?} {at}");
            let half = hold == Hold::Half;
            assert_eq!(
                truth.may_be_taken(0, after(at)),
                free || half,
                "{hold:?} {at}"
            );
            assert_eq!(truth.may_write(after(at)), free || half, "{hold:?} {at}");
        }
    }
}

#[test]
fn a_longer_grace_expires_leases_later_once_it_was_seen() {
    let mut truth = truth();
    truth.policy(after(10), after(11), Policy::FIRST.edited(Edit::Grace(32)));
    truth.cut(0, 10, after(100));
    assert!(!truth.may_be_taken(0, after(119)));
    assert!(truth.may_be_taken(0, after(125)));
}

#[test]
fn who_is_let_go_is_given_back_in_an_outage() {
    let mut truth = truth();
    truth.cut(0, 10, after(100));
    truth.let_go(0, after(200), after(201), true);
    truth.let_go(0, after(230), after(231), false);
    for (at, expected) in [(190, false), (201, true), (240, true), (250, false)] {
        assert_eq!(truth.may_be_given_back(0, after(at)), expected, "{at}");
        assert_eq!(truth.may_be_let_go(0, after(at)), expected, "{at}");
    }
}

#[test]
fn what_somebody_set_is_remembered() {
    let mut truth = truth();
    truth.count(1, "a", 4);
    assert!(truth.was_counted(1, "a", 4));
    assert!(!truth.was_counted(0, "a", 4) && !truth.was_counted(1, "a", 3));
}

/// Cut off at 100 s; before some renew their leases, enough of them may be expired for a few milliseconds.
#[test]
fn who_is_silent_for_a_moment_may_be_taken() {
    let mut brief = 0;
    for restore in (after(110)..after(115)).step_by(50_000) {
        let mut truth = truth();
        truth.cut(0, 10, after(100));
        truth.restore(0, restore);
        let mut is_silent = |step: usize| {
            let mut moments = (after(110)..=after(121)).step_by(step);
            let kubelets = truth.kubelets(0).unwrap();
            let expired = |at| {
                kubelets
                    .last_written(at)
                    .filter(move |it| at - it >= 15 * SECOND)
            };
            moments.any(|at| expired(at).count() >= 6)
        };
        let (is_seen, is_so) = (is_silent(STEP), is_silent(500));
        brief += usize::from(is_so && !is_seen);
        assert_eq!(truth.may_be_taken(0, after(120)), is_so);
    }
    assert!(brief > 0);
}
