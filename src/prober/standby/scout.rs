//! The observation of one cluster by a replica that does not lead.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::metrics::Counted;
use crate::{
    cluster::Settings,
    prober::{
        cluster::Reading,
        evidence::Sources,
        metrics::ProberMetrics,
        mono_time::Origin,
        observe::{Observer, Outcome},
        verdict::Verdict,
    },
};

/// Observes one cluster, and does nothing about what it finds.
pub(super) struct Scout {
    settings: watch::Receiver<Arc<Settings>>,
    reading: Reading,
}

impl Scout {
    /// Observes by these settings, and by those that follow.
    pub(super) fn new(
        origin: Origin,
        mut settings: watch::Receiver<Arc<Settings>>,
        sources: Sources,
        metrics: Arc<ProberMetrics>,
    ) -> Self {
        let first = settings.borrow_and_update().clone();
        let observer = Observer::new(origin, first.clone(), sources, metrics);
        let reading = Reading::standing_by(Box::new(observer), first);
        Self { settings, reading }
    }

    /// Runs until what it has observed is to be handed over.
    pub(super) async fn run(
        mut self,
        mut counted: Counted,
        hand_over: CancellationToken,
    ) -> Reading {
        loop {
            tokio::select! {
                biased;
                () = hand_over.cancelled() => return self.reading,
                Ok(()) = self.settings.changed() => {
                    let settings = self.settings.borrow_and_update().clone();
                    self.reading.follow(settings);
                }
                (mut observer, outcome) = self.reading.finished() => {
                    if let Some(judged) = is_judged(&outcome) {
                        counted.set(judged);
                    }
                    let settings = self.settings.borrow().clone();
                    if !observer.follows(&settings) {
                        observer.adopt(settings);
                    }
                    self.reading.begin(observer);
                }
            }
        }
    }
}

/// Whether a read came to a verdict; `None` if nothing was read.
fn is_judged(outcome: &Outcome) -> Option<bool> {
    match outcome {
        Outcome::Judged(conclusion) => {
            Some(!matches!(conclusion.verdict, Verdict::Undetermined(_)))
        }
        Outcome::LeasesAlone(_) | Outcome::NoEvidence(_) => Some(false),
        Outcome::Woken | Outcome::Looked => None,
    }
}
