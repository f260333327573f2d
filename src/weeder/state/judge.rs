//! What becomes of a pod.

use std::{collections::BTreeSet, sync::Arc};

use tokio::time::Instant;

use super::State;
use crate::{
    api::Mode,
    weeder::{
        looping::Sighting,
        now::Now,
        pod::{Fate, fate},
        scopes::Claim,
        weeds::{Deletion, Told},
    },
};

/// The windows that claim a pod.
pub(super) struct Claims {
    /// The one that was opened first.
    pub(super) first: Claim,
    /// Of those in mode Enforce, the one that was opened first.
    pub(super) enforcing: Option<Claim>,
}

impl State {
    /// Decides what becomes of a pod.
    pub(super) fn decide(&mut self, uid: &Arc<str>, now: Now) {
        self.budget.withdraw(uid);
        self.weeds.rest(uid);
        let Some(sighting) = self.looping.get(uid) else {
            return;
        };
        let Some((since, _)) = sighting.looping() else {
            return;
        };
        let Some(claims) = self.claims(sighting) else {
            return;
        };
        match fate(sighting.controller.as_ref()) {
            Fate::LeftAlone(reason) => {
                if self.weeds.tell(uid, Told::LeftAlone(reason)) {
                    let sighting = sighting.clone();
                    self.leave_alone(uid, sighting, claims.first, reason, now);
                }
            }
            Fate::Deleted(_) if claims.enforcing.is_some() => {
                if self.weeds.may(uid, now.instant) {
                    self.budget.enqueue(&sighting.namespace, uid, since);
                }
            }
            Fate::Deleted(_) => {
                if self.weeds.tell(uid, Told::WouldWeed)
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
        let mut found: Vec<(Instant, &Claim, Mode)> = selectors
            .into_iter()
            .flat_map(|selector| self.scopes.claims(selector, &sighting.namespace))
            .filter_map(|claim| {
                let window = self.windows.get(&claim.pair, &claim.policy)?;
                Some((window.opened, claim, window.terms.mode))
            })
            .collect();
        found.sort_by_key(|(opened, claim, _)| (*opened, *claim));
        let mut enforcing = found.iter().filter(|(.., mode)| *mode == Mode::Enforce);
        Some(Claims {
            first: found.first()?.1.clone(),
            enforcing: enforcing.next().map(|(_, claim, _)| (*claim).clone()),
        })
    }

    /// The deletion of a pod whose turn it is, decided by what is known now.
    pub(super) fn deletion(&self, uid: &Arc<str>) -> Option<Deletion> {
        let claims = self.claims(self.looping.get(uid)?)?;
        self.deletion_for(uid, &claims.enforcing?)
    }

    fn deletion_for(&self, uid: &Arc<str>, claim: &Claim) -> Option<Deletion> {
        let sighting = self.looping.get(uid)?;
        let (looping_since, containers) = sighting.looping()?;
        let Fate::Deleted(owner) = fate(sighting.controller.as_ref()) else {
            return None;
        };
        Some(Deletion {
            namespace: sighting.namespace.clone(),
            pod: sighting.pod.clone(),
            uid: uid.clone(),
            resource_version: sighting.version.clone(),
            owner: owner.clone(),
            containers: containers.to_vec(),
            policy: claim.policy.clone(),
            policy_uid: self.coverage.policy(&claim.policy)?.uid.clone(),
            service: claim.pair.service.clone(),
            ready_since: self.services.ready_since(&claim.pair)?,
            looping_since,
        })
    }
}
