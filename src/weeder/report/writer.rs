//! The writer of the weeder: the statuses of WeedPolicies, and events. No other task writes these.

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::{PodNews, WeedReport, book::WeedBook};
use crate::{
    health::{WriterMetrics, scribe::Desk},
    runtime::{pulse::Pulses, seed::Seed},
};

/// Writes the statuses of WeedPolicies, and events.
pub struct WeedWriter(Desk<WeedBook>);

impl WeedWriter {
    /// A writer for what its reporter is told.
    pub fn new(seed: Seed) -> (Self, WeedReporter) {
        let (desk, sender) = Desk::new(seed, WeedBook::default());
        (Self(desk), WeedReporter(sender))
    }

    /// The same, counted by these, and with a pulse among those.
    #[must_use]
    pub fn measured(mut self, metrics: WriterMetrics, pulses: Pulses) -> Self {
        self.0.metrics = metrics;
        self.0.pulses = pulses;
        self
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub async fn run(self, stop: CancellationToken) {
        self.0.run(stop).await;
    }
}

/// Hands reports to the weeder's writer. Never blocks.
#[derive(Clone, Debug)]
pub struct WeedReporter(pub(super) UnboundedSender<Update>);

/// One of these.
#[derive(Debug)]
pub(super) enum Update {
    Policies(Vec<WeedReport>),
    Pod(Box<PodNews>),
    Rights(Vec<String>),
}

impl WeedReporter {
    /// All policies that there are, once all that they are about has been listed: what a report does
    /// not tell is over.
    pub fn policies(&self, policies: Vec<WeedReport>) {
        self.send(Update::Policies(policies));
    }

    /// What was done to a pod, or deliberately not.
    pub fn pod(&self, news: PodNews) {
        self.send(Update::Pod(Box::new(news)));
    }

    /// The rights that the operator lacks; none, if it has all that it needs.
    pub fn rights(&self, missing: Vec<String>) {
        self.send(Update::Rights(missing));
    }

    fn send(&self, update: Update) {
        // The writer ends only with the process.
        let _ = self.0.send(update);
    }
}
