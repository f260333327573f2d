use rstest::rstest;
use serde_json::json;

use super::*;
use crate::prober::fixtures::dependent;

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

fn recorded(replicas: i32, record: &str) -> Observed {
    Observed {
        record: Record::parse(Some(record)),
        ..found(replicas)
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

fn ignored(found: Observed) -> Observed {
    Observed {
        ignored: true,
        ..found
    }
}

fn gone(found: Observed) -> Observed {
    Observed {
        any_left: false,
        running: false,
        ..found
    }
}

fn leaving(found: Observed) -> Observed {
    Observed {
        any_left: true,
        ..found
    }
}

const fn nothing(why: Settled) -> Result<Step, ScaleError> {
    Ok(Step::Nothing(why))
}

fn unreadable(text: &str) -> Result<Step, ScaleError> {
    Err(ScaleError::UnreadableRecord(text.to_owned()))
}

#[rstest]
#[case::fresh(found(3), Ok(Step::ScaleDown { from: 3 }))]
#[case::a_record_alone_is_no_mark(recorded(3, "8"), Ok(Step::ScaleDown { from: 3 }))]
#[case::scaled_up_by_somebody(marked(5, Some("3")), Ok(Step::ScaleDown { from: 5 }))]
#[case::marked_but_not_yet_scaled(marked(3, Some("3")), Ok(Step::ScaleDown { from: 3 }))]
#[case::unreadable_record_is_replaced(marked(3, Some("x")), Ok(Step::ScaleDown { from: 3 }))]
#[case::done(marked(0, Some("3")), nothing(Settled::Down))]
#[case::pods_still_there(leaving(marked(0, Some("3"))), Ok(Step::Wait))]
#[case::somebody_elses_zero(found(0), nothing(Settled::NotOurs))]
#[case::somebody_elses_zero_with_record(recorded(0, "3"), nothing(Settled::NotOurs))]
#[case::somebody_elses_zero_leaving(leaving(found(0)), nothing(Settled::NotOurs))]
fn scaling_down(
    #[case] found: Observed,
    #[case] expected: Result<Step, ScaleError>,
    #[values(FRESH, OWED)] memory: Memory,
    #[values(false, true)] optional: bool,
) {
    assert_eq!(
        step(Purpose::of(Aim::Protect), optional, Some(&found), memory),
        expected
    );
}

/// Nothing can be written but the mark, and nobody knows its replicas.
#[rstest]
#[case::down(Aim::Protect, false, OWED, Err(ScaleError::NotScalable))]
#[case::down_again(Aim::Protect, true, OWED, Err(ScaleError::NotScalable))]
#[case::up(Aim::Restore, true, FRESH, Err(ScaleError::NotScalable))]
#[case::looked_at(Aim::Look, true, OWED, Err(ScaleError::NotScalable))]
#[case::never_taken(Aim::Restore, false, FRESH, Err(ScaleError::NotScalable))]
#[case::never_taken_and_looked_at(Aim::Look, false, FRESH, Err(ScaleError::NotScalable))]
#[case::taken_unknown_to_us(Aim::Look, true, FRESH, nothing(Settled::Seen { marked: true }))]
#[case::restored_by_hand(Aim::Restore, false, OWED, nothing(Settled::Released))]
#[case::restored_by_hand_and_looked_at(Aim::Look, false, OWED, nothing(Settled::Released))]
#[case::back_and_marked(Aim::Restore, true, BACK, Ok(Step::DropMark))]
#[case::back_and_the_mark_removed(Aim::Restore, false, BACK, nothing(Settled::Released))]
#[case::let_go(Aim::Release, true, OWED, Ok(Step::DropMark))]
#[case::let_go_before(Aim::Release, false, FRESH, nothing(Settled::Released))]
fn without_a_scale(
    #[case] aim: Aim,
    #[case] marked: bool,
    #[case] memory: Memory,
    #[case] expected: Result<Step, ScaleError>,
) {
    let found = Observed {
        family: Family::Unscalable,
        marked,
        ..recorded(0, "3")
    };
    assert_eq!(
        step(Purpose::of(aim), false, Some(&found), memory),
        expected
    );
}

#[rstest]
#[case::recorded(marked(0, Some("3")), FRESH, Ok(Step::ScaleUp { to: 3 }))]
#[case::the_record_beats_memory(marked(0, Some("3")), OWED, Ok(Step::ScaleUp { to: 3 }))]
#[case::pods_still_there(leaving(marked(0, Some("3"))), FRESH, Ok(Step::ScaleUp { to: 3 }))]
#[case::memory(marked(0, None), OWED, Ok(Step::ScaleUp { to: 4 }))]
#[case::nothing_known(marked(0, None), FRESH, Ok(Step::ScaleUp { to: 1 }))]
#[case::useless_memory(marked(0, None), Memory { replicas: Some(0), ..OWED }, Ok(Step::ScaleUp { to: 1 }))]
#[case::unreadable(marked(0, Some("many")), OWED, unreadable("many"))]
#[case::record_of_zero(marked(0, Some("0")), OWED, unreadable("0"))]
#[case::scaled_up_by_somebody(marked(2, Some("3")), FRESH, Ok(Step::DropMarkAndRecord))]
#[case::scaled_up_by_somebody_owed(gone(marked(2, Some("3"))), OWED, Ok(Step::DropMarkAndRecord))]
#[case::unreadable_but_up(marked(2, Some("many")), FRESH, Ok(Step::DropMarkAndRecord))]
#[case::up(found(3), FRESH, nothing(Settled::Up))]
#[case::up_and_back(found(3), OWED, nothing(Settled::Up))]
#[case::up_but_not_back(gone(found(3)), OWED, Ok(Step::Wait))]
#[case::down_for_reasons_of_its_own(gone(found(3)), FRESH, nothing(Settled::Up))]
fn scaling_up(
    #[case] found: Observed,
    #[case] memory: Memory,
    #[case] expected: Result<Step, ScaleError>,
    #[values(false, true)] optional: bool,
) {
    assert_eq!(
        step(Purpose::of(Aim::Restore), optional, Some(&found), memory),
        expected
    );
}

/// What is back keeps its mark, until all has been back for a while.
#[rstest]
#[case::restored(marked(3, Some("3")), OWED, nothing(Settled::Up))]
#[case::not_back_yet(gone(marked(3, Some("3"))), OWED, Ok(Step::Wait))]
#[case::seen_back_before(gone(marked(4, Some("4"))), BACK, nothing(Settled::Up))]
#[case::scaled_by_somebody(marked(5, Some("4")), BACK, Ok(Step::Record { replicas: 5 }))]
#[case::scaled_by_somebody_at_once(marked(5, Some("4")), OWED, Ok(Step::Record { replicas: 5 }))]
#[case::the_record_is_lost(marked(4, None), BACK, Ok(Step::Record { replicas: 4 }))]
#[case::zeroed_again(marked(0, Some("4")), BACK, nothing(Settled::ZeroedAgain))]
#[case::found_by_a_new_leader(marked(0, Some("4")), OWED, Ok(Step::ScaleUp { to: 4 }))]
#[case::unmarked(found(4), BACK, nothing(Settled::Up))]
#[case::unmarked_and_at_zero(found(0), BACK, nothing(Settled::NotOurs))]
fn what_is_back_keeps_its_mark_for_now(
    #[case] found: Observed,
    #[case] memory: Memory,
    #[case] expected: Result<Step, ScaleError>,
) {
    let keeping = Purpose {
        keep_marks: true,
        ..Purpose::of(Aim::Restore)
    };
    assert_eq!(step(keeping, false, Some(&found), memory), expected);
    let falls = step(Purpose::of(Aim::Restore), false, Some(&found), memory);
    let is_up = found.marked && found.replicas > 0;
    assert_eq!(falls == Ok(Step::DropMarkAndRecord), is_up);
}

#[rstest]
fn an_unmarked_zero_is_left_alone(
    #[values(found(0), recorded(0, "3"), recorded(0, "many"))] found: Observed,
    #[values(FRESH, OWED)] memory: Memory,
) {
    let step = step(Purpose::of(Aim::Restore), false, Some(&found), memory);
    assert_eq!(step, nothing(Settled::NotOurs));
}

#[rstest]
#[case::marked_at_zero(ignored(marked(0, Some("3"))), Ok(Step::DropMark))]
#[case::marked_and_up(ignored(marked(2, Some("3"))), Ok(Step::DropMark))]
#[case::marked_and_unreadable(ignored(marked(0, Some("many"))), Ok(Step::DropMark))]
#[case::at_zero(ignored(recorded(0, "3")), nothing(Settled::Ignored { at_zero: true }))]
#[case::up(ignored(found(3)), nothing(Settled::Ignored { at_zero: false }))]
#[case::without_a_scale(Observed { family: Family::Unscalable, ..ignored(found(0)) }, nothing(Settled::Ignored { at_zero: false }))]
fn hands_off_what_is_to_be_ignored(
    #[case] found: Observed,
    #[case] expected: Result<Step, ScaleError>,
    #[values(Aim::Protect, Aim::Restore, Aim::Release)] aim: Aim,
    #[values(FRESH, OWED)] memory: Memory,
) {
    assert_eq!(
        step(Purpose::of(aim), false, Some(&found), memory),
        expected
    );
}

#[rstest]
fn a_missing_dependent_is_fine_if_optional(
    #[values(Aim::Protect, Aim::Restore)] aim: Aim,
    #[values(FRESH, OWED)] memory: Memory,
) {
    assert_eq!(
        step(Purpose::of(aim), true, None, memory),
        nothing(Settled::Missing)
    );
    // What was scaled to zero and is gone keeps no other from being restored.
    let required = if (aim, memory) == (Aim::Restore, OWED) {
        nothing(Settled::Missing)
    } else {
        Err(ScaleError::Missing)
    };
    assert_eq!(step(Purpose::of(aim), false, None, memory), required);
}

#[rstest]
#[case::marked(marked(0, Some("3")), Ok(Step::DropMark), true)]
#[case::unreadable(marked(0, Some("many")), Ok(Step::DropMark), true)]
#[case::scaled_up_by_somebody(marked(2, Some("3")), Ok(Step::DropMarkAndRecord), true)]
#[case::not_ours(found(0), nothing(Settled::Released), false)]
#[case::up(found(3), nothing(Settled::Released), false)]
fn what_is_released_keeps_its_replicas(
    #[case] found: Observed,
    #[case] expected: Result<Step, ScaleError>,
    #[case] is_marked: bool,
    #[values(FRESH, OWED)] memory: Memory,
    #[values(false, true)] optional: bool,
) {
    let release = step(Purpose::of(Aim::Release), optional, Some(&found), memory);
    assert_eq!(release, expected);
    // It may be gone by then.
    let gone = step(Purpose::of(Aim::Release), optional, None, memory);
    assert_eq!(gone, nothing(Settled::Missing));
    let look = step(Purpose::of(Aim::Look), optional, Some(&found), memory);
    assert_eq!(look, nothing(Settled::Seen { marked: is_marked }));
}

fn scalable(found: Observed) -> Observed {
    Observed {
        family: Family::Scalable,
        ..found
    }
}

#[rstest]
#[case::down(Step::ScaleDown { from: 3 }, found(3), vec![Write::Object(json!({
    "metadata": {
        "resourceVersion": "7",
        "annotations": {
            "dependency-watchdog.gardener.cloud/meltdown-protection-active": "",
            "dependency-watchdog.gardener.cloud/replicas": "3",
        },
    },
    "spec": {"replicas": 0},
}))])]
#[case::down_scalable(Step::ScaleDown { from: 3 }, scalable(found(3)), vec![
    Write::Object(json!({
        "metadata": {
            "resourceVersion": "7",
            "annotations": {
                "dependency-watchdog.gardener.cloud/meltdown-protection-active": "",
                "dependency-watchdog.gardener.cloud/replicas": "3",
            },
        },
    })),
    Write::ScaleMerge(json!({
        "metadata": {"resourceVersion": "7"},
        "spec": {"replicas": 0},
    })),
])]
#[case::up(Step::ScaleUp { to: 3 }, marked(0, Some("3")), vec![Write::Object(json!({
    "metadata": {"resourceVersion": "7"},
    "spec": {"replicas": 3},
}))])]
#[case::up_scalable(Step::ScaleUp { to: 3 }, scalable(marked(0, Some("3"))), vec![
    Write::ScaleMerge(json!({
        "metadata": {"resourceVersion": "7"},
        "spec": {"replicas": 3},
    })),
])]
#[case::record(Step::Record { replicas: 5 }, marked(5, Some("3")), vec![Write::Object(json!({
    "metadata": {
        "resourceVersion": "7",
        "annotations": {"dependency-watchdog.gardener.cloud/replicas": "5"},
    },
}))])]
#[case::wait(Step::Wait, marked(0, Some("3")), vec![])]
#[case::nothing(Step::Nothing(Settled::Up), found(3), vec![])]
fn requests(#[case] step: Step, #[case] found: Observed, #[case] expected: Vec<Write>) {
    assert_eq!(step.writes(&found), expected);
}

#[rstest]
fn letting_go_is_one_patch_of_the_annotations(
    #[values(Family::Apps, Family::Scalable)] family: Family,
) {
    let found = Observed {
        family,
        ..marked(2, Some("3"))
    };
    assert_eq!(
        Step::DropMarkAndRecord.writes(&found),
        [Write::Object(json!({
            "metadata": {
                "resourceVersion": "7",
                "annotations": {
                    "dependency-watchdog.gardener.cloud/meltdown-protection-active": null,
                    "dependency-watchdog.gardener.cloud/replicas": null,
                },
            },
        }))]
    );
    assert_eq!(
        Step::DropMark.writes(&found),
        [Write::Object(json!({
            "metadata": {
                "resourceVersion": "7",
                "annotations": {
                    "dependency-watchdog.gardener.cloud/meltdown-protection-active": null,
                },
            },
        }))]
    );
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

#[test]
fn levels_ascend_in_each_direction() {
    let dependents = [
        dependent("kube-controller-manager", 1, 0),
        dependent("machine-controller-manager", 1, 1),
        dependent("cluster-autoscaler", 0, 7),
    ];
    let names = |aim| -> Vec<(u32, Vec<String>)> {
        let levels = levels(&dependents, aim).into_iter();
        levels
            .map(|(level, members)| {
                let names = members.iter().map(|member| member.reference.name.clone());
                (level, names.collect())
            })
            .collect()
    };
    let level =
        |level: u32, names: &[&str]| (level, names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(
        names(Aim::Protect),
        [
            level(0, &["kube-controller-manager"]),
            level(1, &["machine-controller-manager"]),
            level(7, &["cluster-autoscaler"]),
        ]
    );
    assert_eq!(
        names(Aim::Restore),
        [
            level(0, &["cluster-autoscaler"]),
            level(
                1,
                &["kube-controller-manager", "machine-controller-manager"]
            ),
        ]
    );
}

/// Only what is exactly as the writes leave it is theirs.
#[rstest]
#[case(Step::ScaleDown { from: 3 }, found(3), 1, marked(0, Some("3")), true)]
#[case(Step::ScaleDown { from: 3 }, found(3), 1, found(3), false)]
#[case(Step::ScaleDown { from: 3 }, found(3), 1, marked(0, Some("2")), false)]
#[case(Step::ScaleDown { from: 3 }, found(3), 1, marked(2, Some("3")), false)]
#[case(Step::ScaleDown { from: 3 }, found(3), 1, found(0), false)]
#[case(Step::ScaleDown { from: 3 }, found(3), 1, ignored(marked(0, Some("3"))), false)]
#[case(Step::ScaleDown { from: 3 }, scalable(found(3)), 1, marked(3, Some("3")), true)]
#[case(Step::ScaleDown { from: 3 }, scalable(found(3)), 1, marked(5, Some("3")), false)]
#[case(Step::ScaleDown { from: 3 }, scalable(found(3)), 1, found(3), false)]
#[case(Step::ScaleDown { from: 3 }, scalable(found(3)), 2, marked(3, Some("3")), false)]
#[case(Step::ScaleDown { from: 3 }, scalable(found(3)), 2, marked(0, Some("3")), true)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), 1, marked(4, Some("4")), true)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), 1, marked(5, Some("4")), false)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), 1, found(4), false)]
#[case(Step::ScaleUp { to: 4 }, marked(0, Some("4")), 1, marked(0, Some("4")), false)]
#[case(Step::ScaleUp { to: 4 }, scalable(marked(0, None)), 1, marked(4, None), true)]
#[case(Step::ScaleUp { to: 4 }, scalable(marked(0, None)), 1, marked(0, None), false)]
#[case(Step::Record { replicas: 5 }, marked(5, Some("4")), 1, marked(5, Some("5")), true)]
#[case(Step::Record { replicas: 5 }, marked(5, Some("4")), 1, marked(5, Some("4")), false)]
#[case(Step::DropMarkAndRecord, marked(3, Some("4")), 1, found(3), true)]
#[case(Step::DropMarkAndRecord, marked(3, Some("4")), 1, found(0), false)]
#[case(Step::DropMark, marked(0, Some("4")), 1, recorded(0, "4"), true)]
#[case(Step::DropMark, marked(0, Some("4")), 1, found(0), false)]
fn what_is_written(
    #[case] step: Step,
    #[case] before: Observed,
    #[case] count: usize,
    #[case] now: Observed,
    #[case] expected: bool,
) {
    let now = Observed {
        family: before.family,
        resource_version: "8".to_owned(),
        ..now
    };
    assert_eq!(step.is_written(count, &before, &now), expected);
    let another = Observed {
        uid: Some("another".into()),
        ..now
    };
    assert!(!step.is_written(count, &before, &another), "created anew");
}
