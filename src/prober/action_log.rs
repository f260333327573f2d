//! What was done to one cluster's dependents, for those who are told of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    flow::FlowEvent,
    plan::{Aim, Step},
};
use crate::{
    api::{Action, ClusterHealthStatus, LastAction},
    prober::{debts::Problem, report::DependentNews},
    util::now::Now,
};

const SCALED_BACK: &str = "scaled back";
const SCALED_BACK_UNREADY: &str =
    "not waited for any longer, though not all nodes that count are ready";

/// What an earlier run has told is kept up to this length: one run may follow another many times.
const MAX_EARLIER: usize = 1_024;

/// The last action, as the ClusterHealth has it, and what has not been told yet as an event.
pub(super) struct ActionLog {
    last_action: Option<LastAction>,
    /// What belongs to the last action, in this protection: what was done, or found done, and to which
    /// dependents.
    clauses: Vec<(&'static str, Vec<String>)>,
    /// What an earlier run has told of it, which stays as it is: its reasons are its own.
    earlier: Option<String>,
    news: Vec<DependentNews>,
}

impl ActionLog {
    /// Goes on from what an earlier run has left, perhaps in the midst of a protection.
    pub(super) fn recall(known: Option<&ClusterHealthStatus>, protected: bool) -> Self {
        let last_action = known.and_then(|known| known.last_action.clone());
        let earlier = last_action.as_ref().filter(|_| protected);
        Self {
            earlier: earlier
                .map(|last| last.message.clone())
                .filter(|message| message.len() <= MAX_EARLIER),
            last_action,
            clauses: Vec::new(),
            news: Vec::new(),
        }
    }

    /// The protection is over: what is done from now on is of another.
    pub(super) fn close(&mut self) {
        self.clauses.clear();
        self.earlier = None;
    }

    /// What was last done to the dependents.
    pub(super) fn last_action(&self) -> Option<&LastAction> {
        self.last_action.as_ref()
    }

    /// What was told since this was last asked.
    pub(super) fn take_news(&mut self) -> Vec<DependentNews> {
        std::mem::take(&mut self.news)
    }

    /// Takes down that a step was carried out for this aim, and why.
    pub(super) fn did(&mut self, event: &FlowEvent, aim: Aim, step: Step, why: &str, now: Now) {
        self.acted(aim, step, &event.dependent.reference.name, why, now);
        // The mark of what is restored falls later.
        if (aim, step) != (Aim::Restore, Step::DropMarkAndRecord) {
            self.tell(event, None, why);
        }
    }

    /// Takes down that this dependent was found at zero by us, which nobody has told: whoever scaled it
    /// ended before.
    pub(super) fn found_down(&mut self, name: &str, why: &str, now: Now) {
        self.set(Action::ScaledDown, "found scaled to zero", name, why, now);
    }

    /// Takes down that this dependent, which was owed its replicas, was found to have them.
    pub(super) fn found_up(&mut self, name: &str, why: &str, now: Now) {
        let mut restored = self.clauses.iter().filter(|(did, _)| *did == SCALED_BACK);
        if !restored.any(|(_, names)| names.iter().any(|known| known == name)) {
            let did = "found scaled up, and left so";
            self.set(Action::Restored, did, name, why, now);
        }
    }

    /// Takes down that this dependent has waited for the nodes, which are not all
    /// ready, and is scaled back all the same.
    pub(super) fn unready(&mut self, event: &FlowEvent, why: &str, now: Now) {
        let name = &event.dependent.reference.name;
        self.set(Action::Restored, SCALED_BACK_UNREADY, name, why, now);
        self.tell(event, None, why);
    }

    /// Takes down what is to be told of the dependent of this event.
    pub(super) fn tell(&mut self, event: &FlowEvent, problem: Option<Problem>, why: &str) {
        self.news.push(DependentNews {
            event: event.clone(),
            problem,
            why: why.to_owned(),
        });
    }

    fn acted(&mut self, aim: Aim, step: Step, name: &str, why: &str, now: Now) {
        let (action, did) = match (aim, step) {
            (_, Step::ScaleDown { .. }) => (Action::ScaledDown, "scaled to zero"),
            (_, Step::ScaleUp { .. }) => (Action::Restored, SCALED_BACK),
            (_, Step::Record { .. }) | (Aim::Restore, Step::DropMarkAndRecord) => return,
            _ => (
                Action::Released,
                "mark removed and replicas left as they are",
            ),
        };
        self.set(action, did, name, why, now);
    }

    fn set(&mut self, action: Action, did: &'static str, name: &str, why: &str, now: Now) {
        let last = self.last_action.as_ref();
        if last.is_none_or(|last| last.action != action) {
            self.close();
        }
        let known = self.clauses.iter_mut().find(|(known, _)| *known == did);
        match known {
            None => self.clauses.push((did, vec![name.to_owned()])),
            Some((_, names)) if names.iter().any(|known| known == name) => {}
            Some((_, names)) => names.push(name.to_owned()),
        }
        let clauses = self.clauses.iter();
        let clauses: Vec<String> = clauses
            .map(|(did, names)| format!("{did}: {}", names.join(", ")))
            .collect();
        let earlier = self.earlier.as_ref();
        let earlier = earlier.map_or_else(String::new, |earlier| format!("{earlier}; then "));
        self.last_action = Some(LastAction {
            time: Time(now.wall),
            action,
            message: format!("{earlier}{}; {why}", clauses.join("; ")),
        });
    }
}

#[cfg(test)]
mod tests;
