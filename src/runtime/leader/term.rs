//! One term of a leader, and how it ends.

use std::time::Duration;

use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// When a term is over, its work has to end within this: it has nothing left to do but to stop. Otherwise the
/// process ends.
pub(super) const WORK_ENDS: Duration = Duration::from_secs(10);

/// Tells whether this process leads, in one term: what is lost does not come back. Clones are the same.
#[derive(Clone, Debug)]
pub struct Leadership(pub(super) Option<watch::Receiver<Option<Instant>>>);

impl Leadership {
    /// Of a process that has no rivals.
    pub fn unopposed() -> Self {
        Self(None)
    }

    /// Whether it leads at this moment. A process that was frozen finds out here that it does not
    /// any more. If it is frozen between this check and the request, the request is sent late. Then the
    /// precondition of a write refuses it if anything has changed.
    pub fn is_held(&self) -> bool {
        match &self.0 {
            Some(until) => until.borrow().is_some_and(|until| Instant::now() < until),
            None => true,
        }
    }

    /// Waits until the term is known to be over.
    pub(in crate::runtime) async fn over(&self) {
        match &self.0 {
            // The elector may be gone.
            Some(until) => drop(until.clone().wait_for(Option::is_none).await),
            None => std::future::pending().await,
        }
    }
}

/// The time from the moment at which a process leads to that at which it does not any more.
#[derive(Clone, Debug)]
pub struct Term {
    /// As long as it is held, the process acts.
    pub leadership: Leadership,
    /// Ends the work: the term is over, or the process is to end.
    pub stop: CancellationToken,
}

/// The election for which this process stands.
#[derive(Debug)]
pub struct Elected(oneshot::Receiver<Term>);

impl Elected {
    pub(super) fn new(elected: oneshot::Receiver<Term>) -> Self {
        Self(elected)
    }

    /// The election of a process that has no rivals, and leads until it is stopped.
    pub fn unopposed(stop: CancellationToken) -> Self {
        let (elect, elected) = oneshot::channel();
        let leadership = Leadership::unopposed();
        let _ = elect.send(Term { leadership, stop });
        Self(elected)
    }

    /// Waits until this process leads.
    pub async fn term(self) -> Term {
        match self.0.await {
            Ok(term) => term,
            // The elector is gone, and ends this as well.
            Err(_) => std::future::pending().await,
        }
    }
}

/// How it came that a process does not lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// It was stopped before it led.
    Stopped,
    /// The work is done.
    Done(T),
    /// The Lease is lost, and the work of the term has ended.
    Lost(Lost),
}

/// The Lease could not be renewed in time, or another replica has taken it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leadership was lost: {0}")]
pub struct Lost(pub(super) String);

/// The Lease is lost, and the work does not end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; what this replica did as the leader has not ended within {WORK_ENDS:?}")]
pub struct Stuck(pub(super) Lost);
