//! One lease at the time of an assessment.

use std::time::Duration;

use super::LeaseRules;
use crate::{
    prober::{leases::Beat, nodes::Exclusion},
    util::mono_time::MonoTime,
};

/// Age of a lease, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    Fresh,
    Expired,
    /// Within its bounds, it may be either.
    Expiring,
    Unknown,
}

/// A lease at the time of an assessment.
pub(super) struct Seen<'a> {
    pub(super) beat: &'a Beat,
    pub(super) expiry: Option<Duration>,
    pub(super) pulse: Pulse,
    /// Why it does not count, if it does not.
    pub(super) excluded: Option<Exclusion>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(
        beat: &'a Beat,
        thresholds: &LeaseRules,
        cut: Option<MonoTime>,
        protected: bool,
        at: MonoTime,
    ) -> Self {
        let expiry = thresholds.expiry(beat.period());
        let pulse = pulse(beat, expiry, at);
        let is_fresh = protected && pulse == Pulse::Fresh;
        let excluded = beat.place.excluded;
        let excluded = excluded.filter(|why| !is_fresh || !why.is_going());
        let mut seen = Self {
            beat,
            expiry,
            pulse,
            excluded,
        };
        if seen.silent_before(cut) {
            seen.excluded = Some(Exclusion::Disregarded);
        }
        seen
    }

    /// Returns whether it does not count, and is fresh, which is evidence against an outage that begins.
    pub(super) fn is_evidence(&self, protected: bool) -> bool {
        let Some(why) = self.excluded else {
            return false;
        };
        let fresh = match why {
            // A new lease was fresh a short time ago, when it came.
            Exclusion::NotReadYet => self.pulse != Pulse::Expired,
            _ => self.pulse == Pulse::Fresh,
        };
        fresh && why.is_evidence_if_fresh() && !protected
    }

    /// Since when it has been silent, at the latest, if it counts and certainly is.
    pub(super) fn silent_since(&self) -> Option<MonoTime> {
        let counts = self.excluded.is_none() && self.pulse == Pulse::Expired;
        Some(self.beat.renewed().filter(|_| counts)?.latest)
    }

    /// Returns whether it has been silent since before that moment.
    pub(super) fn silent_before(&self, moment: Option<MonoTime>) -> bool {
        let since = self.silent_since().zip(moment);
        since.is_some_and(|(since, moment)| since < moment)
    }
}

fn pulse(beat: &Beat, expiry: Option<Duration>, at: MonoTime) -> Pulse {
    let (Some(window), Some(expiry)) = (beat.renewed(), expiry) else {
        return Pulse::Unknown;
    };
    if window.latest + expiry <= at {
        return Pulse::Expired;
    }
    match window.earliest {
        Some(earliest) if earliest + expiry > at => Pulse::Fresh,
        Some(_) => Pulse::Expiring,
        None => Pulse::Unknown,
    }
}
