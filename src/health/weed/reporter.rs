//! What is handed to the weeder's writer.

use tokio::sync::mpsc::UnboundedSender;

use super::report::{PodNews, WeedReport};

/// Hands reports to the weeder's writer. Never blocks.
#[derive(Clone, Debug)]
pub struct WeedReporter(pub(super) UnboundedSender<Update>);

/// One of these.
#[derive(Debug)]
pub(in crate::health) enum Update {
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
