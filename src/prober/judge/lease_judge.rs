//! The pure half of one cluster's loop: evidence in, the next read and the verdict out.
//!
//! The loop asks [`LeaseJudge::next`] when to read and [`LeaseJudge::request`] how, passes results, and acts on
//! [`Conclusion`]s. The judge holds no client and no clock, so that a simulation can drive it.

use std::time::Duration;

use crate::{
    prober::{
        leases::{Intake, Leases},
        nodes::{Facts, Pools},
        proof::Proof,
        schedule::{LastRead, ReadOutcome},
        verdict::{Assessment, Doubt, LeaseRules, Returning, Verdict},
    },
    shoot::{Consistency, LeaseRead, Said},
    util::mono_time::MonoTime,
};

/// Judgement: bytes of lists per second, of leases and of Nodes each. 10,000 leases every third of a renewal
/// period are less.
pub(crate) const RATE: f64 = 4.0 * 1024.0 * 1024.0;

/// Judgement: nothing is acted on by Nodes and Machines that are older: a read may fail once, or be put off for 30 s.
const OLD: Duration = Duration::from_secs(90);
/// Nodes and Machines are read again after this at the latest, however long renewal periods are.
const AGAIN: Duration = Duration::from_secs(60);

const OUTDATED: Verdict = Verdict::Undetermined(Doubt::FactsOutdated);

/// Settings for the next read of the leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Freshness of the list. One that must be new is tried once more, on a new connection.
    pub consistency: Consistency,
    /// Time limit of the read.
    pub limit: Duration,
    /// Time limit of the read over a connection that was kept.
    pub kept: Duration,
}

/// A verdict, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The verdict.
    pub verdict: Verdict,
    /// The evidence.
    pub assessment: Assessment,
    /// The earliest moment at which the outage could be proven.
    pub provable: Option<MonoTime>,
    /// Enough verdicts in a row agree to act on it.
    pub decides: bool,
    /// Start of the outage that was seen and is not over: its first lease's last renewal.
    pub onset: Option<MonoTime>,
    /// The nodes that its restore waits for.
    pub returning: Returning,
}

/// Evidence about one cluster.
#[derive(Clone, Debug, Default)]
pub struct LeaseJudge {
    rules: LeaseRules,
    leases: Leases,
    /// When the reads of Nodes and Machines began by which leases count; `None` if they say nothing.
    facts_read: Option<MonoTime>,
    /// When they were to be read again: ones from before say nothing.
    facts_forgot: MonoTime,
    /// When the next list may be read, by the size of the last.
    allowed: Option<MonoTime>,
    /// The last verdict waits for Nodes and Machines.
    awaits_facts: bool,
    /// Nodes and Machines have come: the leases are to be read again immediately.
    is_due: bool,
    proof: Proof,
    protected: bool,
    /// [`Conclusion::onset`].
    onset: Option<MonoTime>,
    /// Since when a restore has been allowed that waits for nodes.
    awaits: Option<MonoTime>,
    assessment: Option<Assessment>,
    last: Option<LastRead>,
    /// Number of the last reads or verdicts in a row that were alike.
    failures: u32,
    outages: u32,
    recoveries: u32,
}

impl LeaseJudge {
    /// A judge that has seen nothing yet.
    pub fn new(rules: LeaseRules) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    /// Replaces the rules and keeps the evidence, by which the next read is planned anew. Verdicts under the
    /// former rules do not count.
    pub(crate) fn set_rules(&mut self, rules: LeaseRules) {
        self.end_outage();
        self.rules = rules;
        (self.outages, self.recoveries) = (0, 0);
        let at = self.assessment.as_ref().map(|seen| seen.at);
        self.assessment = at.map(|at| self.assess(at));
    }

    /// This process leads from now on. Its evidence counts, its earlier verdicts do not.
    pub fn begin_term(&mut self) {
        (self.outages, self.recoveries) = (0, 0);
        self.onset = None;
    }

    /// Sets whether the cluster is protected, which changes what counts.
    pub fn set_protected(&mut self, protected: bool) {
        if self.protected && !protected {
            self.onset = None;
        }
        if protected && !self.protected {
            // Earlier verdicts had to meet less.
            self.recoveries = 0;
        }
        self.protected = protected;
    }

    /// Forgets an outage that was over by the last verdict, unless the cluster has been protected since.
    fn end_outage(&mut self) {
        if !self.protected && self.recoveries > 0 {
            self.onset = None;
        }
    }

    /// Leases that had expired by then count neither way until they are renewed. One that was fresh then, or
    /// about to expire, may belong to an outage that begins. `ended`: the protection at hand was ended then.
    pub(crate) fn set_cut(&mut self, cut: Option<MonoTime>, ended: bool) {
        let expiry = self.rules.expiry(Duration::ZERO);
        let expired = cut.map(|cut| cut - expiry.unwrap_or_default());
        (self.leases.cut, self.leases.ended) = (expired, ended);
    }

    /// Since when a restore has been allowed that waits for nodes, if one does.
    pub(crate) fn set_awaits(&mut self, since: Option<MonoTime>) {
        self.awaits = since;
    }

    /// Counts the nodes that a restore of what is protected waits for, of which Nodes were read since it was allowed.
    fn returning(&self, seen: &Assessment) -> Returning {
        let since = self.awaits.filter(|since| self.facts_read >= Some(*since));
        match self.protected {
            true => Returning {
                back: since.map_or(0, |_| seen.ready),
                all: seen.candidates,
            },
            false => Returning::default(),
        }
    }

    /// The moment before which what fell silent is no part of the outage. What is known of a renewal may become more
    /// exact.
    fn from(&self) -> Option<MonoTime> {
        self.onset.map(|onset| onset - self.rules.grace)
    }

    /// When the next read starts; `draw`, uniform in [0, 1), places the jitter.
    pub fn next(&self, now: MonoTime, draw: f64) -> MonoTime {
        let Some(last) = &self.last else {
            return now;
        };
        let at = match self.is_due {
            true => last.finished,
            false => self
                .rules
                .next(last, self.assessment.as_ref(), &self.proof, draw),
        };
        self.allowed.map_or(at, |allowed| allowed.max(at))
    }

    /// Settings for the next read. A suspect is read consistently, in a third of its period. A kept connection may
    /// have died unnoticed in the same event in which the nodes fall silent: in that time, it is noticed soon enough.
    pub fn request(&self) -> Request {
        let timeout = self.rules.timeout;
        let spacing = self.assessment.as_ref().map(Assessment::spacing);
        let spacing = spacing.filter(|spacing| !spacing.is_zero());
        let kept = spacing.map_or(timeout, |spacing| timeout.min(spacing));
        let (consistency, limit) = match self.suspect() {
            true => (Consistency::Consistent, kept),
            false => (Consistency::Cached, timeout),
        };
        Request {
            consistency,
            limit,
            kept,
        }
    }

    /// A read of the leases failed, and the server behaved so.
    pub fn failed(&mut self, started: MonoTime, finished: MonoTime, said: Said) {
        let outcome = if let Said::Throttled(wait) = said {
            ReadOutcome::Throttled(wait)
        } else {
            self.failures = self.failures.saturating_add(1);
            let in_a_row = self.failures;
            ReadOutcome::Failed { in_a_row }
        };
        self.proof.failed();
        self.is_due = false;
        self.last = Some(LastRead {
            started,
            finished,
            outcome,
        });
    }

    /// Takes in a list of leases.
    pub fn observe(&mut self, read: &LeaseRead) -> Intake {
        self.end_outage();
        let took = Duration::from_secs_f64(read.bytes as f64 / RATE);
        self.allowed = Some(read.finished + took);
        let intake = self.leases.take(read);
        if intake == Intake::Stale {
            return intake;
        }
        self.failures = 0;
        self.is_due = false;
        if intake == Intake::RolledBack {
            self.proof = Proof::default();
            // Leases look as old as the backup, which may be from long before the outage: they are part of it.
            self.onset = None;
            self.forget_facts(read.started);
        }
        let consistent = read.consistency == Consistency::Consistent;
        self.last = Some(LastRead {
            started: read.started,
            finished: read.finished,
            outcome: ReadOutcome::Read {
                consistent,
                counting: false,
            },
        });
        let lacked_leases = self.assessment.take();
        let lacked_leases = lacked_leases.is_some_and(|seen| seen.lacks_leases());
        let seen = self.assess(read.started);
        if seen.lacks_leases() && !lacked_leases {
            // Nodes may be gone with their leases.
            self.forget_facts(read.started);
        }
        let revision = read.list.resource_version;
        self.proof
            .read(read.started, consistent, revision, seen.period);
        self.assessment = Some(seen);
        intake
    }

    /// Returns whether Nodes and Machines are to be read now, consistently: a verdict depends on them, or is about to:
    /// while a suspect is watched, unless they were read less than a renewal period before that began; and
    /// again and again while the cluster is suspect or protected.
    pub fn wants_facts(&self) -> bool {
        let seen = self.assessment.as_ref();
        let Some(seen) = seen.filter(|seen| seen.protected || seen.suspect()) else {
            return false;
        };
        let Some(read) = self.facts_read else {
            return seen.protected || self.proof.counts_since().is_some();
        };
        let is_old = seen.at.since(read) >= self.leases.look_again().min(AGAIN);
        let lacks_some = seen.protected && !self.leases.are_placed();
        is_old || lacks_some || seen.suspect() && self.is_before_proof(read, seen)
    }

    /// Returns whether Nodes and Machines are too old to act on.
    fn are_facts_old(&self, seen: &Assessment) -> bool {
        self.facts_read
            .is_none_or(|read| seen.at.since(read) >= OLD)
    }

    /// Returns whether facts that were read then are older, by more than a renewal period, than the reads that watch
    /// the silence: a node that was taken down since is silent for a good reason. A lease that makes a cluster suspect
    /// has been silent for more than a period.
    fn is_before_proof(&self, read: MonoTime, seen: &Assessment) -> bool {
        let since = self.proof.counts_since();
        since.is_some_and(|since| read + seen.period < since)
    }

    /// Returns whether Nodes and Machines say too little to judge an outage by: they have not been read, leases
    /// have come since, or none counts.
    pub(crate) fn lacks_facts(&self) -> bool {
        let seen = self.assessment.as_ref();
        let none_counts = seen.is_none_or(|seen| seen.candidates == 0);
        self.facts_read.is_none() || none_counts || !self.leases.are_placed()
    }

    /// Returns whether Nodes and Machines have been read since the leases are those that they are.
    pub(crate) fn has_facts(&self) -> bool {
        self.facts_read.is_some()
    }

    /// Has Nodes and Machines read again before any verdict that depends on them.
    pub(crate) fn forget_facts(&mut self, now: MonoTime) {
        (self.facts_read, self.facts_forgot) = (None, now);
        self.leases.doubt_nodes();
    }

    /// Takes in Nodes and Machines.
    pub fn learn(&mut self, facts: &Facts, pools: &Pools) {
        self.leases.learn(facts, pools);
        self.facts_read = Some(facts.began).filter(|began| *began >= self.facts_forgot);
        if self.facts_read.is_none() {
            self.leases.doubt_nodes();
        }
        self.is_due = self.awaits_facts;
        self.assessment = self.last.map(|last| self.assess(last.started));
    }

    /// Judges the last read and counts the verdict towards the thresholds.
    pub fn conclude(&mut self) -> Option<Conclusion> {
        let assessment = self.assessment.clone()?;
        let verdict = assessment.verdict(&self.rules, &self.proof);
        let read = self.facts_read;
        let are_old = self.are_facts_old(&assessment);
        let is_before = read.is_some_and(|read| self.is_before_proof(read, &assessment));
        let verdict = match verdict {
            // Silence must not be acted on by such facts, however late they came.
            Verdict::Outage if are_old || is_before => OUTDATED,
            // Whatever ends a protection is known of the nodes.
            Verdict::Healthy if self.protected && read.is_none() => OUTDATED,
            Verdict::Healthy if assessment.abandoned && are_old => OUTDATED,
            verdict => verdict,
        };
        let awaits = Verdict::Undetermined(Doubt::NoCandidates);
        self.awaits_facts = verdict == OUTDATED || verdict == awaits;
        let decides = match verdict {
            Verdict::Outage => {
                self.onset = self.onset.or(assessment.silent_since);
                self.outages = self.outages.saturating_add(1);
                self.recoveries = 0;
                self.outages >= self.rules.failure_threshold
            }
            Verdict::Healthy => {
                self.recoveries = self.recoveries.saturating_add(1);
                self.outages = 0;
                self.recoveries >= self.rules.success_threshold
            }
            Verdict::Undetermined(_) => false,
        };
        let is_outage = verdict == Verdict::Outage;
        let is_over = verdict == Verdict::Healthy && !self.protected;
        if let Some(last) = &mut self.last
            && let ReadOutcome::Read { counting, .. } = &mut last.outcome
        {
            *counting = is_outage && !decides;
        }
        let complete = self.proof.complete_at(assessment.period);
        let provable = assessment.expires_at.max(complete).filter(|_| is_outage);
        Some(Conclusion {
            verdict,
            returning: self.returning(&assessment),
            assessment,
            provable,
            decides,
            onset: self.onset.filter(|_| !is_over),
        })
    }

    /// Returns whether the silence has to be proven or refuted.
    pub fn suspect(&self) -> bool {
        self.assessment.as_ref().is_some_and(Assessment::suspect)
    }

    /// The leases as seen so far.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    fn assess(&self, at: MonoTime) -> Assessment {
        Assessment::new(&self.leases, &self.rules, self.protected, self.from(), at)
    }
}

#[cfg(test)]
mod tests;
