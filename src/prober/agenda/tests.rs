use rstest::rstest;

use super::*;
use crate::prober::{
    fixtures::dependent,
    plan::{Settled, Step},
};

const INTERVAL: Duration = Duration::from_secs(10);

fn order(aim: Aim, now: Instant) -> Order {
    Order {
        aim,
        restore: Restore::Marked,
        valid_until: now + INTERVAL,
    }
}

fn starts(next: &Option<Effect>) -> bool {
    matches!(next, Some(Effect::Start(_)))
}

fn act(agenda: &mut Agenda, aim: Aim, now: Instant) -> Option<Effect> {
    agenda.act(order(aim, now), now)
}

/// An agenda of one dependent, which was just seen back. A write that was given up may still come about
/// if there is doubt.
fn seen_back(doubt: bool, now: Instant) -> Agenda {
    let mut agenda = Agenda::recall(None);
    let it = dependent("d", 0, 0);
    assert_eq!(agenda.adopt(std::slice::from_ref(&it)), None);
    if doubt {
        agenda.ledger.distrust();
    }
    assert!(starts(&act(&mut agenda, Aim::Restore, now)));
    see_back(&mut agenda, now);
    agenda
}

/// The flow under way sees the dependent back.
fn see_back(agenda: &mut Agenda, now: Instant) {
    let settled = What::Settled(Settled::Up, None);
    agenda.note(&dependent("d", 0, 0), &settled, now);
    agenda.ended(Ending::Complete, INTERVAL, now);
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
    let mut agenda = seen_back(doubt, now);
    assert_eq!(agenda.ledger.is_looked_at(), !doubt);
    let then = now + Duration::from_secs(after);
    assert_eq!(starts(&act(&mut agenda, Aim::Restore, then)), expected);
}

/// It may from the first answer on. What flows see that began before does not count, however late they
/// end.
#[test]
fn nothing_is_complete_while_a_write_may_still_come_about() {
    let now = Instant::now();
    let at = |second| now + Duration::from_secs(second);
    let mut agenda = seen_back(true, now);
    assert_eq!(agenda.adopt(&[]), None);
    assert_eq!(agenda.ledger.status().len(), 1, "it is remembered");
    let insisted = agenda.insist(Aim::Restore, now);
    assert_eq!(insisted, None);
    // The second began too early.
    for (begun, ended, due) in [(0, 1, Some(20)), (19, 25, Some(20)), (25, 26, None)] {
        assert!(starts(&agenda.resume(at(begun))));
        see_back(&mut agenda, at(ended));
        assert_eq!(agenda.due(), due.map(at), "{begun}");
        assert_eq!(agenda.ledger.is_looked_at(), due.is_none(), "{begun}");
    }
    assert_eq!(agenda.ledger.status(), []);
}

#[test]
fn an_outage_is_acted_on_whatever_was_seen_back() {
    let now = Instant::now();
    let mut agenda = seen_back(false, now);
    assert!(starts(&act(&mut agenda, Aim::Protect, now)));
    agenda.ended(Ending::Stopped, INTERVAL, now);
    assert!(starts(&act(&mut agenda, Aim::Restore, now)));
}

/// An agenda whose flow to protect has ended like this.
fn protecting(ending: Ending, interval: Duration, now: Instant) -> Agenda {
    let mut agenda = Agenda::recall(None);
    assert!(starts(&act(&mut agenda, Aim::Protect, now)));
    agenda.ended(ending, interval, now);
    agenda
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
    let mut agenda = protecting(ending, Duration::from_secs(interval), now);
    let then = now + Duration::from_secs(after);
    assert_eq!(starts(&act(&mut agenda, Aim::Protect, then)), expected);
}

/// What is owed, or has yet to be taken, is urgent; what is only looked at is not.
#[rstest]
#[case(Protection::None, [Aim::Protect].as_slice())]
#[case(Protection::ScalingDown, &[Aim::Protect, Aim::Restore, Aim::Release])]
#[case(Protection::Active, &[Aim::Restore, Aim::Release])]
#[case(Protection::Restoring, &[Aim::Protect, Aim::Restore, Aim::Release])]
fn what_scales_is_urgent(#[case] before: Protection, #[case] expected: &[Aim]) {
    let mut dependents = seen_back(false, Instant::now()).ledger.status();
    dependents[0].owed = before != Protection::None;
    let agenda = Agenda::recall(Some(&ClusterHealthStatus {
        protection: before,
        dependents,
        ..ClusterHealthStatus::default()
    }));
    for aim in [Aim::Protect, Aim::Restore, Aim::Release, Aim::Look] {
        assert_eq!(agenda.is_urgent(aim), expected.contains(&aim), "{aim:?}");
    }
}

/// Whoever was refused is not urgent: a thousand clusters may be, for as long as the outage lasts.
#[test]
fn what_is_news_is_not_held_up_by_what_was_refused() {
    let now = Instant::now();
    assert!(protecting(Ending::Stuck, INTERVAL, now).is_urgent(Aim::Protect));
    let refused = || {
        let agenda = protecting(Ending::Refused, INTERVAL, now);
        assert!(!agenda.is_urgent(Aim::Protect));
        agenda
    };
    // Another policy.
    let mut agenda = refused();
    assert_eq!(agenda.adopt(&[]), None);
    assert!(agenda.is_urgent(Aim::Protect));
    assert!(starts(&act(&mut agenda, Aim::Protect, now)));
    // Another outage.
    let mut agenda = refused();
    assert!(starts(&act(&mut agenda, Aim::Restore, now)));
    agenda.ended(Ending::Complete, INTERVAL, now);
    assert!(agenda.is_urgent(Aim::Protect));
    assert!(starts(&act(&mut agenda, Aim::Protect, now)));
}

#[test]
fn another_aim_waits_until_the_flow_under_way_has_ended() {
    let now = Instant::now();
    let mut agenda = Agenda::recall(None);
    assert!(starts(&act(&mut agenda, Aim::Protect, now)));
    let newer = act(&mut agenda, Aim::Protect, now);
    assert_eq!(newer, Some(Effect::Extend(now + INTERVAL)));
    assert_eq!(act(&mut agenda, Aim::Restore, now), Some(Effect::Withdraw));
    assert_eq!(agenda.aim(), Some(Aim::Protect));
    agenda.ended(Ending::Stopped, INTERVAL, now);
    let next = agenda.go_on(now);
    assert!(starts(&next), "{next:?}");
    assert_eq!(agenda.aim(), Some(Aim::Restore));
    // Unless it is called off before.
    assert_eq!(act(&mut agenda, Aim::Protect, now), Some(Effect::Withdraw));
    assert_eq!(agenda.stop(), Some(Effect::Withdraw));
    agenda.ended(Ending::Stopped, INTERVAL, now);
    assert_eq!(agenda.go_on(now), None);
}

/// A Cluster that is gone may come back: its marks stay until then, whatever was under way.
#[rstest]
#[case::a_look(Aim::Look, true)]
#[case::a_restore(Aim::Restore, false)]
fn what_is_insisted_on_later_is_due_then(#[case] before: Aim, #[case] hold: bool) {
    let now = Instant::now();
    let mut agenda = Agenda::recall(None);
    let asked = match hold {
        true => agenda.hold(now),
        false => agenda.insist(before, now),
    };
    assert_eq!(asked, None);
    assert!(starts(&agenda.resume(now)));
    assert_eq!(agenda.aim(), Some(before));
    let from = now + INTERVAL * 3;
    let asked = agenda.insist(Aim::Release, from);
    assert_eq!(asked, Some(Effect::Withdraw));
    assert_eq!(agenda.due(), None);
    agenda.ended(Ending::Stopped, INTERVAL, now);
    assert_eq!(agenda.go_on(now), None);
    assert_eq!(agenda.due(), Some(from));
    // And over when it is complete.
    assert!(starts(&agenda.resume(from)));
    agenda.ended(Ending::Complete, INTERVAL, from);
    assert_eq!(agenda.due(), None);
}

/// An agenda that restores, and waits for the delay of its dependent since now.
fn delayed(now: Instant) -> Agenda {
    let it = dependent("d", 0, 0);
    let mut agenda = Agenda::recall(None);
    assert_eq!(agenda.adopt(std::slice::from_ref(&it)), None);
    let taken = What::Did(Step::ScaleDown { from: 3 }, None);
    agenda.note(&it, &taken, now);
    assert!(starts(&act(&mut agenda, Aim::Restore, now)));
    agenda.note(&it, &What::Delayed, now);
    assert_eq!(agenda.ledger.delayed().len(), 1);
    agenda
}

/// Doubt stops the flow, and not the clock of the delay. What else is wanted resets it, although it may be
/// called off before it begins.
#[rstest]
#[case::doubt(|agenda: &mut Agenda, _: Instant| agenda.stop(), true)]
#[case::a_gate(|agenda: &mut Agenda, now: Instant| agenda.hold(now), true)]
#[case::a_look(|agenda: &mut Agenda, now: Instant| agenda.insist(Aim::Look, now), true)]
#[case::no_workers(|agenda: &mut Agenda, now: Instant| agenda.insist(Aim::Restore, now), true)]
#[case::an_outage(|agenda: &mut Agenda, now: Instant| act(agenda, Aim::Protect, now), false)]
#[case::letting_go(|agenda: &mut Agenda, now: Instant| agenda.insist(Aim::Release, now), false)]
#[case::another_policy(|agenda: &mut Agenda, _: Instant| agenda.adopt(&[dependent("d", 0, 0)]), false)]
fn what_keeps_the_clock_of_a_delay(
    #[case] change: fn(&mut Agenda, Instant) -> Option<Effect>,
    #[case] kept: bool,
    #[values(false, true)] ended: bool,
) {
    let now = Instant::now();
    let at = |second| now + Duration::from_secs(second);
    let mut agenda = delayed(now);
    if ended {
        agenda.ended(Ending::Stuck, INTERVAL, at(1));
    }
    let next = change(&mut agenda, at(2));
    assert_eq!(next == Some(Effect::Withdraw), !ended, "{next:?}");
    if !ended {
        // What it has still told when it was withdrawn begins no delay.
        agenda.note(&dependent("d", 0, 0), &What::Delayed, at(3));
        let again = act(&mut agenda, Aim::Restore, at(4));
        assert_eq!(again, Some(Effect::Withdraw));
        agenda.ended(Ending::Stopped, INTERVAL, at(5));
        assert!(starts(&agenda.go_on(at(5))));
    }
    let since: Vec<Instant> = agenda.ledger.delayed().into_values().collect();
    assert_eq!(since, vec![now; usize::from(kept)]);
}
