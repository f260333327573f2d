//! The writer of the weeder: the statuses of WeedPolicies, and events. No other task writes these.

use tokio_util::sync::CancellationToken;

use super::{PodNews, WeedReport, content::WeedContent};
use crate::{
    runtime::{liveness::Liveness, seed::Seed},
    status::{
        WriterMetrics,
        writer::{Sender, Writer},
    },
};

/// Writes the statuses of WeedPolicies, and events.
pub struct WeedWriter(Writer<WeedContent>);

/// Hands reports to the weeder's writer. Never blocks.
#[derive(Clone, Debug)]
pub struct WeedReporter(Sender<WeedContent>);

impl WeedWriter {
    /// A writer for what its reporter is told.
    pub fn new(seed: Seed) -> (Self, WeedReporter) {
        let (writer, sender) = Writer::new(seed, WeedContent::default());
        (Self(writer), WeedReporter(sender))
    }

    /// The same, with these metrics and this liveness.
    #[must_use]
    pub fn measured(self, metrics: WriterMetrics, liveness: Liveness) -> Self {
        Self(self.0.measured(metrics, liveness))
    }

    /// Writes until it is stopped, and then what is due at that moment.
    pub async fn run(self, stop: CancellationToken) {
        self.0.run(stop).await;
    }
}

impl WeedReporter {
    /// All policies that there are, once all that they are about has been listed: what a report does
    /// not tell is over.
    pub fn policies(&self, policies: Vec<WeedReport>) {
        self.0.send(|content| content.take_policies(policies));
    }

    /// What was done to a pod, or deliberately not.
    pub fn pod(&self, news: PodNews) {
        self.0.send(move |content| content.take_pod(&news));
    }

    /// The rights that the operator lacks; none, if it has all that it needs.
    pub fn rights(&self, missing: Vec<String>) {
        self.0.send(move |content| content.take_rights(&missing));
    }
}
