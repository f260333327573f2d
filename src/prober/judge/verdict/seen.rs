//! One lease at the time of an assessment.

use std::time::Duration;

use super::{
    LeaseRules,
    onset::{self, Renewal},
};
use crate::{
    prober::{leases::Beat, nodes::Exclusion},
    util::mono_time::MonoTime,
};

/// What is known of its age.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pulse {
    Fresh,
    Expired,
    /// Within its bounds, it may be either.
    Expiring,
    Unknown,
}

/// One lease at the time of an assessment.
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
        protected: bool,
        at: MonoTime,
    ) -> Self {
        let expiry = thresholds.expiry(beat.period());
        let pulse = pulse(beat, expiry, at);
        let is_fresh = protected && pulse == Pulse::Fresh;
        let excluded = beat.place.excluded;
        let excluded = excluded.filter(|why| !is_fresh || !why.is_going());
        let is_cut = pulse == Pulse::Expired && beat.is_cut;
        let excluded = excluded.or(is_cut.then_some(Exclusion::Disregarded));
        Self {
            beat,
            expiry,
            pulse,
            excluded,
        }
    }

    /// Whether it does not count, and is fresh, which is evidence against an outage that begins.
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

    /// Whether it has been silent since before that moment.
    pub(super) fn silent_before(&self, moment: Option<MonoTime>) -> bool {
        self.pulse == Pulse::Expired
            && self
                .beat
                .renewed()
                .zip(moment)
                .is_some_and(|(window, moment)| window.latest < moment)
    }
}

/// Returns the moment before which silent leases are not part of an outage, and whether enough of the later
/// ones certainly fell silent together. Called only if some have been silent for longer than one outage
/// takes to spread.
pub(super) fn cut<'a>(
    leases: impl Iterator<Item = Seen<'a>>,
    thresholds: &LeaseRules,
    protected: bool,
    at: MonoTime,
) -> (Option<MonoTime>, bool) {
    let (mut renewals, mut unknown, mut evidence) = (vec![], 0, 0);
    for seen in leases {
        if seen.excluded.is_some() {
            evidence += usize::from(seen.is_evidence(protected));
        } else if let (Some(window), Some(_)) = (seen.beat.renewed(), seen.expiry) {
            renewals.push(Renewal {
                at: window.latest,
                expired: seen.pulse == Pulse::Expired,
            });
        } else {
            unknown += 1;
        }
    }
    renewals.sort_unstable();
    let earliest = |of, certain| onset::earliest(&renewals, unknown, evidence, of, certain);
    if protected {
        // What keeps it protected fell silent in the outage, unless shown otherwise.
        let lasts = LeaseRules {
            fraction: thresholds.recovery,
            ..*thresholds
        };
        return (earliest(&lasts, true), true);
    }
    if let Some(begun) = earliest(thresholds, true) {
        return (Some(begun), true);
    }
    // Leases that fall silent next do so apart from those that are silent for longer.
    let long_ago = at - onset::spread(thresholds);
    (Some(earliest(thresholds, false).unwrap_or(long_ago)), false)
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
