//! One lease at the time of an assessment.

use std::time::Duration;

use super::LeaseRules;
use crate::{
    prober::{
        leases::{Beat, Window},
        nodes::Exclusion,
    },
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
    /// When it was last renewed, and after how long it expires, if both are known.
    pub(super) renewed: Option<(Window, Duration)>,
    pub(super) pulse: Pulse,
    /// Why it does not count, if it does not.
    pub(super) excluded: Option<Exclusion>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(beat: &'a Beat, rules: &LeaseRules, protected: bool, at: MonoTime) -> Self {
        let renewed = beat.renewed().zip(rules.expiry(beat.period()));
        let pulse = match renewed {
            Some((window, expiry)) if window.latest + expiry <= at => Pulse::Expired,
            Some((window, expiry)) => match window.earliest {
                Some(earliest) if earliest + expiry > at => Pulse::Fresh,
                Some(_) => Pulse::Expiring,
                None => Pulse::Unknown,
            },
            None => Pulse::Unknown,
        };
        let counts = |why: &Exclusion| protected && pulse == Pulse::Fresh && why.is_going();
        Self {
            beat,
            renewed,
            pulse,
            excluded: beat.place.excluded.filter(|why| !counts(why)),
        }
    }

    /// Leaves it out for this reason if it counts, and has been silent since before that moment.
    pub(super) fn leave_out(&mut self, moment: Option<MonoTime>, why: Exclusion) {
        let since = self.silent_since().zip(moment);
        if since.is_some_and(|(since, moment)| since < moment) {
            self.excluded = Some(why);
        }
    }

    /// Returns whether it does not count, and is fresh, which is evidence against an outage that begins.
    pub(super) fn is_evidence(&self, protected: bool) -> bool {
        let is_fresh = match self.excluded {
            // A new lease was fresh a short time ago, when it came.
            Some(Exclusion::NotReadYet) => self.pulse != Pulse::Expired,
            _ => self.pulse == Pulse::Fresh,
        };
        let is_near = self.excluded.is_some_and(Exclusion::is_evidence_if_fresh);
        is_fresh && is_near && !protected
    }

    /// Since when it has been silent, at the latest, if it counts and certainly is.
    pub(super) fn silent_since(&self) -> Option<MonoTime> {
        let counts = self.excluded.is_none() && self.pulse == Pulse::Expired;
        Some(self.renewed.filter(|_| counts)?.0.latest)
    }

    /// Returns whether it is fresh, and its Node says that it is Ready.
    pub(super) fn is_ready(&self) -> bool {
        self.pulse == Pulse::Fresh && self.beat.place.ready
    }
}
