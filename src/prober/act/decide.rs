//! All decisions about one cluster: inputs go in, effects to carry out come out.
//!
//! The decider has no client, no task and no clock, so that a model can explore it. The loop around it reads, writes
//! and waits, and reports the results back.

mod evidence;
mod told;
mod wanted;

use std::{
    hash::{Hash, Hasher},
    mem,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use self::evidence::{Confirmed, Evidence};
pub use self::told::Told;
use crate::{
    api::{Action, ClusterHealthStatus, DependentRef, Mode, Protection},
    cluster::{Assignment, Settings},
    prober::{
        dependents::{Answer, Dependents, Event, Request, What},
        finding::{Finding, HeldBack},
        lease_judge::Conclusion,
        proof::Proof,
        step::{Aim, Step},
        treatment::Treatment,
        verdict::Returning,
    },
    shoot::Unread,
    util::{now::Now, since::Since},
};

/// Limit of the decisions on one input: each may change what is known of the dependents, and so what is wanted of them.
const REVISIONS: usize = 3;

/// Something that the cluster's loop has learnt.
#[derive(Debug)]
pub enum Input<'a> {
    /// Word of the index about the cluster and its policy, at first and whenever it changes.
    Objects(Box<Assignment>),
    /// The leases were read, or could not be, by the current settings; and why the first Gate that does not
    /// pass does not.
    Leases(Result<&'a Conclusion, &'a Unread>, Option<String>),
    /// The check results, or the checks, have changed: why the first Gate that does not pass does not.
    Gate(Option<String>),
    /// Answer to a request about a dependent.
    Answer(DependentRef, Answer),
    /// The answer to the last [question](Effect::Confirm) about the Cluster and its policy.
    Confirmed(Confirmation),
    /// The [time](Decider::due) has come.
    Time,
    /// The process is to end.
    ShutDown,
}

/// Tells whether the Cluster and its policy match the watches, from the surest to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confirmation {
    /// Match, as read past every cache; or one of them could not be read in time, and its watch works.
    AsKnown,
    /// No answer: one of them could not be read in time, and its watch is broken.
    Unknown,
    /// Difference: one of them is not as its watch shows it.
    Otherwise,
}

/// Something to do before the next input.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send this request about this dependent, in place of any before.
    Request(DependentRef, Request),
    /// Find out, past every cache, if the Cluster and its policy are as known. Replaces any earlier question.
    Confirm,
    /// Report this.
    Tell(Event),
}

/// Decides about one cluster.
#[derive(Clone, Debug)]
pub struct Decider {
    /// The process runs with `--dry-run`.
    dry_run: bool,
    assignment: Box<Assignment>,
    treatment: Treatment,
    /// Settings of the last probe. A protected cluster is let go by them when the policy is gone.
    last: Option<Arc<Settings>>,
    dependents: Dependents,
    evidence: Evidence,
    confirmed: Confirmed,
    /// When maxProtection last ended a protection.
    cut: Option<Since>,
    /// The policy's initialDelay does not apply: the cluster existed before the operator.
    waives_delay: bool,
    /// Its end.
    acts_from: Instant,
    /// From when it may be restored, among other clusters.
    turn: Option<Instant>,
    /// When the marks of a Cluster that is gone are removed, unless it comes back.
    release_at: Option<Instant>,
    is_ending: bool,
    told: Told,
    effects: Vec<Effect>,
}

impl Decider {
    /// Resumes from the ClusterHealth of an earlier run, if any; `assignment` is from the index. `at_once`:
    /// the cluster existed before the operator, so that the policy's initialDelay does not apply.
    pub fn recall(
        known: Option<&ClusterHealthStatus>,
        assignment: Box<Assignment>,
        (dry_run, at_once): (bool, bool),
        now: Now,
    ) -> Self {
        let (is_unknown, nothing) = (known.is_none(), ClusterHealthStatus::default());
        let known = known.unwrap_or(&nothing);
        let mut dependents = Dependents::recall(known, now.mono);
        let protected_since = dependents.owes().then(|| {
            let since = known.protected_since.as_ref();
            since.map_or(now.into(), |since| Since::of(since.0, now))
        });
        let last_action = known.last_action.clone();
        let last = last_action.as_ref();
        let restored = last.filter(|last| last.action == Action::Restored);
        if let Some(Ok(settings)) = assignment.responsible().map(|it| &it.settings)
            && (is_unknown || assignment.selected.is_none())
        {
            // No record says what may be marked; or it may be older than the mark, and no policy selects
            // the cluster. So the dependents are read, even if the cluster is not probed.
            dependents.adopt(&settings.dependents);
        }
        Self {
            dry_run,
            assignment,
            treatment: Treatment::Idle(Finding::Pending),
            last: None,
            dependents,
            evidence: Evidence::default(),
            confirmed: Confirmed::default(),
            cut: Self::recall_cut(known, now),
            waives_delay: at_once,
            acts_from: now.mono,
            turn: None,
            release_at: None,
            is_ending: false,
            told: Told {
                protected_since,
                restored: restored.map(|last| Since::of(last.time.0, now)),
                last_action,
                silent_since: known.silent_since.as_ref().map(|since| since.0),
                ..Told::default()
            },
            effects: Vec::new(),
        }
    }

    /// Notes that an earlier process may have made unknown writes, or given writes up.
    pub fn distrust(&mut self) {
        self.dependents.distrust();
    }

    /// Notes that a dependent was marked when the process began: replicas may be owed although no status says so.
    pub fn expect_marks(&mut self) {
        self.dependents.expect_marks();
    }

    /// Processes an input, and returns the effects to carry out. `turn` reserves the moment from which the
    /// cluster may be restored.
    #[must_use]
    pub fn step(&mut self, input: Input<'_>, now: Now, turn: impl Fn() -> Instant) -> Vec<Effect> {
        match input {
            Input::Objects(assignment) => {
                self.assignment = assignment;
                self.confirmed = Confirmed::default();
            }
            Input::Confirmed(confirmation) => self.confirmed.answered(confirmation, now.mono),
            Input::Leases(leases, gate) => self.read(leases, gate, now),
            Input::Gate(gate) => self.evidence.gate = gate,
            Input::Answer(of, answer) => self.dependents.answer(&of, answer, now.mono),
            Input::Time => {}
            Input::ShutDown => self.is_ending = true,
        }
        for _ in 0..REVISIONS {
            if self.is_ending {
                break;
            }
            let known = self.known();
            self.treat(now.mono);
            let order = self.order(now, &turn);
            self.dependents.follow(order, now.mono);
            let requests = self.dependents.requests(now.mono).into_iter();
            let requests = requests.map(|(of, request)| Effect::Request(of, request));
            self.effects.extend(requests);
            // What is wanted may depend on it.
            if self.known() == known {
                break;
            }
        }
        self.tell(now);
        self.note_protection(now);
        mem::take(&mut self.effects)
    }

    /// Tells whether something may be owed to the dependents, and whether all have been read.
    fn known(&self) -> (bool, bool) {
        (self.dependents.is_engaged(), self.dependents.is_looked_at())
    }

    /// Reports what was done and met.
    fn tell(&mut self, now: Now) {
        for mut event in self.dependents.take_events() {
            event.why = self.why(event.aim);
            if let What::Did(Step::ScaleUp { .. }, _) = event.what {
                self.told.restored = Some(now.into());
                if event.again > 0 {
                    event.why = format!(
                        "restored {} times, since somebody scaled it to zero within a minute; {}",
                        event.again + 1,
                        event.why
                    );
                }
            }
            self.told.note_done(&event, now);
            self.effects.push(Effect::Tell(event));
        }
    }

    /// When it wants [`Input::Time`].
    pub fn due(&self) -> Option<Instant> {
        let due = [
            self.dependents.due(),
            self.turn
                .filter(|_| self.told.held_back == Some(HeldBack::PACED)),
            // When it does not count any more.
            self.evidence
                .until
                .map(|until| until + Duration::from_nanos(1)),
            self.release_at
                .filter(|_| self.dependents.aim() != Aim::Release),
        ];
        let due = due.into_iter().flatten().min();
        due.filter(|_| !self.is_ending)
    }

    /// Treatment of the cluster.
    pub fn treatment(&self) -> &Treatment {
        &self.treatment
    }

    /// Tells whether it is no longer needed, and owed nothing.
    pub fn is_over(&self) -> bool {
        let assignment = &self.assignment;
        let is_unselected = assignment.selected.is_none() && self.dependents.is_looked_at();
        // Of a Cluster that is gone it does not wait for marks that are possible but not known.
        matches!(self.treatment, Treatment::Idle(_)) && (assignment.is_gone() || is_unselected)
    }

    /// The dependents and what they are owed.
    pub fn dependents(&self) -> &Dependents {
        &self.dependents
    }

    /// Tells whether the dependents are scaled down.
    pub fn protection(&self) -> Protection {
        self.dependents.protection()
    }

    /// Report.
    pub fn told(&self) -> &Told {
        &self.told
    }

    /// Since when a restore has been allowed in which a dependent waits for nodes, and how many of
    /// these are ready.
    pub fn awaits_nodes(&self, now: Instant) -> Option<(Instant, Returning)> {
        let restores = self.protection() == Protection::Restoring;
        let since = self.dependents.awaits(now);
        Some((since.filter(|_| restores)?, self.told.returning))
    }

    /// Tells whether the dependents are scaled down, and none is being restored.
    fn is_down(&self) -> bool {
        let protection = self.protection();
        matches!(protection, Protection::Active | Protection::ScalingDown)
    }

    /// Hashes what decides, by its distance from `now`; of what is reported, only that.
    pub fn digest(&self, now: Instant, state: &mut impl Hasher) {
        let (told, evidence) = (&self.told, &self.evidence);
        let settings = self.treatment.settings();
        let is_dry_run = settings.map(|settings| settings.mode == Mode::DryRun);
        mem::discriminant(&self.treatment).hash(state);
        (is_dry_run, self.last.is_some()).hash(state);
        if let Treatment::Complete(aim, _) = &self.treatment {
            aim.hash(state);
        }
        self.dependents.digest(now, state);
        let within = Proof::length(self.verdict().1);
        self.confirmed.digest(within, now, state);
        (self.verdict().0, evidence.decides, evidence.gate.is_some()).hash(state);
        let is_complete = told.returning.is_complete();
        (evidence.fresh_since.is_some(), is_complete).hash(state);
        let at = [Some(self.acts_from), self.turn, self.release_at];
        let has_come = at.map(|at| at.map(|at| at <= now));
        (self.dry_run, self.is_ending, has_come).hash(state);
        let is_of_protected = matches!(&told.finding, Finding::Judged(_, seen) if seen.protected);
        (told.restored.is_some(), is_of_protected).hash(state);
    }
}

#[cfg(test)]
mod tests;
