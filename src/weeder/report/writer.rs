//! The writer of the weeder: the statuses of WeedPolicies, and events. No other task writes these.

use super::{WeedReport, content::WeedContent};
use crate::{
    runtime::{health::Health, seed::Seed},
    status::{
        WriterMetrics,
        writer::{Sender, Writer, send},
    },
    weeder::case::{Case, Deed},
};

/// Hands reports to the weeder's writer. Never blocks.
#[derive(Clone, Debug)]
pub(in crate::weeder) struct WeedReporter(Sender<WeedContent>);

impl WeedReporter {
    /// The writer, with these metrics and this health, and who hands it reports.
    pub(in crate::weeder) fn new(
        seed: Seed,
        metrics: WriterMetrics,
        health: Health,
    ) -> (Writer, Self) {
        let (writer, sender) = Writer::new(seed, WeedContent::default(), metrics, health);
        (writer, Self(sender))
    }

    /// All policies that there are, once all that they are about has been listed: what a report does
    /// not tell is over.
    pub(in crate::weeder) fn policies(&self, policies: Vec<WeedReport>) {
        send(&self.0, |content| content.take_policies(policies));
    }

    /// What was done to a pod, or deliberately not.
    pub(in crate::weeder) fn pod(&self, case: Box<Case>, deed: Deed) {
        send(&self.0, move |content| content.take_pod(&case, &deed));
    }
}
