//! Events on a ClusterHealth: what its status says now and did not say before.

use k8s_openapi::jiff::SignedDuration;

use super::super::finding::{PACED, is_held_back};
use crate::{
    api::{Action, ClusterHealthStatus, OUTAGE, Protection},
    status::{
        conditions,
        events::{
            Event,
            kinds::{
                HELD_BACK, LET_GO, MAX_PROTECTION_REACHED, PROBED, PROTECTED, PROTECTED_TOO_LONG,
                PROTECTING, RESTORED, RESTORING, SKIPPED, WOULD_PROTECT,
            },
            rules::{Rule, changes},
        },
    },
};

const TOO_LONG: Rule = Rule::begins(conditions::PROTECTED_TOO_LONG, &PROTECTED_TOO_LONG);

/// The events of a status that was written, given the one that was there.
pub(in crate::prober::report) fn transitions(
    before: &ClusterHealthStatus,
    after: &ClusterHealthStatus,
) -> Vec<Event> {
    let mut events = protection(before, after);
    events.extend(skipped(before, after));
    events.extend(held_back(before, after));
    events.extend(changes(&[TOO_LONG], &before.conditions, &after.conditions));
    events.extend(ended(before, after));
    events
}

fn protection(before: &ClusterHealthStatus, after: &ClusterHealthStatus) -> Vec<Event> {
    use Protection::{Active, None, Restoring, ScalingDown};
    let message = || after.message.clone().unwrap_or_default();
    let protecting = || Event::new(&PROTECTING, message());
    let protected = || Event::new(&PROTECTED, message());
    // States in between may have passed without being written.
    match (before.protection, after.protection) {
        (None | Restoring, ScalingDown) => vec![protecting()],
        (None | Restoring, Active) if after.reason.as_deref() == Some(OUTAGE) => {
            vec![protecting(), protected()]
        }
        // Marks were found of which nobody knew, or a restore was given up.
        (None | Restoring | ScalingDown, Active) => vec![protected()],
        (None | ScalingDown | Active, Restoring) => vec![Event::new(&RESTORING, message())],
        (ScalingDown | Active | Restoring, None) => vec![over(before, after)],
        (Active, ScalingDown)
        | (None, None)
        | (ScalingDown, ScalingDown)
        | (Active, Active)
        | (Restoring, Restoring) => vec![],
    }
}

/// A protection had lasted for its policy's maxProtection.
fn ended(before: &ClusterHealthStatus, after: &ClusterHealthStatus) -> Option<Event> {
    let now = after.max_protection_reached.as_ref();
    let message = after.message.as_deref().unwrap_or_default();
    let note = format!(
        "its dependents are given back, since they were scaled down for as long as the policy's maxProtection \
         lets them be; nodes that are silent since before count neither way until they renew: {message}"
    );
    (now.is_some() && before.max_protection_reached.as_ref() != now)
        .then(|| Event::new(&MAX_PROTECTION_REACHED, note))
}

/// A protection is over: what was taken was given back, or was let go.
fn over(before: &ClusterHealthStatus, after: &ClusterHealthStatus) -> Event {
    let since = before.protected_since.as_ref();
    let lasted = since.zip(after.last_transition_time.as_ref());
    let lasted = lasted.map_or_else(String::new, |(since, end)| {
        let seconds = end.0.duration_since(since.0).as_secs().max(0);
        format!(" after {:#}", SignedDuration::from_secs(seconds))
    });
    let finding = after.message.as_deref().unwrap_or_default();
    let during = |at| since.is_none_or(|since| since.0 <= at);
    let last = after.last_action.as_ref();
    let (kind, what) = match last.filter(|it| during(it.time.0)).map(|it| it.action) {
        Some(Action::Restored) => (&RESTORED, "its dependents are back"),
        Some(Action::Released) => (&LET_GO, "its dependents carry no mark any more"),
        Some(Action::ScaledDown) | None => (&LET_GO, "nothing is owed to its dependents any more"),
    };
    Event::new(kind, format!("{what}{lasted}; {finding}"))
}

/// The first status of all is no transition.
fn skipped(before: &ClusterHealthStatus, after: &ClusterHealthStatus) -> Option<Event> {
    if before.reason.is_none() || before.skipped == after.skipped {
        return None;
    }
    let message = after.message.as_deref().unwrap_or_default();
    match (&before.skipped, &after.skipped) {
        (_, Some(reason)) => Some(Event::new(&SKIPPED, format!("{reason}: {message}"))),
        (Some(reason), None) => {
            let note = format!("it is probed; it was not: {reason}");
            Some(Event::new(&PROBED, note))
        }
        (None, None) => None,
    }
}

/// Something is deliberately not done.
fn held_back(before: &ClusterHealthStatus, after: &ClusterHealthStatus) -> Option<Event> {
    let kind = |status: &ClusterHealthStatus| {
        let protecting = conditions::find(&status.conditions, conditions::PROTECTING)?;
        match (&*protecting.reason, status.protection) {
            ("DryRun", Protection::None) => Some(&WOULD_PROTECT),
            // What waits for its turn gets it within minutes.
            (PACED, _) => None,
            (reason, _) => (reason == "DryRun" || is_held_back(reason)).then_some(&HELD_BACK),
        }
    };
    let now = kind(after).filter(|now| kind(before) != Some(*now))?;
    Some(Event::new(now, after.message.clone().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use rstest::rstest;

    use super::*;
    use crate::{
        api::{LastAction, Mode},
        prober::{
            report::{
                ClusterReport,
                finding::{Finding, HeldBack},
                fixtures::{self, assessment, closed, owed, problem, report},
            },
            verdict::Verdict,
        },
        status::events::Kind,
    };

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn judged(verdict: Verdict, expired: usize) -> ClusterReport {
        report(Finding::Judged(verdict, Box::new(assessment(5, expired))))
    }

    fn healthy() -> ClusterReport {
        judged(Verdict::Healthy, 0)
    }

    fn outage() -> ClusterReport {
        judged(Verdict::Outage, 5)
    }

    fn unread() -> ClusterReport {
        report(Finding::Unread {
            reason: "Timeout",
            message: "no answer".to_owned(),
        })
    }

    fn skipped(reason: &'static str) -> ClusterReport {
        report(Finding::Skipped {
            reason,
            message: "what was seen".to_owned(),
        })
    }

    fn in_protection(protection: Protection, report: ClusterReport) -> ClusterReport {
        ClusterReport {
            protection,
            protected_since: Some(time(100)),
            dependents: vec![owed("kcm")],
            ..report
        }
    }

    fn active() -> ClusterReport {
        in_protection(Protection::Active, outage())
    }

    fn scaling_down() -> ClusterReport {
        in_protection(Protection::ScalingDown, outage())
    }

    fn restoring() -> ClusterReport {
        in_protection(Protection::Restoring, healthy())
    }

    fn after(action: Action, second: i64) -> ClusterReport {
        ClusterReport {
            last_action: Some(LastAction {
                time: Time(time(second)),
                action,
                message: String::new(),
            }),
            ..healthy()
        }
    }

    fn overdue() -> ClusterReport {
        ClusterReport {
            overdue: true,
            ..active()
        }
    }

    fn held_back(report: ClusterReport) -> ClusterReport {
        ClusterReport {
            held_back: Some(HeldBack::By("the policy's initialDelay has not passed yet")),
            ..report
        }
    }

    fn dry_run(report: ClusterReport) -> ClusterReport {
        ClusterReport {
            mode: Mode::DryRun,
            ..report
        }
    }

    fn troubled() -> ClusterReport {
        ClusterReport {
            problems: vec![problem(
                "kcm",
                "ScalingForbidden",
                "kcm: patch is forbidden",
            )],
            ..healthy()
        }
    }

    fn statuses(
        before: &ClusterReport,
        after: &ClusterReport,
    ) -> (ClusterHealthStatus, ClusterHealthStatus) {
        let before = fixtures::written(before, &ClusterHealthStatus::default(), time(100));
        let after = fixtures::written(after, &before, time(825));
        (before, after)
    }

    #[rstest]
    #[case::begins(healthy(), scaling_down(), &[&PROTECTING])]
    #[case::is_down(scaling_down(), active(), &[&PROTECTED])]
    #[case::is_down_at_once(healthy(), active(), &[&PROTECTING, &PROTECTED])]
    #[case::waits_for_a_gate(
        active(),
        ClusterReport {
            held_back: closed("why"),
            ..in_protection(Protection::Active, healthy())
        },
        &[&HELD_BACK]
    )]
    #[case::marks_are_found(
        report(Finding::Pending), in_protection(Protection::Active, healthy()), &[&PROTECTED]
    )]
    #[case::recovers(active(), restoring(), &[&RESTORING])]
    #[case::recovers_halfway(scaling_down(), restoring(), &[&RESTORING])]
    #[case::fails_again(restoring(), scaling_down(), &[&PROTECTING])]
    #[case::fails_again_at_once(restoring(), active(), &[&PROTECTING, &PROTECTED])]
    #[case::is_back(restoring(), after(Action::Restored, 800), &[&RESTORED])]
    #[case::is_back_at_once(active(), after(Action::Restored, 800), &[&RESTORED])]
    #[case::is_let_go(active(), after(Action::Released, 800), &[&LET_GO])]
    #[case::is_paid_by_others(active(), after(Action::ScaledDown, 800), &[&LET_GO])]
    #[case::had_nothing_to_scale(scaling_down(), after(Action::Restored, 50), &[&LET_GO])]
    #[case::lasts(active(), overdue(), &[&PROTECTED_TOO_LONG])]
    #[case::is_skipped(healthy(), skipped("Hibernated"), &[&SKIPPED])]
    #[case::is_skipped_otherwise(skipped("Hibernated"), skipped("WakingUp"), &[&SKIPPED])]
    #[case::is_probed_again(skipped("WakingUp"), healthy(), &[&PROBED])]
    #[case::is_held_back(healthy(), held_back(outage()), &[&HELD_BACK])]
    #[case::acts_at_last(held_back(outage()), scaling_down(), &[&PROTECTING])]
    #[case::stays_down_in_dry_run(active(), dry_run(active()), &[&HELD_BACK])]
    #[case::would_act(dry_run(healthy()), dry_run(outage()), &[&WOULD_PROTECT])]
    #[case::is_suspended_while_protected(
        active(), in_protection(Protection::Active, skipped("Suspended")), &[&SKIPPED]
    )]
    #[case::is_new_and_silent(report(Finding::Pending), scaling_down(), &[&PROTECTING])]
    #[case::is_new(report(Finding::Pending), healthy(), &[])]
    #[case::other_counts(active(), in_protection(Protection::Active, judged(Verdict::Outage, 4)), &[])]
    #[case::healthy_and_not_restored_yet(active(), in_protection(Protection::Active, healthy()), &[])]
    #[case::looked_at_again(active(), scaling_down(), &[])]
    #[case::still_held_back(held_back(outage()), held_back(judged(Verdict::Outage, 4)), &[])]
    // Others tell that.
    #[case::a_single_failure(healthy(), unread(), &[])]
    #[case::trouble(healthy(), troubled(), &[])]
    fn what_is_told(
        #[case] before: ClusterReport,
        #[case] now: ClusterReport,
        #[case] expected: &[&Kind],
    ) {
        let (before, now) = statuses(&before, &now);
        let told = transitions(&before, &now);
        let kinds: Vec<&Kind> = told.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, expected);
        assert!(told.iter().all(|event| !event.note.is_empty()));
        // Refreshed, or left to a successor, it says the same.
        assert_eq!(transitions(&now, &now), []);
    }
}
