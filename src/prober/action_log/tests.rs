use rstest::rstest;

use super::*;
use Action::{Restored, ScaledDown};

const DOWN: Step = Step::ScaleDown { from: 2 };
const UP: Step = Step::ScaleUp { to: 2 };

/// The actions of a run that follows one which has told this of its last action.
fn after(action: Action, message: &str, protected: bool) -> ActionLog {
    let known = ClusterHealthStatus {
        last_action: Some(LastAction {
            time: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            action,
            message: message.to_owned(),
        }),
        ..ClusterHealthStatus::default()
    };
    ActionLog::recall(Some(&known), protected)
}

fn told(actions: &ActionLog) -> (Action, &str) {
    let last = actions.last_action().unwrap();
    (last.action, &last.message)
}

#[test]
fn each_dependent_is_told_of_once_and_by_what_was_done() {
    let mut actions = ActionLog::recall(None, false);
    actions.found_down("kcm", "3 of 5", Now::read());
    actions.acted(Aim::Protect, DOWN, "mcm", "3 of 5", Now::read());
    actions.acted(Aim::Protect, DOWN, "ca", "5 of 5", Now::read());
    actions.acted(Aim::Protect, DOWN, "mcm", "5 of 5", Now::read());
    let message = "found scaled to zero: kcm; scaled to zero: mcm, ca; 5 of 5";
    assert_eq!(told(&actions), (ScaledDown, message));
    actions.acted(Aim::Restore, UP, "ca", "0 of 5", Now::read());
    for name in ["mcm", "ca"] {
        actions.found_up(name, "0 of 5", Now::read());
        let falls = Step::DropMarkAndRecord;
        actions.acted(Aim::Restore, falls, name, "0 of 5", Now::read());
    }
    let message = "scaled back: ca; found scaled up, and left so: mcm; 0 of 5";
    assert_eq!(told(&actions), (Restored, message));
}

#[rstest]
#[case::in_its_midst(
    ScaledDown,
    "scaled to zero: kcm; 3 of 5",
    true,
    "scaled to zero: kcm; 3 of 5; then "
)]
#[case::when_it_is_over(ScaledDown, "scaled to zero: kcm; 3 of 5", false, "")]
#[case::after_another_action(Restored, "scaled back: ca; 0 of 5", true, "")]
#[case::after_many_runs(ScaledDown, &"a".repeat(MAX_EARLIER + 1), true, "")]
fn what_an_earlier_run_has_told_of_the_same_protection_stays(
    #[case] action: Action,
    #[case] message: &str,
    #[case] protected: bool,
    #[case] kept: &str,
) {
    let mut actions = after(action, message, protected);
    assert_eq!(told(&actions), (action, message));
    actions.found_down("mcm", "5 of 5", Now::read());
    actions.acted(Aim::Protect, DOWN, "ca", "5 of 5", Now::read());
    let message = format!("{kept}found scaled to zero: mcm; scaled to zero: ca; 5 of 5");
    assert_eq!(told(&actions), (ScaledDown, &*message));
}
