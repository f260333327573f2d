//! The writer of the weeder: the statuses of WeedPolicies, and events. No other task writes these.

use tokio_util::sync::CancellationToken;

use super::{book::WeedBook, reporter::WeedReporter};
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
