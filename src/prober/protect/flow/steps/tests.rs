use rstest::rstest;

use super::*;
use crate::prober::{fixtures, plan::Memory};

const DELAY: Duration = Duration::from_secs(30);

/// The delay of a restore has been running for `elapsed` seconds when a flow looks; that of a scale-down
/// has always just begun.
#[rstest]
#[case::begun_by_this_flow(Aim::Restore, None, 30, true)]
#[case::just_begun_by_one_before(Aim::Restore, Some(0), 30, false)]
#[case::a_part_is_over(Aim::Restore, Some(20), 10, false)]
#[case::all_is_over(Aim::Restore, Some(30), 0, false)]
#[case::long_over(Aim::Restore, Some(3600), 0, false)]
#[case::down(Aim::Protect, None, 30, false)]
#[case::down_for_the_second_time(Aim::Protect, Some(20), 30, false)]
fn what_is_left_of_a_delay(
    #[case] aim: Aim,
    #[case] elapsed: Option<u64>,
    #[case] left: u64,
    #[case] begins: bool,
) {
    let now = Instant::now() + Duration::from_secs(3600);
    let mut dependent = fixtures::dependent("a", 0, 0);
    dependent.up.initial_delay = DELAY;
    dependent.down.initial_delay = DELAY;
    let delayed = elapsed.map(|seconds| now - Duration::from_secs(seconds));
    let task = Task {
        dependent,
        memory: Memory::default(),
        waited: None,
        delayed,
        contended: false,
        disputed: false,
    };
    let mut settling = Steps::new(task, Purpose::of(aim), None);
    assert!(settling.only_looks(now));
    let step = match aim {
        Aim::Protect => Step::ScaleDown { from: 3 },
        _ => Step::ScaleUp { to: 3 },
    };
    let (told, onward) = settling.carried_out(step, None, now);
    assert_eq!(onward, Next::After(Duration::from_secs(left)));
    let told: Vec<bool> = told.iter().map(|it| matches!(it, What::Delayed)).collect();
    assert_eq!(told, vec![true; usize::from(begins)]);
    // Then it is scaled, whatever else happens meanwhile.
    assert!(!settling.only_looks(now));
    let (told, _) = settling.carried_out(step, None, now);
    assert!(matches!(*told, [What::Did(..)]), "{told:?}");
}

/// A restore has been allowed for so many seconds when it is looked at a dependent that waits a minute for
/// nodes.
#[rstest]
#[case::just_allowed(0, false, Some(60))]
#[case::a_part_is_over(45, false, Some(15))]
#[case::all_is_over(60, false, None)]
#[case::they_are_back(0, true, None)]
fn what_is_left_of_a_wait_for_nodes(
    #[case] elapsed: u64,
    #[case] back: bool,
    #[case] left: Option<u64>,
) {
    let now = Instant::now() + Duration::from_secs(3600);
    let mut dependent = fixtures::dependent("a", 0, 0);
    dependent.up.await_nodes = Duration::from_secs(60);
    let task = Task {
        dependent,
        memory: Memory::default(),
        waited: None,
        delayed: None,
        contended: false,
        disputed: false,
    };
    let purpose = Purpose {
        awaits: Some(now - Duration::from_secs(elapsed)),
        ..Purpose::of(Aim::Restore)
    };
    let mut settling = Steps::new(task, purpose, None);
    assert!(!settling.nodes(back) || back);
    assert_eq!(settling.only_looks(now), left.is_some());
    let step = Step::ScaleUp { to: 3 };
    if let Some(left) = left {
        let (told, onward) = settling.carried_out(step, None, now);
        assert!(told.is_empty(), "{told:?}");
        assert_eq!(onward, Next::After(Duration::from_secs(left)));
        assert!(settling.nodes(true), "it is woken");
        assert!(!settling.only_looks(now));
    }
    // Once it is written it does not matter what becomes of them.
    settling.nodes(false);
    let (told, _) = settling.carried_out(step, None, now);
    let unready = |what: &What| matches!(what, What::Unready(_));
    let late = left.is_none() && !back;
    assert_eq!(told.iter().any(unready), late, "{told:?}");
    assert!(matches!(told.last(), Some(What::Did(..))), "{told:?}");
}
