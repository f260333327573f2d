//! The acting half of one cluster's loop: tells the machine what is learnt, and carries out its flows.
//!
//! Each flow runs in its own task, so that probing continues and a new verdict can stop the flow between two
//! requests.

mod news;
mod reaction;

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
    time::Instant,
};
use tokio_util::task::AbortOnDropHandle;

use self::reaction::Reaction;
use super::{
    action_log::ActionLog,
    debts::Problem,
    flow::{Ending, FlowEvent, FlowInput, FlowMachine, FlowPlan, What},
    io::confirm::Confirm,
    log,
    machine::{ClusterMachine, Confirmation, Effect, Input, Leases},
    metrics::ProberMetrics,
    pace::Pace,
    perform::perform,
    plan::{Aim, Settled, Step},
    report::DependentNews,
    scale::Scaler,
    watch::Conclusion,
};
use crate::{
    api::{ClusterHealthStatus, LastAction, Mode},
    runtime::{metrics::InFlight, timer::until},
    util::now::Now,
};

/// Protects one cluster's dependents, and restores them.
pub struct Protector {
    cluster: Arc<str>,
    scaler: Scaler,
    confirm: Confirm,
    pace: Arc<Pace>,
    metrics: Arc<ProberMetrics>,
    machine: ClusterMachine,
    actions: ActionLog,
    flow: Option<Running>,
    /// The answer to what was asked about the Cluster and its policy.
    confirming: Option<BoxFuture<'static, Confirmation>>,
    reaction: Reaction,
}

/// Why a dependent is not where it should be, and how many replicas it is owed, if any and if that is known.
type Owed = (Option<Problem>, Option<Option<i32>>);

struct Running {
    aim: Aim,
    why: String,
    control: UnboundedSender<FlowInput>,
    task: AbortOnDropHandle<Ending>,
    events: UnboundedReceiver<FlowEvent>,
    _counted: InFlight,
}

impl Protector {
    /// Protects the dependents of the cluster of this name. `known` is what an earlier run has left
    /// in its ClusterHealth.
    pub fn new(
        cluster: Arc<str>,
        scaler: &Scaler,
        confirm: Confirm,
        pace: Arc<Pace>,
        metrics: Arc<ProberMetrics>,
        machine: ClusterMachine,
        known: Option<&ClusterHealthStatus>,
    ) -> Self {
        let protected = machine.protected_since().is_some();
        Self {
            scaler: scaler.within(cluster.clone()),
            confirm,
            pace,
            cluster,
            actions: ActionLog::recall(known, protected),
            flow: None,
            confirming: None,
            reaction: Reaction::default(),
            metrics,
            machine,
        }
    }

    /// What is decided.
    pub fn machine(&self) -> &ClusterMachine {
        &self.machine
    }

    /// What was last done to the dependents.
    pub fn last_action(&self) -> Option<&LastAction> {
        self.actions.last_action()
    }

    /// What was done to dependents, or found to be amiss with them, since this was last asked.
    pub fn take_news(&mut self) -> Vec<DependentNews> {
        self.actions.take_news()
    }

    /// Takes up what was learnt, and begins or ends what is to be done about it.
    pub fn learn(&mut self, input: Input<'_>) {
        let event = match input {
            Input::Flow(event) => Some((event, self.known(event))),
            _ => None,
        };
        let (before, now) = (self.before(), Now::read());
        let turn = || self.pace.reserve(now.mono);
        let effects = self.machine.step(input, now, turn);
        for effect in &effects {
            if let (Effect::Tell { problem, owed }, Some((event, before))) = (effect, &event) {
                self.take_down(event, [before, &(problem.clone(), *owed)], now);
            }
        }
        self.tell(before, now);
        self.carry_out(effects);
    }

    /// The same for leases that were judged; if they are an outage, it could be proven at this moment.
    pub fn learn_verdict(
        &mut self,
        conclusion: &Conclusion,
        provable: Option<Instant>,
        gate: Option<String>,
    ) {
        let dry_run = self.machine.treatment().settings().map(|it| it.mode) == Some(Mode::DryRun);
        self.reaction.verdict(dry_run, conclusion.verdict, provable);
        self.learn(Input::Leases(Leases::Judged(conclusion), gate));
    }

    /// Ends a flow under way, though not in the middle of a step: nobody may come to finish it. Waits
    /// until it has ended, and takes down what it did last.
    pub async fn shut_down(&mut self) {
        self.learn(Input::ShutDown);
        while self.flow.is_some() {
            self.progress().await;
        }
    }

    /// Waits for the flow under way to do something, or to end, and takes it down; or for the time
    /// that the machine waits for; forever if there is neither. Nothing is lost if it is not waited for
    /// to the end.
    pub async fn progress(&mut self) {
        let due = self.machine.due();
        let Some(running) = &mut self.flow else {
            return tokio::select! {
                confirmation = answer(&mut self.confirming) => self.confirmed(confirmation),
                () = until(due) => self.learn(Input::Time),
            };
        };
        tokio::select! {
            biased;
            event = running.events.recv() => if let Some(event) = event {
                return self.learn(Input::Flow(&event));
            },
            confirmation = answer(&mut self.confirming) => return self.confirmed(confirmation),
            () = until(due) => return self.learn(Input::Time),
        }
        // The flow has dropped its end: it is over.
        let ending = (&mut running.task).await;
        let aim = running.aim;
        self.flow = None;
        let input = match ending {
            Ok(ending) => Input::FlowEnded(ending),
            Err(_) => Input::FlowLost,
        };
        if aim == Aim::Protect && matches!(ending, Ok(Ending::Complete)) {
            self.reaction.over = true;
        }
        self.learn(input);
        if !self.machine.debts().owes() {
            self.actions.close();
        }
    }

    fn confirmed(&mut self, confirmation: Confirmation) {
        self.learn(Input::Confirmed(confirmation));
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start(plan) => self.start(&plan),
                Effect::Flow(input) => {
                    if let FlowInput::Withdraw = input {
                        // What is written later is not measured from here.
                        self.reaction.awaited = false;
                    }
                    if let Some(running) = &self.flow {
                        // One that has ended is taken down next.
                        let _ = running.control.send(input);
                    }
                }
                Effect::Confirm => {
                    self.confirming = Some((self.confirm)(self.cluster.clone()));
                }
                Effect::Tell { .. } => {}
            }
        }
    }

    fn start(&mut self, plan: &FlowPlan) {
        let (sender, events) = mpsc::unbounded_channel();
        let (control, mut told) = mpsc::unbounded_channel();
        let scaler = match plan.urgent {
            true => self.scaler.acting(),
            false => self.scaler.clone(),
        };
        let owes = self.machine.debts().owes();
        self.reaction.begins(plan.purpose.aim == Aim::Protect, owes);
        let flow = FlowMachine::new(plan);
        let told = futures::stream::poll_fn(move |context| told.poll_recv(context));
        self.flow = Some(Running {
            aim: plan.purpose.aim,
            why: plan.why.clone(),
            control,
            task: AbortOnDropHandle::new(tokio::spawn(perform(flow, scaler, told, sender))),
            events,
            _counted: InFlight::new(&self.metrics.flows),
        });
    }

    /// Why the dependent of this event is not where it should be, and how many replicas it is owed.
    fn known(&self, event: &FlowEvent) -> Owed {
        let (dependent, debts) = (&event.dependent.reference, self.machine.debts());
        (debts.problem(dependent).cloned(), debts.owed(dependent))
    }

    /// Takes down what the flow did, or met, with what was known of the dependent before and is now.
    fn take_down(&mut self, event: &FlowEvent, known: [&Owed; 2], now: Now) {
        let [(before, owed_before), (problem, _)] = known;
        let Some(running) = &self.flow else {
            return;
        };
        let dependent = &event.dependent.reference;
        let (aim, why) = (running.aim, &*running.why);
        self.metrics.did(aim, &event.what);
        if let What::Did(Step::ScaleDown { .. }, _) = &event.what
            && let Some(provable) = self.reaction.scaled_down()
        {
            let reaction = event.at.duration_since(provable);
            self.metrics.reaction.observe(reaction.as_secs_f64());
        }
        // What is tried again and again is told once.
        let known = before.is_some() && before == problem;
        log::did(&self.cluster, event, why, known);
        match (&event.what, self.machine.debts().again(dependent)) {
            (What::Did(step @ Step::ScaleUp { .. }, _), again @ 1..) => {
                let why = format!(
                    "restored {} times, since somebody scaled it to zero within a minute; {why}",
                    again + 1
                );
                self.actions.did(event, aim, *step, &why, now);
            }
            (What::Unready(_), _) => self.actions.unready(event, why, now),
            (What::Did(step, _), _) => self.actions.did(event, aim, *step, why, now),
            _ => {}
        }
        let is_down = matches!(
            event.what,
            What::Settled(Settled::Down, _) | What::Waiting(Aim::Protect, _)
        );
        if is_down && aim == Aim::Protect && owed_before.is_none() {
            self.actions.found_down(&dependent.name, why, now);
        }
        // The mark may fall at once.
        let is_up = match &event.what {
            What::Settled(Settled::Up, Some(found)) => found.marked,
            What::Waiting(Aim::Restore, Some(found)) => found.marked,
            What::Did(Step::DropMarkAndRecord, _) => aim == Aim::Restore,
            _ => false,
        };
        if is_up && owed_before.is_some() {
            self.actions.found_up(&dependent.name, why, now);
        }
        let reason = before.as_ref().map(|before| before.reason);
        if let Some(problem) = problem.as_ref().filter(|it| reason != Some(it.reason)) {
            self.actions.tell(event, Some(problem.clone()), why);
        }
    }
}

/// The answer to this question, once.
async fn answer<T>(question: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(asked) = question else {
        return std::future::pending().await;
    };
    let answer = asked.await;
    *question = None;
    answer
}
