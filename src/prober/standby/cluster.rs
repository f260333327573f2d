//! The observation of one cluster by a replica that does not lead.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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
    runtime::metrics::InState,
};

const PENDING: &str = "pending";
const JUDGED: &str = "judged";
const UNDETERMINED: &str = "undetermined";
/// By which clusters are counted.
pub(in crate::prober) const STATES: [&str; 3] = [PENDING, JUDGED, UNDETERMINED];

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
        mut counted: InState,
        hand_over: CancellationToken,
    ) -> Reading {
        counted.set(Some(PENDING));
        loop {
            tokio::select! {
                biased;
                () = hand_over.cancelled() => return self.reading,
                Ok(()) = self.settings.changed() => {
                    let settings = self.settings.borrow_and_update().clone();
                    self.reading.follow(settings);
                }
                (mut observer, outcome) = self.reading.finished() => {
                    if let Some(state) = state(&outcome) {
                        counted.set(Some(state));
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

/// The state after a read; `None` if nothing was read.
fn state(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Judged(conclusion) => match conclusion.verdict {
            Verdict::Undetermined(_) => Some(UNDETERMINED),
            Verdict::Outage | Verdict::Healthy => Some(JUDGED),
        },
        Outcome::Unread(..) => Some(UNDETERMINED),
        Outcome::Early => None,
    }
}
