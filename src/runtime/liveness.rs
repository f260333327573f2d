//! Whether the process still moves: each of its main loops beats, and one that has not for too long
//! hangs.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// A loop that has nothing to do beats this often all the same.
const BEAT: Duration = Duration::from_secs(5);
/// One that has not for this long hangs.
const STALE: Duration = Duration::from_secs(60);

/// The loops that are there, and when each last beat. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<BTreeMap<&'static str, Instant>>>);

/// The liveness of one loop. It is never taken back: a loop that ends before the others counts as one that
/// hangs.
#[derive(Debug)]
pub struct LoopLiveness {
    name: &'static str,
    liveness: Liveness,
    timer: Interval,
}

impl Liveness {
    /// The liveness of the loop of this name, which begins now.
    pub fn begin(&self, name: &'static str) -> LoopLiveness {
        let mut timer = interval(BEAT);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let liveness = LoopLiveness {
            name,
            liveness: self.clone(),
            timer,
        };
        liveness.beat();
        liveness
    }

    /// The loops that hang, and for how long they have.
    pub fn stale(&self) -> Vec<(&'static str, Duration)> {
        let beats = self.lock();
        let ages = beats.iter().map(|(name, last)| (*name, last.elapsed()));
        ages.filter(|(_, age)| *age >= STALE).collect()
    }

    /// There are no loops any more, and there need not be.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoopLiveness {
    /// The loop moves. To be called in each turn of it.
    pub fn beat(&self) {
        self.liveness.lock().insert(self.name, Instant::now());
    }

    /// Beats until this is done.
    pub async fn until<T>(&mut self, done: impl Future<Output = T>) -> T {
        let mut done = pin!(done);
        loop {
            self.beat();
            tokio::select! {
                biased;
                done = &mut done => return done,
                () = self.due() => {}
            }
        }
    }

    /// Waits until the loop has to turn once although there is nothing to do.
    pub async fn due(&mut self) {
        self.timer.tick().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_turn_is_found() {
        let liveness = Liveness::default();
        assert_eq!(liveness.stale(), []);
        let mut idle = liveness.begin("idle");
        let mut hangs = liveness.begin("hangs");
        for _ in 0..11 {
            advance(BEAT).await;
            idle.due().await;
            idle.beat();
        }
        assert_eq!(liveness.stale(), []);
        advance(BEAT).await;
        idle.due().await;
        idle.beat();
        assert_eq!(liveness.stale(), [("hangs", STALE)]);
        hangs.beat();
        assert_eq!(liveness.stale(), []);
        let begun = Instant::now();
        hangs.until(tokio::time::sleep(STALE * 2)).await;
        assert_eq!(begun.elapsed(), STALE * 2);
        idle.beat();
        assert_eq!(liveness.stale(), []);
        // Whoever is gone hangs.
        drop(idle);
        advance(STALE).await;
        hangs.beat();
        assert_eq!(liveness.stale(), [("idle", STALE)]);
    }
}
