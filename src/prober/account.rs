//! What was done to one cluster's dependents, for those who are told of it.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    flow::FlowEvent,
    plan::{Aim, Observed, Step},
};
use crate::{
    api::{Action, ClusterHealthStatus, LastAction},
    health::{Deed, DependentNews},
};

/// The last action, as the ClusterHealth has it, and what has not been told yet as an event.
pub(super) struct Account {
    last_action: Option<LastAction>,
    /// The dependents of the last action.
    acted_on: Vec<String>,
    news: Vec<DependentNews>,
}

impl Account {
    /// Goes on from what an earlier run has left.
    pub(super) fn recall(known: Option<&ClusterHealthStatus>) -> Self {
        Self {
            last_action: known.and_then(|known| known.last_action.clone()),
            acted_on: Vec::new(),
            news: Vec::new(),
        }
    }

    /// What was last done to the dependents.
    pub(super) fn last_action(&self) -> Option<&LastAction> {
        self.last_action.as_ref()
    }

    /// What was told since this was last asked.
    pub(super) fn take_news(&mut self) -> Vec<DependentNews> {
        std::mem::take(&mut self.news)
    }

    /// Takes down that a step was carried out on what was found, for this aim, and why.
    pub(super) fn did(
        &mut self,
        event: &FlowEvent,
        aim: Aim,
        (step, found): (Step, Option<&Observed>),
        why: &str,
    ) {
        self.acted(aim, step, &event.dependent.reference.name, why);
        if let Some(deed) = Deed::of(step, found) {
            self.tell(event, deed, why);
        }
    }

    /// Takes down that this dependent was found at zero by us, which nobody has told: whoever scaled it
    /// ended before.
    pub(super) fn found_down(&mut self, name: &str, why: &str) {
        self.set(Action::ScaledDown, "found scaled to zero", name, why);
    }

    /// Takes down what is to be told of the dependent of this event.
    pub(super) fn tell(&mut self, event: &FlowEvent, what: Deed, why: &str) {
        self.news.push(DependentNews {
            reference: event.dependent.reference.clone(),
            uid: event.uid.clone(),
            what,
            why: why.to_owned(),
        });
    }

    fn acted(&mut self, aim: Aim, step: Step, name: &str, why: &str) {
        let (action, did) = match (aim, step) {
            (_, Step::ScaleDown { .. }) => (Action::ScaledDown, "scaled to zero"),
            (_, Step::ScaleUp { .. }) => (Action::Restored, "scaled back"),
            (Aim::Restore, Step::DropMark) => (
                Action::Restored,
                "found scaled up by somebody else, and left so",
            ),
            _ => (
                Action::Released,
                "mark removed and replicas left as they are",
            ),
        };
        self.set(action, did, name, why);
    }

    fn set(&mut self, action: Action, did: &str, name: &str, why: &str) {
        let last = self.last_action.as_ref();
        if last.is_none_or(|last| last.action != action) {
            self.acted_on.clear();
        }
        if !self.acted_on.iter().any(|known| known == name) {
            self.acted_on.push(name.to_owned());
        }
        self.last_action = Some(LastAction {
            time: Time(Timestamp::now()),
            action,
            message: format!("{did}: {}; {why}", self.acted_on.join(", ")),
        });
    }
}
