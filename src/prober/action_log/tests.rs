use super::*;
use Action::{Restored, ScaledDown};

const DOWN: Step = Step::ScaleDown { from: 2 };
const UP: Step = Step::ScaleUp { to: 2 };

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
