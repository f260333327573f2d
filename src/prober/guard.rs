//! The acting half of one cluster's loop: its dependents, what they are owed, and the flow that
//! scales them.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    flow::{Ending, Flow, FlowEvent, What},
    ledger::Ledger,
    plan::Direction,
    scale::{Resources, Scaler},
};
use crate::{
    api::{ClusterHealthStatus, Protection, Restore},
    cluster::Dependent,
};

/// Protects one cluster's dependents, and restores them.
pub struct Guard {
    cluster: Arc<str>,
    scale: Client,
    resources: Resources,
    ledger: Ledger,
    protection: Protection,
    /// Whether the dependents have been seen as a healthy cluster wants them.
    restored: bool,
    /// Set once all dependents are down: when they are looked at again, since somebody may scale
    /// them up.
    look_again: Option<Instant>,
    flow: Option<Running>,
    /// What is to be done once the flow under way, which is being ended, has ended.
    next: Option<(Direction, Restore)>,
}

struct Running {
    direction: Direction,
    stop: CancellationToken,
    task: JoinHandle<Ending>,
    events: UnboundedReceiver<FlowEvent>,
}

impl Guard {
    /// Guards the dependents of the cluster of this name. `known` is what an earlier run has left
    /// in its ClusterHealth.
    pub fn new(
        cluster: Arc<str>,
        scale: Client,
        resources: Resources,
        known: Option<&ClusterHealthStatus>,
    ) -> Self {
        let ledger = known.map(Ledger::recall).unwrap_or_default();
        Self {
            cluster,
            scale,
            resources,
            protection: match known.map(|known| known.protection) {
                Some(protection) if ledger.owes() => protection,
                _ => Protection::None,
            },
            ledger,
            restored: false,
            look_again: None,
            flow: None,
            next: None,
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

    /// Whether something is owed, or being scaled.
    pub fn is_engaged(&self) -> bool {
        self.ledger.owes() || self.flow.is_some()
    }

    /// Adopts the dependents of a policy. What is known of another list says nothing of this one.
    pub fn adopt(&mut self, dependents: &[Dependent]) {
        self.ledger.adopt(dependents);
        self.restored = false;
        self.stop();
    }

    /// Does what a verdict asks for. A flow the other way, or one that is ending, is overtaken: it
    /// ends between two requests, and then this one starts.
    pub fn act(&mut self, direction: Direction, restore: Restore) {
        match &self.flow {
            Some(running) if running.direction == direction && !running.stop.is_cancelled() => {}
            Some(running) => {
                running.stop.cancel();
                self.next = Some((direction, restore));
            }
            None if self.is_due(direction, restore) => self.start(direction, restore),
            None => {}
        }
    }

    /// Ends a flow under way between two requests; nothing follows it.
    pub fn stop(&mut self) {
        self.next = None;
        if let Some(running) = &self.flow {
            running.stop.cancel();
        }
    }

    /// Ends a flow under way, waits until it has ended, and takes down what it did last.
    pub async fn shut_down(&mut self) {
        self.stop();
        while self.flow.is_some() {
            self.progress(Duration::ZERO).await;
        }
    }

    /// Waits for the flow under way to do something, or to end, and takes it down; forever if
    /// there is none. Nothing is lost if it is not waited for to the end.
    pub async fn progress(&mut self, interval: Duration) {
        let Some(running) = &mut self.flow else {
            return std::future::pending().await;
        };
        if let Some(event) = running.events.recv().await {
            self.note(&event);
            return;
        }
        // The flow has dropped its end: it is over.
        let (direction, ending) = (running.direction, (&mut running.task).await);
        self.flow = None;
        let ending = ending.unwrap_or(Ending::Stuck);
        let all_down = direction == Direction::Down && ending == Ending::Complete;
        self.look_again = all_down.then(|| Instant::now() + interval);
        self.ended(direction, ending);
        if let Some((direction, restore)) = self.next.take() {
            self.start(direction, restore);
        }
    }

    fn is_due(&self, direction: Direction, restore: Restore) -> bool {
        match direction {
            Direction::Down => self.look_again.is_none_or(|again| Instant::now() >= again),
            Direction::Up => !self.restored || self.ledger.owes() || restore == Restore::Any,
        }
    }

    fn start(&mut self, direction: Direction, restore: Restore) {
        match direction {
            Direction::Down => {
                self.restored = false;
                if self.protection != Protection::Active {
                    self.set_protection(Protection::ScalingDown);
                }
            }
            Direction::Up if self.ledger.owes() => self.set_protection(Protection::Restoring),
            Direction::Up => {}
        }
        let (sender, events) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let flow = Flow {
            scaler: Scaler::new(
                self.scale.clone(),
                self.cluster.clone(),
                self.resources.clone(),
            ),
            dependents: self.ledger.dependents(),
            direction,
            restore,
            memory: self.ledger.memory(),
            stop: stop.clone(),
            events: sender,
        };
        self.flow = Some(Running {
            direction,
            stop,
            task: tokio::spawn(flow.run()),
            events,
        });
    }

    fn note(&mut self, event: &FlowEvent) {
        let cluster = &*self.cluster;
        let dependent = &event.dependent.reference;
        match &event.what {
            What::Did(step, found) => {
                let replicas = found.as_ref().map(|found| found.replicas);
                tracing::info!(cluster, %dependent, ?step, replicas, "wrote");
            }
            What::Settled(settled, _) => tracing::debug!(cluster, %dependent, ?settled, "settled"),
            What::Late(timeout) => tracing::warn!(cluster, %dependent, ?timeout, "late"),
            What::Failed(error, begun) => {
                tracing::warn!(cluster, %dependent, %error, ?begun, "not scaled");
            }
            What::Interrupted(step) => tracing::info!(cluster, %dependent, ?step, "interrupted"),
        }
        self.ledger.note(&event.dependent, &event.what);
    }

    fn ended(&mut self, direction: Direction, ending: Ending) {
        let owes = self.ledger.owes();
        match (direction, ending) {
            (Direction::Down, Ending::Complete) if owes => self.set_protection(Protection::Active),
            // A flow that did not complete is taken up again by the next verdict.
            _ if owes => {}
            _ => {
                self.restored = direction == Direction::Up && ending == Ending::Complete;
                self.set_protection(Protection::None);
            }
        }
    }

    fn set_protection(&mut self, protection: Protection) {
        if self.protection != protection {
            let from = self.protection;
            tracing::info!(cluster = &*self.cluster, ?from, to = ?protection, "protection");
            self.protection = protection;
        }
    }
}
