//! All decisions about one cluster: inputs go in, effects to carry out come out.
//!
//! It has no client, no task and no clock, so that a model can explore it. The loop around it reads, writes
//! and waits, and reports the results back.

mod confirmation;
mod evidence;
mod flows;
mod input;
mod max_protection;
mod objects;
mod told;
mod why;

use std::{
    hash::{Hash, Hasher},
    mem,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

pub use self::input::{Confirmation, Effect, Input, Leases};
use self::{
    confirmation::Confirmed,
    flows::{Flows, SELDOM, Wanted},
    max_protection::Cut,
    objects::InitialDelay,
    told::Told,
};
use crate::{
    api::{Action, ClusterHealthStatus, Mode, Protection},
    cluster::{Dependent, Settings},
    prober::{
        debts::Debts,
        finding::{Finding, HeldBack},
        flow::{Ending, FINISH, FlowEvent, FlowInput, What},
        plan::Step,
        treatment::{ClusterObject, Treatment},
        verdict::{Returning, Verdict},
    },
    util::{now::Now, since::Since},
};

/// One cluster.
#[derive(Clone, Debug)]
pub struct ClusterMachine {
    /// The process runs with `--dry-run`.
    dry_run: bool,
    presence: ClusterObject,
    treatment: Treatment,
    /// Settings of the last probe. A protected cluster is let go by them when the policy is gone.
    last: Option<Arc<Settings>>,
    /// The dependents, what they are owed, and the flow.
    flows: Flows,
    evidence: Evidence,
    cut: Cut,
    initial_delay: InitialDelay,
    /// When the marks of a Cluster that is gone are given up.
    give_up_at: Option<Instant>,
    is_ending: bool,
    told: Told,
    effects: Vec<Effect>,
}

/// What is known of the shoot by now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Evidence {
    /// The verdict on the leases that were read last, if it may be acted on.
    verdict: Option<Verdict>,
    /// Renewal period P as judged last.
    period: Duration,
    /// Since when the leases have been fresh, and each check has passed, as far as is known: doubt does not
    /// end it.
    fresh_since: Option<Instant>,
    /// Some node that counts is not ready yet.
    nodes_missing: bool,
}

impl ClusterMachine {
    /// Resumes from the ClusterHealth of an earlier run, if any; `presence` is from the index. `at_once`:
    /// the cluster existed before the operator, so that the policy's initialDelay does not apply.
    pub fn recall(
        known: Option<&ClusterHealthStatus>,
        presence: ClusterObject,
        (dry_run, at_once): (bool, bool),
        now: Now,
    ) -> Self {
        let mut flows = Flows::recall(known, now.mono);
        let protected_since = known.filter(|_| flows.debts.owes()).map(|known| {
            let since = known.protected_since.as_ref();
            since.map_or(now.into(), |since| Since::of(since.0, now))
        });
        let last_action = known.and_then(|known| known.last_action.as_ref());
        let restored = last_action.filter(|last| last.action == Action::Restored);
        if let ClusterObject::There(assignment) = &presence
            && let Some(Ok(settings)) = assignment.responsible().map(|it| &it.settings)
            && (known.is_none() || assignment.selected.is_none())
        {
            // No record says what may be marked; or it may be older than the mark, and no policy selects
            // the cluster. So the dependents are read, even if the cluster is not probed.
            flows.debts.adopt(&settings.dependents);
        }
        Self {
            dry_run,
            presence,
            treatment: Treatment::Idle(Finding::Pending),
            last: None,
            flows,
            evidence: Evidence::default(),
            cut: Cut::recall(known, protected_since, now),
            initial_delay: InitialDelay {
                is_waived: at_once,
                ends: now.mono,
            },
            give_up_at: None,
            is_ending: false,
            told: Told {
                protected_since,
                restored: restored.map(|last| Since::of(last.time.0, now)),
                silent_since: known.and_then(|known| Some(known.silent_since.as_ref()?.0)),
                ..Told::default()
            },
            effects: Vec::new(),
        }
    }

    /// An earlier process may have made unknown writes, or given writes up.
    pub fn distrust(&mut self) {
        self.flows.debts.distrust();
    }

    /// Notes that a dependent was marked when the process began: replicas may be owed although no status says so.
    pub fn expect_marks(&mut self) {
        self.flows.expects_marks = true;
    }

    /// Processes an input, and returns the effects to carry out. `turn` reserves the moment from which the
    /// cluster may be restored.
    #[must_use]
    pub fn step(
        &mut self,
        input: Input<'_>,
        now: Now,
        turn: impl FnOnce() -> Instant,
    ) -> Vec<Effect> {
        match input {
            Input::Objects(presence) => {
                self.presence = presence;
                self.flows.confirmed = Confirmed::default();
            }
            Input::Confirmed(confirmation) => self.confirmed(confirmation, now.mono),
            Input::Leases(leases, gate) => self.read(leases, gate, now),
            Input::Gate(gate) => self.checked(gate, now.mono),
            Input::Flow(event) => self.note(event, now),
            Input::FlowEnded(ending) => self.flow_ended(ending, now),
            Input::FlowLost => {
                self.flows.debts.distrust();
                self.flow_ended(Ending::Stuck, now);
            }
            Input::Time => {
                let next = self.flows.wake(now.mono);
                self.follow(next);
            }
            Input::ShutDown => {
                self.is_ending = true;
                let ends = self.flows.want(Wanted::Nothing, now.mono);
                let finish = Effect::Flow(FlowInput::Finish(now.mono + FINISH));
                self.effects.extend(ends.map(|_| finish));
            }
        }
        if !self.is_ending {
            self.treat(now.mono);
            if self.flows.awaits_turn() {
                self.flows.turn.get_or_insert_with(turn);
            }
            let next = self.flows.go_on(now.mono);
            self.follow(next);
        }
        self.note_protection(now);
        mem::take(&mut self.effects)
    }

    /// When it wants [`Input::Time`].
    pub fn due(&self) -> Option<Instant> {
        self.flows.due()
    }

    /// When the marks of a Cluster that is gone, and does not come back, are given up.
    pub fn give_up_at(&self) -> Option<Instant> {
        self.give_up_at
    }

    /// What is done about the cluster.
    pub fn treatment(&self) -> &Treatment {
        &self.treatment
    }

    /// The settings by which it was probed last.
    pub fn last_settings(&self) -> Option<&Settings> {
        self.last.as_deref()
    }

    /// Whether it is no longer needed, and owed nothing.
    pub fn is_over(&self) -> bool {
        self.treatment == Treatment::Done
    }

    /// The dependents and what they are owed.
    pub fn debts(&self) -> &Debts {
        &self.flows.debts
    }

    /// Whether the dependents are scaled down.
    pub fn protection(&self) -> Protection {
        self.flows.protection()
    }

    /// Since when the dependents are scaled down, or not all back.
    pub fn protected_since(&self) -> Option<Since> {
        self.told.protected_since
    }

    /// Start of the outage that the leases show, or showed if it is not over.
    pub fn silent_since(&self) -> Option<Timestamp> {
        let since = self.told.silent_since;
        since.filter(|_| self.treatment.settings().is_some())
    }

    /// Since when a restore has been allowed in which a dependent waits for nodes, and how many of
    /// these are ready.
    pub fn awaits_nodes(&self, now: Instant) -> Option<(Instant, Returning)> {
        let restores = self.flows.protection() == Protection::Restoring;
        let since = self.flows.debts.awaits(now);
        Some((since.filter(|_| restores)?, self.told.returning))
    }

    /// Whether something is owed, or being scaled.
    pub fn is_engaged(&self) -> bool {
        self.flows.is_engaged()
    }

    /// What was found of the cluster.
    pub fn finding(&self) -> &Finding {
        &self.told.finding
    }

    /// Why what was found is not acted on.
    pub fn held_back(&self) -> Option<&HeldBack> {
        match self.flows.awaits_turn() {
            true => Some(&HeldBack::Paced),
            false => self.told.held_back.as_ref(),
        }
    }

    /// When the leases were last read, or should have been.
    pub fn probed(&self) -> Option<Timestamp> {
        self.told.probed
    }

    fn flow_ended(&mut self, ending: Ending, now: Now) {
        let interval = self
            .last
            .as_ref()
            .map_or(Duration::ZERO, |it| it.rules.interval);
        self.flows.ended(ending, interval, now.mono);
        // What begins now may be another protection.
        self.note_protection(now);
        let next = self.flows.go_on(now.mono);
        self.follow(next);
    }

    fn note(&mut self, event: &FlowEvent, now: Now) {
        self.flows.note(event, now.mono);
        if let What::Did(Step::ScaleUp { .. }, _) = event.what {
            self.told.restored = Some(now.into());
        }
        // The debts may forget it before the effect is handled.
        let (dependent, debts) = (&event.dependent.reference, &self.flows.debts);
        self.effects.push(Effect::Tell {
            problem: debts.problem(dependent).cloned(),
            owed: debts.owed(dependent),
        });
    }

    /// Wants this from now on.
    fn want(&mut self, wanted: Wanted, now: Instant) {
        let next = self.flows.want(wanted, now);
        self.follow(next);
    }

    /// Scales nothing, but reads owed dependents now and then.
    fn hold(&mut self, now: Instant) {
        self.want(Wanted::Held(now + SELDOM), now);
    }

    /// Asks only for these dependents from now on.
    fn adopt(&mut self, dependents: &[Dependent], now: Instant) {
        let next = self.flows.adopt(dependents, now);
        self.follow(next);
    }

    /// Emits the effect, with the currently known reason.
    fn follow(&mut self, next: Option<Effect>) {
        let Some(mut effect) = next else {
            return;
        };
        if let Effect::Start(plan) = &mut effect {
            plan.why = self.why(plan.purpose.aim);
            plan.nodes_back = !self.evidence.nodes_missing;
            plan.patience = self.patience(plan.purpose.aim);
        }
        self.effects.push(effect);
    }
}

/// Of what is reported, only what decides is part of the state.
impl Hash for ClusterMachine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            dry_run,
            presence: _,
            treatment,
            last,
            flows,
            evidence,
            cut,
            initial_delay,
            give_up_at,
            is_ending,
            told,
            effects: _,
        } = self;
        let mode = |settings: &Arc<Settings>| settings.mode == Mode::DryRun;
        mem::discriminant(treatment).hash(state);
        treatment.settings().map(mode).hash(state);
        if let Treatment::Complete(aim, _) = treatment {
            aim.hash(state);
        }
        last.as_ref().map(mode).hash(state);
        (dry_run, flows, evidence, cut).hash(state);
        (initial_delay, give_up_at, is_ending).hash(state);
        told.restored.is_some().hash(state);
    }
}

#[cfg(test)]
mod tests;
