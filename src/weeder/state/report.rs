//! What the state tells: what was done to pods, and how each policy stands.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Claim, Deletion, News, Now, State};
use crate::{
    api::{LastWeed, LeftAlone},
    weeder::{
        attempts::Notice,
        pod::Reason,
        report::{DELETION_REFUSED, PODS_UNWATCHED, PodDeed, PodNews, WeedReport, WeedTrouble},
    },
};

/// The most services, and the most troubles of a kind, that a report names.
const MAX_NAMED: usize = 5;

impl State {
    /// A pod was deleted.
    pub(super) fn weeded(&mut self, deletion: Deletion, now: Now) {
        self.weed(&deletion, false, now);
        let deed = PodDeed::Weeded {
            containers: deletion.containers.clone(),
            ready_for: now.mono.duration_since(deletion.ready_since),
        };
        self.tell_of_deletion(deletion, deed, now);
    }

    /// A pod would have been deleted if the mode were not DryRun.
    pub(super) fn would_weed(&mut self, deletion: Deletion, now: Now) {
        self.weed(&deletion, true, now);
        let deed = PodDeed::WouldWeed {
            containers: deletion.containers.clone(),
            ready_for: now.mono.duration_since(deletion.ready_since),
        };
        self.tell_of_deletion(deletion, deed, now);
    }

    fn weed(&mut self, deletion: &Deletion, dry_run: bool, now: Now) {
        let account = self.accounts.get_mut(&deletion.policy);
        // The policy may have been created anew while the deletion was in flight.
        let Some(account) = account.filter(|account| account.uid == deletion.policy_uid) else {
            return;
        };
        account.weed(LastWeed {
            time: Time(now.wall),
            namespace: deletion.namespace.to_string(),
            pod: deletion.pod.to_string(),
            owner: format!("{}/{}", deletion.owner.kind, deletion.owner.name),
            service: deletion.service.to_string(),
            containers: deletion
                .containers
                .iter()
                .map(ToString::to_string)
                .collect(),
            dry_run,
        });
    }

    /// Tells what became of the deletion of a pod.
    pub(super) fn tell_of_deletion(&mut self, deletion: Deletion, deed: PodDeed, now: Now) {
        self.news.push(News::Pod {
            looped_for: now.mono.duration_since(deletion.looping_since),
            news: PodNews {
                namespace: deletion.namespace,
                pod: deletion.pod,
                uid: deletion.uid,
                owner: Some(deletion.owner),
                policy: deletion.policy,
                service: deletion.service,
                deed,
            },
        });
    }

    /// A pod is left alone, which is told once for each reason, and listed once for each policy as well.
    pub(super) fn leave_alone(&mut self, uid: &Arc<str>, claim: Claim, reason: Reason, now: Now) {
        let account = self.accounts.get_mut(&claim.policy);
        let account = account.filter(|account| {
            let listed = Notice::Listed(reason, account.uid.clone());
            self.attempts.tell(uid, listed)
        });
        let is_told = !self.attempts.tell(uid, Notice::LeftAlone(reason));
        if is_told && account.is_none() {
            return;
        }
        let Some(sighting) = self.looping.get(uid).cloned() else {
            return;
        };
        let message = reason.message();
        if let Some(account) = account {
            account.leave_alone(LeftAlone {
                time: Time(now.wall),
                namespace: sighting.namespace.to_string(),
                pod: sighting.pod.to_string(),
                service: claim.pair.service.to_string(),
                reason: reason.as_str().to_owned(),
                message: message.to_owned(),
            });
        }
        if is_told {
            return;
        }
        let since = sighting.looping().map(|(since, _)| since);
        self.news.push(News::Pod {
            looped_for: since.map_or(Duration::ZERO, |since| now.mono.duration_since(since)),
            news: PodNews {
                namespace: sighting.namespace,
                pod: sighting.pod,
                uid: uid.clone(),
                owner: sighting.controller,
                policy: claim.policy,
                service: claim.pair.service,
                deed: PodDeed::LeftAlone {
                    reason: reason.as_str(),
                    message: message.to_owned(),
                },
            },
        });
    }
}

/// What is to be said of each policy.
pub(super) fn reports(state: &State) -> Vec<WeedReport> {
    let mut troubles = troubles(state);
    let policies = state.coverage.policies();
    let namespaces_listed = state.coverage.listed();
    policies
        .map(|policy| {
            let account = state.accounts.get(&policy.name).cloned();
            let account = account.unwrap_or_default();
            let mut report = WeedReport {
                name: policy.name.clone(),
                uid: policy.uid.clone(),
                generation: policy.generation,
                deleting: policy.deleting,
                mode: policy.mode,
                suspend: policy.suspend,
                problems: policy.problems().to_vec(),
                listed: namespaces_listed
                    && policy.services().all(|it| state.services.is_listed(it)),
                services: 0,
                ready: 0,
                not_ready: Vec::new(),
                windows: state.windows.count(&policy.name),
                open: state
                    .windows
                    .pairs(&policy.name)
                    .take(MAX_NAMED)
                    .map(ToString::to_string)
                    .collect(),
                troubles: troubles.remove(&policy.name).unwrap_or_default(),
                weeded: account.weeded,
                last_weeds: account.last_weeds,
                left_alone: account.left_alone,
                recorded: account.recorded,
            };
            for namespace in state.coverage.selected(policy) {
                for service in policy.services() {
                    match state.services.is_ready(&namespace, service) {
                        None => continue,
                        Some(true) => report.ready += 1,
                        Some(false) if report.not_ready.len() < MAX_NAMED => {
                            report.not_ready.push(format!("{namespace}/{service}"));
                        }
                        Some(false) => {}
                    }
                    report.services += 1;
                }
            }
            report
        })
        .collect()
}

/// What keeps pods from being deleted, by the policy whose window it concerns.
fn troubles(state: &State) -> BTreeMap<Arc<str>, Vec<WeedTrouble>> {
    let mut found = BTreeMap::<Arc<str>, Vec<WeedTrouble>>::new();
    let mut add = |policy: &Arc<str>, reason, message: String| {
        let troubles = found.entry(policy.clone()).or_default();
        if troubles.iter().filter(|it| it.reason == reason).count() < MAX_NAMED {
            troubles.push(WeedTrouble { reason, message });
        }
    };
    for (watch, message) in state.scopes.broken() {
        let served = state.scopes.served(watch);
        let policies: BTreeSet<_> = served.map(|claim| &claim.policy).collect();
        let place = match &watch.namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "in all namespaces".to_owned(),
        };
        for policy in policies {
            let message = format!(
                "pods {} {place} are not watched: {message}",
                watch.selector.brief()
            );
            add(policy, PODS_UNWATCHED, message);
        }
    }
    for (uid, message) in state.attempts.troubles() {
        let claims = state.looping.get(uid).and_then(|it| state.claims(it));
        if let Some((claim, _)) = claims.and_then(|claims| claims.enforcing) {
            add(&claim.policy, DELETION_REFUSED, message.to_owned());
        }
    }
    found
}
