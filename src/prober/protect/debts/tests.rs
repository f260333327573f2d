//! What is told of a dependent that is not where it should be.

use rstest::rstest;

use super::*;
use crate::prober::{
    fixtures::dependent,
    flow::Begun,
    plan::{Family, Observed, Record},
    scale_error::ScaleError,
};

/// At zero, with this record.
fn at_zero(record: Record) -> Option<Observed> {
    Some(Observed {
        family: Family::Apps,
        uid: None,
        resource_version: "7".to_owned(),
        replicas: 0,
        marked: false,
        record,
        ignored: false,
        any_left: false,
        running: false,
    })
}

/// After it was scaled down from 4 replicas.
#[rstest]
#[case::late(
    What::Late(Duration::from_secs(30)),
    "ScalingLate: apps/v1 Deployment/a was not scaled within 30s"
)]
#[case::refused(
    What::Failed(ScaleError::Conflicts, None),
    "ScalingConflicts: apps/v1 Deployment/a: it was changed by somebody else 5 times"
)]
#[case::mark_removed(
    What::Settled(Settled::NotOurs, at_zero(Record::Absent)),
    "MarkRemoved: apps/v1 Deployment/a is at 0 replicas and is not restored, since its mark was removed by \
     somebody else; to have it back: kubectl scale deployment/a --replicas=4 "
)]
#[case::mark_removed_at_a_look(
    What::Settled(Settled::Seen { marked: false }, at_zero(Record::Absent)),
    "MarkRemoved: "
)]
#[case::ignored(
    What::Settled(Settled::Ignored { at_zero: true }, at_zero(Record::Replicas(3))),
    "IgnoredAtZero: apps/v1 Deployment/a is at 0 replicas and is not restored, since it says ignore-scaling; \
     to have it back: kubectl scale deployment/a --replicas=3 "
)]
#[case::deleted(
    What::Settled(Settled::Missing, None),
    "DependentMissing: apps/v1 Deployment/a was scaled to zero, and has been deleted since"
)]
#[case::ignored_and_up(What::Settled(Settled::Ignored { at_zero: false }, None), "")]
#[case::restored(What::Settled(Settled::Up, None), "")]
fn what_is_told(#[case] what: What, #[case] expected: &str) {
    let a = dependent("a", 0, 0);
    let mut debts = Debts::default();
    debts.adopt(std::slice::from_ref(&a));
    for what in [What::Did(Step::ScaleDown { from: 4 }, None), what] {
        debts.note(&a, &what, Instant::now());
    }
    let told = debts.problems().next();
    let told = told.map(|it| format!("{}: {}", it.reason, it.message));
    let told = told.unwrap_or_default();
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
}

/// A part of it was written, or may yet be: it is owed before that is known.
#[rstest]
#[case::taken(Step::ScaleDown { from: 3 }, Some(Some(3)))]
#[case::given_back(Step::ScaleUp { to: 3 }, Some(Some(3)))]
#[case::let_go(Step::DropMarkAndRecord, None)]
fn what_may_have_been_taken_is_owed(
    #[case] step: Step,
    #[case] expected: Option<Option<i32>>,
    #[values(false, true)] in_flight: bool,
) {
    let a = dependent("a", 0, 0);
    let mut debts = Debts::default();
    debts.adopt(std::slice::from_ref(&a));
    let begun = Some(Begun { step, in_flight });
    for what in [
        What::Settled(Settled::Up, None),
        What::Failed(ScaleError::Conflicts, begun),
    ] {
        debts.note(&a, &what, Instant::now());
    }
    assert_eq!(debts.owed(&a.reference), expected);
    // Only what may yet come about has to be looked at.
    assert_eq!(debts.is_looked_at(), !in_flight);
}
