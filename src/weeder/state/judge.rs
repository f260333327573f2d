//! What becomes of a pod.

use std::{collections::BTreeSet, sync::Arc};

use tokio::time::Instant;

use super::State;
use crate::{
    api::Mode,
    util::now::Now,
    weeder::{
        attempts::{Deletion, Notice},
        looping::Sighting,
        pod::{Reason, left_alone},
        policy::Terms,
        scopes::Claim,
    },
};

/// The windows that claim a pod.
pub(super) struct Claims {
    /// The one that was opened first.
    pub(super) first: Claim,
    /// All, with the reason for leaving the pod alone, if nothing may delete it.
    pub(super) left_alone: Vec<(Claim, Reason)>,
    /// Of those in mode Enforce, the one that was opened first, and when the last was.
    pub(super) enforcing: Option<(Claim, Instant)>,
}

impl State {
    /// Decides what becomes of a pod.
    pub(super) fn decide(&mut self, uid: &Arc<str>, now: Now) {
        self.budget.withdraw(uid);
        self.attempts.rest(uid);
        let Some(sighting) = self.looping.get(uid) else {
            return;
        };
        let Some((since, _)) = sighting.looping() else {
            return;
        };
        let Some(claims) = self.claims(sighting) else {
            return;
        };
        let owner = sighting.controller.as_ref();
        match (claims.enforcing, owner) {
            _ if !claims.left_alone.is_empty() => {
                for (claim, reason) in claims.left_alone {
                    self.leave_alone(uid, claim, reason, now);
                }
            }
            (Some((claim, opened)), Some(owner)) => {
                let until = self
                    .backoff
                    .until(&sighting.namespace, &owner.uid, since, opened);
                if !self.attempts.may(uid, now.mono) {
                    return;
                }
                match until.filter(|until| *until > now.mono) {
                    None => self.budget.enqueue(&sighting.namespace, uid, since),
                    Some(until) => {
                        self.attempts.wait(uid, until);
                        self.leave_alone(uid, claim, Reason::Repeated, now);
                    }
                }
            }
            _ => {
                if self.attempts.tell(uid, Notice::WouldWeed)
                    && let Some(deletion) = self.deletion_for(uid, &claims.first)
                {
                    self.would_weed(deletion, now);
                }
            }
        }
    }

    /// The windows that claim a pod: those that need pods of a selector by which a watch shows it.
    pub(super) fn claims(&self, sighting: &Sighting) -> Option<Claims> {
        let selectors: BTreeSet<_> = sighting.watches.iter().map(|it| &it.selector).collect();
        let mut found: Vec<(Instant, &Claim, &Terms)> = selectors
            .into_iter()
            .flat_map(|selector| self.scopes.claims(selector, &sighting.namespace))
            .filter_map(|claim| {
                let window = self.windows.get(&claim.pair, &claim.policy)?;
                Some((window.opened, claim, &window.terms))
            })
            .collect();
        found.sort_by_key(|(opened, claim, _)| (*opened, *claim));
        let (_, first, _) = *found.first()?;
        let reason = left_alone(sighting.controller.as_ref());
        let left_alone = found.iter();
        let left_alone = left_alone.filter_map(|(_, claim, _)| Some(((*claim).clone(), reason?)));
        let left_alone = left_alone.collect();
        found.retain(|(.., terms)| terms.mode == Mode::Enforce);
        let enforcing = found.first().zip(found.last());
        Some(Claims {
            first: first.clone(),
            left_alone,
            enforcing: enforcing.map(|((_, claim, _), (opened, ..))| ((*claim).clone(), *opened)),
        })
    }

    /// The deletion of a pod whose turn it is, decided by what is known now, and when the last window
    /// was opened that claims it.
    pub(super) fn deletion(&self, uid: &Arc<str>) -> Option<(Deletion, Instant)> {
        let claims = self.claims(self.looping.get(uid)?)?;
        let (claim, opened) = claims.enforcing.filter(|_| claims.left_alone.is_empty())?;
        let mut deletion = self.deletion_for(uid, &claim)?;
        let (controller, since) = (&deletion.owner.uid, deletion.looping_since);
        let until = self
            .backoff
            .until(&deletion.namespace, controller, since, opened);
        deletion.called_for = deletion.called_for.max(until.unwrap_or(opened));
        Some((deletion, opened))
    }

    fn deletion_for(&self, uid: &Arc<str>, claim: &Claim) -> Option<Deletion> {
        let sighting = self.looping.get(uid)?;
        let (looping_since, containers) = sighting.looping()?;
        let ready_since = self.services.ready_since(&claim.pair)?;
        Some(Deletion {
            called_for: ready_since.max(looping_since),
            namespace: sighting.namespace.clone(),
            pod: sighting.pod.clone(),
            uid: uid.clone(),
            resource_version: sighting.version.clone(),
            owner: sighting.controller.clone()?,
            containers: containers.to_vec(),
            policy: claim.policy.clone(),
            policy_uid: self.coverage.policy(&claim.policy)?.uid.clone(),
            service: claim.pair.service.clone(),
            ready_since,
            looping_since,
        })
    }
}
