//! Allowance for what can come and go: a few times in a row, so that what happens
//! is seen step by step, and then ever so often, since all clusters share one budget of requests.

use std::time::Duration;

use tokio::time::Instant;

/// Number of times in a row: an outage of nodes and one of the API server, each from its beginning to its
/// end, and a detour in either ...
const BURST: u32 = 12;
/// ... and one more for each that has passed.
const PAUSE: Duration = Duration::from_secs(60);
/// A policy changes with each of its clusters.
const POLICY_PAUSE: Duration = Duration::from_secs(5);

/// Limit of how often something may be said.
#[derive(Debug)]
pub(super) struct Allowance {
    burst: u32,
    pause: Duration,
    /// Time at which none of it is used up any more.
    whole: Instant,
}

impl Allowance {
    /// Returns a whole allowance.
    pub(super) fn full() -> Self {
        Self::new(BURST, PAUSE)
    }

    /// Returns the allowance of the status of a policy.
    pub(super) fn of_policies() -> Self {
        Self::new(1, POLICY_PAUSE)
    }

    fn new(burst: u32, pause: Duration) -> Self {
        Self {
            burst,
            pause,
            whole: Instant::now(),
        }
    }

    /// From when on it may be said again, but not before now.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let used = self.whole.saturating_duration_since(now);
        now + used.saturating_sub(self.pause * (self.burst - 1))
    }

    /// Counts that it was said. With what has to be said at once it may be said more often than this allows, but
    /// no debt comes of that: what is said last would be outdated for as long.
    pub(super) fn spend(&mut self, now: Instant) {
        self.whole = (self.whole.max(now) + self.pause).min(now + self.pause * self.burst);
    }

    /// Says it now, unless too much has been said; returns whether it was.
    pub(super) fn take(&mut self) -> bool {
        let now = Instant::now();
        let may = self.next(now) <= now;
        if may {
            self.spend(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_now_and_then() {
        let mut allowance = Allowance::full();
        let start = Instant::now();
        for _ in 0..BURST {
            assert_eq!(allowance.next(start), start);
            allowance.spend(start);
        }
        let mut now = start;
        for _ in 0..3 {
            assert_eq!(allowance.next(now), now + PAUSE);
            now += PAUSE;
            assert_eq!(allowance.next(now), now);
            allowance.spend(now);
        }
        // It comes back, and is never more than at the start.
        now += PAUSE * 100;
        for _ in 0..BURST {
            assert_eq!(allowance.next(now), now);
            allowance.spend(now);
        }
        assert_eq!(allowance.next(now), now + PAUSE);
        // Nor is it ever longer until the next.
        for _ in 0..BURST {
            allowance.spend(now);
            assert_eq!(allowance.next(now), now + PAUSE);
        }
    }
}
