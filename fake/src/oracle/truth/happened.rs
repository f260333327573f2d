//! What each event of the walk makes so.

use super::{Truth, excuses::LEADERSHIP};
use crate::farm::{Micros, NOTICE};
use crate::oracle::event::{Event, Hurt, Role};

impl Truth {
    /// This was done between then and then.
    pub fn happened(&mut self, event: &Event, begun: Micros, done: Micros) {
        match *event {
            Event::Cut { shoot, nodes } => self.cut(shoot, nodes, begun + NOTICE),
            Event::Restore { shoot } => self.restore(shoot, begun + NOTICE),
            Event::Kill { shoot, .. } => self.dead(shoot, begun, done, true),
            Event::Revive { shoot } => self.dead(shoot, begun, done, false),
            Event::Hibernate { shoot } | Event::Remove { shoot } => {
                self.let_go(shoot, begun, done, true);
            }
            Event::Wake { shoot } | Event::Create { shoot } => {
                self.let_go(shoot, begun, done, false);
            }
            Event::Rotate { shoot } => self.other_token(shoot, begun, done),
            Event::Policy(edit) => self.policy(begun, done, self.newest_policy().edited(edit)),
            Event::Hurt(Hurt::Freeze(seconds), Role::Leader) => {
                self.frozen(begun);
                if seconds >= LEADERSHIP.as_secs() {
                    self.nobody_led(begun, done);
                }
            }
            Event::Hurt(Hurt::Kill | Hurt::Terminate, role) => {
                self.started(done);
                if role == Role::Leader {
                    self.nobody_led(begun, done);
                }
            }
            Event::Thaw => self.thawed(done),
            Event::RestartSeed => self.seed_away(begun, done),
            // Of what people want it is told before, and one that waits is not needed.
            Event::Scale { .. }
            | Event::Annotate { .. }
            | Event::Replace { .. }
            | Event::Ignore { .. }
            | Event::Heed { .. }
            | Event::Hurt(_, Role::Follower) => {}
        }
    }
}
