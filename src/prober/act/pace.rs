//! When each of many clusters may be restored.
//!
//! After an outage of many clusters, restoring all at the same time starts as many control planes on the
//! nodes of one seed. If their API servers starve, leases go silent again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Restores that begin without a pause. Judgement: an outage of a few shoots does not affect others.
const AT_ONCE: u32 = 20;
/// Pause between further restores.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait of a cluster, however many there are.
const LATEST: Duration = Duration::from_secs(5 * 60);

/// The pace at which the clusters of a fleet are restored.
#[derive(Debug, Default)]
pub struct Pace {
    /// When [`AT_ONCE`] restores are free again.
    free: Mutex<Option<Instant>>,
}

impl Pace {
    /// Reserves the moment at which one more cluster may be restored.
    pub(crate) fn reserve(&self, now: Instant) -> Instant {
        let mut free = self.free.lock();
        let ahead = free.map_or(Duration::ZERO, |free| free.duration_since(now));
        let ahead = ahead.min(LATEST);
        *free = Some(now + ahead + PAUSE);
        now + ahead.saturating_sub(PAUSE * (AT_ONCE - 1))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// After how many milliseconds the last of so many that ask at once may be restored.
    #[rstest]
    #[case(1, 0)]
    #[case(20, 0)]
    #[case(21, 200)]
    #[case(1_000, 196_000)]
    #[case(3_000, 296_200)]
    fn clusters_are_restored_one_after_the_other(#[case] clusters: usize, #[case] last: u64) {
        let (pace, now) = (Pace::default(), Instant::now());
        let turns = (0..clusters).map(|_| pace.reserve(now).duration_since(now));
        assert_eq!(turns.max(), Some(Duration::from_millis(last)));
    }

    #[test]
    fn what_is_reserved_in_vain_keeps_nobody_waiting_for_long() {
        let (pace, now) = (Pace::default(), Instant::now());
        let last = (0..10_000).map(|_| pace.reserve(now)).max();
        assert!(last <= Some(now + LATEST));
        let later = now + LATEST + PAUSE;
        assert_eq!(pace.reserve(later), later);
    }
}
