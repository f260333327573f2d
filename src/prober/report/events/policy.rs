//! Events on a ProbePolicy: what its status says now and did not say before, and its finalizer.

use std::{collections::BTreeSet, sync::Arc};

use super::super::policy;
use crate::{
    api::{FINALIZER, ProbePolicyStatus},
    status::{
        conditions,
        events::{
            Event,
            kinds::{
                CONFLICTED, FINALIZER_ADDED, FINALIZER_REMOVED, FIRST_PROTECTED, INVALID,
                LETTING_GO, NONE_PROTECTED, NOT_CONFLICTED, RIGHTS_MISSING, RIGHTS_SUFFICE, VALID,
            },
            rules::{Rule, changes},
        },
    },
};

const RULES: [Rule; 5] = [
    Rule::begins(conditions::STALLED, &INVALID).ends(&VALID, "the policy is valid, and obeyed"),
    Rule::begins(conditions::CONFLICTED, &CONFLICTED).ends(
        &NOT_CONFLICTED,
        "no cluster that the policy selects is probed by another one any more",
    ),
    Rule::begins(conditions::PROTECTING, &FIRST_PROTECTED).ends(
        &NONE_PROTECTED,
        "none of its clusters is protected any more",
    ),
    Rule::begins(conditions::DEGRADED, &RIGHTS_MISSING)
        .says(|it| policy::RIGHTS.part(it))
        .ends(&RIGHTS_SUFFICE, policy::RIGHTS.suffice),
    Rule::begins(conditions::RECONCILING, &LETTING_GO)
        .says(|it| (it.reason == policy::LETTING_GO).then_some(&it.message)),
];

/// The events of a status that was written, given the one that was there.
pub(in crate::prober::report) fn transitions(
    before: &ProbePolicyStatus,
    after: &ProbePolicyStatus,
) -> Vec<Event> {
    changes(&RULES, &before.conditions, &after.conditions)
}

/// The finalizer was put on, for these clusters, or taken off.
pub(in crate::prober::report) fn finalizer(on: bool, clusters: &BTreeSet<Arc<str>>) -> Event {
    if on {
        let clusters: Vec<String> = clusters.iter().map(|name| name.to_string()).collect();
        let note = format!(
            "it carries the finalizer {FINALIZER} until these are let go: {}",
            policy::examples(&clusters)
        );
        Event::new(&FINALIZER_ADDED, note)
    } else {
        let note = format!("it protects nothing any more, and lost the finalizer {FINALIZER}");
        Event::new(&FINALIZER_REMOVED, note)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use rstest::rstest;

    use super::*;
    use crate::{
        prober::{
            report::{
                ClusterReport,
                finding::Finding,
                fixtures::{assessment, owed, policy_of, report, said_of, selecting},
                policy::PolicyReport,
                summary::Summary,
            },
            verdict::Verdict,
        },
        status::events::Kind,
    };

    /// A policy that is as it should be, with one cluster.
    fn sound() -> PolicyReport {
        selecting(&["a"])
    }

    fn invalid(problem: &str) -> PolicyReport {
        PolicyReport {
            generation: 2,
            problems: vec![problem.to_owned()],
            ..sound()
        }
    }

    fn conflicted(clusters: &[&str]) -> PolicyReport {
        let clusters = clusters.iter().map(|name| Arc::from(*name)).collect();
        PolicyReport {
            lost: [("other".into(), clusters)].into(),
            ..sound()
        }
    }

    fn deleting(report: PolicyReport) -> PolicyReport {
        PolicyReport {
            deleting: true,
            held: true,
            ..report
        }
    }

    struct Case {
        policy: PolicyReport,
        cluster: ClusterReport,
        holding: bool,
        lacking: Option<&'static str>,
    }

    fn case(policy: PolicyReport) -> Case {
        let seen = Box::new(assessment(5, 0));
        Case {
            policy,
            cluster: report(Finding::Judged(Verdict::Healthy, seen)),
            holding: false,
            lacking: None,
        }
    }

    fn protecting(policy: PolicyReport) -> Case {
        let seen = Box::new(assessment(5, 5));
        Case {
            cluster: ClusterReport {
                dependents: vec![owed("kcm")],
                ..report(Finding::Judged(Verdict::Outage, seen))
            },
            holding: true,
            ..case(policy)
        }
    }

    fn lacking(right: &'static str) -> Case {
        Case {
            lacking: Some(right),
            ..case(sound())
        }
    }

    fn status(case: &Case, before: &ProbePolicyStatus) -> ProbePolicyStatus {
        let name: Arc<str> = "a".into();
        let holding: BTreeSet<Arc<str>> = [name].into();
        let missing: Vec<String> = case.lacking.into_iter().map(str::to_owned).collect();
        let holding = if case.holding {
            holding
        } else {
            BTreeSet::new()
        };
        let policy = policy_of(&case.policy, before, &missing, holding);
        let seen = said_of(&case.cluster);
        let summary = |_: &str| {
            Some(Summary {
                looked_at: seen.report.looked_at,
                ..Summary::of(&seen.status)
            })
        };
        policy::status(&policy, summary, Timestamp::UNIX_EPOCH)
    }

    #[rstest]
    #[case::is_made_invalid(case(sound()), case(invalid("a")), &[&INVALID])]
    #[case::is_corrected(case(invalid("a")), case(sound()), &[&VALID])]
    #[case::is_outranked(case(sound()), case(conflicted(&["b"])), &[&CONFLICTED])]
    #[case::is_not_any_more(case(conflicted(&["b"])), case(sound()), &[&NOT_CONFLICTED])]
    #[case::protects(case(sound()), protecting(sound()), &[&FIRST_PROTECTED])]
    #[case::has_restored(protecting(sound()), case(sound()), &[&NONE_PROTECTED])]
    #[case::lacks_rights(case(sound()), lacking("patch a"), &[&RIGHTS_MISSING])]
    #[case::is_granted_them(lacking("patch a"), case(sound()), &[&RIGHTS_SUFFICE])]
    #[case::waits(protecting(sound()), protecting(deleting(sound())), &[&LETTING_GO])]
    #[case::goes(protecting(deleting(sound())), case(deleting(sound())), &[&NONE_PROTECTED])]
    #[case::makes_another_mistake(case(invalid("a")), case(invalid("b")), &[])]
    #[case::is_outranked_by_more(case(conflicted(&["b"])), case(conflicted(&["b", "c"])), &[])]
    #[case::lacks_another_right(lacking("patch a"), lacking("patch b"), &[])]
    #[case::is_deleted(case(sound()), case(deleting(sound())), &[])]
    #[case::is_deleted_instead_of_corrected(case(invalid("a")), case(deleting(invalid("a"))), &[])]
    fn what_is_told(#[case] before: Case, #[case] now: Case, #[case] expected: &[&Kind]) {
        let before = status(&before, &ProbePolicyStatus::default());
        let now = status(&now, &before);
        let told = transitions(&before, &now);
        let kinds: Vec<&Kind> = told.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, expected);
        assert!(told.iter().all(|event| !event.note.is_empty()));
        // Refreshed, or left to a successor, it says the same.
        assert_eq!(transitions(&now, &now), []);
    }
}
