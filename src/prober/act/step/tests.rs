use rstest::rstest;

use super::*;
use crate::prober::fixtures::observed as found;

const FRESH: Memory = Memory {
    owed: false,
    replicas: None,
    unmark_at: None,
};
const OWED: Memory = Memory {
    owed: true,
    replicas: Some(4),
    ..FRESH
};
const SCALED_UP: Next = Next::Do(Step::ScaleUp { to: 3 });
const UNMARKED: Next = Next::Do(Step::Unmark { with_record: true });
const MARK_ONLY: Next = Next::Do(Step::Unmark { with_record: false });

/// Marked, with this record.
fn marked(replicas: i32, record: Option<&str>) -> Observed {
    Observed {
        marked: true,
        record: Record::parse(record),
        ..found(replicas)
    }
}

/// None of its replicas runs, and none is left.
fn gone(found: Observed) -> Observed {
    Observed {
        any_left: false,
        running: false,
        ..found
    }
}

fn left(found: Observed) -> Observed {
    Observed {
        any_left: true,
        ..found
    }
}

fn ignored(found: Observed) -> Observed {
    Observed {
        ignored: true,
        ..found
    }
}

/// Of a kind that is scaled by requests of its own.
fn scalable(found: Observed) -> Observed {
    Observed {
        family: Family::Scalable,
        ..found
    }
}

#[rstest]
#[case::running(found(3), Next::Do(Step::ScaleDown { from: 3 }))]
#[case::marked_and_up(marked(2, Some("3")), Next::Do(Step::ScaleDown { from: 2 }))]
#[case::marked_first(scalable(found(3)), Next::Do(Step::Mark { from: 3 }))]
#[case::marked_with_another(scalable(marked(2, Some("3"))), Next::Do(Step::Mark { from: 2 }))]
#[case::then_scaled(scalable(marked(3, Some("3"))), Next::Do(Step::ScaleDown { from: 3 }))]
#[case::going_down(left(marked(0, Some("3"))), Next::Wait)]
#[case::down(marked(0, Some("3")), Next::Reached)]
#[case::somebody_elses_zero(found(0), Next::Reached)]
#[case::ignored(ignored(found(3)), Next::Reached)]
#[case::ignored_and_marked(ignored(marked(0, Some("3"))), MARK_ONLY)]
fn what_is_taken(
    #[case] found: Observed,
    #[case] expected: Next,
    #[values(true, false)] due: bool,
) {
    assert_eq!(
        next(Aim::Down, false, Some(&found), FRESH, due),
        Ok(expected)
    );
}

/// What is restored, by the record, what is remembered, and who has scaled it meanwhile.
#[rstest]
#[case::recorded(marked(0, Some("3")), FRESH, Ok(SCALED_UP))]
#[case::the_record_beats_memory(marked(0, Some("3")), OWED, Ok(SCALED_UP))]
#[case::memory(marked(0, None), OWED, Ok(Next::Do(Step::ScaleUp { to: 4 })))]
#[case::nothing_known(marked(0, None), FRESH, Ok(Next::Do(Step::ScaleUp { to: 1 })))]
#[case::useless_memory(
    marked(0, None),
    Memory { replicas: Some(0), ..OWED },
    Ok(Next::Do(Step::ScaleUp { to: 1 }))
)]
#[case::unreadable(
    marked(0, Some("many")),
    OWED,
    Err(ScaleError::UnreadableRecord("many".to_owned()))
)]
#[case::not_back_yet(gone(marked(3, Some("3"))), OWED, Ok(Next::Wait))]
#[case::back(marked(3, Some("3")), OWED, Ok(Next::Reached))]
#[case::seen_back_before(gone(marked(4, Some("4"))), FRESH, Ok(Next::Reached))]
#[case::down_for_reasons_of_its_own(gone(found(3)), FRESH, Ok(Next::Reached))]
#[case::scaled_by_somebody(marked(5, Some("4")), FRESH, Ok(Next::Do(Step::Record { replicas: 5 })))]
#[case::the_record_is_lost(marked(4, None), FRESH, Ok(Next::Do(Step::Record { replicas: 4 })))]
#[case::somebody_elses_zero(found(0), OWED, Ok(Next::Reached))]
#[case::ignored(ignored(marked(0, Some("3"))), OWED, Ok(MARK_ONLY))]
fn what_is_restored(
    #[case] found: Observed,
    #[case] memory: Memory,
    #[case] expected: Result<Next, ScaleError>,
) {
    assert_eq!(next(Aim::Up, false, Some(&found), memory, false), expected);
}

/// A mark falls from what is above zero, whatever it is wanted to be; of what is let go it falls at once.
#[rstest]
#[case::up(Aim::Up, marked(3, Some("3")), true, UNMARKED)]
#[case::up_and_not_running(Aim::Up, gone(marked(3, Some("3"))), true, UNMARKED)]
#[case::left(Aim::Leave, marked(3, Some("3")), true, UNMARKED)]
#[case::left_and_not_due(Aim::Leave, marked(3, Some("3")), false, Next::Reached)]
#[case::left_at_zero(Aim::Leave, marked(0, Some("3")), true, Next::Reached)]
#[case::left_and_ignored(Aim::Leave, ignored(marked(3, Some("3"))), true, MARK_ONLY)]
#[case::released(Aim::Release, marked(3, Some("3")), false, UNMARKED)]
#[case::released_at_zero(Aim::Release, marked(0, Some("3")), false, MARK_ONLY)]
#[case::released_before(Aim::Release, found(0), false, Next::Reached)]
fn when_a_mark_falls(
    #[case] aim: Aim,
    #[case] found: Observed,
    #[case] due: bool,
    #[case] expected: Next,
) {
    assert_eq!(next(aim, false, Some(&found), OWED, due), Ok(expected));
}

/// What is missing keeps nobody at zero.
#[rstest]
#[case(Aim::Down, false, FRESH, false)]
#[case(Aim::Down, true, FRESH, true)]
#[case(Aim::Up, false, FRESH, false)]
#[case(Aim::Up, false, OWED, true)]
#[case(Aim::Release, false, FRESH, true)]
#[case(Aim::Leave, false, OWED, true)]
fn what_is_missing(
    #[case] aim: Aim,
    #[case] optional: bool,
    #[case] memory: Memory,
    #[case] passes: bool,
) {
    let expected = if passes {
        Ok(Next::Reached)
    } else {
        Err(ScaleError::Missing)
    };
    assert_eq!(next(aim, optional, None, memory, false), expected);
}

#[rstest]
#[case(None, Record::Absent)]
#[case(Some("1"), Record::Replicas(1))]
#[case(Some("2147483647"), Record::Replicas(i32::MAX))]
#[case(Some("2147483648"), Record::Unreadable("2147483648".into()))]
#[case(Some("0"), Record::Unreadable("0".into()))]
#[case(Some("-1"), Record::Unreadable("-1".into()))]
#[case(Some("1.5"), Record::Unreadable("1.5".into()))]
#[case(Some(" 3"), Record::Unreadable(" 3".into()))]
#[case(Some(""), Record::Unreadable(String::new()))]
fn records(#[case] annotation: Option<&str>, #[case] expected: Record) {
    assert_eq!(Record::parse(annotation), expected);
}
