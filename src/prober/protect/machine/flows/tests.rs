use rstest::rstest;

use super::*;
use crate::prober::{fixtures::dependent, plan::Step};

/// Doubt stops a restore, and not the clock of its delay. What else is wanted begins that anew.
#[rstest]
#[case::doubt(|_| Wanted::Nothing, true)]
#[case::a_gate(Wanted::Held, true)]
#[case::a_look(|now| Wanted::Complete(Aim::Look, now), true)]
#[case::no_workers(|now| Wanted::Complete(Aim::Restore, now), true)]
#[case::letting_go(|now| Wanted::Complete(Aim::Release, now), false)]
#[case::an_outage(
    |now| Wanted::Verdict { purpose: Purpose::of(Aim::Protect), valid_until: now, paced: false },
    false
)]
fn what_keeps_the_clock_of_a_delay(#[case] wanted: fn(Instant) -> Wanted, #[case] kept: bool) {
    let (it, now) = (dependent("d", 0, 0), Instant::now());
    let mut flows = Flows::recall(None, now);
    let _ = flows.adopt(std::slice::from_ref(&it), now);
    for what in [What::Did(Step::ScaleDown { from: 3 }, None), What::Delayed] {
        flows.debts.note(&it, &what, now);
    }
    let _ = flows.want(wanted(now), now);
    let task = flows.debts.tasks(Aim::Restore).swap_remove(0);
    assert_eq!(task.delayed.is_some(), kept);
}

#[test]
fn another_aim_waits_until_the_flow_under_way_has_ended() {
    let now = Instant::now();
    let mut flows = Flows::recall(None, now);
    let want = |flows: &mut Flows, aim| {
        let purpose = Purpose::of(aim);
        let wanted = Wanted::Verdict {
            purpose,
            valid_until: now,
            paced: false,
        };
        flows.want(wanted, now)
    };
    let begun = want(&mut flows, Aim::Restore);
    assert!(matches!(begun, Some(Effect::Start(_))), "{begun:?}");
    let withdrawn = want(&mut flows, Aim::Protect);
    assert_eq!(withdrawn, Some(Effect::Flow(FlowInput::Withdraw)));
    assert_eq!(flows.go_on(now), None);
    flows.ended(Ending::Stopped, AGAIN, now);
    let next = flows.go_on(now);
    assert!(matches!(next, Some(Effect::Confirm)), "{next:?}");
}
