//! How long a flow may go on: until it is stopped, or its evidence does not count any more.
//!
//! A request may wait for its turn behind those of a thousand other clusters, and a process may be
//! frozen at any moment. So what a flow is about to do is measured by this right before it is done.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::runtime::seed::Seed;

/// The warrant of one flow. Clones are the same.
#[derive(Clone, Debug)]
pub struct Warrant {
    /// Nothing more is to be sent.
    stop: CancellationToken,
    /// Nothing more is to be begun.
    ending: CancellationToken,
    valid_until: watch::Receiver<Instant>,
}

/// The end of a [`Warrant`] at which it is kept up or withdrawn.
#[derive(Debug)]
pub struct Grant {
    stop: CancellationToken,
    ending: CancellationToken,
    valid_until: watch::Sender<Instant>,
}

/// A warrant that is valid until then, and the hand over it. It lapses with the [`Grant`] too: what
/// nobody keeps up nobody answers for.
pub fn grant(valid_until: Instant) -> (Grant, Warrant) {
    let (sender, receiver) = watch::channel(valid_until);
    let stop = CancellationToken::new();
    let ending = stop.child_token();
    let warrant = Warrant {
        stop: stop.clone(),
        ending: ending.clone(),
        valid_until: receiver,
    };
    let grant = Grant {
        stop,
        ending,
        valid_until: sender,
    };
    (grant, warrant)
}

impl Grant {
    /// There is newer evidence.
    pub fn extend(&self, valid_until: Instant) {
        self.valid_until.send_replace(valid_until);
    }

    /// Nothing more is to be done.
    pub fn withdraw(&self) {
        self.stop.cancel();
    }

    /// Nothing more is to be begun; a step of which a part is written may be finished within this.
    pub fn finish(&self, within: Duration) {
        let end = Instant::now() + within;
        self.valid_until
            .send_modify(|until| *until = end.min(*until));
        self.ending.cancel();
    }

    /// Whether it was withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        self.ending.is_cancelled()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Warrant {
    /// Whether it is valid at this moment.
    pub fn holds(&self) -> bool {
        self.is_before(&self.ending)
    }

    fn is_before(&self, end: &CancellationToken) -> bool {
        !end.is_cancelled() && Instant::now() <= *self.valid_until.borrow()
    }

    /// Waits until it is not.
    pub async fn lapsed(&self) {
        self.reaches(&self.ending).await;
    }

    async fn reaches(&self, end: &CancellationToken) {
        let mut valid_until = self.valid_until.clone();
        while self.is_before(end) {
            let latest = *valid_until.borrow_and_update();
            tokio::select! {
                () = end.cancelled() => {}
                () = sleep_until(latest + Duration::from_nanos(1)) => {}
                // Without a sender it is withdrawn.
                _ = valid_until.changed() => {}
            }
        }
    }

    /// Does this for as long as it is valid; what takes longer is given up.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.lapsed() => None,
            done = work => Some(done),
        }
    }

    /// Waits for a turn on the seed, and tells whether it is still valid then: for what is begun, or
    /// for what is left of a step of which a part is written.
    pub async fn turn(&self, seed: &Seed, begun: bool) -> bool {
        let end = if begun { &self.stop } else { &self.ending };
        tokio::select! {
            biased;
            () = self.reaches(end) => false,
            () = seed.turn() => self.is_before(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_lapses_when_its_evidence_does_unless_there_is_newer() {
        let (grant, warrant) = grant(Instant::now() + SECOND * 5);
        assert!(timeout(SECOND * 3, warrant.lapsed()).await.is_err());
        grant.extend(Instant::now() + SECOND * 5);
        assert!(timeout(SECOND * 4, warrant.lapsed()).await.is_err());
        assert!(warrant.holds());
        assert!(timeout(SECOND * 2, warrant.lapsed()).await.is_ok());
        assert!(!warrant.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_it_is_withdrawn_or_nobody_keeps_it_up() {
        for withdraw in [|grant: Grant| grant.withdraw(), |grant: Grant| drop(grant)] {
            let (grant, warrant) = grant(Instant::now() + SECOND);
            let work = warrant.during(std::future::pending::<()>());
            let (done, ()) = tokio::join!(work, async { withdraw(grant) });
            assert_eq!(done, None);
            assert!(!warrant.holds());
        }
    }
}
