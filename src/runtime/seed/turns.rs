//! Whose request is the next one within a budget: the urgent ones come first, and among equals
//! whoever asked first. What can wait does so for a while, and not for as long as others are urgent:
//! it may be what tells of them.

use std::{sync::PoisonError, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    time::{Instant, sleep_until},
};

use super::{Budget, LEAST_QPS, MOST_QPS};

/// After so many urgent ones, one that can wait asks as they do.
const MAX_OVERTAKEN: u64 = 9;

/// Gives out turns. Whoever drops what it waits with is out of the queue.
pub(super) struct Turns {
    limiter: Limiter,
    // These queues are fair; those who wait for the limiter itself may be served in any order, so only
    // the first of each does.
    urgent: Mutex<()>,
    leisurely: Mutex<()>,
    /// For the first of the urgent ones, and whoever they have overtaken for long enough.
    front: Mutex<()>,
    /// How many urgent ones wait.
    waiting: watch::Sender<usize>,
    /// How many urgent ones have had their turn.
    served: watch::Sender<u64>,
}

/// A budget, spent turn by turn: each takes a period, and a burst of them may be ahead.
struct Limiter {
    period: Duration,
    burst: Duration,
    /// When all turns that were given out are paid for.
    paid: std::sync::Mutex<Instant>,
}

impl Limiter {
    fn new(budget: Budget) -> Self {
        let period = Duration::from_secs_f64(1.0 / budget.qps.clamp(LEAST_QPS, MOST_QPS));
        Self {
            period,
            burst: period.saturating_mul(budget.burst.get()),
            paid: std::sync::Mutex::new(Instant::now()),
        }
    }

    /// Takes a turn. If none is free yet, returns the time at which one will be.
    fn take(&self) -> Result<(), Instant> {
        let now = Instant::now();
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let after = (*paid).max(now) + self.period;
        let due = after - self.burst.min(after - now);
        if due > now {
            return Err(due);
        }
        *paid = after;
        Ok(())
    }

    async fn until_ready(&self) {
        while let Err(due) = self.take() {
            sleep_until(due).await;
        }
    }
}

/// An urgent one that waits, as long as this lives.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl Turns {
    /// Turns within this budget.
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            limiter: Limiter::new(budget),
            urgent: Mutex::default(),
            leisurely: Mutex::default(),
            front: Mutex::default(),
            waiting: watch::Sender::new(0),
            served: watch::Sender::new(0),
        }
    }

    /// Waits for the turn of a request that goes before those that are not urgent.
    pub(super) async fn urgent(&self) {
        let _waiting = Waiting::new(&self.waiting);
        let _first = self.urgent.lock().await;
        self.next().await;
        self.served
            .send_modify(|served| *served = served.saturating_add(1));
    }

    async fn next(&self) {
        let _next = self.front.lock().await;
        self.limiter.until_ready().await;
    }

    /// Waits for the turn of a request that lets urgent ones go before it, but not for ever.
    pub(super) async fn leisurely(&self) {
        let _first = self.leisurely.lock().await;
        let mut waiting = self.waiting.subscribe();
        let mut served = self.served.subscribe();
        let enough = served.borrow().saturating_add(MAX_OVERTAKEN);
        loop {
            tokio::select! {
                biased;
                () = until(&mut served, |served| served >= enough) => return self.next().await,
                () = until(&mut waiting, |urgent| urgent == 0) => {}
            }
            tokio::select! {
                // By the time that there is a turn, an urgent one may have come to wait for it.
                biased;
                () = until(&mut waiting, |urgent| urgent > 0) => {}
                () = self.limiter.until_ready() => return,
            }
        }
    }
}

impl<'a> Waiting<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

/// Waits until there are so many.
async fn until<T: Copy>(counted: &mut watch::Receiver<T>, are_so_many: impl Fn(T) -> bool) {
    // It fails only without a sender, which is borrowed by those who wait here.
    drop(counted.wait_for(|count| are_so_many(*count)).await);
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, num::NonZeroU32, pin::pin};

    use futures::{
        StreamExt as _,
        future::{LocalBoxFuture, join_all},
        join, poll,
        stream::FuturesUnordered,
    };
    use tokio::time::timeout;

    use super::*;

    /// Turns that are all given out.
    fn turns() -> Turns {
        let budget = Budget {
            qps: 10.0,
            burst: NonZeroU32::MIN,
        };
        let turns = Turns::new(budget);
        turns.limiter.take().unwrap();
        turns
    }

    /// A turn that is never given out fails the test.
    async fn in_time<T>(turns: impl Future<Output = T>) -> T {
        timeout(Duration::from_secs(60), turns).await.unwrap()
    }

    impl Turns {
        async fn take(&self, urgent: bool) {
            if urgent {
                self.urgent().await;
            } else {
                self.leisurely().await;
            }
        }

        /// One that waits for the limiter.
        async fn waiting(&self, urgent: bool) -> LocalBoxFuture<'_, ()> {
            loop {
                let mut turn: LocalBoxFuture<'_, ()> = Box::pin(self.take(urgent));
                // A turn may have become due just now.
                if poll!(&mut turn).is_pending() {
                    return turn;
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn urgent_ones_come_first_and_equals_as_they_asked() {
        let turns = turns();
        // All ask before any is served.
        let closed = (turns.urgent.lock().await, turns.leisurely.lock().await);
        let asked = [false, true, false, true, true, false, true, false];
        let served = RefCell::new(Vec::new());
        let ask = |(place, urgent)| {
            let (turns, served) = (&turns, &served);
            async move {
                turns.take(urgent).await;
                served.borrow_mut().push(place);
            }
        };
        let mut all = pin!(join_all(asked.into_iter().enumerate().map(ask)));
        assert!(poll!(&mut all).is_pending());
        drop(closed);
        in_time(all).await;
        assert_eq!(*served.borrow(), [1, 3, 4, 6, 0, 2, 5, 7]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_urgent_one_overtakes_one_that_waits_for_the_limiter() {
        let turns = turns();
        let served = RefCell::new(Vec::new());
        let mut overtaken = turns.waiting(false).await;
        let mut urgent = turns.waiting(true).await;
        // The one that is overtaken is woken first, and asked first.
        let overtaken = async {
            (&mut overtaken).await;
            served.borrow_mut().push("overtaken");
        };
        let urgent = async {
            (&mut urgent).await;
            served.borrow_mut().push("urgent");
        };
        in_time(async { join!(overtaken, urgent) }).await;
        assert_eq!(*served.borrow(), ["urgent", "overtaken"]);
    }

    /// However many urgent ones there are, what is said of them is said meanwhile.
    #[tokio::test(start_paused = true)]
    async fn one_that_can_wait_has_its_turn_among_many_urgent_ones() {
        let turns = turns();
        let mut patient = turns.waiting(false).await;
        let mut overtaken = 0;
        let mut urgent = FuturesUnordered::new();
        for _ in 0..50 {
            urgent.push(turns.waiting(true).await);
        }
        in_time(async {
            loop {
                tokio::select! {
                    biased;
                    () = &mut patient => break,
                    Some(()) = urgent.next() => overtaken += 1,
                }
            }
        })
        .await;
        // One more may have been the next one already.
        assert!(overtaken <= MAX_OVERTAKEN + 1, "{overtaken}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_waiting_leaves_no_trace() {
        in_time(give_up()).await;
    }

    async fn give_up() {
        for (urgent, queued) in [(true, true), (true, false), (false, true), (false, false)] {
            let turns = turns();
            // Behind another one of its class, or waiting for the limiter itself.
            let first = if queued {
                Some(turns.waiting(urgent).await)
            } else {
                None
            };
            let gives_up = turns.waiting(urgent).await;
            let mut left = turns.waiting(false).await;
            drop(gives_up);
            if let Some(first) = first {
                first.await;
            }
            (&mut left).await;
            assert_eq!(*turns.waiting.borrow(), 0);
            turns.urgent().await;
            turns.leisurely().await;
        }
    }
}
