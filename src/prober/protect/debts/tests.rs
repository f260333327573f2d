//! What is owed, and what is known of it.

mod given_up;

use rstest::rstest;

use super::*;
use crate::prober::{
    fixtures,
    flow::{Begun, Task},
    plan::{Family, Record},
    scale_error::ScaleError,
};

fn dependent(name: &str, level: u32) -> Dependent {
    let mut dependent = fixtures::dependent(name, level, 9);
    for scale in [&mut dependent.up, &mut dependent.down] {
        scale.initial_delay = Duration::from_millis(1_500);
    }
    dependent
}

fn found(replicas: i32, record: Record) -> Option<Observed> {
    Some(Observed {
        family: Family::Apps,
        uid: None,
        resource_version: "7".to_owned(),
        replicas,
        marked: false,
        record,
        ignored: false,
        any_left: false,
        running: false,
    })
}

const fn memory(owed: bool, replicas: Option<i32>) -> Memory {
    Memory {
        owed,
        keeps_mark: false,
        replicas,
    }
}

/// Of dependents "a" and "b", "a" scaled down from 4.
fn owing() -> Debts {
    let mut debts = Debts::default();
    let (a, b) = (dependent("a", 1), dependent("b", 0));
    debts.adopt(&[a.clone(), b]);
    note(
        &mut debts,
        &a,
        &What::Did(Step::ScaleDown { from: 4 }, None),
    );
    debts
}

/// A part of this was written.
fn half(step: Step) -> Begun {
    Begun {
        step,
        in_flight: false,
    }
}

/// This may yet be written.
fn lost(step: Step) -> Option<Begun> {
    Some(Begun {
        in_flight: true,
        ..half(step)
    })
}

fn note(debts: &mut Debts, dependent: &Dependent, what: &What) {
    debts.note(dependent, what, false, Instant::now());
}

fn names(debts: &Debts) -> Vec<String> {
    let dependents = dependents(debts, Aim::Restore).into_iter();
    dependents.map(|d| d.reference.name).collect()
}

fn dependents(debts: &Debts, aim: Aim) -> Vec<Dependent> {
    let tasks = debts.tasks(aim).into_iter();
    tasks.map(|task| task.dependent).collect()
}

fn memories(debts: &Debts) -> Vec<Memory> {
    let tasks = debts.tasks(Aim::Restore).into_iter();
    tasks.map(|task| task.memory).collect()
}

fn first(debts: &Debts, aim: Aim) -> Task {
    debts.tasks(aim).swap_remove(0)
}

fn delays(debts: &Debts) -> bool {
    let tasks = debts.tasks(Aim::Restore);
    tasks.iter().any(|task| task.delayed.is_some())
}

/// A new leader finds a mark, and corrects its record. From then on it knows of the mark.
#[test]
fn a_mark_whose_record_was_corrected_is_not_forgotten() {
    let (mut debts, a) = (Debts::default(), dependent("a", 0));
    debts.adopt(std::slice::from_ref(&a));
    let recorded = What::Did(Step::Record { replicas: 1 }, found(1, Record::Replicas(3)));
    note(&mut debts, &a, &recorded);
    debts.adopt(&[]);
    assert!(debts.keeps_marks());
    assert_eq!(names(&debts), ["a"]);
    // Nor is that of one that was just restored.
    let up = What::Did(Step::ScaleUp { to: 3 }, found(0, Record::Replicas(3)));
    note(&mut debts, &a, &up);
    note(&mut debts, &a, &recorded);
    let zeroed = What::Settled(Settled::ZeroedAgain, found(0, Record::Replicas(1)));
    note(&mut debts, &a, &zeroed);
    assert!(debts.is_disputed());
}

#[rstest]
#[case::scaled_down(What::Did(Step::ScaleDown { from: 3 }, found(3, Record::Absent)), memory(true, Some(3)))]
#[case::scaled_up(
    What::Did(Step::ScaleUp { to: 3 }, found(0, Record::Replicas(3))),
    Memory { keeps_mark: true, ..memory(true, Some(3)) }
)]
#[case::mark_dropped(
    What::Did(Step::DropMarkAndRecord, found(2, Record::Replicas(3))),
    memory(true, Some(2))
)]
#[case::released(
    What::Did(Step::DropMark, found(0, Record::Replicas(3))),
    memory(false, None)
)]
#[case::waited(
    What::Did(Step::Wait, found(0, Record::Replicas(3))),
    memory(true, Some(4))
)]
#[case::down(
    What::Settled(Settled::Down, found(0, Record::Replicas(3))),
    memory(true, Some(3))
)]
#[case::down_without_record(
    What::Settled(Settled::Down, found(0, Record::Absent)),
    memory(true, Some(4))
)]
#[case::up(
    What::Settled(Settled::Up, found(3, Record::Absent)),
    memory(false, None)
)]
#[case::not_ours(
    What::Settled(Settled::NotOurs, found(0, Record::Absent)),
    memory(false, None)
)]
#[case::missing(What::Settled(Settled::Missing, None), memory(false, None))]
#[case::ignored(What::Settled(Settled::Ignored { at_zero: true }, found(0, Record::Absent)), memory(false, None))]
fn what_was_done_is_remembered(#[case] what: What, #[case] expected: Memory) {
    let mut debts = owing();
    let a = dependent("a", 1);
    note(&mut debts, &a, &What::Late(Duration::from_secs(30)));
    note(&mut debts, &a, &what);
    assert_eq!(debts.memory(&a.reference).unwrap(), expected);
    assert_eq!(debts.owes(), expected.owed);
    // What was late has come about, or somebody else has seen to it.
    assert!(
        debts
            .problems()
            .all(|problem| problem.reason != "ScalingLate")
    );
}

/// Owed before it is known whether it was taken, and known to be owed again when it was not.
#[rstest]
#[case::answer_lost(What::Failed(ScaleError::Conflicts, lost(Step::ScaleDown { from: 3 })), memory(true, Some(3)), true)]
#[case::stopped(What::Interrupted(half(Step::ScaleDown { from: 3 })), memory(true, Some(3)), false)]
#[case::restored(What::Interrupted(half(Step::ScaleUp { to: 3 })), memory(true, Some(3)), false)]
#[case::mark_dropped(
    What::Interrupted(half(Step::DropMarkAndRecord)),
    memory(false, None),
    false
)]
#[case::failed_half_way(What::Failed(ScaleError::Conflicts, Some(half(Step::ScaleDown { from: 3 }))), memory(true, Some(3)), false)]
#[case::refused(What::Failed(ScaleError::Conflicts, None), memory(false, None), false)]
fn what_may_have_been_taken_is_owed(
    #[case] what: What,
    #[case] expected: Memory,
    #[case] doubted: bool,
) {
    let mut debts = Debts::default();
    let a = dependent("a", 1);
    debts.adopt(std::slice::from_ref(&a));
    let seen = What::Settled(Settled::Up, None);
    note(&mut debts, &a, &seen);
    note(&mut debts, &a, &what);
    assert_eq!(debts.memory(&a.reference).unwrap(), expected);
    // Only what may yet come about has to be waited for, from the first answer on.
    assert_eq!(debts.is_looked_at(), !doubted);
    note(&mut debts, &a, &seen);
    assert_eq!(debts.doubt().is_some(), doubted);
}

#[rstest]
#[case::mark_removed(Settled::NotOurs, Record::Absent, Some(("MarkRemoved", 4)))]
#[case::ignored(Settled::Ignored { at_zero: true }, Record::Replicas(3), Some(("IgnoredAtZero", 3)))]
#[case::ignored_and_up(Settled::Ignored { at_zero: false }, Record::Absent, None)]
#[case::up(Settled::Up, Record::Absent, None)]
fn what_is_left_at_zero_is_told_with_the_command_that_restores_it(
    #[case] settled: Settled,
    #[case] record: Record,
    #[case] expected: Option<(&str, i32)>,
) {
    let mut debts = owing();
    note(
        &mut debts,
        &dependent("a", 1),
        &What::Settled(settled, found(0, record)),
    );
    let problem = debts.problems().next();
    assert_eq!(
        problem.map(|problem| problem.reason),
        expected.map(|(reason, _)| reason)
    );
    if let (Some(problem), Some((_, replicas))) = (problem, expected) {
        let command = format!("kubectl scale deployment/a --replicas={replicas}");
        assert!(problem.message.contains(&command), "{}", problem.message);
    }
    // Nothing was ever taken from it.
    note(
        &mut debts,
        &dependent("b", 0),
        &What::Settled(Settled::NotOurs, found(0, Record::Absent)),
    );
    assert!(debts.problems().count() <= 1);
}

#[rstest]
#[case::late(What::Late(Duration::from_secs(30)), "ScalingLate", "within 30s")]
#[case::failed(
    What::Failed(ScaleError::Conflicts, None),
    "ScalingConflicts",
    "somebody else"
)]
fn problems_name_the_dependent_and_change_no_debt(
    #[case] what: What,
    #[case] reason: &str,
    #[case] says: &str,
) {
    let mut debts = owing();
    let before = memories(&debts);
    note(&mut debts, &dependent("a", 1), &what);
    assert_eq!(memories(&debts), before);
    let problems: Vec<_> = debts.problems().collect();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, reason);
    assert!(problems[0].message.starts_with("apps/v1 Deployment/a"));
    assert!(
        problems[0].message.contains(says),
        "{}",
        problems[0].message
    );
}

#[test]
fn what_a_flow_did_before_the_policy_changed_is_owed() {
    let mut debts = owing();
    let c = dependent("c", 0);
    note(
        &mut debts,
        &c,
        &What::Did(Step::ScaleDown { from: 3 }, None),
    );
    assert_eq!(debts.memory(&c.reference).unwrap(), memory(true, Some(3)));
}

#[test]
fn another_policy_inherits_what_is_owed() {
    let mut debts = owing();
    let before = memories(&debts);
    debts.adopt(&[dependent("b", 3), dependent("c", 0)]);
    assert_eq!(names(&debts), ["a", "b", "c"]);
    assert_eq!(dependents(&debts, Aim::Restore)[1].up.level, 3);
    let a = dependent("a", 1);
    assert_eq!(debts.memory(&a.reference).unwrap(), before[0]);
    // It leaves with its debt, and when it has been looked at.
    note(&mut debts, &a, &What::Settled(Settled::Up, None));
    assert_eq!(names(&debts), ["b", "c"]);
    note(
        &mut debts,
        &dependent("c", 0),
        &What::Settled(Settled::Up, None),
    );
    debts.adopt(&[dependent("b", 3)]);
    assert_eq!(names(&debts), ["b"]);
}

#[test]
fn what_a_policy_says_of_an_owed_dependent_wins() {
    let mut debts = Debts::recall(&ClusterHealthStatus {
        dependents: owing().status(),
        ..ClusterHealthStatus::default()
    });
    assert!(
        dependents(&debts, Aim::Restore)
            .iter()
            .all(|dependent| dependent.optional)
    );
    debts.adopt(&[dependent("a", 5)]);
    assert_eq!(dependents(&debts, Aim::Restore)[0], dependent("a", 5));
    assert!(debts.owes());
}

#[test]
fn a_restart_forgets_nothing() {
    let debts = owing();
    let recalled = Debts::recall(&ClusterHealthStatus {
        dependents: debts.status(),
        ..ClusterHealthStatus::default()
    });
    assert_eq!(recalled.status(), debts.status());
    assert_eq!(memories(&recalled), memories(&debts));
    for (known, original) in dependents(&recalled, Aim::Restore)
        .iter()
        .zip(&*dependents(&debts, Aim::Restore))
    {
        assert_eq!(
            (&known.reference, known.up),
            (&original.reference, original.up)
        );
    }
}

/// Nobody knows of the marks that an earlier run may have left before it has looked.
#[test]
fn what_was_never_looked_at_is_not_forgotten() {
    let mut debts = Debts::recall(&ClusterHealthStatus {
        dependents: owing().status(),
        ..ClusterHealthStatus::default()
    });
    let (a, b) = (dependent("a", 1), dependent("b", 0));
    debts.adopt(&[dependent("c", 0)]);
    assert_eq!(names(&debts), ["a", "b", "c"]);
    assert!(
        dependents(&debts, Aim::Restore)
            .iter()
            .all(|it| it.optional || it.reference.name == "c")
    );

    let seen = |marked, record| What::Settled(Settled::Seen { marked }, found(0, record));
    note(&mut debts, &b, &seen(true, Record::Replicas(7)));
    assert_eq!(debts.memory(&b.reference).unwrap(), memory(true, Some(7)));
    // Somebody has taken the mark off one that was owed: it is out of our hands, and told.
    note(&mut debts, &a, &seen(false, Record::Absent));
    assert_eq!(debts.memory(&a.reference).unwrap(), memory(false, None));
    assert_eq!(debts.problems().next().unwrap().reason, "MarkRemoved");
    assert!(!debts.is_looked_at());
    note(
        &mut debts,
        &dependent("c", 0),
        &What::Failed(ScaleError::Conflicts, None),
    );
    assert!(!debts.is_looked_at());
    note(
        &mut debts,
        &dependent("c", 0),
        &What::Settled(Settled::Up, None),
    );
    assert!(debts.is_looked_at());

    for dependent in [&a, &b] {
        note(
            &mut debts,
            dependent,
            &What::Settled(Settled::Released, None),
        );
    }
    assert_eq!(names(&debts), ["c"]);
}

#[test]
fn a_debt_that_somebody_else_has_paid_is_paid() {
    let mut debts = owing();
    let a = dependent("a", 1);
    let up = What::Settled(Settled::Seen { marked: false }, found(4, Record::Absent));
    note(&mut debts, &a, &up);
    assert!(!debts.owes());
    assert_eq!(debts.problems().count(), 0);
}

/// What is owed is given back; but nothing is taken, or taken again, that no policy names.
#[test]
fn only_what_a_policy_names_is_taken() {
    let mut debts = owing();
    debts.adopt(&[dependent("b", 0)]);
    assert_eq!(names(&debts), ["a", "b"]);
    let taken = dependents(&debts, Aim::Protect);
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].reference.name, "b");
}

#[test]
fn what_a_defect_may_have_done_has_to_be_looked_at() {
    let mut debts = Debts::default();
    let a = dependent("a", 1);
    debts.adopt(std::slice::from_ref(&a));
    note(&mut debts, &a, &What::Settled(Settled::Up, None));
    assert!(debts.is_looked_at());
    debts.distrust();
    assert!(!debts.is_looked_at());
}

#[test]
fn who_keeps_scaling_it_up_is_reported() {
    let mut debts = owing();
    let a = dependent("a", 1);
    let start = Instant::now();
    let taken = |minutes: u64, marked, debts: &mut Debts| {
        let found = found(2, Record::Replicas(4)).map(|found| Observed { marked, ..found });
        let now = start + Duration::from_secs(60 * minutes);
        debts.note(
            &a,
            &What::Did(Step::ScaleDown { from: 2 }, found),
            false,
            now,
        );
        debts.problems().next().map(|problem| problem.reason)
    };
    // The first time it is not marked: that is the outage itself.
    assert_eq!(taken(0, false, &mut debts), None);
    assert_eq!(taken(1, true, &mut debts), None);
    assert_eq!(taken(2, true, &mut debts), None);
    assert_eq!(taken(3, true, &mut debts), None);
    assert_eq!(taken(10, true, &mut debts), Some("Contended"));
    // By whom it does not get down in time; but not that it does not get up.
    for (step, reason) in [
        (Step::ScaleDown { from: 2 }, "Contended"),
        (Step::ScaleUp { to: 2 }, "ScalingLate"),
    ] {
        let mut debts = debts.clone();
        let now = start + Duration::from_secs(60 * 10);
        for what in [What::Did(step, None), What::Late(Duration::from_secs(30))] {
            debts.note(&a, &what, false, now);
        }
        let problem = debts.problem(&a.reference).map(|problem| problem.reason);
        assert_eq!(problem, Some(reason));
    }
    let message = &debts.problems().next().unwrap().message;
    assert!(message.contains("4 times within 10 minutes"), "{message}");
    // It lasts as long as it is so often ...
    let down = What::Settled(Settled::Down, found(0, Record::Replicas(2)));
    debts.note(&a, &down, false, start + Duration::from_secs(60 * 10 + 59));
    assert_eq!(debts.problems().count(), 1);
    debts.note(&a, &down, false, start + Duration::from_secs(60 * 11));
    assert_eq!(debts.problems().count(), 0);
    assert_eq!(taken(12, true, &mut debts), None);
}

/// The time counts from the last write on, or from when it was found to be waited for, until it is
/// there; what is waited for with one aim is not with the other.
#[test]
fn how_long_it_is_waited_for() {
    let (a, start) = (dependent("a", 1), Instant::now());
    let at = |second| start + Duration::from_secs(second);
    let failed = || What::Failed(ScaleError::Conflicts, lost(Step::ScaleDown { from: 4 }));
    let late = || What::Late(Duration::from_secs(30));
    let down = || What::Did(Step::ScaleDown { from: 4 }, None);
    let up = || What::Did(Step::ScaleUp { to: 4 }, None);
    let gone = || What::Settled(Settled::Down, None);
    for (whats, protect, restore) in [
        (vec![failed(), late()], None, None),
        (vec![down(), failed(), late()], Some(0), None),
        (
            vec![failed(), What::Waiting(Aim::Protect, None), failed()],
            Some(1),
            None,
        ),
        (vec![down(), failed(), down()], Some(2), None),
        (vec![down(), up(), failed()], None, Some(1)),
        (vec![down(), gone(), failed()], None, None),
        (
            vec![down(), gone(), What::Waiting(Aim::Restore, None)],
            None,
            Some(2),
        ),
    ] {
        let mut debts = Debts::default();
        debts.adopt(std::slice::from_ref(&a));
        for (second, what) in (0..).zip(&whats) {
            debts.note(&a, what, false, at(second));
        }
        for (aim, second) in [(Aim::Protect, protect), (Aim::Restore, restore)] {
            let since = first(&debts, aim).waited;
            assert_eq!(since, second.map(at), "{aim:?} {whats:?}");
        }
    }
    // What is waited for to go is marked, whoever did that; what is waited for to come may be, too.
    for (aim, owes) in [(Aim::Protect, true), (Aim::Restore, false)] {
        let mut debts = Debts::default();
        debts.adopt(std::slice::from_ref(&a));
        note(&mut debts, &a, &What::Waiting(aim, None));
        assert!(!debts.is_looked_at());
        assert_eq!(debts.owes(), owes);
        note(&mut debts, &a, &What::Late(Duration::from_secs(30)));
        assert_eq!(debts.owes(), owes);
    }
}

/// A delay counts from its first beginning until something else is seen or done than that it is at zero
/// and marked. Requests that fail, and looks while it is held, do not end it.
#[test]
fn since_when_a_delay_has_been_running() {
    let (a, start) = (dependent("a", 1), Instant::now());
    let at = |second| start + Duration::from_secs(second);
    let failed = |begun| What::Failed(ScaleError::Conflicts, begun);
    let settled = |settled| What::Settled(settled, None);
    let up = Step::ScaleUp { to: 4 };
    for (whats, expected) in [
        (vec![], None),
        (vec![failed(None), What::Delayed], Some(1)),
        (vec![What::Delayed, What::Delayed], Some(0)),
        (
            vec![What::Delayed, failed(None), failed(lost(up)), What::Delayed],
            Some(0),
        ),
        (vec![What::Delayed, What::Interrupted(half(up))], Some(0)),
        (
            vec![What::Delayed, settled(Settled::Seen { marked: true })],
            Some(0),
        ),
        (
            vec![What::Delayed, settled(Settled::Seen { marked: false })],
            None,
        ),
        (vec![What::Delayed, What::Did(up, None)], None),
        (
            vec![What::Delayed, What::Did(Step::DropMarkAndRecord, None)],
            None,
        ),
        (vec![What::Delayed, What::Waiting(Aim::Restore, None)], None),
        (vec![What::Delayed, settled(Settled::Up)], None),
        (vec![What::Delayed, settled(Settled::NotOurs)], None),
        (vec![What::Delayed, settled(Settled::Down)], None),
        (
            vec![What::Delayed, settled(Settled::Down), What::Delayed],
            Some(2),
        ),
    ] {
        let mut debts = owing();
        for (second, what) in (0..).zip(&whats) {
            debts.note(&a, what, false, at(second));
        }
        let since = first(&debts, Aim::Restore).delayed;
        assert_eq!(since, expected.map(at), "{whats:?}");
        // Another policy may have another delay, and another process knows of none.
        let recalled = Debts::recall(&ClusterHealthStatus {
            dependents: debts.status(),
            ..ClusterHealthStatus::default()
        });
        assert!(!delays(&recalled), "{whats:?}");
        debts.adopt(std::slice::from_ref(&a));
        assert!(!delays(&debts), "{whats:?}");
    }
}

/// What was restored is at zero. Somebody else did that if this process has seen it restored.
#[rstest]
#[case::first_look(false, false)]
#[case::second_look(true, true)]
fn a_zero_is_disputed_by_who_has_seen_it_back(#[case] seen: bool, #[case] expected: bool) {
    let a = dependent("a", 0);
    let marked = |replicas| {
        found(replicas, Record::Replicas(3)).map(|found| Observed {
            marked: true,
            ..found
        })
    };
    let known = ClusterHealthStatus {
        dependents: vec![DependentStatus {
            r#ref: a.reference.clone(),
            recorded_replicas: Some(3),
            owed: false,
            keeps_mark: true,
            level: 0,
            initial_delay: Duration::ZERO.into(),
            timeout: Duration::ZERO.into(),
        }],
        ..ClusterHealthStatus::default()
    };
    let mut debts = Debts::recall(&known);
    if seen {
        note(&mut debts, &a, &What::Settled(Settled::Up, marked(3)));
    }
    let again = What::Settled(Settled::ZeroedAgain, marked(0));
    note(&mut debts, &a, &again);
    assert!(debts.owes());
    assert_eq!(debts.is_disputed(), expected);
    // Nothing is in dispute that is up again.
    note(
        &mut debts,
        &a,
        &What::Settled(Settled::Seen { marked: true }, marked(3)),
    );
    assert!(!debts.is_disputed());
    note(&mut debts, &a, &again);
    assert_eq!(debts.is_disputed(), expected);
}
