//! When silence is widespread, as tables and properties.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use rstest::rstest;

use super::{
    super::{
        ClusterReport,
        finding::Finding,
        fixtures::{assessment, report, said_of},
    },
    *,
};
use crate::prober::verdict::{Doubt, Verdict};

fn written(report: &ClusterReport) -> ClusterHealthStatus {
    said_of(report).status
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn silent(onsets: &[i64]) -> BTreeMap<Arc<str>, Timestamp> {
    let named = onsets.iter().enumerate();
    named
        .map(|(index, onset)| (format!("shoot-{index}").into(), at(*onset)))
        .collect()
}

/// How many fell silent at once, and when the first did.
#[rstest]
#[case::none(&[], 10, None)]
#[case::two_are_too_few(&[100, 101], 2, None)]
#[case::three(&[100, 101, 102], 3, Some((3, 100)))]
#[case::a_quarter(&[100, 101, 102], 12, Some((3, 100)))]
#[case::less_than_a_quarter(&[100, 101, 102], 13, None)]
#[case::four_of_thirteen(&[100, 101, 102, 103], 13, Some((4, 100)))]
#[case::just_within_a_minute(&[100, 130, 160], 3, Some((3, 100)))]
#[case::not_within_a_minute(&[100, 130, 161], 3, None)]
#[case::one_by_one(&[0, 61, 122, 183, 244], 5, None)]
#[case::the_first_was_alone(&[0, 100, 101, 102], 10, Some((3, 100)))]
#[case::the_larger(&[0, 1, 2, 500, 501, 502, 503], 10, Some((4, 500)))]
#[case::the_first_of_two(&[0, 1, 2, 500, 501, 502], 10, Some((3, 0)))]
fn clusters_that_fell_silent_at_once(
    #[case] onsets: &[i64],
    #[case] probed: usize,
    #[case] expected: Option<(usize, i64)>,
) {
    let found = widespread(&silent(onsets), probed);
    let found = found.map(|it| (it.clusters.len(), it.first.as_second()));
    assert_eq!(found, expected);
}

#[test]
fn the_message_counts_and_says_where_to_look() {
    let found = widespread(&silent(&[1, 2, 3]), 7).unwrap();
    let expected = "3 of 7 probed clusters fell silent within 60s, the first at 1970-01-01T00:00:01Z: \
                    look for a common cause (network of the seed, NAT, load balancer, DNS)";
    assert_eq!(found.message(), expected);
}

fn judged(verdict: Verdict) -> Finding {
    Finding::Judged(verdict, Box::new(assessment(5, 5)))
}

fn unread() -> Finding {
    Finding::Unread {
        reason: "Timeout",
        message: String::new(),
    }
}

fn skipped() -> Finding {
    Finding::Skipped {
        reason: "Hibernated",
        message: String::new(),
    }
}

#[rstest]
#[case::outage(judged(Verdict::Outage), Protection::None, true)]
#[case::protected(judged(Verdict::Outage), Protection::Active, true)]
#[case::unread(unread(), Protection::None, false)]
#[case::unread_and_protected(unread(), Protection::ScalingDown, true)]
#[case::doubtful(
    judged(Verdict::Undetermined(Doubt::NoWrites)),
    Protection::Active,
    true
)]
#[case::healthy_again(judged(Verdict::Healthy), Protection::Active, false)]
#[case::being_restored(unread(), Protection::Restoring, false)]
#[case::not_probed_any_more(skipped(), Protection::Active, false)]
#[case::after_a_restart(Finding::Pending, Protection::Active, true)]
#[case::pending(Finding::Pending, Protection::None, false)]
fn who_is_silent(#[case] finding: Finding, #[case] protection: Protection, #[case] expected: bool) {
    let report = ClusterReport {
        protection,
        ..report(finding)
    };
    let since = silent_since(&written(&report), None, true, at(7));
    assert_eq!(since, expected.then(|| at(7)));
}

#[test]
fn the_onset_stays_and_outlives_a_restart() {
    let protected = ClusterReport {
        protection: Protection::Active,
        protected_since: Some(at(5)),
        ..report(judged(Verdict::Outage))
    };
    let since = |before, heard| silent_since(&written(&protected), before, heard, at(9));
    assert_eq!(since(Some(at(3)), true), Some(at(3)));
    assert_eq!(since(None, true), Some(at(5)));
    assert_eq!(since(None, false), Some(at(5)));
}

/// Clusters that fell silent an hour apart are not to seem one outage after a restart.
#[test]
fn nobody_knows_since_when_one_is_silent_that_was_not_heard() {
    let unprotected = report(judged(Verdict::Outage));
    assert_eq!(
        silent_since(&written(&unprotected), None, false, at(9)),
        None
    );
}

#[rstest]
#[case::outage(status(Protection::Active, "Outage"), true)]
#[case::begun(status(Protection::ScalingDown, "Outage"), true)]
#[case::unread(status(Protection::Active, "Timeout"), true)]
#[case::healthy_again(status(Protection::Active, "Healthy"), false)]
#[case::being_restored(status(Protection::Restoring, "Timeout"), false)]
#[case::unprotected(
    ClusterHealthStatus { protected_since: None, ..status(Protection::None, "Outage") },
    false
)]
#[case::not_probed_any_more(
    ClusterHealthStatus {
        skipped: Some("Hibernated".to_owned()),
        ..status(Protection::Active, "Hibernated")
    },
    false
)]
fn what_an_earlier_run_has_left(#[case] status: ClusterHealthStatus, #[case] silent: bool) {
    assert_eq!(
        silent_since(&status, None, false, at(9)),
        silent.then(|| at(5))
    );
}

fn status(protection: Protection, reason: &str) -> ClusterHealthStatus {
    ClusterHealthStatus {
        protection,
        reason: Some(reason.to_owned()),
        protected_since: Some(Time(at(5))),
        ..ClusterHealthStatus::default()
    }
}

proptest! {
    #[test]
    fn what_is_told_is_so(onsets in prop::collection::vec(0_i64..400, 0..40), more in 0_usize..100) {
        let silent = silent(&onsets);
        let probed = silent.len() + more;
        let found = widespread(&silent, probed);
        let largest = onsets
            .iter()
            .map(|first| onsets.iter().filter(|it| (*first..=first + 60).contains(it)).count())
            .max()
            .unwrap_or(0);
        prop_assert_eq!(found.is_some(), largest >= 3 && largest * 4 >= probed);
        if let Some(found) = found {
            prop_assert_eq!(found.clusters.len(), largest);
            let members = found.clusters.iter().map(|name| silent[name]);
            let spread = members.clone().max().unwrap().duration_since(found.first);
            prop_assert_eq!(members.min().unwrap(), found.first);
            prop_assert!(spread <= AT_ONCE);
        }
    }

    /// It ends as clusters are heard again, and not before.
    #[test]
    fn it_lasts_as_long_as_enough_are_silent(count in 3_usize..20, heard in 0_usize..20) {
        let mut silent = silent(&vec![0; count]);
        for index in 0..heard.min(count) {
            silent.remove(&*format!("shoot-{index}"));
        }
        let left = silent.len();
        let expected = left >= 3 && left * 4 >= count;
        prop_assert_eq!(widespread(&silent, count).is_some(), expected);
    }
}
