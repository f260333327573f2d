//! How often something may be said that can come and go: a few times in a row, so that what happens
//! is seen step by step, and then ever so often, since all clusters share one budget of requests.

use std::time::Duration;

use tokio::time::Instant;

/// So many times at once: an outage of nodes and one of the API server, each from its beginning to its
/// end, and a detour in either ...
const BURST: u32 = 12;
/// ... and one more for each that has passed.
pub(crate) const PAUSE: Duration = Duration::from_secs(60);

/// How often something may still be said.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// When none of it is used up any more.
    whole: Instant,
}

impl Allowance {
    /// All of it.
    pub(crate) fn full() -> Self {
        Self {
            whole: Instant::now(),
        }
    }

    /// From when on it may be said again, but not before now.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        let used = self.whole.saturating_duration_since(now);
        now + used.saturating_sub(PAUSE * (BURST - 1))
    }

    /// It was said. With what has to be said at once it may be said more often than this allows, but
    /// no debt comes of that: what is said last would be outdated for as long.
    pub(crate) fn spend(&mut self, now: Instant) {
        self.whole = (self.whole.max(now) + PAUSE).min(now + PAUSE * BURST);
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
