//! When silence is widespread, as tables.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::*;

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

/// Since when it is silent: protected since second 5, and told now at second 9.
#[rstest]
#[case::outage(Protection::None, "Outage", true, Some(9))]
// Nobody knows since when, and an hour apart is not at once.
#[case::outage_that_was_not_heard(Protection::None, "Outage", false, None)]
#[case::protected(Protection::Active, "Outage", false, Some(5))]
#[case::begun(Protection::ScalingDown, "Outage", false, Some(5))]
#[case::unread(Protection::Active, "Timeout", false, Some(5))]
#[case::after_a_restart(Protection::Active, "Pending", false, Some(5))]
#[case::unread_and_not_protected(Protection::None, "Timeout", true, None)]
#[case::healthy_again(Protection::Active, "Healthy", true, None)]
#[case::being_restored(Protection::Restoring, "Timeout", true, None)]
#[case::not_probed_any_more(Protection::Active, "Hibernated", true, None)]
fn who_is_silent(
    #[case] protection: Protection,
    #[case] reason: &str,
    #[case] heard: bool,
    #[case] expected: Option<i64>,
) {
    let protected = protection != Protection::None;
    let skipped = reason == "Hibernated";
    let status = ClusterHealthStatus {
        protection,
        reason: Some(reason.to_owned()),
        skipped: skipped.then(|| reason.to_owned()),
        protected_since: protected.then(|| Time(at(5))),
        ..ClusterHealthStatus::default()
    };
    let since = |before| silent_since(&status, before, heard, at(9));
    assert_eq!(since(None), expected.map(at));
    // The onset stays.
    let silent = expected.is_some() || reason == "Outage";
    assert_eq!(since(Some(at(3))), silent.then(|| at(3)));
}
