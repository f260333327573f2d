//! Something that serves the metrics of a cluster: what the looks at it come to.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use tokio::time::Instant;

use crate::{
    api::{CheckResult, CheckStatus, CheckType, MAX_OUTPUT, MetricsProvider},
    checks::{Outcome, Tally, running::seconds},
    util::text::clean,
};

/// A provider of metrics.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) settings: MetricsProvider,
    /// When it is looked at next; `None` stands for as soon as possible.
    due: Option<Instant>,
    tally: Tally,
    /// Time of the last change of its result.
    since: Option<Timestamp>,
}

impl Provider {
    /// A provider that has not been looked at yet.
    pub(super) fn new(settings: MetricsProvider) -> Self {
        Self {
            due: None,
            tally: Tally::new(&settings),
            since: None,
            settings,
        }
    }

    /// Begins a look at it, if one is due, by these settings. None begins before it has ended.
    pub(super) fn begin(&mut self, at: Instant) -> Option<MetricsProvider> {
        if self.due > Some(at) {
            return None;
        }
        let (period, timeout) = (self.settings.period_seconds, self.settings.timeout_seconds);
        self.due = Some(at + seconds(period.max(timeout)));
        Some(self.settings.clone())
    }

    /// Takes in what a look has come to.
    pub(super) fn take(&mut self, outcome: Outcome, now: Timestamp) {
        let before = self.tally.result();
        self.tally.count(outcome);
        if self.since.is_none() || before != self.tally.result() {
            self.since = Some(now);
        }
    }

    /// Its name and how it fails, if it does.
    pub(super) fn failing(&self) -> Option<String> {
        let fails = self.tally.result() == CheckResult::Failing;
        let how = self.tally.message().filter(|_| fails)?;
        Some(format!(
            "{}: {}",
            self.settings.name,
            clean(&how, MAX_OUTPUT)
        ))
    }

    /// Returns what a ClusterHealth shows of it.
    pub(super) fn status(&self) -> CheckStatus {
        let message = self.tally.message();
        CheckStatus {
            name: self.settings.name.clone(),
            role: None,
            r#type: match self.settings.api_service {
                Some(_) => CheckType::ApiService,
                None => CheckType::HttpGet,
            },
            result: self.tally.result(),
            since: self.since.map(Time),
            message: message.map(|text| clean(&text, MAX_OUTPUT)),
        }
    }
}
