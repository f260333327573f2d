//! The acting half of one cluster's loop: its dependents, what they are owed, and the flow that
//! scales them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::{
    account::Account,
    flow::{Ending, Flow, FlowEvent, What},
    ledger::Ledger,
    log,
    metrics::{Flowing, ProberMetrics, Protecting},
    plan::{Aim, Step},
    scale::{Resources, Scaler},
    since::Since,
    warrant::{Grant, grant},
};
use crate::{
    api::{ClusterHealthStatus, LastAction, Protection, Restore},
    cluster::Dependent,
    health::{Deed, DependentNews},
    runtime::seed::Seed,
};

/// The dependents of a healthy cluster to which nothing is owed are looked at this often at most, and
/// those of one that is held as it is this often.
const SELDOM: Duration = Duration::from_secs(60);
/// What no verdict asks for is tried again after this long if it did not succeed ...
const AGAIN: Duration = Duration::from_secs(10);
/// ... and each try is over after this.
const TRY: Duration = Duration::from_secs(3600);
/// At the end of the process, what is left of a step is sent within this.
const FINISH: Duration = Duration::from_secs(5);

/// Protects one cluster's dependents, and restores them.
pub struct Guard {
    cluster: Arc<str>,
    scale: Seed,
    resources: Resources,
    ledger: Ledger,
    protection: Protection,
    protected_since: Option<Since>,
    account: Account,
    /// Whether the dependents have been seen as a healthy cluster wants them.
    restored: bool,
    /// When the dependents are looked at again with this aim although nothing is known to be left
    /// to do: each look costs requests to the seed, and there may be a thousand clusters.
    look_again: Option<(Aim, Instant)>,
    flow: Option<Running>,
    next: Next,
    metrics: Arc<ProberMetrics>,
    /// There while the dependents are scaled down.
    protecting: Option<Protecting>,
    /// When the outage was provable for which nothing has been written yet.
    provable: Option<Instant>,
}

/// What a verdict asks for.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// What is wanted of the dependents.
    pub aim: Aim,
    /// What a scale-up touches.
    pub restore: Restore,
    /// When the outage could be proven at the earliest, if it is one.
    pub provable: Option<Instant>,
    /// Until when the evidence counts that the verdict rests on: nothing is scaled after that
    /// without another.
    pub valid_until: Instant,
}

/// What comes after the flow under way, if there is one.
enum Next {
    Nothing,
    /// What a verdict asks for.
    Order(Order, String),
    /// What is done until it is complete, without a verdict; or again and again.
    Standing {
        aim: Aim,
        why: String,
        due: Instant,
        again_and_again: bool,
    },
}

struct Running {
    aim: Aim,
    /// No verdict asked for it.
    unasked: bool,
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
        let ledger = known.map(Ledger::recall).unwrap_or_default();
        let owing = known.filter(|_| ledger.owes());
        Self {
            cluster,
            scale,
            resources,
            protection: match owing.map(|known| known.protection) {
                None => Protection::None,
                Some(Protection::None) => Protection::Active,
                Some(protection) => protection,
            },
            protected_since: owing.map(|known| {
                let since = known.protected_since.as_ref();
                since.map_or_else(Since::now, |since| Since::of(since.0))
            }),
            account: Account::recall(known),
            ledger,
            restored: false,
            look_again: None,
            flow: None,
            next: Next::Nothing,
            metrics: Arc::default(),
            protecting: None,
            provable: None,
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

    /// The dependents and what they are owed.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether the dependents are scaled down.
    pub fn protection(&self) -> Protection {
        self.protection
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
        let scales = |flow: &Running| matches!(flow.aim, Aim::Protect | Aim::Restore);
        self.ledger.owes() || self.flow.as_ref().is_some_and(scales)
    }

    /// Adopts the dependents of a policy; none if nobody asks for any more. What is known of another
    /// list says nothing of this one.
    pub fn adopt(&mut self, dependents: &[Dependent]) {
        self.ledger.adopt(dependents);
        self.restored = false;
        self.look_again = None;
        self.stop();
    }

    /// Does what a verdict asks for. A flow of another aim, or one that is ending, is overtaken: it
    /// ends between two requests, and then this one starts. `why` is told with what is done.
    pub fn act(&mut self, order: Order, why: impl FnOnce() -> String) {
        self.next = Next::Nothing;
        if order.aim != Aim::Protect {
            self.provable = None;
        } else if !self.ledger.owes() {
            self.provable = self.provable.or(order.provable);
        }
        match &self.flow {
            Some(running) if running.aim == order.aim && !running.grant.is_withdrawn() => {
                running.grant.extend(order.valid_until);
            }
            Some(running) => {
                running.grant.withdraw();
                self.next = Next::Order(order, why());
            }
            None if self.is_due(order) => self.start(order, why()),
            None => {}
        }
    }

    /// There is newer evidence for a flow of this aim, if one is under way. None is begun: what could
    /// not be completed is taken up again by the next verdict.
    pub fn extend(&self, aim: Aim, valid_until: Instant) {
        if let Some(running) = self.flow.as_ref().filter(|running| running.aim == aim) {
            running.grant.extend(valid_until);
        }
    }

    /// Does this from then on until it is complete, with no verdict to ask for it.
    pub fn insist(&mut self, aim: Aim, why: String, from: Instant) {
        if !matches!(&self.next, Next::Standing { aim: known, .. } if *known == aim) {
            self.stop();
            self.next = Next::Standing {
                aim,
                why,
                due: from,
                again_and_again: false,
            };
        }
    }

    /// Scales nothing, but looks now and then at what it is owed: somebody else may pay it.
    pub fn hold(&mut self) {
        if !matches!(
            &self.next,
            Next::Standing {
                aim: Aim::Look,
                again_and_again: true,
                ..
            }
        ) {
            self.stop();
            self.next = Next::Standing {
                aim: Aim::Look,
                why: String::new(),
                due: Instant::now() + SELDOM,
                again_and_again: true,
            };
        }
    }

    /// Ends a flow under way between two requests; nothing follows it.
    pub fn stop(&mut self) {
        self.next = Next::Nothing;
        self.provable = None;
        if let Some(running) = &self.flow {
            running.grant.withdraw();
        }
    }

    /// Ends a flow under way, though not in the middle of a step: nobody may come to finish it. Waits
    /// until it has ended, and takes down what it did last.
    pub async fn shut_down(&mut self) {
        self.next = Next::Nothing;
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
        let (aim, unasked) = (running.aim, running.unasked);
        let ending = (&mut running.task).await;
        self.flow = None;
        let ending = ending.unwrap_or_else(|_| {
            self.ledger.distrust();
            Ending::Stuck
        });
        self.ended(aim, ending);
        self.look_again = self
            .pause(aim, ending, interval)
            .map(|pause| (aim, Instant::now() + pause));
        self.go_on(unasked);
    }

    /// How long a flow like the one that has ended is put off if nothing is known to be left to do.
    fn pause(&self, aim: Aim, ending: Ending, interval: Duration) -> Option<Duration> {
        match (aim, ending) {
            // Somebody may scale up what is down.
            (Aim::Protect, Ending::Complete) => Some(interval),
            // Somebody may scale down what a policy with `restore: Any` wants up, or mend what kept
            // a healthy cluster's dependents from being looked at.
            (Aim::Restore, Ending::Complete | Ending::Stuck) if !self.ledger.owes() => {
                Some(interval.max(SELDOM))
            }
            _ => None,
        }
    }

    /// What follows a flow that has ended.
    fn go_on(&mut self, unasked: bool) {
        match &mut self.next {
            Next::Standing {
                aim,
                due,
                again_and_again,
                ..
            } if unasked => {
                let complete =
                    self.ledger.is_looked_at() && (*aim == Aim::Look || !self.ledger.owes());
                *due = Instant::now() + if *again_and_again { SELDOM } else { AGAIN };
                if complete && !*again_and_again {
                    self.next = Next::Nothing;
                }
            }
            Next::Standing { .. } | Next::Nothing => {}
            Next::Order(..) => {
                if let Next::Order(order, why) = std::mem::replace(&mut self.next, Next::Nothing) {
                    self.start(order, why);
                }
            }
        }
    }

    /// Waits until what is insisted on is due, and starts it.
    async fn resume(&mut self) {
        let Next::Standing { aim, why, due, .. } = &self.next else {
            return std::future::pending().await;
        };
        sleep_until(*due).await;
        let order = Order {
            aim: *aim,
            restore: Restore::Marked,
            provable: None,
            valid_until: Instant::now() + TRY,
        };
        self.start(order, why.clone());
        if let Some(running) = &mut self.flow {
            running.unasked = true;
        }
    }

    fn is_due(&self, order: Order) -> bool {
        let wanted = match order.aim {
            Aim::Protect | Aim::Release | Aim::Look => true,
            Aim::Restore => !self.restored || self.ledger.owes() || order.restore == Restore::Any,
        };
        wanted
            && self
                .look_again
                .is_none_or(|(aim, again)| aim != order.aim || Instant::now() >= again)
    }

    /// The seed as a flow of this aim reads it: what changes nothing, as far as is known, lets go
    /// before it whatever does. A thousand healthy clusters may be looked at at once.
    fn seed(&self, aim: Aim) -> Seed {
        let urgent = match aim {
            // What is down already is only looked at again.
            Aim::Protect => self.protection != Protection::Active,
            Aim::Restore | Aim::Release => self.ledger.owes(),
            Aim::Look => false,
        };
        if urgent {
            self.scale.urgent()
        } else {
            self.scale.clone()
        }
    }

    fn start(&mut self, order: Order, why: String) {
        match order.aim {
            Aim::Protect => {
                self.restored = false;
                if self.protection != Protection::Active {
                    self.set_protection(Protection::ScalingDown);
                }
            }
            Aim::Restore if self.ledger.owes() => self.set_protection(Protection::Restoring),
            Aim::Restore | Aim::Release | Aim::Look => {}
        }
        let (sender, events) = mpsc::unbounded_channel();
        let (grant, warrant) = grant(order.valid_until);
        let flow = Flow {
            scaler: Scaler::new(
                self.seed(order.aim),
                self.cluster.clone(),
                self.resources.clone(),
            ),
            dependents: self.ledger.dependents(order.aim),
            aim: order.aim,
            restore: order.restore,
            memory: self.ledger.memory(),
            warrant,
            events: sender,
        };
        self.flow = Some(Running {
            aim: order.aim,
            unasked: false,
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
            && let Some(provable) = self.provable.take()
        {
            self.metrics.reacted(event.at.duration_since(provable));
        }
        let dependent = &event.dependent.reference;
        let before = self.ledger.problem(dependent).cloned();
        self.ledger
            .note(&event.dependent, &event.what, Instant::now());
        let problem = self.ledger.problem(dependent);
        // What is tried again and again is told once.
        let known = before.is_some() && before.as_ref() == problem;
        log::did(&self.cluster, event, running.map(|(_, why)| why), known);
        if let (What::Did(step, found), Some((aim, why))) = (&event.what, running) {
            self.account.did(event, aim, (*step, found.as_ref()), why);
        }
        let reason = before.map(|before| before.reason);
        if let Some(problem) = problem.filter(|problem| reason != Some(problem.reason)) {
            let why = running.map_or("", |(_, why)| why);
            self.account
                .tell(event, Deed::Trouble(problem.clone()), why);
        }
    }

    fn ended(&mut self, aim: Aim, ending: Ending) {
        let owes = self.ledger.owes();
        match (aim, ending) {
            (Aim::Protect, Ending::Complete) if owes => self.set_protection(Protection::Active),
            // A flow that did not complete is taken up again by the next verdict.
            (Aim::Protect, Ending::Stuck) => {}
            (Aim::Look, _) if owes && self.protection == Protection::None => {
                self.set_protection(Protection::Active);
            }
            _ if owes => {}
            _ => {
                // What is not where it should be is looked at again: somebody may have mended it.
                self.restored = aim == Aim::Restore
                    && ending == Ending::Complete
                    && self.ledger.problems().next().is_none();
                self.set_protection(Protection::None);
            }
        }
    }

    fn set_protection(&mut self, protection: Protection) {
        if self.protection != protection {
            let from = self.protection;
            let since = self.protected_since;
            log::protection(&self.cluster, from, protection, since);
            self.protection = protection;
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
}
