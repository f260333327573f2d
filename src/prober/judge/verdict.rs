//! The verdict on the leases: outage, healthy, or undetermined.

mod returning;
mod rules;
mod seen;

use std::{collections::BTreeMap, time::Duration};

pub use self::returning::Returning;
use self::seen::{Pulse, Seen};
pub use crate::cluster::LeaseRules;
use crate::{
    prober::{
        leases::Leases,
        nodes::Exclusion,
        proof::{self, Proof, READS_PER_PERIOD},
    },
    util::mono_time::MonoTime,
};

/// Suspicion begins before the expiry by the length of the proof and by this: the second to which a stamp is
/// rounded, and the time for a sign of writes. client-go's leader election, in kube-controller-manager and
/// kube-scheduler, writes its Lease every 2 s.
const SUSPICION_MARGIN: Duration = Duration::from_secs(3);
/// Judgement: a kubelet that renews within this many periods is merely late, not suspect.
const SUSPICION_PERIODS: f64 = 1.3;

/// Leases of one read, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// The moment for which it holds: the start of the read.
    pub at: MonoTime,
    /// N: leases that count.
    pub candidates: usize,
    /// E: of these, those that are certainly expired.
    pub expired: usize,
    /// U: of these, those that may be expired or not.
    pub unknown: usize,
    /// Unknown ones that may have expired within the rounding of their stamps.
    pub expiring: usize,
    /// Leases that do not count, by reason.
    pub excluded: BTreeMap<Exclusion, usize>,
    /// Fresh leases among these that are evidence against an outage. None while the cluster is
    /// protected.
    pub counter_evidence: usize,
    /// The leases that count by zone, in the order of the zones' names and with those that are in
    /// no known zone last; empty while none is expired, or no zone is known.
    pub zones: Vec<ZoneCount>,
    /// The longest of the least times for which expired leases have been silent, since their ages are known
    /// within bounds; `None` while none is expired.
    pub longest_silence: Option<Duration>,
    /// Number of expired leases that is an outage.
    pub needed: usize,
    /// Number of silent ones that keeps a protected cluster from a restore.
    pub unrecovered: usize,
    /// P: the longest renewal period among the leases that count.
    pub period: Duration,
    /// When the fraction can have been silent long enough to be suspect.
    pub suspect_at: Option<MonoTime>,
    /// When the fraction is certainly expired unless it renews.
    pub expires_at: Option<MonoTime>,
    /// Leases that are not certainly fresh, whether or not they count.
    pub silent: usize,
    /// The seed is known not to serve Machines, so that their phases do not count.
    pub lacks_machines: bool,
    /// Nodes that count and have no lease.
    pub missing: usize,
    /// Nodes that are meant to be alive.
    pub alive: usize,
    /// No Node is meant to be alive, for certain.
    pub abandoned: bool,
    /// The cluster is protected.
    pub protected: bool,
    /// Its protection was ended by the policy's maxProtection.
    pub ended: bool,
}

/// The leases of one zone: a zone that is gone looks different from a network that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneCount {
    /// Its name, by the label `topology.kubernetes.io/zone`; `None` of nodes without.
    pub name: Option<Box<str>>,
    /// Leases that count.
    pub candidates: usize,
    /// Candidates that are certainly expired.
    pub expired: usize,
}

/// The three-way verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The nodes lost their way to the API server.
    Outage,
    /// The nodes did not.
    Healthy,
    /// The evidence does not suffice; nothing is scaled, either way.
    Undetermined(Doubt),
}

/// Why leases that were read do not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The cluster is protected, no longer in an outage, but too many leases are silent for a restore.
    Recovering,
    /// Until this moment the silence has not been watched for long enough.
    Unproven(MonoTime),
    /// The silence is proven, but Nodes and Machines were read too long ago, or before leases came,
    /// to decide which of the silent count.
    FactsOutdated,
    /// No client writes to this API server, so that silence says nothing.
    NoWrites,
    /// The fraction is silent, but too few nodes to show a network outage.
    TooFewSilent,
    /// Too many leases may or may not be expired.
    UnknownLeases,
    /// No lease counts, which does not end an outage; or none counts although there are nodes, so
    /// that leases are missing, the Machines or the nodes' conditions may be wrong, or an outage could not be
    /// seen.
    NoCandidates,
}

impl Assessment {
    /// Counts the leases as of `at`, the start of the last read. Those silent since before `onset`, when an
    /// outage began, are no part of it. Before one has begun, those are that fell silent long before the last that did.
    pub fn new(
        leases: &Leases,
        thresholds: &LeaseRules,
        protected: bool,
        onset: Option<MonoTime>,
        at: MonoTime,
    ) -> Self {
        let thresholds = &thresholds.of(protected);
        let seen = || {
            let beats = leases.iter();
            beats.map(|beat| Seen::new(beat, thresholds, leases.cut, protected, at))
        };
        // Of a protected cluster whose outage nobody saw begin all count.
        let from = match onset {
            None if !protected => seen()
                .filter_map(|it| it.silent_since())
                .max()
                .map(|last| last - thresholds.spread()),
            onset => onset,
        };
        let mut assessment = Self {
            at,
            lacks_machines: leases.lacks_machines,
            missing: leases.missing(),
            alive: leases.alive,
            abandoned: leases.are_abandoned(),
            protected,
            ended: leases.ended,
            ..Self::default()
        };
        let mut zones: BTreeMap<usize, ZoneCount> = BTreeMap::new();
        let mut judged = vec![];
        for seen in seen() {
            let pulse = seen.pulse;
            let (expired, expiring) = (pulse == Pulse::Expired, pulse == Pulse::Expiring);
            let renewed = seen.beat.renewed().zip(seen.expiry);
            assessment.silent += usize::from(pulse != Pulse::Fresh);
            let long_silent = seen.silent_before(from).then_some(Exclusion::LongSilent);
            if let Some(why) = seen.excluded.or(long_silent) {
                *assessment.excluded.entry(why).or_default() += 1;
                if seen.is_evidence(protected) {
                    assessment.counter_evidence += 1;
                    // When they fall silent as well they are no evidence any more, so suspicion
                    // treats them as candidates.
                    judged.extend(renewed);
                }
                continue;
            }
            assessment.candidates += 1;
            assessment.expired += usize::from(expired);
            assessment.unknown += usize::from(expiring || pulse == Pulse::Unknown);
            assessment.expiring += usize::from(expiring);
            // Those in no known zone come last.
            let zone = seen.beat.place.zone.map_or(usize::MAX, usize::from);
            let zone = zones.entry(zone).or_default();
            zone.candidates += 1;
            zone.expired += usize::from(expired);
            if let Some((window, _)) = renewed {
                let silence = expired.then(|| at.since(window.latest));
                assessment.longest_silence = assessment.longest_silence.max(silence);
                assessment.period = assessment.period.max(seen.beat.period());
            }
            judged.extend(renewed);
        }
        if protected && assessment.candidates > 0 && !assessment.ended {
            // A missing lease ends nothing; but maxProtection does, whatever is missing.
            assessment.candidates += assessment.missing;
            assessment.unknown += assessment.missing;
        }
        if assessment.expired > 0 && !leases.zones().is_empty() {
            let zones = zones.into_iter().map(|(place, count)| ZoneCount {
                name: leases.zones().get(place).cloned(),
                ..count
            });
            assessment.zones = zones.collect();
        }
        assessment.needed = thresholds.needed(assessment.weighed());
        assessment.unrecovered = thresholds.unrecovered(assessment.weighed());
        let period = assessment.period;
        if period.is_zero() {
            // While the age of no candidate is known, nothing can be proven, so there is nothing to suspect.
            judged.clear();
        }
        assessment.suspect_at = nth(assessment.needed, &judged, |(window, expiry)| {
            // Without a lower bound it can have been silent for any time.
            window.earliest.unwrap_or(MonoTime::from_nanos(i128::MIN)) + suspicion(*expiry, period)
        });
        assessment.expires_at = nth(assessment.needed, &judged, |(window, expiry)| {
            window.latest + *expiry
        });
        assessment
    }

    /// The longest time between two reads of a suspect cluster.
    pub(crate) fn spacing(&self) -> Duration {
        self.period / READS_PER_PERIOD
    }

    /// The leases among which the expired ones must reach the fraction.
    fn weighed(&self) -> usize {
        self.candidates + self.counter_evidence
    }

    /// Returns whether no lease counts although there are Nodes, for a reason by which all of them are only
    /// excluded if something is wrong: their Machines were not found, all nodes are to be
    /// replaced for a condition, or they have no lease.
    pub fn is_blind(&self) -> bool {
        let hides = self.excludes(Exclusion::NoMachine) || self.excludes(Exclusion::PoolCondition);
        self.candidates == 0 && (hides || self.missing > 0)
    }

    /// Returns whether no lease counts, and Nodes that count have none.
    pub(crate) fn lacks_leases(&self) -> bool {
        self.candidates == 0 && self.missing > 0
    }

    fn excludes(&self, why: Exclusion) -> bool {
        self.excluded.contains_key(&why)
    }

    /// Returns whether the fraction can have been silent for so long that it has to be proven or refuted.
    pub fn suspect(&self) -> bool {
        self.suspect_at.is_some_and(|moment| moment <= self.at)
    }

    /// The verdict, given how far the silence is proven.
    pub(crate) fn verdict(&self, thresholds: &LeaseRules, proof: &Proof) -> Verdict {
        let thresholds = &thresholds.of(self.protected);
        let (all, expired) = (self.weighed(), self.expired);
        if self.candidates == 0 {
            let is_cut = self.excludes(Exclusion::Disregarded);
            let doubt = match self.protected {
                true if self.abandoned || self.ended => return Verdict::Healthy,
                true => Doubt::NoCandidates,
                false if self.is_blind() => Doubt::NoCandidates,
                false if self.excludes(Exclusion::LongSilent) && !is_cut => Doubt::TooFewSilent,
                false => return Verdict::Healthy,
            };
            return Verdict::Undetermined(doubt);
        }
        let silent = expired + self.unknown;
        if !thresholds.fraction_reached(silent, all) {
            let recovers = self.protected && thresholds.is_unrecovered(silent, all);
            return if recovers {
                Verdict::Undetermined(Doubt::Recovering)
            } else {
                Verdict::Healthy
            };
        }
        if silent < thresholds.minimum as usize && expired > 0 {
            return Verdict::Undetermined(Doubt::TooFewSilent);
        }
        if !thresholds.reached(expired, all) {
            return Verdict::Undetermined(match self.expires_at {
                Some(moment) if thresholds.reached(expired + self.expiring, all) => {
                    Doubt::Unproven(moment)
                }
                _ => Doubt::UnknownLeases,
            });
        }
        match proof.standing(self.at, self.period) {
            proof::Standing::Proven => Verdict::Outage,
            proof::Standing::Pending(until) => Verdict::Undetermined(Doubt::Unproven(until)),
            proof::Standing::NoWrites => Verdict::Undetermined(Doubt::NoWrites),
        }
    }
}

/// For how long a lease must have been silent to be suspect.
fn suspicion(expiry: Duration, period: Duration) -> Duration {
    let latest = expiry.saturating_sub(Proof::length(period) + SUSPICION_MARGIN);
    latest.max(period.mul_f64(SUSPICION_PERIODS))
}

/// The moment at which `count` of the items have reached theirs.
fn nth<T>(count: usize, items: &[T], moment: impl Fn(&T) -> MonoTime) -> Option<MonoTime> {
    let mut moments: Vec<MonoTime> = items.iter().map(moment).collect();
    let index = count
        .checked_sub(1)
        .filter(|index| *index < moments.len())?;
    let (_, nth, _) = moments.select_nth_unstable(index);
    Some(*nth)
}

#[cfg(test)]
mod tests;
