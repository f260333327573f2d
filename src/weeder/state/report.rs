//! What the state tells of each policy.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Namespace, Scope, State};
use crate::weeder::report::{DELETION_REFUSED, PODS_UNWATCHED, WeedReport, WeedTrouble};

/// The most services, and the most troubles of a kind, that a report names.
const MAX_NAMED: usize = 5;

impl State {
    /// Returns what is to be said of each policy, with why pods of these scopes cannot be watched.
    pub(in crate::weeder) fn reports(&self, unwatched: &[(Scope, String)]) -> Vec<WeedReport> {
        let mut troubles = self.troubles(unwatched);
        let reports = self.policies.values().map(|(policy, account)| {
            let known = policy
                .services()
                .all(|it| self.listed.contains(it.as_str()));
            let mut report = WeedReport {
                policy: policy.clone(),
                listed: self.policies_listed && self.namespaces_listed && known,
                services: 0,
                ready: 0,
                not_ready: Vec::new(),
                windows: 0,
                open: Vec::new(),
                troubles: troubles.remove(&policy.name).unwrap_or_default(),
                weeded: account.weeded,
                last_weeds: account.last_weeds.clone(),
                left_alone: account.left_alone.clone(),
                recorded: account.recorded.clone(),
            };
            for (name, namespace) in &self.namespaces {
                let labels = namespace.labels.as_ref();
                if !labels.is_some_and(|it| policy.selects(it)) {
                    continue;
                }
                for service in policy.services() {
                    let Some(known) = namespace.services.get(service.as_str()) else {
                        continue;
                    };
                    report.services += 1;
                    if known.ready.is_some() {
                        report.ready += 1;
                    } else if report.not_ready.len() < MAX_NAMED {
                        report.not_ready.push(format!("{name}/{service}"));
                    }
                }
                for window in namespace
                    .windows
                    .iter()
                    .filter(|it| it.policy.name == policy.name)
                {
                    report.windows += 1;
                    if report.open.len() < MAX_NAMED {
                        report.open.push(format!("{name}/{}", window.service));
                    }
                }
            }
            report
        });
        reports.collect()
    }

    /// Returns what keeps pods from being deleted, by the policy whose window it concerns.
    fn troubles(&self, unwatched: &[(Scope, String)]) -> BTreeMap<Arc<str>, Vec<WeedTrouble>> {
        let mut found = BTreeMap::<Arc<str>, Vec<WeedTrouble>>::new();
        let mut add = |policy: &Arc<str>, reason, message: String| {
            let troubles = found.entry(policy.clone()).or_default();
            if troubles.iter().filter(|it| it.reason == reason).count() < MAX_NAMED {
                troubles.push(WeedTrouble { reason, message });
            }
        };
        for (scope, why) in unwatched {
            let place = match scope {
                Some(namespace) => format!("in namespace {namespace}"),
                None => "in all namespaces".to_owned(),
            };
            let served = self.namespaces.iter();
            let served = served.filter(|(name, _)| scope.as_ref().is_none_or(|it| it == *name));
            let windows = served.flat_map(|(_, it)| &it.windows);
            let policies: BTreeSet<_> = windows.map(|it| &it.policy.name).collect();
            for policy in policies {
                add(
                    policy,
                    PODS_UNWATCHED,
                    format!("pods {place} are not watched: {why}"),
                );
            }
        }
        for (policy, why) in self.namespaces.values().flat_map(Namespace::troubles) {
            add(&policy.name, DELETION_REFUSED, why.to_owned());
        }
        found
    }
}
