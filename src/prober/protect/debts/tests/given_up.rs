//! What cannot be scaled any more, and when it is given up.

use super::*;

/// What comes of a flow that reaches for a dependent.
#[derive(Clone, Copy)]
enum Met {
    /// The kind is not served.
    Nowhere,
    /// The same, while it is held as it is.
    Held,
    /// The kind cannot be scaled.
    NoScale,
    /// Nor may it be read.
    Unseen,
    /// Nothing that says anything of the dependent.
    Conflict,
}
use Met::{Conflict, Held, NoScale, Nowhere, Unseen};

/// Who wants the dependent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    Asks,
    /// While the cluster is let go.
    Names,
    Forgets,
}
use Policy::{Asks, Forgets, Names};

/// What is told of `a` after these seconds.
fn meets(
    debts: &mut Debts,
    start: Instant,
    seconds: impl IntoIterator<Item = (u64, Met)>,
) -> Option<&'static str> {
    let a = dependent("a", 1);
    for (second, met) in seconds {
        let error = match met {
            Nowhere | Held => ScaleError::UnknownKind("v1 A".to_owned()),
            NoScale => ScaleError::NotScalable,
            Unseen => ScaleError::Forbidden {
                verb: "get",
                message: String::new(),
                scalable: false,
            },
            Conflict => ScaleError::Conflicts,
        };
        let now = start + Duration::from_secs(second);
        let held = matches!(met, Held);
        debts.note(&a, &What::Failed(error, None), held, now);
    }
    debts.problem(&a.reference).map(|problem| problem.reason)
}

/// At these seconds.
fn each<const N: usize>(seconds: [u64; N], met: Met) -> impl Iterator<Item = (u64, Met)> {
    seconds.into_iter().map(move |second| (second, met))
}

/// While a policy names it, its mistake is told, and it stays owed.
#[rstest]
#[case::asked_for(Asks, &[(0, Nowhere), (60, Nowhere), (120, Nowhere), (600, Nowhere)], true, Some("KindUnknown"))]
#[case::named(Names, &[(0, Nowhere), (60, Nowhere), (120, Nowhere), (600, Nowhere)], true, Some("KindUnknown"))]
#[case::once(Forgets, &[(0, Nowhere)], true, Some("KindUnknown"))]
#[case::twice(Forgets, &[(0, Nowhere), (600, Nowhere)], true, Some("KindUnknown"))]
#[case::for_seconds(
    Forgets, &[(0, Nowhere), (50, Nowhere), (100, Nowhere), (119, Nowhere)], true, Some("KindUnknown")
)]
#[case::not_in_a_row(
    Forgets,
    &[(0, Nowhere), (60, Nowhere), (90, Conflict), (120, Nowhere), (180, Nowhere), (239, Nowhere)],
    true,
    Some("KindUnknown")
)]
#[case::by_answers_that_were_known(
    Forgets, &[(0, Nowhere), (3, Nowhere), (9, Nowhere), (130, Nowhere), (139, Nowhere)], true, Some("KindUnknown")
)]
#[case::by_other_answers(
    Forgets, &[(0, Nowhere), (9, Nowhere), (10, Nowhere), (120, Nowhere)], false, Some("GivenUp")
)]
#[case::held(
    Forgets, &[(0, Held), (60, Held), (120, Held), (180, Held), (600, Held)], true, Some("KindUnknown")
)]
#[case::held_meanwhile(
    Forgets, &[(0, Nowhere), (60, Nowhere), (120, Held), (180, Nowhere), (240, Nowhere)], true, Some("KindUnknown")
)]
#[case::served(
    Forgets, &[(0, NoScale), (60, NoScale), (120, NoScale), (600, NoScale)], true, Some("NotScalable")
)]
#[case::served_until_now(
    Forgets, &[(0, NoScale), (60, NoScale), (120, Nowhere), (230, Nowhere)], true, Some("KindUnknown")
)]
#[case::for_minutes(Forgets, &[(0, Nowhere), (60, Nowhere), (120, Nowhere)], false, Some("GivenUp"))]
#[case::in_a_row_again(
    Forgets,
    &[(0, Nowhere), (90, Conflict), (100, Nowhere), (180, Nowhere), (220, Nowhere)],
    false,
    Some("GivenUp")
)]
#[case::told_for_a_while(
    Forgets,
    &[(0, Nowhere), (60, Nowhere), (120, Nowhere), (180, Held), (900, Conflict), (3719, Nowhere)],
    false,
    Some("GivenUp")
)]
#[case::not_for_ever(
    Forgets,
    &[(0, Nowhere), (60, Nowhere), (120, Nowhere), (180, Nowhere), (900, Conflict), (3720, Nowhere)],
    false,
    None
)]
fn what_is_not_served_is_given_up_once_no_policy_names_it(
    #[case] policy: Policy,
    #[case] seconds: &[(u64, Met)],
    #[case] owes: bool,
    #[case] reason: Option<&str>,
) {
    let mut debts = owing();
    let b = dependent("b", 0);
    note(&mut debts, &b, &What::Settled(Settled::Up, None));
    if policy != Asks {
        debts.adopt(&[b]);
    }
    debts.named_by(|dependent| policy != Forgets || dependent.name == "b");
    let told = meets(&mut debts, Instant::now(), seconds.iter().copied());
    assert_eq!(told, reason);
    assert_eq!(debts.owes(), owes);
    assert!(debts.is_looked_at());
    let told = debts.problems().map(|problem| &*problem.message);
    for message in told.filter(|_| !owes) {
        assert!(message.contains("its replicas to 4"), "{message}");
    }
    assert_eq!(names(&debts).len(), 1 + usize::from(reason.is_some()));
}

/// What was said while a policy named it does not count.
#[test]
fn it_is_counted_from_when_no_policy_names_it() {
    let mut debts = owing();
    let start = Instant::now();
    debts.adopt(&[]);
    debts.named_by(|_| true);
    meets(&mut debts, start, each([0, 60, 120, 180], Nowhere));
    debts.named_by(|_| false);
    let told = meets(&mut debts, start, each([240, 300, 349], Nowhere));
    assert_eq!((told, debts.owes()), (Some("KindUnknown"), true));
    let told = meets(&mut debts, start, each([360], Nowhere));
    assert_eq!((told, debts.owes()), (Some("GivenUp"), false));
}

/// It stays owed, and keeps no other at zero for it.
#[test]
fn what_stays_owed_comes_back_last() {
    let level = |debts: &Debts| {
        let dependents = dependents(debts, Aim::Restore);
        let mut of_a = dependents.iter().filter(|it| it.reference.name == "a");
        of_a.next().unwrap().up.level
    };
    for met in [Nowhere, NoScale] {
        let mut debts = owing();
        let start = Instant::now();
        debts.adopt(&[]);
        debts.named_by(|_| true);
        meets(&mut debts, start, each([0, 60, 119], met));
        assert_eq!(level(&debts), 1);
        meets(&mut debts, start, each([120, 130], met));
        assert_eq!((level(&debts), debts.owes()), (u32::MAX, true));
        let told = debts.status();
        let levels: Vec<_> = told.iter().map(|it| (&*it.r#ref.name, it.level)).collect();
        assert_eq!(levels, [("a", 1), ("b", 0)]);
        meets(&mut debts, start, [(140, Conflict)]);
        assert_eq!(level(&debts), 1);
    }
}

/// `a` was given up.
fn given_up() -> Debts {
    let mut debts = owing();
    let b = dependent("b", 0);
    note(&mut debts, &b, &What::Settled(Settled::Up, None));
    debts.adopt(&[]);
    let told = meets(&mut debts, Instant::now(), each([0, 60, 120], Nowhere));
    assert_eq!(told, Some("GivenUp"));
    debts
}

/// What no policy names is told of a cluster that is at rest as well, but not if it is asked for again.
#[test]
fn that_it_was_given_up_is_told_until_it_is_asked_for_or_seen() {
    let a = dependent("a", 1);
    let mut debts = given_up();
    debts.adopt(&[]);
    debts.named_by(|_| true);
    assert_eq!(debts.problems().count(), 1);
    debts.adopt(std::slice::from_ref(&a));
    assert_eq!(debts.problems().count(), 0);
    assert!(!debts.is_looked_at());
    for (what, owes) in [
        (What::Settled(Settled::Missing, None), false),
        (What::Settled(Settled::Seen { marked: true }, None), true),
        (What::Interrupted(half(Step::ScaleUp { to: 3 })), true),
        (
            What::Failed(ScaleError::Conflicts, lost(Step::ScaleUp { to: 3 })),
            true,
        ),
    ] {
        let mut debts = given_up();
        note(&mut debts, &a, &what);
        assert_eq!(debts.owes(), owes, "{what:?}");
        assert!(debts.problems().all(|problem| problem.reason != "GivenUp"));
    }
}

/// It is there, perhaps at zero and marked: that is told until it is mended, and it is looked at on and on.
#[test]
fn what_was_given_up_and_refuses_is_not_forgotten() {
    let forbidden = ScaleError::Forbidden {
        verb: "patch",
        message: String::new(),
        scalable: true,
    };
    for error in [ScaleError::UnreadableRecord("x".to_owned()), forbidden] {
        let mut debts = given_up();
        let a = dependent("a", 1);
        let reason = error.reason();
        let refused = What::Failed(error, None);
        let later = Instant::now() + Duration::from_secs(2 * 3600);
        for now in [Instant::now(), later] {
            debts.note(&a, &refused, false, now);
            debts.adopt(&[]);
            assert!(!debts.is_looked_at());
            assert_eq!(names(&debts), ["a"]);
        }
        note(&mut debts, &a, &refused);
        let told: Vec<_> = debts.problems().map(|problem| problem.reason).collect();
        assert_eq!(told, [reason]);
    }
}

/// Nobody knew of anything that it was owed.
#[rstest]
fn what_was_never_seen_is_given_up_without_a_word(
    #[values(Nowhere, NoScale)] met: Met,
    #[values(false, true)] named: bool,
) {
    let mut debts = Debts::default();
    debts.adopt(&[dependent("a", 1)]);
    debts.adopt(&[]);
    debts.named_by(|_| named);
    let start = Instant::now();
    assert!(meets(&mut debts, start, each([0, 60], met)).is_some());
    assert!(!debts.is_looked_at());
    assert_eq!(meets(&mut debts, start, each([120], met)), None);
    assert!(debts.is_looked_at());
    assert_eq!(names(&debts), [""; 0]);
}

/// There may be a mark on it, and that is told until somebody can see.
#[test]
fn what_nobody_may_read_is_not_given_up() {
    let mut debts = Debts::default();
    debts.adopt(&[dependent("a", 1)]);
    debts.adopt(&[]);
    let met = each([0, 60, 120, 600], Unseen);
    assert_eq!(meets(&mut debts, Instant::now(), met), Some("NotScalable"));
    assert!(!debts.is_looked_at());
    assert_eq!(names(&debts), ["a"]);
    note(
        &mut debts,
        &dependent("a", 1),
        &What::Settled(Settled::Up, None),
    );
    assert_eq!(names(&debts), [""; 0]);
}
