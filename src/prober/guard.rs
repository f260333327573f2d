//! The acting half of one cluster's loop: its dependents, what they are owed, and the flow that
//! scales them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver},
        watch,
    },
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
    runtime::seed::Seed,
};

/// The dependents of a healthy cluster to which nothing is owed are looked at this often at most.
const SELDOM: Duration = Duration::from_secs(60);

/// Protects one cluster's dependents, and restores them.
pub struct Guard {
    cluster: Arc<str>,
    scale: Seed,
    resources: Resources,
    ledger: Ledger,
    protection: Protection,
    /// Whether the dependents have been seen as a healthy cluster wants them.
    restored: bool,
    /// When the dependents are looked at again in this direction although nothing is known to be
    /// left to do: each look costs requests to the seed, and there may be a thousand clusters.
    look_again: Option<(Direction, Instant)>,
    flow: Option<Running>,
    /// What is to be done once the flow under way, which is being ended, has ended.
    next: Option<Order>,
}

/// What a verdict asks for.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Which way the dependents are scaled.
    pub direction: Direction,
    /// What a scale-up touches.
    pub restore: Restore,
    /// Until when the evidence counts that the verdict rests on: nothing is scaled after that
    /// without another.
    pub valid_until: Instant,
}

struct Running {
    direction: Direction,
    valid_until: watch::Sender<Instant>,
    stop: CancellationToken,
    task: JoinHandle<Ending>,
    events: UnboundedReceiver<FlowEvent>,
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
        self.look_again = None;
        self.stop();
    }

    /// Does what a verdict asks for. A flow the other way, or one that is ending, is overtaken: it
    /// ends between two requests, and then this one starts.
    pub fn act(&mut self, order: Order) {
        match &self.flow {
            Some(running)
                if running.direction == order.direction && !running.stop.is_cancelled() =>
            {
                running.valid_until.send_replace(order.valid_until);
            }
            Some(running) => {
                running.stop.cancel();
                self.next = Some(order);
            }
            None if self.is_due(order) => self.start(order),
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
        self.ended(direction, ending);
        let pause = match (direction, ending) {
            // Somebody may scale up what is down.
            (Direction::Down, Ending::Complete) => Some(interval),
            // Somebody may scale down what a policy with `restore: Any` wants up, or mend what kept
            // a healthy cluster's dependents from being looked at.
            (Direction::Up, Ending::Complete | Ending::Stuck) if !self.ledger.owes() => {
                Some(interval.max(SELDOM))
            }
            _ => None,
        };
        self.look_again = pause.map(|pause| (direction, Instant::now() + pause));
        if let Some(order) = self.next.take() {
            self.start(order);
        }
    }

    fn is_due(&self, order: Order) -> bool {
        let wanted = match order.direction {
            Direction::Down => true,
            Direction::Up => !self.restored || self.ledger.owes() || order.restore == Restore::Any,
        };
        wanted
            && self.look_again.is_none_or(|(direction, again)| {
                direction != order.direction || Instant::now() >= again
            })
    }

    fn start(&mut self, order: Order) {
        match order.direction {
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
        let (valid_until, evidence) = watch::channel(order.valid_until);
        let flow = Flow {
            scaler: Scaler::new(
                self.scale.clone(),
                self.cluster.clone(),
                self.resources.clone(),
            ),
            dependents: self.ledger.dependents(),
            direction: order.direction,
            restore: order.restore,
            memory: self.ledger.memory(),
            stop: stop.clone(),
            evidence,
            events: sender,
        };
        self.flow = Some(Running {
            direction: order.direction,
            valid_until,
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
            (Direction::Down, Ending::Stuck) => {}
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
