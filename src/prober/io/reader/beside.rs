//! What is read beside the leases: Nodes with Machines, and looks at the state.

use std::{panic::resume_unwind, time::Duration};

use tokio::{
    task::{AbortHandle, JoinError},
    time::Instant,
};

use super::Task;
use crate::{
    observer::{
        NodeCounts,
        state::{Found, Look},
    },
    prober::{
        lease_judge::RATE,
        schedule::{retry_after, throttled_for},
        sources::NodeLists,
    },
    shoot::{SEED_UNREADABLE, Said, Unread},
    util::now::wall,
};

/// Judgement: Nodes for which a restore waits are read this often, and none more often: a shoot decides by its leases
/// when they are read, and the Machines with them.
const NODES_PAUSE: Duration = Duration::from_secs(10);
/// Judgement: Nodes are read this often while they say too little to judge an outage by, or cannot be read.
const LACKED_PAUSE: Duration = Duration::from_secs(60);
/// Nothing begins this shortly before a list of leases is due, or half of the interval if that is less: it would
/// still hold the connection.
const LEAD: Duration = Duration::from_secs(2);
/// Judgement: what takes longer keeps nothing else from beginning beside the leases. Two at the same time need two
/// connections.
const LONG: Duration = Duration::from_secs(1);

/// Result of a read beside the leases.
pub(super) enum Beside {
    Nodes(Result<NodeLists, Unread>),
    State(Found),
}

/// Reads of Nodes, and of Machines with them.
pub(super) struct NodeReads {
    under_way: Option<NodeRead>,
    began: Option<Instant>,
    /// None begins before.
    pub(super) allowed: Instant,
    failures: u32,
    /// Why Nodes or Machines could not be read, if that is the last that is known of them.
    pub(super) error: Option<Unread>,
}

impl NodeReads {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            under_way: None,
            began: None,
            allowed: now,
            failures: 0,
            error: None,
        }
    }
}

/// A read of Nodes that is under way.
struct NodeRead {
    /// The read waits for nothing that is reported.
    urgent: bool,
    task: AbortHandle,
}

impl Task {
    /// Returns what is read next beside the leases, and when: the Nodes, unless it is a look. It begins right after a
    /// list, or so long before the next one that it may end meanwhile; what a proof needs begins immediately.
    pub(super) fn next_beside(&self, due: Instant) -> Option<(Instant, Option<Look>)> {
        let (reached, now) = (self.reached?, Instant::now());
        let wanted = self.judge.wants_facts();
        let nodes = self.nodes_at(wanted).map(|at| (at, None));
        if self.proving || nodes.is_some_and(|(at, _)| wanted && at <= now) {
            return nodes.filter(|_| wanted);
        }
        let looks = self.orders.context.looks.as_ref();
        let look = looks.and_then(|_| self.observation.next());
        let look = look.map(|(at, look)| (at, Some(look)));
        let next = [nodes, look].into_iter().flatten();
        let (at, look) = next.min_by_key(|(at, _)| *at)?;
        let at = match self.began.filter(|_| !self.beside.is_empty()) {
            Some(began) => at.max(began + LONG),
            None => at,
        };
        let lead = LEAD.min(self.orders.settings.rules.interval / 2);
        let ends = at <= reached || at.max(now) + lead <= due;
        ends.then_some((at, look))
    }

    /// When the Nodes are read next, unless they are being read. A verdict may depend on them, if they are `wanted`.
    fn nodes_at(&self, wanted: bool) -> Option<Instant> {
        // What a proof needs replaces what still waits for its turn on the seed.
        let is_read = |read: &NodeRead| read.urgent || !wanted;
        if self.nodes.under_way.as_ref().is_some_and(is_read) {
            return None;
        }
        let again = |pause| self.nodes.began.map_or(self.nodes.allowed, |at| at + pause);
        let at = if wanted || !self.judge.has_facts() {
            Some(self.nodes.allowed)
        } else if self.orders.awaits_nodes() {
            Some(again(NODES_PAUSE))
        } else if self.judge.lacks_facts() {
            Some(again(LACKED_PAUSE))
        } else {
            None
        };
        let looks = self.orders.context.looks.as_ref();
        let state = looks.and_then(|_| self.observation.nodes_due());
        let soonest = [at, state].into_iter().flatten().min()?;
        Some(soonest.max(self.nodes.allowed))
    }

    /// Begins to read something beside the leases: the Nodes, unless it is a look.
    pub(super) fn begin(&mut self, look: Option<Look>) {
        let Some(shoot) = self.sources.shoot() else {
            self.reached = None;
            return;
        };
        let now = Instant::now();
        self.began = Some(now);
        let generation = self.generation;
        let settings = &self.orders.settings;
        match (look, self.orders.context.looks.clone()) {
            (None, _) => {
                let urgent = self.judge.wants_facts() || self.orders.awaits_nodes();
                let all = urgent || self.orders.protected || self.judge.lacks_facts();
                let evidence = self.orders.context.evidence.clone();
                let seed = all.then(|| evidence.seed(urgent));
                let lists = evidence.nodes(self.name.clone(), shoot, seed);
                let lists = async move { (generation, Beside::Nodes(lists.await)) };
                let task = self.beside.spawn(lists);
                let read = NodeRead { urgent, task };
                if let Some(before) = self.nodes.under_way.replace(read) {
                    before.task.abort();
                }
                self.nodes.began = Some(now);
            }
            (Some(look @ Look::Ready), Some(looks)) => {
                self.observation.began(look, now);
                let limit = settings.rules.timeout;
                self.beside.spawn(async move {
                    let found = looks.ready(shoot, limit).await;
                    (generation, Beside::State(found))
                });
            }
            (Some(look @ Look::Provider(place)), Some(looks)) => {
                self.observation.began(look, now);
                let provider = settings.observer.metrics_providers.get(place);
                let Some(provider) = provider.cloned() else {
                    return;
                };
                let names = (settings.policy.clone(), self.name.clone());
                self.beside.spawn(async move {
                    let outcome = looks.provider(provider, shoot, names).await;
                    let found = Found::Provider(place, outcome);
                    (generation, Beside::State(found))
                });
            }
            (_, None) => {}
        }
    }

    /// Takes in what was read beside the leases.
    pub(super) async fn take(&mut self, ended: Result<(u64, Beside), JoinError>) {
        let (generation, beside) = match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => return,
        };
        let found = match beside {
            Beside::State(found) => Some(found),
            Beside::Nodes(Ok(lists)) => Some(self.learn(&lists)),
            Beside::Nodes(Err(error)) => self.not_learnt(error),
        };
        if let Some(found) = found.filter(|_| generation == self.generation) {
            let (at, now) = (Instant::now(), wall());
            if self.observation.take(found, at, now, fastrand::f64()) {
                self.report(None).await;
            }
        }
    }

    fn learn(&mut self, lists: &NodeLists) -> Found {
        self.nodes.under_way = None;
        let now = Instant::now();
        let took = Duration::from_secs_f64(lists.bytes as f64 / RATE);
        let began = lists.facts.began.instant();
        self.nodes.allowed = (began + NODES_PAUSE).max(now + took);
        self.nodes.failures = 0;
        self.nodes.error = None;
        if lists.has_machines {
            self.judge.learn(&lists.facts, &self.orders.settings.pools);
        }
        Found::Nodes(Ok(NodeCounts::of(&lists.facts.nodes)))
    }

    /// Puts Nodes and Machines off that could not be read. The leases are still read, since a proof allows no gap.
    fn not_learnt(&mut self, error: Unread) -> Option<Found> {
        self.nodes.under_way = None;
        self.nodes.failures = self.nodes.failures.saturating_add(1);
        let again = retry_after(self.nodes.failures);
        let pause = match error.said {
            // Each read takes a turn of what acts on the seed, whatever the shoot asks for.
            Said::Throttled(wait) => throttled_for(wait).max(again),
            _ => again.min(LACKED_PAUSE),
        };
        self.nodes.allowed = Instant::now() + pause;
        // Machines that could not be read say nothing of the nodes' state.
        let found = (error.reason != SEED_UNREADABLE).then(|| Found::Nodes(Err(error.to_string())));
        self.nodes.error = Some(error);
        found
    }
}
