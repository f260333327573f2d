//! Something that serves the metrics of a cluster: what the looks at it come to.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::state::Due;
use crate::{
    api::{CheckResult, CheckStatus, CheckType, MAX_OUTPUT, MetricsProvider},
    checks::{Outcome, Tally, running::seconds},
    util::text::clean,
};

/// A provider of metrics.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) settings: MetricsProvider,
    pub(super) due: Due,
    tally: Tally,
    /// Time of the last change of its result.
    since: Option<Timestamp>,
}

impl Provider {
    /// A provider that has not been looked at yet.
    pub(super) fn new(settings: MetricsProvider) -> Self {
        Self {
            due: Due::default(),
            tally: Tally::new(&settings),
            since: None,
            settings,
        }
    }

    /// Takes in what a look has come to, if it has come to anything.
    pub(super) fn take(&mut self, outcome: Option<Outcome>, now: Timestamp) {
        self.due.end(seconds(self.settings.period_seconds));
        let Some(outcome) = outcome else {
            return;
        };
        let before = self.tally.result();
        self.tally.count(outcome);
        if self.since.is_none() || before != self.tally.result() {
            self.since = Some(now);
        }
    }

    /// Part of a sentence that says how it fails, if it does.
    pub(super) fn failing(&self) -> Option<String> {
        let fails = self.tally.result() == CheckResult::Failing;
        let how = self.tally.message().filter(|_| fails)?;
        let (name, how) = (&self.settings.name, clean(&how, MAX_OUTPUT));
        Some(format!("its provider of metrics {name}: {how}"))
    }

    /// Returns what a ClusterHealth shows of it.
    pub(super) fn status(&self) -> CheckStatus {
        CheckStatus {
            name: self.settings.name.clone(),
            role: None,
            r#type: match self.settings.api_service {
                Some(_) => CheckType::ApiService,
                None => CheckType::HttpGet,
            },
            result: self.tally.result(),
            since: self.since.map(Time),
            message: self.tally.message().map(|it| clean(&it, MAX_OUTPUT)),
        }
    }
}
