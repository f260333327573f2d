//! What the weeder counts: services, windows, watches of pods, and what became of pods.

use std::time::Duration;

use prometheus_client::metrics::{
    counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
};

use super::{
    case::{Deed, News},
    delete::DeletionError,
    pod::Reason,
    report::WeedReport,
};
use crate::{
    api::Mode,
    runtime::metrics::{Label, Registry},
    status::set,
};

/// The target is a second, a budget of a few requests per second makes it minutes in a large
/// recovery, and a back-off of five minutes is what it competes with.
const DELAY_SECONDS: [f64; 14] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];
/// How a deletion can end.
const RESULTS: [&str; 6] = [
    "accepted",
    "gone",
    "changed",
    "throttled",
    "refused",
    "unanswered",
];

/// The weeder's metrics. Clones are the same.
#[derive(Clone, Debug)]
pub struct WeederMetrics {
    policies: Family<[Label; 1], Gauge>,
    services: Family<[Label; 1], Gauge>,
    windows: Gauge,
    opened: Counter,
    watches: Gauge,
    deletions: Family<[Label; 1], Counter>,
    waiting: Gauge,
    delay: Histogram,
    weeded: Counter,
    left_alone: Family<[Label; 1], Counter>,
}

impl Default for WeederMetrics {
    fn default() -> Self {
        let metrics = Self {
            policies: Family::default(),
            services: Family::default(),
            windows: Gauge::default(),
            opened: Counter::default(),
            watches: Gauge::default(),
            deletions: Family::default(),
            waiting: Gauge::default(),
            delay: Histogram::new(DELAY_SECONDS),
            weeded: Counter::default(),
            left_alone: Family::default(),
        };
        // A rise from nothing is none for Prometheus: what alerts are about is there from the start.
        for result in RESULTS {
            drop(metrics.deletions.get_or_create(&[("result", result)]));
        }
        for reason in Reason::ALL {
            let label = [("reason", reason.as_str())];
            drop(metrics.left_alone.get_or_create(&label));
        }
        metrics.stand_by();
        metrics
    }
}

impl WeederMetrics {
    /// Shows them.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "weed_policies",
            "WeedPolicies: watching, dry_run, suspended, invalid, deleting",
            self.policies.clone(),
        );
        registry.register(
            "services",
            "Services that WeedPolicies watch and that have an EndpointSlice, for each policy: ready, \
             not_ready",
            self.services.clone(),
        );
        registry.register(
            "open_windows",
            "Services that became ready a short while ago, for each policy that has the pods deleted \
             which need them",
            self.windows.clone(),
        );
        registry.register("windows_opened", "Windows that opened", self.opened.clone());
        registry.register(
            "pod_watches",
            "Watches of pods that go on: of one namespace, or of all",
            self.watches.clone(),
        );
        registry.register(
            "pod_deletions_waiting",
            "Pods that are to be deleted and wait for their turn",
            self.waiting.clone(),
        );
        registry.register(
            "pod_deletions",
            "Deletions of pods that the seed was asked for: accepted, gone (404), changed (409), \
             throttled (429), refused, unanswered",
            self.deletions.clone(),
        );
        registry.register(
            "weed_delay_seconds",
            "Time from the moment at which a service was ready and a pod that needs it was seen in \
             CrashLoopBackOff to its accepted deletion",
            self.delay.clone(),
        );
        registry.register("pods_weeded", "Pods that were deleted", self.weeded.clone());
        registry.register(
            "pods_left_alone",
            "Pods in CrashLoopBackOff that were not to be deleted, by the reason in the policy's status",
            self.left_alone.clone(),
        );
    }

    /// Shows what is known of all policies, and how many pods wait to be deleted.
    pub(super) fn reported(&self, reports: &[WeedReport], waiting: usize) {
        let count = |of: fn(&WeedReport) -> usize| reports.iter().map(of).sum::<usize>();
        let ready = count(|it| it.ready);
        let not_ready = count(|it| it.services).saturating_sub(ready);
        for (state, count) in [("ready", ready), ("not_ready", not_ready)] {
            set(&self.services.get_or_create(&[("state", state)]), count);
        }
        for state in ["watching", "dry_run", "suspended", "invalid", "deleting"] {
            let policies = reports.iter().filter(|report| state_of(report) == state);
            let gauge = self.policies.get_or_create(&[("state", state)]);
            set(&gauge, policies.count());
        }
        set(&self.windows, count(|it| it.windows));
        set(&self.waiting, waiting);
    }

    /// Shows what a weeder shows that does not lead.
    pub(super) fn stand_by(&self) {
        self.reported(&[], 0);
        self.watching(0);
    }

    /// Shows that so many watches of pods go on.
    pub(super) fn watching(&self, watches: usize) {
        set(&self.watches, watches);
    }

    /// Counts what has happened.
    pub(super) fn happened(&self, news: &News) {
        match news {
            News::Opened(_) => drop(self.opened.inc()),
            News::Pod(_, Deed::Weeded) => drop(self.weeded.inc()),
            News::Pod(_, Deed::LeftAlone(reason)) => {
                let label = [("reason", reason.as_str())];
                self.left_alone.get_or_create(&label).inc();
            }
            // How a request ended is counted.
            News::Closed(_) | News::Pod(_, Deed::WouldWeed | Deed::Refused(_)) => {}
        }
    }

    /// Counts a deletion that has ended, so long after it was called for.
    pub(super) fn deleted(&self, ended: &Result<(), DeletionError>, after: Duration) {
        let result = match ended {
            Ok(()) => "accepted",
            Err(error) => error.name(),
        };
        self.deletions.get_or_create(&[("result", result)]).inc();
        if ended.is_ok() {
            self.delay.observe(after.as_secs_f64());
        }
    }
}

fn state_of(report: &WeedReport) -> &'static str {
    match &report.policy {
        it if it.deleting => "deleting",
        it if !it.problems.is_empty() => "invalid",
        it if it.suspend() => "suspended",
        it if it.mode() == Mode::DryRun => "dry_run",
        _ => "watching",
    }
}
