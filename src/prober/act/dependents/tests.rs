//! What is told of a dependent that is not where it should be, and what an answer that is lost leaves.

use rstest::rstest;

use super::*;
use crate::prober::{
    fixtures::{dependent, observed},
    scale_error::ScaleError,
    step::{Observed, Record, Step},
};

fn found(replicas: i32, marked: bool, record: Record) -> Observed {
    Observed {
        marked,
        record,
        ..observed(replicas)
    }
}

/// A required Deployment, on the way to where this aim wants it.
struct Stage {
    dependents: Dependents,
    of: DependentRef,
    now: Instant,
}

impl Stage {
    fn new() -> Self {
        let (a, now) = (dependent("a", 0, 0), Instant::now());
        let mut dependents = Dependents::default();
        dependents.adopt(std::slice::from_ref(&a));
        Self {
            dependents,
            of: a.reference,
            now,
        }
    }

    /// Wants this, after so long.
    fn order(&mut self, aim: Aim, after: u64) -> Vec<Request> {
        self.now += Duration::from_secs(after);
        self.follow(aim, true)
    }

    fn follow(&mut self, aim: Aim, may_unmark: bool) -> Vec<Request> {
        let order = Order {
            aim,
            keeps_marks: true,
            may_unmark,
            ..Order::default()
        };
        self.dependents.follow(order, self.now);
        self.requests()
    }

    fn requests(&mut self) -> Vec<Request> {
        let requests = self.dependents.requests(self.now).into_iter();
        requests.map(|(_, request)| request).collect()
    }

    fn answer(&mut self, answer: Answer) -> Vec<Request> {
        self.dependents.answer(&self.of, answer, self.now);
        self.requests()
    }

    fn read(&mut self, found: Option<Observed>) -> Vec<Request> {
        self.answer(Answer::Read(Ok(found)))
    }

    /// Scales it down from four replicas, of which this comes.
    fn take(&mut self, written: Written) {
        let _ = self.order(Aim::Down, 0);
        let queued = self.read(Some(found(4, false, Record::Absent)));
        assert_eq!(queued, [Request::Queue]);
        let [Request::Write(_)] = *self.answer(Answer::Turn) else {
            panic!("it is written at its turn");
        };
        let _ = self.answer(Answer::Written(written));
    }

    fn problem(&self) -> String {
        let problem = self.dependents.problems().next();
        let told = problem.map(|it| format!("{}: {}", it.reason, it.message));
        told.unwrap_or_default()
    }
}

/// After it was scaled down from 4 replicas.
#[rstest]
#[case::mark_removed(
    Some(found(0, false, Record::Absent)),
    "MarkRemoved: apps/v1 Deployment/a is at 0 replicas and is not restored, since its mark was removed by \
     somebody else; to have it back: kubectl scale deployment/a --replicas=4 "
)]
#[case::ignored(
    Some(Observed { ignored: true, ..found(0, false, Record::Replicas(3)) }),
    "IgnoredAtZero: apps/v1 Deployment/a is at 0 replicas and is not restored, since it says ignore-scaling; \
     to have it back: kubectl scale deployment/a --replicas=3 "
)]
#[case::deleted(
    None,
    "DependentMissing: apps/v1 Deployment/a was scaled to zero, and has been deleted since"
)]
#[case::ignored_and_up(
    Some(Observed { ignored: true, ..found(3, false, Record::Replicas(3)) }),
    ""
)]
#[case::restored(Some(found(4, true, Record::Replicas(4))), "")]
fn what_is_left_behind(
    #[case] found: Option<Observed>,
    #[case] expected: &str,
    #[values(Aim::Up, Aim::Leave)] aim: Aim,
) {
    let mut stage = Stage::new();
    stage.take(Written::Done);
    let _ = stage.order(aim, 1);
    let _ = stage.read(found);
    let told = stage.problem();
    assert!(told.starts_with(expected), "{told}");
    assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
    assert!(!stage.dependents.owes());
}

/// It is owed before it is known whether it was taken, and a read does not count while the write may arrive.
#[test]
fn what_may_have_been_taken_is_owed_until_that_is_sure() {
    let mut stage = Stage::new();
    let lost = || ScaleError::Request {
        verb: "patch",
        message: "it timed out".to_owned(),
    };
    stage.take(Written::Unanswered(lost()));
    assert!(stage.dependents.owes());
    let _ = stage.answer(Answer::Read(Err(lost())));
    assert!(stage.dependents.owes());
    assert!(stage.problem().starts_with("ScalingFailed: "));
    // Its evidence is gone, and the seed answers again.
    let _ = stage.order(Aim::Leave, 60);
    let _ = stage.read(Some(found(4, false, Record::Absent)));
    assert!(!stage.dependents.owes());
    assert!(!stage.dependents.is_looked_at());
    assert_eq!(stage.order(Aim::Leave, 20).len(), 1);
    let _ = stage.read(Some(found(0, true, Record::Replicas(4))));
    assert!(stage.dependents.owes() && stage.dependents.is_looked_at());
}

/// Another process has taken the first, and ended before it could report it. Where nothing may be written, it stays so.
#[rstest]
#[case::one_is_up(observed(2), true, Protection::ScalingDown)]
#[case::one_stays_up(observed(2), false, Protection::Active)]
#[case::all_are_down(found(0, true, Record::Absent), true, Protection::Active)]
fn what_is_found_marked_is_no_complete_protection(
    #[case] other: Observed,
    #[case] may_unmark: bool,
    #[case] expected: Protection,
) {
    let mut stage = Stage::new();
    let behind = dependent("b", 1, 0);
    stage
        .dependents
        .adopt(&[dependent("a", 0, 0), behind.clone()]);
    let _ = stage.order(Aim::Leave, 0);
    let _ = stage.read(Some(found(0, true, Record::Replicas(4))));
    let seen = Answer::Read(Ok(Some(other)));
    stage.dependents.answer(&behind.reference, seen, stage.now);
    let _ = stage.follow(Aim::Leave, may_unmark);
    assert_eq!(stage.dependents.protection(), expected);
    let _ = stage.order(Aim::Down, 1);
    assert_eq!(stage.dependents.protection(), Protection::ScalingDown);
}

/// A mark falls in its minute, whatever is wanted by then, but not where nothing may be written.
#[rstest]
#[case(Aim::Leave, true)]
#[case(Aim::Up, true)]
#[case(Aim::Leave, false)]
fn a_mark_falls_in_its_minute(#[case] aim: Aim, #[case] may_unmark: bool) {
    let mut stage = Stage::new();
    stage.take(Written::Done);
    let _ = stage.order(Aim::Up, 1);
    let _ = stage.read(Some(found(0, true, Record::Replicas(4))));
    let _ = stage.answer(Answer::Turn);
    let _ = stage.answer(Answer::Written(Written::Done));
    let back = || Some(found(4, true, Record::Replicas(4)));
    let _ = stage.order(aim, 1);
    let _ = stage.read(back());
    stage.now += PROBATION;
    let _ = stage.follow(aim, may_unmark);
    let _ = stage.read(back());
    let [Request::Write(_)] = *stage.answer(Answer::Turn) else {
        return assert!(!may_unmark);
    };
    assert!(may_unmark);
    let _ = stage.answer(Answer::Written(Written::Done));
    assert!(!stage.dependents.is_engaged());
    let names = [Step::Unmark { with_record: true }];
    let mut events = stage.dependents.take_events().into_iter();
    assert!(events.any(|it| matches!(it.what, What::Did(step, _) if names.contains(&step))));
}

/// Somebody scales the first of two up, while the second waits for its turn: it has to wait, and is read as soon as the
/// first is down again.
#[test]
fn a_level_that_closes_is_worked_on_as_soon_as_it_opens_again() {
    let mut stage = Stage::new();
    let (first, second) = (dependent("a", 0, 0), dependent("b", 0, 1));
    let b = second.reference.clone();
    stage.dependents.adopt(&[first, second]);
    let down = || found(0, true, Record::Replicas(4));
    assert_eq!(stage.order(Aim::Down, 0).len(), 2);
    assert_eq!(stage.read(Some(down())), []);
    let up = Answer::Read(Ok(Some(found(3, false, Record::Absent))));
    stage.dependents.answer(&b, up, stage.now);
    assert_eq!(stage.order(Aim::Down, 0), [Request::Queue]);
    assert_eq!(stage.order(Aim::Down, 10), [Request::Read { urgent: true }]);
    let undone = Some(found(4, true, Record::Replicas(4)));
    assert_eq!(stage.read(undone), [Request::Queue]);
    stage.dependents.answer(&b, Answer::Turn, stage.now);
    assert_eq!(stage.order(Aim::Down, 0), [], "its level is closed");
    let _ = stage.answer(Answer::Turn);
    assert_eq!(stage.answer(Answer::Written(Written::Done)), []);
    assert_eq!(stage.order(Aim::Down, 1), [Request::Read { urgent: true }]);
    assert_eq!(stage.read(Some(down())), [Request::Read { urgent: true }]);
}

/// The first write of a scale-down is under way when the leases are fresh again: later levels wait for what comes of it.
#[test]
fn a_restore_waits_for_a_write_that_is_under_way() {
    let mut stage = Stage::new();
    let (first, second) = (dependent("a", 0, 0), dependent("b", 1, 1));
    stage.dependents.adopt(&[first, second]);
    let b = DependentStatus {
        owed: true,
        ..stage.dependents.status().swap_remove(1)
    };
    let _ = stage.order(Aim::Down, 0);
    let _ = stage.read(Some(found(4, false, Record::Absent)));
    let [Request::Write(_)] = *stage.answer(Answer::Turn) else {
        panic!("it is written at its turn");
    };
    let zero = Answer::Read(Ok(Some(found(0, true, Record::Replicas(3)))));
    assert_eq!(stage.order(Aim::Up, 1), []);
    stage.dependents.answer(&b.r#ref, zero, stage.now);
    assert_eq!(stage.order(Aim::Up, 1), []);
}

/// No given-up write may arrive any more when the answer comes, but one still could when it was sent.
#[test]
fn a_read_that_does_not_count_yet_is_repeated_once_one_does() {
    let mut stage = Stage::new();
    let at_rest = || Some(found(4, false, Record::Absent));
    stage.dependents.distrust();
    let _ = stage.order(Aim::Leave, 0);
    let _ = stage.read(at_rest());
    stage.dependents.adopt(&[dependent("a", 0, 0)]);
    // Since the policy is another.
    assert_eq!(stage.order(Aim::Leave, 19).len(), 1);
    stage.now += Duration::from_secs(2);
    let _ = stage.read(at_rest());
    assert!(!stage.dependents.is_looked_at());
    assert_eq!(stage.dependents.due(), Some(stage.now));
    let _ = stage.order(Aim::Leave, 0);
    let _ = stage.read(at_rest());
    assert!(stage.dependents.is_looked_at());
}

/// One that was seen up before may have been taken by another operator since, and comes first.
#[test]
fn a_restore_looks_at_all_before_it_passes_a_level() {
    let (first, second) = (dependent("a", 0, 0), dependent("b", 1, 1));
    let [a, b] = [&first, &second].map(|it| it.reference.clone());
    let mut stage = Stage::new();
    stage.dependents.adopt(&[first, second]);
    let _ = stage.order(Aim::Leave, 0);
    let _ = stage.read(Some(found(4, false, Record::Absent)));
    let taken = || Answer::Read(Ok(Some(found(0, true, Record::Replicas(3)))));
    stage.dependents.answer(&b, taken(), stage.now);
    let _ = stage.order(Aim::Up, 1);
    stage.dependents.answer(&b, taken(), stage.now);
    assert_eq!(stage.order(Aim::Up, 0), []);
    stage.dependents.answer(&a, taken(), stage.now);
    let queued = stage.dependents.requests(stage.now);
    assert_eq!(queued, [(a, Request::Queue)]);
}
