//! What is known of Nodes and Machines, and when they have to be read again.

use std::time::Duration;

use super::budget::Budget;
use crate::{
    prober::{
        nodes::Exclusion,
        proof::Proof,
        schedule::{retry_after, throttled_for},
        verdict::Assessment,
    },
    util::mono_time::MonoTime,
};

/// Judgement: Nodes and Machines are read again for a lease that turns silent at most this often,
/// and are never older than this when silence is acted on.
const AGE: Duration = Duration::from_secs(60);
/// Judgement: first pause before facts that leave no candidate are read again. It doubles each
/// time, ...
const DOUBTED: Duration = Duration::from_secs(10);
/// ... up to this. The lists are large, and a seed whose Machines name no nodes any more has a
/// thousand such clusters.
const DOUBTED_AT_MOST: Duration = Duration::from_secs(300);

/// When the facts by which leases count were read, and are to be read again.
#[derive(Clone, Debug, Default)]
pub(in crate::prober) struct NodeFacts {
    /// Start of the reads that they are from.
    pub(super) read: Option<MonoTime>,
    wanted: Wanted,
    /// Leases came since the facts were read, or were created anew.
    pub(super) lack_leases: bool,
    /// When all leases were last forgotten: facts from before may be those of other nodes.
    forgot: Option<MonoTime>,
    doubted: Option<Duration>,
    /// When facts that could not be read may be read again, and the number of failures in a row.
    pub(super) put_off: Option<MonoTime>,
    failures: u32,
    /// They are to be read for the names of leases alone.
    forced: bool,
}

/// Whether facts have to be read again whatever their age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    No,
    /// Before a verdict that depends on them.
    #[default]
    ToDecide,
    /// Before any verdict: facts that cannot be read now could not be read in an outage.
    ToConclude,
}

impl NodeFacts {
    /// Has the facts read again before the next verdict that depends on them.
    pub(in crate::prober) fn want(&mut self) {
        self.wanted = self.wanted.max(Wanted::ToDecide);
    }

    /// Prevents any verdict until the facts, which could not be read, have been read.
    pub(in crate::prober) fn need(&mut self) {
        self.wanted = Wanted::ToConclude;
    }

    /// Whether to read the facts when there is time.
    pub(in crate::prober) fn are_wanted(&self) -> bool {
        self.wanted > Wanted::No || self.lack_leases || self.doubted.is_some()
    }

    /// Whether to read the facts for no other reason than that they may lack Machines.
    pub(in crate::prober) fn are_only_doubted(&self) -> bool {
        self.wanted == Wanted::No && !self.lack_leases && self.doubted.is_some()
    }

    /// The pause after which facts that may lack Machines are to be read again, consistently.
    pub(in crate::prober) fn doubted(&self) -> Option<Duration> {
        self.doubted
    }

    /// Whether a recent failed read puts the next one off.
    pub(in crate::prober) fn are_put_off(&self, now: MonoTime) -> bool {
        self.put_off.is_some_and(|until| now < until)
    }

    /// Whether they are to be read for the names of leases alone, which is not urgent.
    pub(super) fn are_forced(&self) -> bool {
        self.forced && self.wanted == Wanted::No
    }

    /// They could not be read; `throttled` if the server asked for less load, perhaps for how long.
    pub(super) fn failed(
        &mut self,
        finished: MonoTime,
        throttled: Option<Option<Duration>>,
        longest: Duration,
    ) {
        self.forced = false;
        self.failures = self.failures.saturating_add(1);
        let pause = match throttled {
            Some(wait) => throttled_for(wait),
            None => retry_after(self.failures).min(longest),
        };
        self.put_off = Some(finished + pause);
    }

    /// What was seen of all leases was forgotten by a read that started then.
    pub(super) fn forget_all(&mut self, started: MonoTime) {
        self.want();
        self.forgot = Some(started);
    }

    /// Whether the facts have to be read before a verdict. `silenced` if leases turned silent.
    pub(super) fn come_first(
        &mut self,
        seen: &Assessment,
        proof: &Proof,
        silenced: bool,
        budget: &mut Budget,
    ) -> bool {
        let stale = self.read.is_none_or(|read| seen.at.since(read) >= AGE);
        if seen.protected && stale {
            self.doubted = self.doubted.or(Some(Duration::ZERO));
        }
        // A single lease that expires matters without suspicion, too; but leases that stay silent
        // are no reason to read the facts every minute.
        if stale && silenced || seen.suspect() && self.are_outdated(seen, proof) {
            self.want();
        }
        if self.wanted > Wanted::No {
            return !seen.is_beyond_doubt() || self.wanted == Wanted::ToConclude;
        }
        // A suspect stays one even if every lease that came since speaks against it.
        let lack = self.lack_leases && !seen.suspect() && !seen.is_beyond_doubt();
        // Invented names must not force large lists at each read; but the restore of a protected cluster
        // needs the facts.
        self.forced = lack && (self.forced || seen.protected || budget.force(seen.at));
        self.forced
    }

    /// Whether silence must not be acted on by these facts, however late they came.
    pub(super) fn are_outdated(&self, seen: &Assessment, proof: &Proof) -> bool {
        let Some(read) = self.read else {
            return true;
        };
        let age = seen.at.since(read);
        // Facts must be from after the silence was first watched: a node that was taken down since
        // is silent for a good reason. The first of these reads may come while the facts are under
        // way.
        let began = proof.watched_since();
        let before_watch = began.is_some_and(|began| read + super::FRESH < began);
        // If the first write came late, facts must not be much older than it.
        let since = proof.counts_since();
        let window = Proof::write_window(seen.period);
        let before_writes = since.is_some_and(|since| read + window < since);
        age >= AGE || (before_watch || before_writes) && age > seen.period
    }

    /// Notes facts whose reads started `read`.
    pub(super) fn learn(&mut self, read: MonoTime) {
        self.read = Some(read);
        self.put_off = None;
        self.failures = 0;
        self.forced = false;
        self.wanted = match self.forgot {
            Some(forgot) if read < forgot => Wanted::ToDecide,
            _ => Wanted::No,
        };
    }

    /// Judges new facts by what the leases say with them; `consistent` if no cache answered. `protected` is the
    /// pause after which those of a protected cluster are read again.
    pub(super) fn doubt(
        &mut self,
        seen: Option<&Assessment>,
        consistent: bool,
        protected: Duration,
    ) {
        self.doubted = match seen {
            // A cache may be older than the Machine that a lease lacks.
            Some(seen) if !consistent && seen.excluded.contains_key(&Exclusion::NoMachine) => {
                Some(Duration::ZERO)
            }
            Some(seen) if seen.protected => Some(protected),
            Some(seen) if seen.is_blind() => {
                let again = self.doubted.unwrap_or_default() * 2;
                Some(again.clamp(DOUBTED, DOUBTED_AT_MOST))
            }
            _ => None,
        };
    }
}
