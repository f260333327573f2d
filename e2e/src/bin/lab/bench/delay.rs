//! How long an outage has been certain when the operator writes.

use dependency_watchdog_e2e::farm::{Kubelets, Micros, micros};
use jiff::Timestamp;
use std::time::Duration;

const SECOND: Micros = 1_000_000;

/// What decides when silence is an outage: of the policy, and of the kubelets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// How long kube-controller-manager waits.
    pub(crate) grace: Duration,
    /// How often kubelets renew.
    pub(crate) period: Duration,
    /// The share of the leases that makes an outage.
    pub(crate) fraction: f64,
}

/// The moments of one outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Certain {
    /// The fraction is older than the expiry by the server's stamps, whole seconds: whoever knows
    /// nothing but the stamps and the exact time is certain from here on.
    pub(crate) by_stamps: Micros,
    /// The first node is silent for the grace: kube-controller-manager takes it for lost.
    pub(crate) too_late: Micros,
}

impl Rules {
    /// The age at which a lease is expired: three quarters of the grace, and three renewals.
    fn expiry(&self) -> Duration {
        self.grace.mul_f64(0.75).max(self.period * 3)
    }

    /// The moments of an outage whose kubelets made their last renewals before then.
    pub(crate) fn certain(&self, kubelets: &Kubelets, cut: Micros) -> Option<Certain> {
        let mut last: Vec<Micros> = kubelets.last_written(cut).collect();
        last.sort_unstable();
        let nodes = last.len() as f64;
        let place = (1..=last.len()).find(|count| *count as f64 / nodes >= self.fraction)? - 1;
        let expiry = micros(self.expiry());
        let decisive = last.get(place)?;
        // All that a stamp says is that the lease was renewed before that second was over. The
        // order by stamps is that by renewals.
        let by_stamps = (decisive.div_euclid(SECOND) + 1) * SECOND + expiry;
        Some(Certain {
            by_stamps,
            too_late: last.first()? + micros(self.grace),
        })
    }
}

/// How the writes to the dependents of one shoot followed, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Delay {
    /// From when the stamps are certain to the first write; less than 0 if more than the stamps was
    /// known.
    pub(crate) first: f64,
    /// To the last write.
    pub(crate) last: f64,
    /// What was left after the last write until the first node is taken for lost.
    pub(crate) left: f64,
}

impl Certain {
    /// What these writes, of which there is at least one, come to.
    pub(crate) fn delay(&self, writes: &[Timestamp]) -> Option<Delay> {
        let seconds = |from: Micros, to: Micros| (to - from) as f64 / SECOND as f64;
        let first = writes.iter().min()?.as_microsecond();
        let last = writes.iter().max()?.as_microsecond();
        Some(Delay {
            first: seconds(self.by_stamps, first),
            last: seconds(self.by_stamps, last),
            left: seconds(last, self.too_late),
        })
    }
}
