//! The acting half of one cluster's loop: its dependents, what they are owed, and the flow that
//! scales them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

pub use super::agenda::Order;
use super::{
    account::Account,
    agenda::{Agenda, Move},
    flow::{Ending, Flow, FlowEvent, What},
    ledger::{Ledger, Problem},
    log,
    metrics::{Flowing, ProberMetrics, Protecting},
    plan::{Aim, Settled, Step},
    scale::{Resources, Scaler},
    since::Since,
    warrant::{Grant, grant},
};
use crate::{
    api::{ClusterHealthStatus, DependentRef, LastAction, Protection},
    cluster::Dependent,
    prober::report::{Deed, DependentNews},
    runtime::seed::Seed,
};

/// At the end of the process, what is left of a step is sent within this.
const FINISH: Duration = Duration::from_secs(5);

/// Protects one cluster's dependents, and restores them.
pub struct Guard {
    cluster: Arc<str>,
    scale: Seed,
    resources: Resources,
    dry_run: bool,
    agenda: Agenda,
    /// The protection that was told last.
    told: Protection,
    protected_since: Option<Since>,
    account: Account,
    flow: Option<Running>,
    metrics: Arc<ProberMetrics>,
    /// There while the dependents are scaled down.
    protecting: Option<Protecting>,
    reaction: Reaction,
}

/// How far the reaction to the outage at hand has come, which is measured once.
#[derive(Clone, Copy)]
enum Reaction {
    /// There is none, or it is not known when it was provable.
    Unknown,
    /// It was provable then, and nothing has been written yet.
    Awaited(Instant),
    /// What there was to write has been written. What is written later is for another reason, such as
    /// somebody who scales up what is down.
    Over,
}

struct Running {
    aim: Aim,
    why: String,
    grant: Grant,
    task: JoinHandle<Ending>,
    events: UnboundedReceiver<FlowEvent>,
    _counted: Flowing,
}

impl Guard {
    /// Guards the dependents of the cluster of this name. `known` is what an earlier run has left
    /// in its ClusterHealth.
    pub fn new(
        cluster: Arc<str>,
        scale: Seed,
        resources: Resources,
        known: Option<&ClusterHealthStatus>,
    ) -> Self {
        let agenda = Agenda::recall(known);
        let owing = known.filter(|_| agenda.ledger.owes());
        Self {
            cluster,
            scale,
            resources,
            dry_run: false,
            protected_since: owing.map(|known| {
                let since = known.protected_since.as_ref();
                since.map_or_else(Since::now, |since| Since::of(since.0))
            }),
            account: Account::recall(known, owing.is_some()),
            told: agenda.protection(),
            agenda,
            flow: None,
            metrics: Arc::default(),
            protecting: None,
            reaction: Reaction::Unknown,
        }
    }

    /// The same, counted by these.
    #[must_use]
    pub fn measured(self, metrics: Arc<ProberMetrics>) -> Self {
        Self {
            protecting: self.protected_since.map(|_| metrics.protect()),
            metrics,
            ..self
        }
    }

    /// The same, which in a dry run has no way to write.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    /// The process before may have written what nobody knows of, or given it up.
    pub fn distrust(&mut self) {
        self.agenda.ledger.distrust();
    }

    /// There is an outage, also if it is not acted on: what is restored after it waits for its delays anew.
    pub fn reset_delays(&mut self) {
        self.agenda.ledger.reset_delays();
    }

    /// The dependents and what they are owed.
    pub fn ledger(&self) -> &Ledger {
        &self.agenda.ledger
    }

    /// Whether the dependents are scaled down.
    pub fn protection(&self) -> Protection {
        self.agenda.protection()
    }

    /// Since when the dependents are scaled down, or not all back.
    pub fn protected_since(&self) -> Option<Since> {
        self.protected_since
    }

    /// What was last done to the dependents.
    pub fn last_action(&self) -> Option<&LastAction> {
        self.account.last_action()
    }

    /// What was done to dependents, or found to be amiss with them, since this was last asked.
    pub fn take_news(&mut self) -> Vec<DependentNews> {
        self.account.take_news()
    }

    /// Whether something is owed, or being scaled.
    pub fn is_engaged(&self) -> bool {
        self.agenda.is_engaged()
    }

    /// Adopts the dependents of a policy; none if nobody asks for any more. What is known of another
    /// list says nothing of this one.
    pub fn adopt(&mut self, dependents: &[Dependent]) {
        self.await_no_reaction();
        let next = self.agenda.adopt(dependents);
        self.carry_out(next);
    }

    /// Takes up which dependents the policy that applies names, or may name.
    pub fn named_by(&mut self, names: impl Fn(&DependentRef) -> bool) {
        self.agenda.ledger.named_by(names);
    }

    /// Does what a verdict asks for. A flow of another aim, or one that is ending, is overtaken: it
    /// ends between two requests, and then this one starts. `why` is told with what is done.
    pub fn act(&mut self, order: Order, why: impl FnOnce() -> String) {
        self.reaction = match (order.aim, self.reaction) {
            (Aim::Protect, Reaction::Unknown) if !self.agenda.ledger.owes() => {
                order.provable.map_or(Reaction::Unknown, Reaction::Awaited)
            }
            (Aim::Protect, reaction) => reaction,
            (Aim::Restore | Aim::Release | Aim::Look, _) => Reaction::Unknown,
        };
        let next = self.agenda.act(order, why, Instant::now());
        self.carry_out(next);
    }

    /// There is newer evidence for a flow of this aim, if one is under way. None is begun: what could
    /// not be completed is taken up again by the next verdict.
    pub fn extend(&mut self, aim: Aim, valid_until: Instant) {
        let next = self.agenda.extend(aim, valid_until);
        self.carry_out(next);
    }

    /// Does this from then on until it is complete, with no verdict to ask for it.
    pub fn insist(&mut self, aim: Aim, why: String, from: Instant) {
        self.reaction = Reaction::Unknown;
        let next = self.agenda.insist(aim, why, from);
        self.carry_out(next);
    }

    /// Scales nothing, but looks now and then at what it is owed: somebody else may pay it.
    pub fn hold(&mut self) {
        self.reaction = Reaction::Unknown;
        let next = self.agenda.hold(Instant::now());
        self.carry_out(next);
    }

    /// Ends a flow under way between two requests; nothing follows it.
    pub fn stop(&mut self) {
        self.await_no_reaction();
        let next = self.agenda.stop();
        self.carry_out(next);
    }

    /// What is written later is not measured from here. The outage may go on all the same.
    fn await_no_reaction(&mut self) {
        if let Reaction::Awaited(_) = self.reaction {
            self.reaction = Reaction::Unknown;
        }
    }

    /// Ends a flow under way, though not in the middle of a step: nobody may come to finish it. Waits
    /// until it has ended, and takes down what it did last.
    pub async fn shut_down(&mut self) {
        let _ends = self.agenda.stop();
        if let Some(running) = &self.flow {
            running.grant.finish(FINISH);
        }
        while self.flow.is_some() {
            self.progress(Duration::ZERO).await;
        }
    }

    /// Waits for the flow under way to do something, or to end, and takes it down; or for the time
    /// at which one is due; forever if there is none. Nothing is lost if it is not waited for to the
    /// end.
    pub async fn progress(&mut self, interval: Duration) {
        let Some(running) = &mut self.flow else {
            return self.resume().await;
        };
        if let Some(event) = running.events.recv().await {
            self.note(&event);
            return;
        }
        // The flow has dropped its end: it is over.
        let ending = (&mut running.task).await;
        let aim = running.aim;
        self.flow = None;
        let ending = ending.unwrap_or_else(|_| {
            self.agenda.ledger.distrust();
            Ending::Stuck
        });
        if (aim, ending) == (Aim::Protect, Ending::Complete) {
            self.reaction = Reaction::Over;
        }
        self.agenda.ended(ending, interval, Instant::now());
        self.tell_protection();
        if !self.agenda.ledger.owes() {
            self.account.close();
        }
        let next = self.agenda.go_on(Instant::now());
        self.carry_out(next);
    }

    /// Waits until what is insisted on is due, and starts it.
    async fn resume(&mut self) {
        let Some(due) = self.agenda.due() else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let next = self.agenda.resume(Instant::now());
        self.carry_out(next);
    }

    /// The seed as a flow of this aim reads it: what changes nothing, as far as is known, lets go
    /// before it whatever does. A thousand healthy clusters may be looked at at once.
    fn seed(&self, aim: Aim) -> Seed {
        if self.agenda.is_urgent(aim) {
            self.scale.urgent()
        } else {
            self.scale.clone()
        }
    }

    fn carry_out(&mut self, next: Move) {
        match (next, &self.flow) {
            (Move::Extend(valid_until), Some(running)) => running.grant.extend(valid_until),
            (Move::Withdraw, Some(running)) => running.grant.withdraw(),
            (Move::Start(order, why), _) => self.start(order, why),
            (Move::Nothing | Move::Extend(_) | Move::Withdraw, _) => {}
        }
    }

    fn start(&mut self, order: Order, why: String) {
        self.tell_protection();
        let (sender, events) = mpsc::unbounded_channel();
        let (grant, warrant) = grant(order.valid_until);
        let scaler = Scaler::new(
            self.seed(order.aim),
            self.cluster.clone(),
            self.resources.clone(),
        );
        let flow = Flow {
            scaler: match self.dry_run {
                true => scaler.dry_run(),
                false => scaler,
            },
            dependents: self.agenda.ledger.dependents(order.aim),
            aim: order.aim,
            restore: order.restore,
            memory: self.agenda.ledger.memory(),
            waited: self.agenda.ledger.waited(order.aim),
            delayed: self.agenda.ledger.delayed(),
            warrant,
            events: sender,
        };
        self.flow = Some(Running {
            aim: order.aim,
            why,
            grant,
            task: tokio::spawn(flow.run()),
            events,
            _counted: self.metrics.flow(),
        });
    }

    fn note(&mut self, event: &FlowEvent) {
        let running = self
            .flow
            .as_ref()
            .map(|running| (running.aim, &*running.why));
        if let Some((aim, _)) = running {
            self.metrics.did(aim, &event.what);
        }
        if let What::Did(Step::ScaleDown { .. }, _) = &event.what
            && let Reaction::Awaited(provable) =
                std::mem::replace(&mut self.reaction, Reaction::Over)
        {
            self.metrics.reacted(event.at.duration_since(provable));
        }
        let dependent = &event.dependent.reference;
        let before = self.agenda.ledger.problem(dependent).cloned();
        let owed = self.agenda.ledger.owed(dependent);
        self.agenda
            .note(&event.dependent, &event.what, Instant::now());
        let problem = self.agenda.ledger.problem(dependent);
        // What is tried again and again is told once, and so is what is undone each time.
        let is_contended = |problem: Option<&Problem>| problem.is_some_and(Problem::is_contention);
        let again = is_contended(before.as_ref()) && is_contended(problem);
        let known = again || before.is_some() && before.as_ref() == problem;
        log::did(&self.cluster, event, running.map(|(_, why)| why), known);
        if let (What::Failed(..), Some(replicas), None) =
            (&event.what, owed, self.agenda.ledger.owed(dependent))
        {
            log::given_up(&self.cluster, dependent, replicas);
        }
        if let (What::Did(step, found), Some((aim, why)), false) = (&event.what, running, again) {
            self.account.did(event, aim, (*step, found.as_ref()), why);
        }
        let is_down = matches!(
            event.what,
            What::Settled(Settled::Down, _) | What::Waiting(Aim::Protect, _)
        );
        if let (true, None, Some((_, why))) = (is_down, owed, running) {
            self.account.found_down(&dependent.name, why);
        }
        let reason = before.map(|before| before.reason);
        if let Some(problem) = problem.filter(|problem| reason != Some(problem.reason)) {
            let why = running.map_or("", |(_, why)| why);
            self.account
                .tell(event, Deed::Trouble(problem.clone()), why);
        }
    }

    /// Says what has become of the protection, if it has changed.
    fn tell_protection(&mut self) {
        let (from, protection) = (self.told, self.agenda.protection());
        if from == protection {
            return;
        }
        self.told = protection;
        let since = self.protected_since;
        log::protection(&self.cluster, from, protection, since);
        self.protected_since = match protection {
            Protection::None => None,
            _ => Some(self.protected_since.unwrap_or_else(Since::now)),
        };
        match (protection, self.protecting.take()) {
            (Protection::None, None) => {}
            (Protection::None, Some(protecting)) => {
                protecting.ended(since.map(|since| since.elapsed()).unwrap_or_default());
            }
            (_, protecting) => {
                let begun = protecting.unwrap_or_else(|| self.metrics.protect());
                self.protecting = Some(begun);
            }
        }
    }
}
