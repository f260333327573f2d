//! The pure half of one cluster's loop: evidence in, the next read and the verdict out.
//!
//! The loop asks [`LeaseJudge::next`] when to read and [`LeaseJudge::request`] how, passes results, and acts on
//! [`Conclusion`]s. The judge holds no client and no clock, so that a simulation can drive it.

use std::time::Duration;

use crate::{
    prober::{
        leases::{Intake, Leases},
        nodes::Facts,
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
/// Judgement: Nodes and Machines are read again after this at the latest while they matter, however long renewal
/// periods are, or say too little to judge an outage by.
const AGAIN: Duration = Duration::from_secs(60);

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
    /// When the reads of Nodes and Machines began by which leases count.
    facts_read: Option<MonoTime>,
    /// Nodes and Machines from before say nothing.
    facts_forgot: MonoTime,
    proof: Proof,
    protected: bool,
    /// [`Conclusion::onset`].
    onset: Option<MonoTime>,
    /// Since when a restore has been allowed that waits for nodes.
    awaits: Option<MonoTime>,
    assessment: Option<Assessment>,
    /// The last read; `None` if the next is due immediately.
    last: Option<LastRead>,
    /// Number of the last verdicts in a row that were alike.
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
        self.reassess();
    }

    /// This process leads from now on. Its evidence counts; its earlier verdicts do not, and it reads anew.
    pub fn begin_term(&mut self) {
        (self.outages, self.recoveries) = (0, 0);
        (self.onset, self.last) = (None, None);
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
        let seen = self.assessment.as_ref();
        self.rules.next(last, seen, &self.proof, draw)
    }

    /// Settings for the next read. A suspect is read consistently, in a third of its period. A kept connection may
    /// have died unnoticed in the same event in which the nodes fall silent: in that time, it is noticed soon enough.
    pub fn request(&self) -> Request {
        let (timeout, seen) = (self.rules.timeout, self.assessment.as_ref());
        let spacing = seen.map(Assessment::spacing).filter(|it| !it.is_zero());
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
        let before = self.last.map(|last| last.outcome);
        let outcome = match (said, before) {
            (Said::Throttled(wait), _) => ReadOutcome::Throttled(wait),
            (_, Some(ReadOutcome::Failed { in_a_row })) => ReadOutcome::Failed {
                in_a_row: in_a_row.saturating_add(1),
            },
            _ => ReadOutcome::Failed { in_a_row: 1 },
        };
        self.proof.failed();
        self.last = Some(LastRead {
            started,
            finished,
            outcome,
        });
    }

    /// Takes in a list of leases.
    pub fn observe(&mut self, read: &LeaseRead) -> Intake {
        self.end_outage();
        let intake = self.leases.take(read);
        if intake == Intake::Stale {
            return intake;
        }
        if intake == Intake::RolledBack {
            self.proof = Proof::default();
            // Leases look as old as the backup, which may be from long before the outage: they are part of it.
            self.onset = None;
            self.forget_facts(read.started);
        }
        let consistent = read.consistency == Consistency::Consistent;
        self.last = Some(LastRead {
            started: read.started,
            // Its work takes some time, too.
            finished: read.finished + Duration::from_secs_f64(read.bytes as f64 / RATE),
            outcome: ReadOutcome::Read,
        });
        let seen = self.assess(read.started);
        let revision = read.list.resource_version;
        self.proof
            .read(read.started, consistent, revision, seen.period);
        self.assessment = Some(seen);
        intake
    }

    /// Returns whether a verdict depends on Nodes and Machines, or is about to.
    pub(crate) fn is_at_stake(&self) -> bool {
        self.protected || self.suspect()
    }

    /// The moment since which Nodes and Machines must have been read to be relied on, if they may be so old: not before
    /// they were forgotten, nor by more than a renewal period before the reads that watch a silence. A node that was
    /// taken down since is silent for a good reason, and a lease that makes a cluster suspect has been silent for more
    /// than a period.
    fn facts_from(&self, seen: &Assessment, oldest: Duration) -> Option<MonoTime> {
        let watched = self.proof.counts_since().filter(|_| seen.suspect());
        let watched = watched.map(|since| since - seen.period);
        watched.max(Some(self.facts_forgot.max(seen.at - oldest)))
    }

    /// Returns whether Nodes and Machines are to be read, consistently, as soon as they may be. Those that say too little
    /// to judge an outage by, or that matter, grow old; a restore waits for newer ones with each list.
    pub fn wants_facts(&self) -> bool {
        let Some(seen) = &self.assessment else {
            return false;
        };
        let say_little = seen.candidates == 0 || !self.leases.are_placed();
        let oldest = if self.awaits.is_some() && !self.returning(seen).is_complete() {
            Duration::ZERO
        } else if say_little || self.is_at_stake() {
            self.leases.look_again().min(AGAIN)
        } else {
            Duration::MAX
        };
        self.facts_read < self.facts_from(seen, oldest)
    }

    /// Returns whether Nodes and Machines have been read, and not been forgotten since.
    pub(crate) fn has_facts(&self) -> bool {
        self.facts_read >= Some(self.facts_forgot)
    }

    /// Has Nodes and Machines read again before any verdict that depends on them.
    pub(crate) fn forget_facts(&mut self, now: MonoTime) {
        self.facts_forgot = now;
        self.leases.doubt_nodes();
    }

    /// Takes in Nodes and Machines. A verdict that waited for them has the leases read again as soon as they may be.
    pub fn learn(&mut self, facts: &Facts) {
        let verdict = self.assessment.as_ref().map(|seen| self.verdict(seen));
        self.leases.learn(facts);
        self.facts_read = Some(facts.began);
        if !self.has_facts() {
            self.leases.doubt_nodes();
        }
        self.reassess();
        if let Some(Verdict::Undetermined(Doubt::FactsOutdated | Doubt::NoCandidates)) = verdict
            && let Some(last) = &mut self.last
            && matches!(last.outcome, ReadOutcome::Read | ReadOutcome::Counted)
        {
            last.outcome = ReadOutcome::Outdated;
        }
    }

    /// Judges the last list, by Nodes and Machines that were read since they are needed from, however late they came.
    fn verdict(&self, seen: &Assessment) -> Verdict {
        let verdict = seen.verdict(&self.rules, &self.proof);
        let are_old = self.facts_read < self.facts_from(seen, OLD);
        let is_outdated = match verdict {
            Verdict::Outage => are_old,
            // Whatever ends a protection is known of the nodes.
            Verdict::Healthy => seen.abandoned && are_old || self.protected && !self.has_facts(),
            Verdict::Undetermined(_) => false,
        };
        match is_outdated {
            true => Verdict::Undetermined(Doubt::FactsOutdated),
            false => verdict,
        }
    }

    /// Judges the last read and counts the verdict towards the thresholds.
    pub fn conclude(&mut self) -> Option<Conclusion> {
        let assessment = self.assessment.clone()?;
        let verdict = self.verdict(&assessment);
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
        if let Some(last) = self.last.as_mut().filter(|_| is_outage && !decides) {
            last.outcome = ReadOutcome::Counted;
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

    fn reassess(&mut self) {
        let at = self.assessment.as_ref().map(|seen| seen.at);
        self.assessment = at.map(|at| self.assess(at));
    }

    fn assess(&self, at: MonoTime) -> Assessment {
        Assessment::new(&self.leases, &self.rules, self.protected, self.from(), at)
    }
}

#[cfg(test)]
mod tests;
