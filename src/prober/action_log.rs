//! What was done to one cluster's dependents, for those who are told of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    dependents::{Event, What},
    step::{Aim, Step},
};
use crate::{
    api::{Action, ClusterHealthStatus, LastAction},
    prober::report::DependentNews,
    util::now::Now,
};

const SCALED_BACK: &str = "scaled back";
const RELEASED: &str = "mark removed and replicas left as they are";
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

    /// Takes down what was done to a dependent, or met there, and why that was wanted.
    pub(super) fn take_down(&mut self, event: Event, why: String, now: Now) {
        let name = &event.dependent.name;
        let (is_news, action) = match (&event.what, event.aim) {
            (What::Did(Step::ScaleDown { .. }, _), _) => {
                (true, Some((Action::ScaledDown, "scaled to zero")))
            }
            (What::Did(Step::ScaleUp { .. }, _), _) => {
                (true, Some((Action::Restored, SCALED_BACK)))
            }
            // The mark of what is restored falls later.
            (What::Did(Step::Unmark { with_record: true }, _), aim) if aim != Aim::Release => {
                (false, None)
            }
            (What::Did(Step::Unmark { .. }, _), _) => (true, Some((Action::Released, RELEASED))),
            (What::Unready(_), _) => (true, Some((Action::Restored, SCALED_BACK_UNREADY))),
            // Nobody has told of it: whoever scaled it ended before.
            (What::FoundDown, _) => (false, Some((Action::ScaledDown, "found scaled to zero"))),
            (What::FoundUp, _) if self.was_restored(name) => (false, None),
            (What::FoundUp, _) => {
                let did = "found scaled up, and left so";
                (false, Some((Action::Restored, did)))
            }
            (What::Troubled(_), _) => (true, None),
            (What::Did(..) | What::Late | What::Failed(_), _) => (false, None),
        };
        if let Some((action, did)) = action {
            self.set(action, did, name, &why, now);
        }
        if is_news {
            self.news.push(DependentNews { event, why });
        }
    }

    fn was_restored(&self, name: &str) -> bool {
        let mut restored = self.clauses.iter().filter(|(did, _)| *did == SCALED_BACK);
        restored.any(|(_, names)| names.iter().any(|known| known == name))
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
