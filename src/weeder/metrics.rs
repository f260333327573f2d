//! What the weeder counts: services, windows, watches of pods, and what became of pods.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    attempts::DeletionError,
    news::{News, Opening},
    pod::Reason,
    report::{PodDeed, WeedReport},
    scopes::PodWatch,
    state::Sizes,
};
use crate::{api::Mode, runtime::metrics::Registry, status::set};

/// The target is a second, a budget of a few requests per second makes it minutes in a large
/// recovery, and a back-off of five minutes is what it competes with.
const DELAY_SECONDS: [f64; 14] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// The weeder's metrics. Clones are the same.
#[derive(Clone, Debug)]
pub struct WeederMetrics {
    policies: Family<StateLabel, Gauge>,
    services: Family<StateLabel, Gauge>,
    windows: Gauge,
    opened: Family<TriggerLabel, Counter>,
    watches: Family<ScopeLabel, Gauge>,
    deletions: Family<ResultLabel, Counter>,
    deleting: Gauge,
    looping: Gauge,
    waiting: Gauge,
    delay: Histogram,
    weeded: Counter,
    would_weed: Counter,
    left_alone: Family<ReasonLabel, Counter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TriggerLabel {
    trigger: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScopeLabel {
    scope: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

impl Default for WeederMetrics {
    fn default() -> Self {
        let metrics = Self {
            policies: Family::default(),
            services: Family::default(),
            windows: Gauge::default(),
            opened: Family::default(),
            watches: Family::default(),
            deletions: Family::default(),
            deleting: Gauge::default(),
            looping: Gauge::default(),
            waiting: Gauge::default(),
            delay: Histogram::new(DELAY_SECONDS),
            weeded: Counter::default(),
            would_weed: Counter::default(),
            left_alone: Family::default(),
        };
        // A rise from nothing is none for Prometheus: what alerts are about is there from the start.
        for opening in [
            Opening::Recovered,
            Opening::FoundReady,
            Opening::ChangedUnseen,
        ] {
            drop(metrics.opened.get_or_create(&trigger(opening)));
        }
        for result in RESULTS {
            drop(metrics.deletions.get_or_create(&ResultLabel { result }));
        }
        for reason in Reason::ALL {
            let reason = reason.as_str();
            drop(metrics.left_alone.get_or_create(&ReasonLabel { reason }));
        }
        metrics.stand_by();
        metrics
    }
}

impl WeederMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
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
        registry.register(
            "windows_opened",
            "Windows that opened or began anew: Recovered (the service became ready), FoundReady (at \
             start, or new to a policy), ChangedUnseen (while nobody watched)",
            self.opened.clone(),
        );
        registry.register(
            "pod_watches",
            "Watches of pods that go on: of one namespace, or of all",
            self.watches.clone(),
        );
        registry.register(
            "looping_pods",
            "Pods that were seen in CrashLoopBackOff by a watch of pods that goes on, and are still there",
            self.looping.clone(),
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
            "pod_deletions_in_flight",
            "Deletions of pods that are under way",
            self.deleting.clone(),
        );
        registry.register(
            "weed_delay_seconds",
            "Time from the moment at which a service was ready and a pod that needs it was seen in \
             CrashLoopBackOff to its accepted deletion",
            self.delay.clone(),
        );
        registry.register(
            "pods_weeded",
            "Pods that were deleted, those included of which it turned out only later",
            self.weeded.clone(),
        );
        registry.register(
            "pods_spared",
            "Pods that would have been deleted if the mode were not DryRun",
            self.would_weed.clone(),
        );
        registry.register(
            "pods_left_alone",
            "Pods in CrashLoopBackOff that were not to be deleted, by the reason in the policy's status",
            self.left_alone.clone(),
        );
    }

    /// This is known of all policies, and so much is held.
    pub(super) fn reported(&self, reports: &[WeedReport], sizes: Sizes) {
        let count = |of: fn(&WeedReport) -> usize| reports.iter().map(of).sum::<usize>();
        for (state, count) in [
            ("ready", count(|it| it.ready)),
            (
                "not_ready",
                count(|it| it.services.saturating_sub(it.ready)),
            ),
        ] {
            set(&self.services.get_or_create(&StateLabel { state }), count);
        }
        for state in ["watching", "dry_run", "suspended", "invalid", "deleting"] {
            let policies = reports.iter().filter(|report| state_of(report) == state);
            set(
                &self.policies.get_or_create(&StateLabel { state }),
                policies.count(),
            );
        }
        set(&self.windows, count(|it| it.windows));
        set(&self.looping, sizes.pods);
        set(&self.waiting, sizes.waiting);
    }

    /// What a weeder shows that does not lead.
    pub(super) fn stand_by(&self) {
        self.reported(&[], Sizes::default());
        self.watching([].into_iter());
        self.deleting(0);
    }

    /// These pods are watched.
    pub(super) fn watching<'a>(&self, watches: impl Iterator<Item = &'a PodWatch> + Clone) {
        for (scope, all) in [("namespace", false), ("all", true)] {
            let watches = watches.clone();
            let watches = watches.filter(|watch| watch.namespace.is_none() == all);
            set(
                &self.watches.get_or_create(&ScopeLabel { scope }),
                watches.count(),
            );
        }
    }

    /// This has happened.
    pub(super) fn happened(&self, news: &News) {
        match news {
            News::Opened { why, .. } => {
                self.opened.get_or_create(&trigger(*why)).inc();
            }
            News::NoWindow { .. } | News::Closed { .. } => {}
            News::Pod { news, .. } => match news.deed {
                PodDeed::Weeded { .. } => {
                    self.weeded.inc();
                }
                PodDeed::WouldWeed { .. } => {
                    self.would_weed.inc();
                }
                PodDeed::LeftAlone { reason, .. } => {
                    self.left_alone.get_or_create(&ReasonLabel { reason }).inc();
                }
                // How the request ended is counted.
                PodDeed::Refused { .. } => {}
            },
        }
    }

    /// So many deletions are under way.
    pub(super) fn deleting(&self, deletions: usize) {
        set(&self.deleting, deletions);
    }

    /// A deletion has ended, so long after it was called for.
    pub(super) fn deleted(&self, ended: &Result<(), DeletionError>, after: Duration) {
        let result = match ended {
            Ok(()) => "accepted",
            Err(DeletionError::Gone) => "gone",
            Err(DeletionError::Changed) => "changed",
            Err(DeletionError::Throttled(_)) => "throttled",
            Err(DeletionError::Refused(_)) => "refused",
            Err(DeletionError::Unanswered(_)) => "unanswered",
        };
        self.deletions.get_or_create(&ResultLabel { result }).inc();
        if ended.is_ok() {
            self.delay.observe(after.as_secs_f64());
        }
    }
}

/// How a deletion can end.
const RESULTS: [&str; 6] = [
    "accepted",
    "gone",
    "changed",
    "throttled",
    "refused",
    "unanswered",
];

fn trigger(why: Opening) -> TriggerLabel {
    TriggerLabel {
        trigger: why.as_str(),
    }
}

fn state_of(report: &WeedReport) -> &'static str {
    match report {
        it if it.deleting => "deleting",
        it if !it.problems.is_empty() => "invalid",
        it if it.suspend => "suspended",
        it if it.mode == Mode::DryRun => "dry_run",
        _ => "watching",
    }
}
