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
    };
    let mut settling = Steps::new(task, Purpose::of(aim));
    assert!(settling.only_looks());
    let step = match aim {
        Aim::Protect => Step::ScaleDown { from: 3 },
        _ => Step::ScaleUp { to: 3 },
    };
    let (told, onward) = settling.carried_out(step, None, now);
    assert_eq!(onward, Next::After(Duration::from_secs(left)));
    let told: Vec<bool> = told.iter().map(|it| matches!(it, What::Delayed)).collect();
    assert_eq!(told, vec![true; usize::from(begins)]);
    // Then it is scaled, whatever else happens meanwhile.
    assert!(!settling.only_looks());
    let (told, _) = settling.carried_out(step, None, now);
    assert!(matches!(*told, [What::Did(..)]), "{told:?}");
}
