//! What the weeder counts: services, windows, watches of pods, and what became of pods.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};

use super::{
    case::{Deed, News},
    delete::DeletionError,
    pod::Reason,
    report::WeedReport,
};
use crate::{
    api::Mode,
    report::set,
    runtime::metrics::{Counters, Gauges, Registry, metrics},
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

metrics! {
    /// The weeder's metrics. Clones are the same.
    pub struct WeederMetrics {
        /// WeedPolicies: watching, dry_run, suspended, invalid, deleting.
        policies: Gauges<1> as "weed_policies",
        /// Services that WeedPolicies watch and that have an EndpointSlice, for each policy: ready, not_ready.
        services: Gauges<1> as "services",
        /// Services that became ready a short while ago, for each policy that has the pods deleted which need them.
        windows: Gauge as "open_windows",
        /// Windows that opened.
        opened: Counter as "windows_opened",
        /// Watches of pods that go on: of one namespace, or of all.
        watches: Gauge as "pod_watches",
        /// Pods that are to be deleted and wait for their turn.
        waiting: Gauge as "pod_deletions_waiting",
        /// Deletions of pods that the seed was asked for: accepted, gone (404), changed (409), throttled (429),
        /// refused, unanswered.
        deletions: Counters<1> as "pod_deletions",
        /// Time from the moment at which a service was ready and a pod that needs it was seen in CrashLoopBackOff to
        /// its accepted deletion.
        delay: Histogram as "weed_delay_seconds" = Histogram::new(DELAY_SECONDS),
        /// Pods that were deleted.
        weeded: Counter as "pods_weeded",
        /// Pods in CrashLoopBackOff that were not to be deleted, by the reason in the policy's status.
        left_alone: Counters<1> as "pods_left_alone",
    }
}

impl WeederMetrics {
    /// Shows them.
    pub(super) fn register(&self, registry: &mut Registry) {
        // A rise from nothing is none for Prometheus: what alerts are about is there from the start.
        for result in RESULTS {
            drop(self.deletions.get_or_create(&[("result", result)]));
        }
        for reason in Reason::ALL {
            let label = [("reason", reason.as_str())];
            drop(self.left_alone.get_or_create(&label));
        }
        self.stand_by();
        self.show(registry);
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
