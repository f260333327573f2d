//! The observation of one cluster by a replica that does not lead.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::Settings,
    prober::{cluster::Reading, observe::Outcome, verdict::Verdict},
    runtime::metrics::InState,
};

const PENDING: &str = "pending";
const JUDGED: &str = "judged";
const UNDETERMINED: &str = "undetermined";
/// By which clusters are counted.
pub(in crate::prober) const STATES: [&str; 3] = [PENDING, JUDGED, UNDETERMINED];

/// Observes one cluster, and does nothing about what it finds, until what it has observed is to be handed over.
pub(super) async fn observe(
    mut reading: Reading,
    mut settings: watch::Receiver<Arc<Settings>>,
    mut counted: InState,
    hand_over: CancellationToken,
) -> Reading {
    counted.set(Some(PENDING));
    loop {
        tokio::select! {
            biased;
            () = hand_over.cancelled() => return reading,
            Ok(()) = settings.changed() => {
                let settings = settings.borrow_and_update().clone();
                reading.follow(settings);
            }
            (mut observer, outcome) = reading.finished() => {
                if let Some(state) = state(&outcome) {
                    counted.set(Some(state));
                }
                let settings = settings.borrow().clone();
                if !observer.follows(&settings) {
                    observer.adopt(settings);
                }
                reading.begin(observer);
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
