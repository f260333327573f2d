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
