//! Something that serves the metrics of a cluster: what the looks at it come to.

use std::{mem, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use tokio::time::Instant;

use crate::{
    api::{CheckResult, CheckStatus, CheckType, MAX_OUTPUT, MetricsProvider},
    checks::{Outcome, Tally},
};

/// A provider of metrics.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    settings: MetricsProvider,
    /// When it is looked at next.
    due: Instant,
    /// When the last look began.
    began: Instant,
    tally: Tally,
    /// Status for the ClusterHealth.
    pub(super) status: CheckStatus,
}

impl Provider {
    /// A provider that has not been looked at since `recalled` was written of it.
    pub(super) fn new(
        settings: MetricsProvider,
        recalled: Option<&CheckStatus>,
        now: Instant,
    ) -> Self {
        let kind = match settings.api_service {
            Some(_) => CheckType::ApiService,
            None => CheckType::HttpGet,
        };
        let recalled = recalled.filter(|known| known.r#type == kind);
        let status = recalled.cloned().unwrap_or_else(|| CheckStatus {
            name: settings.name.clone(),
            role: None,
            r#type: kind,
            result: CheckResult::Unknown,
            since: None,
            message: None,
        });
        let mut tally = Tally::new(&settings);
        tally.settled = status.result;
        Self {
            settings,
            due: now,
            began: now,
            tally,
            status,
        }
    }

    /// Begins a look at it, if one is due, by these settings.
    pub(super) fn begin(&mut self, at: Instant) -> Option<MetricsProvider> {
        if self.due > at {
            return None;
        }
        self.began = at;
        // None begins before it has ended.
        self.due = at + self.period().max(2 * timeout_of(&self.settings));
        Some(self.settings.clone())
    }

    /// Takes in what a look has come to. Returns whether its result is another.
    pub(super) fn take(&mut self, outcome: Option<Outcome>, at: Instant, now: Timestamp) -> bool {
        self.due = at.max(self.began + self.period());
        let Some(outcome) = outcome else { return false };
        self.tally.count(outcome);
        let status = &mut self.status;
        let message = self.tally.message();
        status.message = message.map(|message| message.chars().take(MAX_OUTPUT).collect());
        let before = mem::replace(&mut status.result, self.tally.result());
        let changed = status.result != before;
        if changed || status.since.is_none() {
            status.since = Some(Time(now));
        }
        changed
    }

    /// Its name and how it fails, if it does.
    pub(super) fn failing(&self) -> Option<String> {
        let how = self.status.message.as_deref().unwrap_or("fails");
        let fails = self.status.result == CheckResult::Failing;
        fails.then(|| format!("{}: {how}", self.status.name))
    }

    fn period(&self) -> Duration {
        seconds(self.settings.period_seconds)
    }
}

/// The time that a look at one may take.
pub(super) fn timeout_of(provider: &MetricsProvider) -> Duration {
    seconds(provider.timeout_seconds)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(1))
}
