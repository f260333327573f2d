use rstest::rstest;

use super::*;
use crate::prober::{
    fixtures::dependent,
    machine::Confirmation,
    plan::{Settled, Step},
};

const INTERVAL: Duration = Duration::from_secs(10);

fn verdict(aim: Aim, now: Instant) -> Wanted {
    Wanted::Verdict {
        purpose: Purpose::of(aim),
        valid_until: now + INTERVAL,
        paced: false,
    }
}

fn under_way(flows: &Flows) -> Option<Aim> {
    flows.under_way.map(|flow| flow.aim)
}

/// Since when the delays of a restore have been running.
fn delayed_since(flows: &Flows) -> Vec<Instant> {
    let tasks = flows.debts.tasks(Aim::Restore).into_iter();
    tasks.filter_map(|task| task.delayed).collect()
}

/// The flow under way tells this of its dependent.
fn note(flows: &mut Flows, what: &What, at: Instant) {
    let event = FlowEvent {
        at,
        dependent: dependent("d", 0, 0),
        uid: None,
        what: what.clone(),
    };
    flows.note(&event, at);
}

fn complete(aim: Aim, from: Instant) -> Wanted {
    Wanted::Complete(aim, from)
}

fn starts(next: &Option<Effect>) -> bool {
    matches!(next, Some(Effect::Start(_)))
}

/// By a verdict, with the Cluster and its policy confirmed.
fn act(flows: &mut Flows, aim: Aim, now: Instant) -> Option<Effect> {
    flows.confirmed.ask();
    flows
        .confirmed
        .answered(Confirmation::Read, (now, INTERVAL));
    flows.want(verdict(aim, now), now)
}

/// Flows over one dependent, which was just seen back. A write that was given up may still come about
/// if there is doubt.
fn seen_back(doubt: bool, now: Instant) -> Flows {
    let mut flows = Flows::recall(None);
    let it = dependent("d", 0, 0);
    assert_eq!(flows.adopt(std::slice::from_ref(&it), now), None);
    if doubt {
        flows.debts.distrust();
    }
    assert!(starts(&act(&mut flows, Aim::Restore, now)));
    see_back(&mut flows, now);
    flows
}

/// The flow under way sees the dependent back.
fn see_back(flows: &mut Flows, now: Instant) {
    let settled = What::Settled(Settled::Up, None);
    note(flows, &settled, now);
    flows.ended(Ending::Complete, INTERVAL, now);
}

#[rstest]
#[case::what_was_given_up_may_still_come_about(true, 59, false)]
#[case::so_it_is_looked_at_once_more(true, 60, true)]
#[case::and_else_seldom(false, 3599, false)]
#[case::etcd_may_have_been_restored(false, 3600, true)]
fn what_was_seen_back_is_looked_at_again(
    #[case] doubt: bool,
    #[case] after: u64,
    #[case] expected: bool,
) {
    let now = Instant::now();
    let mut flows = seen_back(doubt, now);
    assert_eq!(flows.debts.is_looked_at(), !doubt);
    let then = now + Duration::from_secs(after);
    assert_eq!(starts(&act(&mut flows, Aim::Restore, then)), expected);
}

/// It may from the first answer on. What flows see that began before does not count, however late they
/// end.
#[test]
fn nothing_is_complete_while_a_write_may_still_come_about() {
    let now = Instant::now();
    let at = |second| now + Duration::from_secs(second);
    let mut flows = seen_back(true, now);
    assert_eq!(flows.adopt(&[], now), None);
    assert_eq!(flows.debts.status().len(), 1, "it is remembered");
    let insisted = flows.want(complete(Aim::Restore, now), now);
    assert_eq!(insisted, None);
    for (begun, ended, due) in [(0, 1, Some(20)), (20, 21, None)] {
        assert!(starts(&flows.wake(at(begun))));
        see_back(&mut flows, at(ended));
        assert_eq!(flows.due(), due.map(at), "{begun}");
        assert_eq!(flows.debts.is_looked_at(), due.is_none(), "{begun}");
    }
    assert_eq!(flows.debts.status(), []);
}

#[test]
fn an_outage_is_acted_on_whatever_was_seen_back() {
    let now = Instant::now();
    let mut flows = seen_back(false, now);
    assert!(starts(&act(&mut flows, Aim::Protect, now)));
    flows.ended(Ending::Stopped, INTERVAL, now);
    assert!(starts(&act(&mut flows, Aim::Restore, now)));
}

/// Flows of which the one to protect has ended like this.
fn protecting(ending: Ending, interval: Duration, now: Instant) -> Flows {
    let mut flows = Flows::recall(None);
    assert!(starts(&act(&mut flows, Aim::Protect, now)));
    flows.ended(ending, interval, now);
    flows
}

#[rstest]
#[case::what_failed_may_come_off_now(Ending::Stuck, 10, 0, true)]
#[case::what_was_stopped_goes_on(Ending::Stopped, 10, 0, true)]
#[case::what_is_refused_has_to_be_mended(Ending::Refused, 10, 9, false)]
#[case::and_is_seen_as_soon_as_what_is_scaled_up(Ending::Refused, 10, 10, true)]
#[case::which_is_not_long(Ending::Refused, 3600, 10, true)]
#[case::and_may_be_shorter(Ending::Refused, 1, 1, true)]
#[case::what_is_done_may_be_undone(Ending::Complete, 3600, 3600, true)]
#[case::but_not_at_once(Ending::Complete, 3600, 3599, false)]
fn an_outage_is_acted_on_again(
    #[case] ending: Ending,
    #[case] interval: u64,
    #[case] after: u64,
    #[case] expected: bool,
) {
    let now = Instant::now();
    let mut flows = protecting(ending, Duration::from_secs(interval), now);
    let then = now + Duration::from_secs(after);
    assert_eq!(starts(&act(&mut flows, Aim::Protect, then)), expected);
}

/// What is owed, or has yet to be taken, is urgent; what is only looked at is not.
#[rstest]
#[case(Protection::None, [Aim::Protect].as_slice())]
#[case(Protection::ScalingDown, &[Aim::Protect, Aim::Restore, Aim::Release])]
#[case(Protection::Active, &[Aim::Restore, Aim::Release])]
#[case(Protection::Restoring, &[Aim::Protect, Aim::Restore, Aim::Release])]
fn what_scales_is_urgent(#[case] before: Protection, #[case] expected: &[Aim]) {
    let mut dependents = seen_back(false, Instant::now()).debts.status();
    dependents[0].owed = before != Protection::None;
    let flows = Flows::recall(Some(&ClusterHealthStatus {
        protection: before,
        dependents,
        ..ClusterHealthStatus::default()
    }));
    for aim in [Aim::Protect, Aim::Restore, Aim::Release, Aim::Look] {
        assert_eq!(flows.is_urgent(aim), expected.contains(&aim), "{aim:?}");
    }
}

/// Whoever was refused is not urgent: a thousand clusters may be, for as long as the outage lasts.
#[test]
fn what_is_news_is_not_held_up_by_what_was_refused() {
    let now = Instant::now();
    assert!(protecting(Ending::Stuck, INTERVAL, now).is_urgent(Aim::Protect));
    let refused = || {
        let flows = protecting(Ending::Refused, INTERVAL, now);
        assert!(!flows.is_urgent(Aim::Protect));
        flows
    };
    // Another policy.
    let mut flows = refused();
    assert_eq!(flows.adopt(&[], now), None);
    assert!(flows.is_urgent(Aim::Protect));
    assert!(starts(&act(&mut flows, Aim::Protect, now)));
    // Another outage.
    let mut flows = refused();
    assert!(starts(&act(&mut flows, Aim::Restore, now)));
    flows.ended(Ending::Complete, INTERVAL, now);
    assert!(flows.is_urgent(Aim::Protect));
    assert!(starts(&act(&mut flows, Aim::Protect, now)));
}

#[test]
fn another_aim_waits_until_the_flow_under_way_has_ended() {
    let now = Instant::now();
    let mut flows = Flows::recall(None);
    assert!(starts(&act(&mut flows, Aim::Protect, now)));
    let newer = act(&mut flows, Aim::Protect, now);
    assert_eq!(newer, Some(Effect::Flow(FlowInput::Extend(now + INTERVAL))));
    assert_eq!(
        act(&mut flows, Aim::Restore, now),
        Some(Effect::Flow(FlowInput::Withdraw))
    );
    assert_eq!(under_way(&flows), Some(Aim::Protect));
    flows.ended(Ending::Stopped, INTERVAL, now);
    let next = flows.go_on(now);
    assert!(starts(&next), "{next:?}");
    assert_eq!(under_way(&flows), Some(Aim::Restore));
    // Unless it is called off before.
    assert_eq!(
        act(&mut flows, Aim::Protect, now),
        Some(Effect::Flow(FlowInput::Withdraw))
    );
    assert_eq!(
        flows.want(Wanted::Nothing, now),
        Some(Effect::Flow(FlowInput::Withdraw))
    );
    flows.ended(Ending::Stopped, INTERVAL, now);
    assert_eq!(flows.go_on(now), None);
}

/// A Cluster that is gone may come back: its marks stay until then, whatever was under way.
#[rstest]
#[case::a_look(Aim::Look, true)]
#[case::a_restore(Aim::Restore, false)]
fn what_is_insisted_on_later_is_due_then(#[case] before: Aim, #[case] hold: bool) {
    let now = Instant::now();
    let mut flows = Flows::recall(None);
    let asked = match hold {
        true => flows.want(Wanted::Held(now), now),
        false => flows.want(complete(before, now), now),
    };
    assert_eq!(asked, None);
    assert!(starts(&flows.wake(now)));
    assert_eq!(under_way(&flows), Some(before));
    let from = now + INTERVAL * 3;
    let asked = flows.want(complete(Aim::Release, from), now);
    assert_eq!(asked, Some(Effect::Flow(FlowInput::Withdraw)));
    assert_eq!(flows.due(), None);
    flows.ended(Ending::Stopped, INTERVAL, now);
    assert_eq!(flows.go_on(now), None);
    assert_eq!(flows.due(), Some(from));
    // And over when it is complete.
    assert!(starts(&flows.wake(from)));
    flows.ended(Ending::Complete, INTERVAL, from);
    assert_eq!(flows.due(), None);
}

/// Flows of which one restores, and waits for the delay of its dependent since now.
fn delayed(now: Instant) -> Flows {
    let it = dependent("d", 0, 0);
    let mut flows = Flows::recall(None);
    assert_eq!(flows.adopt(std::slice::from_ref(&it), now), None);
    let taken = What::Did(Step::ScaleDown { from: 3 }, None);
    note(&mut flows, &taken, now);
    assert!(starts(&act(&mut flows, Aim::Restore, now)));
    note(&mut flows, &What::Delayed, now);
    assert_eq!(delayed_since(&flows), [now]);
    flows
}

/// Doubt stops the flow, and not the clock of the delay. What else is wanted resets it, although it may be
/// called off before it begins.
#[rstest]
#[case::doubt(|flows: &mut Flows, now: Instant| flows.want(Wanted::Nothing, now), true)]
#[case::a_gate(|flows: &mut Flows, now: Instant| flows.want(Wanted::Held(now), now), true)]
#[case::a_look(|flows: &mut Flows, now: Instant| flows.want(complete(Aim::Look, now), now), true)]
#[case::no_workers(|flows: &mut Flows, now: Instant| flows.want(complete(Aim::Restore, now), now), true)]
#[case::an_outage(|flows: &mut Flows, now: Instant| act(flows, Aim::Protect, now), false)]
#[case::letting_go(|flows: &mut Flows, now: Instant| flows.want(complete(Aim::Release, now), now), false)]
#[case::another_policy(|flows: &mut Flows, now: Instant| flows.adopt(&[dependent("d", 0, 0)], now), false)]
fn what_keeps_the_clock_of_a_delay(
    #[case] change: fn(&mut Flows, Instant) -> Option<Effect>,
    #[case] kept: bool,
    #[values(false, true)] ended: bool,
) {
    let now = Instant::now();
    let at = |second| now + Duration::from_secs(second);
    let mut flows = delayed(now);
    if ended {
        flows.ended(Ending::Stuck, INTERVAL, at(1));
    }
    let next = change(&mut flows, at(2));
    assert_eq!(
        next == Some(Effect::Flow(FlowInput::Withdraw)),
        !ended,
        "{next:?}"
    );
    if !ended {
        // What it has still told when it was withdrawn begins no delay.
        note(&mut flows, &What::Delayed, at(3));
        let again = act(&mut flows, Aim::Restore, at(4));
        assert_eq!(again, Some(Effect::Flow(FlowInput::Withdraw)));
        flows.ended(Ending::Stopped, INTERVAL, at(5));
        assert!(starts(&flows.go_on(at(5))));
    }
    assert_eq!(delayed_since(&flows), vec![now; usize::from(kept)]);
}
