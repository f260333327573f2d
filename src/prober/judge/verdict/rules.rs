//! What makes silent leases an outage, and what ends one.

use std::time::Duration;

use crate::cluster::LeaseRules;

/// Judgement: a lease counts as expired after this share of the grace, so that the dependents are
/// down before kube-controller-manager reacts.
const EXPIRY_FRACTION: f64 = 0.75;
/// However short the grace, a kubelet that misses fewer renewals than this is not silent.
const RENEWALS_MISSED: u32 = 3;
/// Judgement: leases whose last renewals lie further apart than this, or than [`GRACES`], did not fall silent
/// together. An outage may take this long to spread from zone to zone.
const TOGETHER: Duration = Duration::from_secs(15 * 60);
/// In graces: kube-controller-manager marks what fell silent within them at about one time.
const GRACES: u32 = 3;

impl LeaseRules {
    /// The age at which a lease that is renewed every `period` counts as expired; `None` if that is
    /// not before the grace, so that the lease is renewed too slowly to be judged.
    pub fn expiry(&self, period: Duration) -> Option<Duration> {
        let expiry = self
            .grace
            .mul_f64(EXPIRY_FRACTION)
            .max(period * RENEWALS_MISSED);
        (expiry < self.grace).then_some(expiry)
    }

    /// Longest time for which a level of a scale-down waits for the one before: three waits fit between the
    /// expiry and the grace. Leases renewed too slowly to be judged count as if renewed fast.
    pub fn patience(&self, period: Duration) -> Duration {
        let expiry = self.expiry(period).or_else(|| self.expiry(Duration::ZERO));
        let left = self.grace.saturating_sub(expiry.unwrap_or_default());
        // People read it.
        Duration::from_millis(u64::try_from((left / 3).as_millis()).unwrap_or(u64::MAX))
    }

    /// For how long leases may fall silent one after the other and still be one outage.
    pub(super) fn spread(&self) -> Duration {
        TOGETHER.max(self.grace * GRACES)
    }

    /// The smallest number of `all` that is an outage; it may be more than there are.
    pub fn needed(&self, all: usize) -> usize {
        share(all, self.fraction).max(self.minimum as usize)
    }

    /// An outage that has begun lasts while the fraction is silent, however few these are.
    pub(super) fn of(&self, protected: bool) -> Self {
        let minimum = if protected { 0 } else { self.minimum };
        Self { minimum, ..*self }
    }
}

/// The smallest number of `all` that is at least this share of them.
pub(super) fn share(all: usize, share: f64) -> usize {
    let estimate = (share * all as f64).ceil() as usize;
    // The product is rounded, the quotient decides.
    let is_share = |some: &usize| *some as f64 / all as f64 >= share;
    (estimate.saturating_sub(1)..=all)
        .find(is_share)
        .unwrap_or(all)
}
