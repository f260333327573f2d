//! What each event of the walk makes so.

use super::Truth;
use crate::event::Event;
use dependency_watchdog_e2e::farm::Micros;

/// From an order to the farm until it takes effect, so that it has it in time.
pub(crate) const NOTICE: Micros = 500_000;

impl Truth {
    /// This was done between then and then.
    pub(crate) fn happened(&mut self, event: &Event, begun: Micros, done: Micros) {
        match *event {
            Event::Cut { shoot, nodes } => self.cut(shoot, nodes, begun + NOTICE),
            Event::Restore { shoot } => self.restore(shoot, begun + NOTICE),
            Event::Kill { shoot, .. } => self.died(shoot, begun, done),
            Event::Revive { shoot } => self.revived(shoot, begun, done),
            Event::Hibernate { shoot } | Event::Remove { shoot } => {
                self.let_go(shoot, begun, done, true);
            }
            Event::Wake { shoot } | Event::Create { shoot } => {
                self.let_go(shoot, begun, done, false);
            }
            Event::Policy(edit) => self.policy(begun, done, self.newest_policy().edited(edit)),
            // Of what people want it is told before, and the rest changes nothing here.
            Event::Scale { .. }
            | Event::Annotate { .. }
            | Event::Replace { .. }
            | Event::Ignore { .. }
            | Event::Heed { .. }
            | Event::Rotate { .. }
            | Event::Hurt(..)
            | Event::Thaw
            | Event::RestartSeed => {}
        }
    }
}
