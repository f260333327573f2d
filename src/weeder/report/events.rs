//! Events on a WeedPolicy: what its status says now and did not say before.

use super::status::is_trouble;
use crate::{
    api::WeedPolicyStatus,
    status::{
        conditions,
        events::{
            Event,
            kinds::{
                WEED_INVALID, WEED_VALID, WEEDING, WEEDING_OVER, WEEDING_TROUBLE,
                WEEDING_UNTROUBLED,
            },
            rules::{Rule, changes},
        },
    },
};

const RULES: [Rule; 3] = [
    Rule::begins(conditions::STALLED, &WEED_INVALID)
        .ends(&WEED_VALID, "the policy is valid, and obeyed"),
    Rule::begins(conditions::WEEDING, &WEEDING)
        .ends(&WEEDING_OVER, "none of its windows is open any more"),
    Rule::begins(conditions::DEGRADED, &WEEDING_TROUBLE)
        .says(|it| is_trouble(&it.reason).then_some(&it.message))
        .ends(
            &WEEDING_UNTROUBLED,
            "nothing is known any more that keeps pods from being deleted",
        ),
];

/// The events of a status that was written, given the one that was there.
pub(super) fn transitions(before: &WeedPolicyStatus, after: &WeedPolicyStatus) -> Vec<Event> {
    changes(&RULES, &before.conditions, &after.conditions)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::jiff::Timestamp;
    use rstest::rstest;

    use super::{
        super::{
            DELETION_REFUSED, PODS_UNWATCHED, WeedReport, WeedTrouble,
            fixtures::{policy, weed_report},
            status,
        },
        *,
    };
    use crate::status::events::Kind;

    fn sound() -> WeedReport {
        weed_report()
    }

    fn invalid(problem: &str) -> WeedReport {
        let mut report = weed_report();
        Arc::make_mut(&mut report.policy).problems = vec![problem.to_owned()];
        report
    }

    fn weeding(service: &str) -> WeedReport {
        WeedReport {
            windows: 1,
            open: vec![service.to_owned()],
            ..weed_report()
        }
    }

    fn suspended() -> WeedReport {
        WeedReport {
            policy: policy(|it| it["spec"]["suspend"] = true.into()),
            ..weed_report()
        }
    }

    fn troubled(reason: &'static str) -> WeedReport {
        let trouble = WeedTrouble {
            reason,
            message: "pods is forbidden".to_owned(),
        };
        WeedReport {
            troubles: vec![trouble],
            ..weed_report()
        }
    }

    fn deleting(mut report: WeedReport) -> WeedReport {
        Arc::make_mut(&mut report.policy).deleting = true;
        report
    }

    fn status(report: &WeedReport, before: &WeedPolicyStatus) -> WeedPolicyStatus {
        status::status(report, before, Timestamp::UNIX_EPOCH)
    }

    #[rstest]
    #[case::is_made_invalid(sound(), invalid("a"), &[&WEED_INVALID])]
    #[case::is_corrected(invalid("a"), sound(), &[&WEED_VALID])]
    #[case::weeds(sound(), weeding("a/b"), &[&WEEDING])]
    #[case::has_weeded(weeding("a/b"), sound(), &[&WEEDING_OVER])]
    #[case::is_suspended_in_a_window(weeding("a/b"), suspended(), &[&WEEDING_OVER])]
    #[case::is_made_invalid_in_a_window(weeding("a/b"), invalid("a"), &[&WEED_INVALID, &WEEDING_OVER])]
    #[case::cannot_watch(sound(), troubled(PODS_UNWATCHED), &[&WEEDING_TROUBLE])]
    #[case::is_refused(sound(), troubled(DELETION_REFUSED), &[&WEEDING_TROUBLE])]
    #[case::can_again(troubled(DELETION_REFUSED), sound(), &[&WEEDING_UNTROUBLED])]
    fn what_is_told(
        #[case] before: WeedReport,
        #[case] now: WeedReport,
        #[case] expected: &[&Kind],
    ) {
        let before = status(&before, &WeedPolicyStatus::default());
        let now = status(&now, &before);
        let told = transitions(&before, &now);
        let kinds: Vec<&Kind> = told.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, expected);
        assert!(told.iter().all(|event| !event.note.is_empty()));
        // Refreshed, or left to a successor, it says the same.
        assert_eq!(transitions(&now, &now), []);
    }

    #[rstest]
    #[case::another_mistake(invalid("a"), invalid("b"))]
    #[case::another_service(weeding("a/b"), weeding("c/d"))]
    #[case::another_trouble(troubled(DELETION_REFUSED), troubled(PODS_UNWATCHED))]
    #[case::is_suspended(sound(), suspended())]
    #[case::is_deleted(sound(), deleting(sound()))]
    #[case::is_deleted_instead_of_corrected(invalid("a"), deleting(invalid("a")))]
    fn what_is_not(#[case] before: WeedReport, #[case] now: WeedReport) {
        let before = status(&before, &WeedPolicyStatus::default());
        let now = status(&now, &before);
        assert_eq!(transitions(&before, &now), []);
    }

    #[test]
    fn the_first_status_tells_what_is_amiss() {
        let none = WeedPolicyStatus::default();
        assert_eq!(transitions(&none, &status(&sound(), &none)), []);
        let told = transitions(&none, &status(&invalid("no selector"), &none));
        assert_eq!(told, [Event::new(&WEED_INVALID, "no selector")]);
    }
}
