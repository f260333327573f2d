use super::*;
use crate::{
    prober::fixtures::{dependent, observed},
    util::now::Now,
};
use Action::{Restored, ScaledDown};

const DOWN: Step = Step::ScaleDown { from: 2 };
const UP: Step = Step::ScaleUp { to: 2 };

fn told(actions: &ActionLog) -> (Action, &str) {
    let last = actions.last_action().unwrap();
    (last.action, &last.message)
}

fn did(step: Step) -> What {
    What::Did(step, observed(0))
}

#[test]
fn each_dependent_is_told_of_once_and_by_what_was_done() {
    let mut actions = ActionLog::recall(None, false);
    let mut learn = |name: &str, aim, what, why: &str| {
        let event = Event {
            dependent: dependent(name, 0, 0).reference,
            uid: None,
            aim,
            what,
            again: 0,
        };
        actions.take_down(event, why.to_owned(), Now::read());
        let (action, message) = told(&actions);
        (action, message.to_owned())
    };
    learn("kcm", Aim::Down, What::FoundDown, "3 of 5");
    learn("mcm", Aim::Down, did(DOWN), "3 of 5");
    learn("ca", Aim::Down, did(DOWN), "5 of 5");
    let message = "found scaled to zero: kcm; scaled to zero: mcm, ca; 5 of 5".to_owned();
    assert_eq!(
        learn("mcm", Aim::Down, did(DOWN), "5 of 5"),
        (ScaledDown, message)
    );
    learn("ca", Aim::Up, did(UP), "0 of 5");
    let message = "scaled back: ca; found scaled up, and left so: mcm; 0 of 5".to_owned();
    let falls = Step::Unmark { with_record: true };
    for name in ["mcm", "ca"] {
        learn(name, Aim::Up, What::FoundUp, "0 of 5");
        let last = learn(name, Aim::Leave, did(falls), "0 of 5");
        assert_eq!(last, (Restored, message.clone()));
    }
}
