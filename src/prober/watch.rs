//! The pure half of one cluster's loop: evidence in, the next read and the verdict out.
//!
//! The loop asks [`Watch::next`] when to read and [`Watch::request`] how, hands over what came, and
//! acts on [`Conclusion`]s. It holds no client and no clock, so that a simulation can drive it.

use std::time::Duration;

use super::{
    candidates::{Exclusion, Roster},
    heartbeat::{Heartbeats, Intake, LeaseSnapshot},
    moment::Moment,
    plan::Aim,
    proof::{Proof, Source},
    schedule::{Next, Occasion, Outcome, Pace, Progress},
    verdict::{Assessment, Doubt, Thresholds, Verdict},
};

/// Nodes and Machines are read again for a lease that turns silent at most this often, and are
/// never older than this when silence is acted on.
const FACTS_AGE: Duration = Duration::from_secs(60);

/// Leases that were read longer ago than this, or than a third of a renewal period, are not acted on.
const FRESH: Duration = Duration::from_secs(1);

/// Nodes and Machines that leave no lease that counts are read again after this, each time after twice
/// as long, ...
const DOUBTED: Duration = Duration::from_secs(10);
/// ... up to this. The lists are large, and a seed whose Machines name no nodes any more has a thousand
/// such clusters.
const DOUBTED_AT_MOST: Duration = Duration::from_secs(300);

/// What a policy asks of the watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// When leases are an outage.
    pub thresholds: Thresholds,
    /// When they are read.
    pub pace: Pace,
    /// Consecutive outages before the dependents are scaled down, at least 1.
    pub failure_threshold: u32,
    /// Consecutive healthy verdicts before they are restored, at least 1.
    pub success_threshold: u32,
}

/// How the leases are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether a cached list will not do.
    pub consistent: bool,
    /// The time that it may take.
    pub limit: Duration,
    /// The time that it may take over a connection that was kept.
    pub kept: Duration,
    /// The time that may be spent on Nodes, which are large.
    pub patience: Duration,
    /// Whether it is tried once more, on a new connection, if it fails.
    pub insist: bool,
}

/// What became of a list of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was older than one seen before: read again, consistently, at once.
    ReadAgain,
    /// It counts, but Nodes and Machines have to be read before a verdict.
    NeedsFacts,
    /// It counts, and a verdict can be reached.
    Ready,
}

/// A verdict, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// The verdict.
    pub verdict: Verdict,
    /// The evidence.
    pub assessment: Assessment,
    /// When it could be proven at the earliest, if it is an outage.
    pub provable: Option<Moment>,
    /// Whether it has been reached often enough in a row to act on.
    pub act: Option<Aim>,
}

/// One cluster's evidence.
#[derive(Clone, Debug)]
pub struct Watch {
    rules: Rules,
    leases: Heartbeats,
    roster: Roster,
    /// When the roster's facts were read.
    facts: Option<Moment>,
    /// They have to be read again whatever their age.
    facts_wanted: bool,
    /// And no verdict is reached before, even where it does not depend on them: whoever cannot read
    /// them now could not in an outage.
    facts_needed: bool,
    /// Leases have come since they were read.
    facts_lack_leases: bool,
    /// When what had been seen of some lease was last forgotten: facts from before may be another node's.
    forgot: Option<Moment>,
    /// They may lack Machines, and are read again, consistently, this long after they were read.
    doubted: Option<Duration>,
    proof: Proof,
    protected: bool,
    assessment: Option<Assessment>,
    last: Option<LastRead>,
    failures: u32,
    outages: u32,
    recoveries: u32,
}

#[derive(Clone, Copy, Debug)]
struct LastRead {
    started: Moment,
    finished: Moment,
    outcome: Outcome,
}

impl Watch {
    /// A watch that has seen nothing yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            leases: Heartbeats::default(),
            roster: Roster::default(),
            facts: None,
            facts_wanted: true,
            facts_needed: false,
            facts_lack_leases: false,
            forgot: None,
            doubted: None,
            proof: Proof::default(),
            protected: false,
            assessment: None,
            last: None,
            failures: 0,
            outages: 0,
            recoveries: 0,
        }
    }

    /// Goes on under other rules, with the evidence that there is. Verdicts that were reached under
    /// the former ones do not count.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.outages = 0;
        self.recoveries = 0;
    }

    /// Tells whether the cluster is protected, which changes what counts.
    pub fn set_protected(&mut self, protected: bool) {
        self.protected = protected;
    }

    /// Has Nodes and Machines read again before the next verdict.
    pub fn want_facts(&mut self) {
        self.facts_wanted = true;
    }

    /// When to read next; `draw`, uniform in [0, 1), places the jitter.
    pub fn next(&self, now: Moment, draw: f64) -> Next {
        match &self.last {
            Some(last) => self.rules.pace.next(
                &Progress {
                    started: last.started,
                    finished: last.finished,
                    outcome: last.outcome,
                    assessment: self.assessment.as_ref(),
                    proof: &self.proof,
                },
                draw,
            ),
            None => Next {
                at: now,
                occasion: Occasion::Interval,
            },
        }
    }

    /// How to read next.
    pub fn request(&self) -> Request {
        let suspect = self.suspect();
        Request {
            consistent: suspect,
            limit: self.rules.pace.limit(self.assessment.as_ref()),
            kept: self.rules.pace.kept(self.assessment.as_ref()),
            patience: self.rules.pace.timeout,
            insist: suspect,
        }
    }

    /// A read of the leases failed.
    pub fn failed(&mut self, started: Moment, finished: Moment) {
        self.failures = self.failures.saturating_add(1);
        let in_a_row = self.failures;
        self.end_badly(started, finished, Outcome::Failed { in_a_row });
    }

    /// The server asked for less load, perhaps for how long.
    pub fn throttled(&mut self, started: Moment, finished: Moment, wait: Option<Duration>) {
        self.end_badly(started, finished, Outcome::Throttled(wait));
    }

    fn end_badly(&mut self, started: Moment, finished: Moment, outcome: Outcome) {
        self.proof.interrupted();
        self.last = Some(LastRead {
            started,
            finished,
            outcome,
        });
    }

    /// Takes in a list of leases.
    pub fn observe(&mut self, snapshot: &LeaseSnapshot<'_>) -> Taken {
        let Intake::Taken {
            names_changed,
            forgot,
        } = self.leases.observe(snapshot)
        else {
            return Taken::ReadAgain;
        };
        if forgot {
            self.proof = Proof::default();
            self.facts_wanted = true;
            self.forgot = Some(snapshot.started);
        }
        if names_changed {
            self.facts_lack_leases = !self.roster.covers(self.leases.names());
        }
        let silent_before = self.assessment.as_ref().map_or(0, |seen| seen.expired);
        let suspect_before = self.suspect();
        self.last = Some(LastRead {
            started: snapshot.started,
            finished: snapshot.finished,
            outcome: Outcome::Read {
                consistent: snapshot.consistent,
                counting: false,
            },
        });
        let seen = self.assess(snapshot.started);
        let silenced = seen.expired > silent_before || (seen.suspect() && !suspect_before);
        self.proof.succeeded(
            snapshot.started,
            match snapshot.consistent {
                true => Source::Consistent,
                false => Source::Cache {
                    renewed: self.leases.last_renewal(),
                },
            },
            snapshot.resource_version,
            seen.period,
        );
        let stale = self
            .facts
            .is_none_or(|read| seen.at.since(read) >= FACTS_AGE);
        // Whoever expires alone, while there is no suspicion, has to be known, too; but silent leases that
        // stay silent are no reason to read them each minute.
        self.facts_wanted |= stale && silenced || seen.suspect() && self.facts_are_outdated(&seen);
        let beyond_doubt = seen.is_beyond_doubt();
        // A suspect is one even if each lease that has come since speaks against it.
        let decisive = self.facts_wanted || self.facts_lack_leases && !seen.suspect();
        self.assessment = Some(seen);
        if decisive && (!beyond_doubt || self.facts_needed) {
            Taken::NeedsFacts
        } else {
            self.failures = 0;
            Taken::Ready
        }
    }

    /// Whether silence must not be acted on by what is known of Nodes and Machines, however late they
    /// came.
    fn facts_are_outdated(&self, seen: &Assessment) -> bool {
        let Some(read) = self.facts else {
            return true;
        };
        let age = seen.at.since(read);
        // What is acted on is known since the silence is watched: a node that has been taken down since
        // is silent for a good reason. The first of these reads may come when the facts are under way.
        let began = self.proof.watched_since();
        let before_watch = began.is_some_and(|began| read + FRESH < began);
        // And since not much longer than it is watched for, if it took long until somebody wrote.
        let since = self.proof.counts_since();
        let window = Proof::write_window(seen.period);
        let before_writes = since.is_some_and(|since| read + window < since);
        let before = before_watch || before_writes;
        age >= FACTS_AGE || before && age > seen.period
    }

    /// Takes in what Nodes and Machines tell; `read` is when their reads started, and `consistent` whether
    /// no cache stood between.
    pub fn learn(&mut self, roster: Roster, read: Moment, consistent: bool) {
        self.roster = roster;
        self.facts = Some(read);
        self.facts_wanted = self.forgot.is_some_and(|forgot| read < forgot);
        self.facts_needed = false;
        self.facts_lack_leases = !self.roster.covers(self.leases.names());
        self.failures = 0;
        let seen = self.last.map(|last| self.assess(last.started));
        self.doubted = seen.as_ref().and_then(|seen| {
            // A cache may be older than the Machine that a lease lacks.
            let outdated = !consistent && seen.excluded.contains_key(&Exclusion::NoMachine);
            let again = self.doubted.unwrap_or_default() * 2;
            match seen.is_blind() {
                _ if outdated => Some(Duration::ZERO),
                true => Some(again.clamp(DOUBTED, DOUBTED_AT_MOST)),
                false => None,
            }
        });
        self.assessment = seen;
    }

    /// Whether Nodes and Machines should be read when there is time.
    pub fn wants_facts(&self) -> bool {
        self.facts_wanted || self.facts_lack_leases || self.doubted.is_some()
    }

    /// Whether they are wanted for no other reason than that they may lack Machines.
    pub fn only_doubts_facts(&self) -> bool {
        !self.facts_wanted && !self.facts_lack_leases && self.doubted.is_some()
    }

    /// How long after the last read of Nodes and Machines they are to be read again, and consistently,
    /// since they may lack Machines.
    pub fn doubted(&self) -> Option<Duration> {
        self.doubted
    }

    /// They could not be read: no verdict before they can.
    pub fn need_facts(&mut self) {
        self.facts_wanted = true;
        self.facts_needed = true;
    }

    /// Nodes or Machines could not be read, so that there is no verdict.
    pub fn facts_failed(&mut self, finished: Moment) {
        if let Some(last) = &mut self.last {
            self.failures = self.failures.saturating_add(1);
            last.finished = finished;
            last.outcome = Outcome::Failed {
                in_a_row: self.failures,
            };
        }
    }

    /// Whether so much time has passed since the leases were read that they have to be read again
    /// before anything is concluded from them.
    pub fn is_outlived(&self, now: Moment) -> bool {
        let (Some(seen), Some(last)) = (&self.assessment, &self.last) else {
            return false;
        };
        now.since(last.started) > self.rules.pace.spacing(seen).max(FRESH)
    }

    /// The verdict on the last read, counted towards the thresholds.
    pub fn conclude(&mut self) -> Option<Conclusion> {
        let assessment = self.assessment.clone()?;
        let verdict = match assessment.verdict(&self.rules.thresholds, &self.proof) {
            Verdict::Outage if self.facts_are_outdated(&assessment) => {
                Verdict::Undetermined(Doubt::FactsOutdated)
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Outage => {
                self.outages = self.outages.saturating_add(1);
                self.recoveries = 0;
            }
            Verdict::Healthy => {
                self.recoveries = self.recoveries.saturating_add(1);
                self.outages = 0;
            }
            Verdict::Undetermined(_) => {}
        }
        let act = match verdict {
            Verdict::Outage if self.outages >= self.rules.failure_threshold => Some(Aim::Protect),
            Verdict::Healthy if self.recoveries >= self.rules.success_threshold => {
                Some(Aim::Restore)
            }
            _ => None,
        };
        if let Some(LastRead {
            outcome: Outcome::Read { counting, .. },
            ..
        }) = &mut self.last
        {
            *counting = verdict == Verdict::Outage && act.is_none();
        }
        let provable = match verdict {
            Verdict::Outage => assessment
                .expires_at
                .max(self.proof.complete_at(assessment.period)),
            Verdict::Healthy | Verdict::Undetermined(_) => None,
        };
        Some(Conclusion {
            verdict,
            assessment,
            provable,
            act,
        })
    }

    /// Whether the silence is looked at closely.
    pub fn suspect(&self) -> bool {
        self.assessment.as_ref().is_some_and(Assessment::suspect)
    }

    /// The leases as seen so far.
    pub fn leases(&self) -> &Heartbeats {
        &self.leases
    }

    fn assess(&self, at: Moment) -> Assessment {
        Assessment::new(
            &self.leases,
            &self.roster,
            &self.rules.thresholds,
            self.protected,
            at,
        )
    }
}

#[cfg(test)]
mod tests;
