//! The verdict on the leases: outage, healthy, or undetermined.

mod rules;
mod seen;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{
    rules::share,
    seen::{Pulse, Seen},
};
pub use crate::cluster::LeaseRules;
use crate::{
    prober::{
        leases::Leases,
        nodes::Exclusion,
        proof::{Proof, READS_PER_PERIOD},
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
    /// Number of those that count, are fresh, and whose Node says that it is Ready.
    pub ready: usize,
    /// Leases that do not count, by reason.
    pub excluded: BTreeMap<Exclusion, usize>,
    /// Fresh leases among these that are evidence against an outage. None while the cluster is
    /// protected.
    pub counter_evidence: usize,
    /// The leases that count by zone, in the order of the zones' names and with those that are in
    /// no known zone last; empty while none is expired, or no zone is known.
    pub zones: Vec<ZoneCount>,
    /// The last renewal of the first expired lease, at the latest; `None` while none is expired.
    pub silent_since: Option<MonoTime>,
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
    pub name: Option<Arc<str>>,
    /// Leases that count.
    pub candidates: usize,
    /// Candidates that are certainly expired.
    pub expired: usize,
}

/// The nodes that a restore waits for: those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returning {
    /// Nodes whose lease is fresh again, and that say they are Ready.
    pub back: usize,
    /// All of them.
    pub all: usize,
}

impl Returning {
    /// Returns whether there is none to wait for.
    pub fn is_complete(self) -> bool {
        self.back >= self.all
    }
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
        rules: &LeaseRules,
        protected: bool,
        onset: Option<MonoTime>,
        at: MonoTime,
    ) -> Self {
        let rules = &rules.of(protected);
        let seen = leases.iter().map(|beat| {
            let mut seen = Seen::new(beat, rules, protected, at);
            seen.leave_out(leases.cut, Exclusion::Disregarded);
            seen
        });
        let mut seen: Vec<Seen<'_>> = seen.collect();
        let last = seen.iter().filter_map(Seen::silent_since).max();
        let together = last.map(|last| last - rules.spread());
        // Of a protected cluster whose outage nobody saw begin all count.
        let from = onset.or(together.filter(|_| !protected));
        seen.iter_mut()
            .for_each(|it| it.leave_out(from, Exclusion::LongSilent));

        let counting = || seen.iter().filter(|it| it.excluded.is_none());
        let are = |pulse| counting().filter(|it| it.pulse == pulse).count();
        let evidence = || seen.iter().filter(|it| it.is_evidence(protected));
        let mut excluded = BTreeMap::new();
        for why in seen.iter().filter_map(|it| it.excluded) {
            *excluded.entry(why).or_default() += 1;
        }
        let missing = leases.missing();
        // A missing lease ends nothing; but maxProtection does, whatever is missing.
        let ends_nothing = protected && !leases.ended && counting().next().is_some();
        let awaited = if ends_nothing { missing } else { 0 };
        let candidates = counting().count() + awaited;
        let counter_evidence = evidence().count();
        let needed = rules.needed(candidates + counter_evidence);

        let periods = counting().filter_map(|it| it.renewed.map(|_| it.beat.period()));
        let period = periods.max().unwrap_or_default();
        // Evidence that falls silent as well is none any more, so suspicion treats it as a candidate. While the age of
        // no candidate is known, nothing can be proven, so there is nothing to suspect.
        let judged = counting().chain(evidence()).filter_map(|it| it.renewed);
        let judged = judged.filter(|_| !period.is_zero());
        let suspects = judged.clone().map(|(window, expiry)| {
            // Without a lower bound it can have been silent for any time.
            window.earliest.unwrap_or(MonoTime::from_nanos(i128::MIN)) + suspicion(expiry, period)
        });
        let expiries = judged.map(|(window, expiry)| window.latest + expiry);
        Self {
            at,
            candidates,
            expired: are(Pulse::Expired),
            unknown: are(Pulse::Expiring) + are(Pulse::Unknown) + awaited,
            expiring: are(Pulse::Expiring),
            ready: counting().filter(|it| it.is_ready()).count(),
            excluded,
            counter_evidence,
            zones: zones(counting()),
            silent_since: seen.iter().filter_map(Seen::silent_since).min(),
            needed,
            unrecovered: share(candidates + counter_evidence, rules.recovery),
            period,
            suspect_at: nth(needed, suspects.collect()),
            expires_at: nth(needed, expiries.collect()),
            silent: seen.iter().filter(|it| it.pulse != Pulse::Fresh).count(),
            lacks_machines: leases.lacks_machines,
            missing,
            alive: leases.alive,
            abandoned: leases.are_abandoned(),
            protected,
            ended: leases.ended,
        }
    }

    /// The longest time between two reads of a suspect cluster.
    pub(crate) fn spacing(&self) -> Duration {
        self.period / READS_PER_PERIOD
    }

    /// Returns whether the fraction can have been silent for so long that it has to be proven or refuted.
    pub fn suspect(&self) -> bool {
        self.suspect_at.is_some_and(|moment| moment <= self.at)
    }

    /// The verdict, given how far the silence is proven.
    pub(crate) fn verdict(&self, rules: &LeaseRules, proof: &Proof) -> Verdict {
        // The leases among which the expired ones must reach the fraction.
        let weighed = self.candidates + self.counter_evidence;
        let doubt = match (self.candidates, self.expired + self.unknown) {
            (0, _) => self.hidden(),
            (_, silent) if silent < share(weighed, rules.fraction) => {
                let recovers = self.protected && silent >= self.unrecovered;
                recovers.then_some(Doubt::Recovering)
            }
            (_, silent) if silent < self.needed && self.expired > 0 => Some(Doubt::TooFewSilent),
            _ if self.expired < self.needed => Some(match self.expires_at {
                Some(at) if self.expired + self.expiring >= self.needed => Doubt::Unproven(at),
                _ => Doubt::UnknownLeases,
            }),
            _ => {
                let doubt = proof.doubt(self.at, self.period);
                return doubt.map_or(Verdict::Outage, Verdict::Undetermined);
            }
        };
        doubt.map_or(Verdict::Healthy, Verdict::Undetermined)
    }

    /// Why the cluster may not be healthy although no lease counts.
    fn hidden(&self) -> Option<Doubt> {
        let excludes = |why| self.excluded.contains_key(&why);
        // All of them are only excluded for these reasons if something is wrong.
        let hides = excludes(Exclusion::NoMachine) || excludes(Exclusion::PoolCondition);
        let died = excludes(Exclusion::LongSilent) && !excludes(Exclusion::Disregarded);
        match self.protected {
            true if self.abandoned || self.ended => None,
            true => Some(Doubt::NoCandidates),
            false if hides || self.missing > 0 => Some(Doubt::NoCandidates),
            false => died.then_some(Doubt::TooFewSilent),
        }
    }
}

/// For how long a lease must have been silent to be suspect.
fn suspicion(expiry: Duration, period: Duration) -> Duration {
    let latest = expiry.saturating_sub(Proof::length(period) + SUSPICION_MARGIN);
    latest.max(period.mul_f64(SUSPICION_PERIODS))
}

/// The moment at which `count` of these have passed.
fn nth(count: usize, mut moments: Vec<MonoTime>) -> Option<MonoTime> {
    let index = count.checked_sub(1)?;
    (index < moments.len()).then(|| *moments.select_nth_unstable(index).1)
}

/// Counts these leases by zone.
fn zones<'a>(counting: impl Iterator<Item = &'a Seen<'a>>) -> Vec<ZoneCount> {
    let mut zones = BTreeMap::new();
    for seen in counting {
        let name = seen.beat.place.zone.clone();
        // Those in no known zone come last.
        let zone = zones.entry((name.is_none(), name.clone()));
        let zone = zone.or_insert_with(|| ZoneCount {
            name,
            ..ZoneCount::default()
        });
        zone.candidates += 1;
        zone.expired += usize::from(seen.pulse == Pulse::Expired);
    }
    let zones: Vec<ZoneCount> = zones.into_values().collect();
    let tells = zones.iter().any(|it| it.expired > 0) && zones.iter().any(|it| it.name.is_some());
    if tells { zones } else { vec![] }
}

#[cfg(test)]
mod tests;
