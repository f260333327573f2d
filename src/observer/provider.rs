//! Something that serves the metrics of a cluster: what the looks at it come to.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use tokio::time::Instant;

use crate::{
    api::{CheckResult, CheckStatus, CheckType, MAX_OUTPUT, MetricsProvider},
    checks::{Outcome, Tally},
};

/// One provider of metrics.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    settings: MetricsProvider,
    /// When it is looked at next.
    pub(super) due: Instant,
    /// When the last look began.
    began: Instant,
    tally: Tally,
    since: Option<Time>,
    message: Option<String>,
}

impl Provider {
    /// One that has not been looked at since `recalled` was written of it.
    pub(super) fn new(
        settings: MetricsProvider,
        recalled: Option<&CheckStatus>,
        now: Instant,
    ) -> Self {
        let recalled = recalled.filter(|known| known.r#type == kind(&settings));
        let result = recalled.map_or(CheckResult::Unknown, |known| known.result);
        let mut tally = Tally::new(&settings);
        tally.settled = result;
        Self {
            tally,
            due: now,
            began: now,
            since: recalled.and_then(|known| known.since.clone()),
            message: recalled.and_then(|known| known.message.clone()),
            settings,
        }
    }

    /// A look at it begins.
    pub(super) fn began(&mut self, at: Instant) {
        self.began = at;
        // None begins before it has ended.
        self.due = at + self.period().max(2 * timeout_of(&self.settings));
    }

    /// Takes in what a look has come to. Returns whether its result is another.
    pub(super) fn take(&mut self, outcome: Option<Outcome>, at: Instant, now: Timestamp) -> bool {
        self.due = at.max(self.began + self.period());
        let before = self.tally.result();
        let Some(outcome) = outcome else { return false };
        self.tally.count(outcome);
        let message = self.tally.message();
        self.message = message.map(|message| message.chars().take(MAX_OUTPUT).collect());
        let changed = self.tally.result() != before;
        if changed || self.since.is_none() {
            self.since = Some(Time(now));
        }
        changed
    }

    /// Its name and how it fails, if it does.
    pub(super) fn failing(&self) -> Option<String> {
        let how = self.message.as_deref().unwrap_or("fails");
        let fails = self.tally.result() == CheckResult::Failing;
        fails.then(|| format!("{}: {how}", self.settings.name))
    }

    /// What is reported of it.
    pub(super) fn status(&self) -> CheckStatus {
        CheckStatus {
            name: self.settings.name.clone(),
            role: None,
            r#type: kind(&self.settings),
            result: self.tally.result(),
            since: self.since.clone(),
            message: self.message.clone(),
        }
    }

    fn period(&self) -> Duration {
        seconds(self.settings.period_seconds)
    }
}

fn kind(settings: &MetricsProvider) -> CheckType {
    match settings.api_service {
        Some(_) => CheckType::ApiService,
        None => CheckType::HttpGet,
    }
}

/// The time that a look at one may take.
pub(super) fn timeout_of(provider: &MetricsProvider) -> Duration {
    seconds(provider.timeout_seconds)
}

fn seconds(number: i32) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(1))
}
