use rstest::rstest;

use super::*;

const FRESH: Memory = Memory {
    owed: false,
    keeps_mark: false,
    replicas: None,
};
const OWED: Memory = Memory {
    owed: true,
    replicas: Some(4),
    ..FRESH
};
const BACK: Memory = Memory {
    keeps_mark: true,
    replicas: Some(4),
    ..FRESH
};

/// Without annotations, its replicas in place.
fn found(replicas: i32) -> Observed {
    Observed {
        family: Family::Apps,
        uid: None,
        resource_version: "7".to_owned(),
        replicas,
        marked: false,
        record: Record::Absent,
        ignored: false,
        any_left: replicas > 0,
        running: replicas > 0,
    }
}

/// Marked, with this record.
fn marked(replicas: i32, record: Option<&str>) -> Observed {
    Observed {
        marked: true,
        record: Record::parse(record),
        ..found(replicas)
    }
}

/// None of its replicas runs.
fn gone(found: Observed) -> Observed {
    Observed {
        any_left: false,
        running: false,
        ..found
    }
}

/// A restore keeps the marks for now.
const KEEPING: Purpose = Purpose {
    aim: Aim::Restore,
    keep_marks: true,
    awaits: None,
};

/// What is restored, by the record, what is remembered, and who has scaled it meanwhile.
#[rstest]
#[case::recorded(marked(0, Some("3")), FRESH, Ok(Step::ScaleUp { to: 3 }))]
#[case::the_record_beats_memory(marked(0, Some("3")), OWED, Ok(Step::ScaleUp { to: 3 }))]
#[case::memory(marked(0, None), OWED, Ok(Step::ScaleUp { to: 4 }))]
#[case::nothing_known(marked(0, None), FRESH, Ok(Step::ScaleUp { to: 1 }))]
#[case::useless_memory(
    marked(0, None),
    Memory { replicas: Some(0), ..OWED },
    Ok(Step::ScaleUp { to: 1 })
)]
#[case::unreadable(
    marked(0, Some("many")),
    OWED,
    Err(ScaleError::UnreadableRecord("many".to_owned()))
)]
#[case::not_back_yet(gone(marked(3, Some("3"))), OWED, Ok(Step::Wait))]
#[case::back(marked(3, Some("3")), OWED, Ok(Step::Nothing(Settled::Up)))]
#[case::seen_back_before(gone(marked(4, Some("4"))), BACK, Ok(Step::Nothing(Settled::Up)))]
#[case::down_for_reasons_of_its_own(gone(found(3)), FRESH, Ok(Step::Nothing(Settled::Up)))]
#[case::scaled_by_somebody(marked(5, Some("4")), BACK, Ok(Step::Record { replicas: 5 }))]
#[case::the_record_is_lost(marked(4, None), BACK, Ok(Step::Record { replicas: 4 }))]
#[case::at_zero_again(marked(0, Some("4")), BACK, Ok(Step::Nothing(Settled::Down)))]
#[case::somebody_elses_zero(found(0), OWED, Ok(Step::Nothing(Settled::NotOurs)))]
fn what_is_restored(
    #[case] found: Observed,
    #[case] memory: Memory,
    #[case] expected: Result<Step, ScaleError>,
) {
    assert_eq!(step(KEEPING, false, Some(&found), memory), expected);
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

/// Only what is exactly as the writes leave it is theirs.
#[rstest]
#[case(Step::ScaleDown { from: 3 }, found(3), marked(0, Some("3")), true)]
#[case(Step::ScaleDown { from: 3 }, found(3), marked(0, Some("2")), false)]
#[case(Step::ScaleDown { from: 3 }, found(3), marked(2, Some("3")), false)]
#[case(Step::ScaleDown { from: 3 }, found(3), found(0), false)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), marked(4, Some("4")), true)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), marked(5, Some("4")), false)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), found(4), false)]
#[case(Step::Record { replicas: 5 }, marked(5, Some("4")), marked(5, Some("5")), true)]
#[case(Step::Record { replicas: 5 }, marked(5, Some("4")), marked(5, Some("4")), false)]
#[case(Step::DropMarkAndRecord, marked(3, Some("4")), found(3), true)]
#[case(Step::DropMarkAndRecord, marked(3, Some("4")), found(0), false)]
#[case(Step::DropMark, marked(0, Some("4")), found(0), false)]
fn what_is_written(
    #[case] step: Step,
    #[case] before: Observed,
    #[case] now: Observed,
    #[case] expected: bool,
) {
    let now = Observed {
        resource_version: "8".to_owned(),
        ..now
    };
    assert_eq!(step.is_written(1, &before, &now), expected);
    for another in [
        Observed {
            uid: Some("another".into()),
            ..now.clone()
        },
        Observed {
            ignored: true,
            ..now
        },
    ] {
        assert!(!step.is_written(1, &before, &another), "{another:?}");
    }
}
