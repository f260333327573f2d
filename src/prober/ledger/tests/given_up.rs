//! What cannot be scaled any more, and when it is given up.

use super::*;

/// What the seed says of a dependent in these seconds: that it cannot be scaled, or nothing.
fn says(ledger: &mut Ledger, start: Instant, seconds: &[(u64, bool)]) -> Option<&'static str> {
    let a = dependent("a", 1);
    for (second, unscalable) in seconds {
        let failed = What::Failed(
            match unscalable {
                true => ScaleError::UnknownKind("v1 A".to_owned()),
                false => ScaleError::Conflicts,
            },
            None,
        );
        ledger.note(&a, &failed, start + Duration::from_secs(*second));
    }
    ledger.problem(&a.reference).map(|problem| problem.reason)
}

/// While a policy names it, its mistake is told, and it stays owed.
#[rstest]
#[case::named(true, &[(0, true), (60, true), (120, true), (600, true)], true, Some("KindUnknown"))]
#[case::once(false, &[(0, true)], true, Some("KindUnknown"))]
#[case::twice(false, &[(0, true), (600, true)], true, Some("KindUnknown"))]
#[case::for_seconds(false, &[(0, true), (50, true), (100, true), (119, true)], true, Some("KindUnknown"))]
#[case::not_in_a_row(
    false, &[(0, true), (60, true), (90, false), (120, true), (180, true), (239, true)], true, Some("KindUnknown")
)]
#[case::for_minutes(false, &[(0, true), (60, true), (120, true)], false, Some("GivenUp"))]
#[case::in_a_row_again(
    false, &[(0, true), (90, false), (100, true), (180, true), (220, true)], false, Some("GivenUp")
)]
#[case::told_for_a_while(
    false, &[(0, true), (60, true), (120, true), (180, true), (900, false), (3719, true)], false, Some("GivenUp")
)]
#[case::not_for_ever(
    false, &[(0, true), (60, true), (120, true), (180, true), (900, false), (3720, true)], false, None
)]
fn what_cannot_be_scaled_is_given_up_once_nobody_asks_for_it(
    #[case] named: bool,
    #[case] seconds: &[(u64, bool)],
    #[case] owes: bool,
    #[case] reason: Option<&str>,
) {
    let mut ledger = owing();
    let b = dependent("b", 0);
    note(&mut ledger, &b, &What::Settled(Settled::Up, None));
    if !named {
        ledger.adopt(&[b]);
    }
    assert_eq!(says(&mut ledger, Instant::now(), seconds), reason);
    assert_eq!(ledger.owes(), owes);
    assert!(ledger.is_looked_at());
    let told = ledger.problems().map(|problem| &*problem.message);
    for message in told.filter(|_| !owes) {
        assert!(message.contains("its replicas to 4"), "{message}");
    }
    assert_eq!(names(&ledger).len(), 1 + usize::from(reason.is_some()));
}

/// What no policy names is told of a cluster that is at rest as well, but not if it is named again.
#[test]
fn that_it_was_given_up_is_told_until_it_is_named_or_seen() {
    let given_up = || {
        let mut ledger = owing();
        ledger.adopt(&[]);
        let seconds = [(0, true), (60, true), (120, true)];
        assert_eq!(says(&mut ledger, Instant::now(), &seconds), Some("GivenUp"));
        ledger
    };
    let a = dependent("a", 1);
    let mut ledger = given_up();
    ledger.adopt(&[]);
    assert_eq!(ledger.problems().count(), 1);
    ledger.adopt(std::slice::from_ref(&a));
    assert_eq!(ledger.problems().count(), 0);
    for (what, owes) in [
        (What::Settled(Settled::Missing, None), false),
        (What::Settled(Settled::Seen { marked: true }, None), true),
        (What::Interrupted(Step::ScaleUp { to: 3 }), true),
        (
            What::Failed(ScaleError::Conflicts, Some(Step::ScaleUp { to: 3 })),
            true,
        ),
    ] {
        let mut ledger = given_up();
        note(&mut ledger, &a, &what);
        assert_eq!(ledger.owes(), owes, "{what:?}");
        assert!(ledger.problems().all(|problem| problem.reason != "GivenUp"));
    }
}

/// Nobody knew of anything that it was owed.
#[test]
fn what_was_never_seen_is_given_up_without_a_word() {
    let mut ledger = Ledger::default();
    ledger.adopt(&[dependent("a", 1)]);
    ledger.adopt(&[]);
    let start = Instant::now();
    assert_eq!(
        says(&mut ledger, start, &[(0, true), (60, true)]),
        Some("KindUnknown")
    );
    assert!(!ledger.is_looked_at());
    assert_eq!(says(&mut ledger, start, &[(120, true)]), None);
    assert!(ledger.is_looked_at());
    assert_eq!(names(&ledger), [""; 0]);
}
