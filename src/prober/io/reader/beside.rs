//! Reads beside the leases, over the connection that is idle after a list of them: Nodes with Machines, and
//! looks at the state.

use std::{panic::resume_unwind, time::Duration};

use tokio::{
    task::{AbortHandle, JoinError},
    time::Instant,
};

use super::{Task, in_turn};
use crate::{
    observer::{
        NodeCounts,
        state::{Found, Look},
    },
    prober::{
        lease_judge::RATE,
        schedule::retry_after,
        sources::NodeLists,
    },
    shoot::{SEED_UNREADABLE, Said, Shoot, Unread},
    util::now::wall,
};

/// Judgement: Machines of a cluster are listed this often at most, whatever its shoot has us want.
const MACHINES_PAUSE: Duration = Duration::from_secs(5);
/// Judgement: Nodes and Machines that cannot be read are tried again after this at the latest.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// Judgement: what takes longer keeps nothing else from beginning over a connection of its own.
const PATIENCE: Duration = Duration::from_secs(1);

/// Result of a read beside the leases.
pub(super) enum Beside {
    Nodes(Result<NodeLists, Unread>),
    State(Found),
}

/// Reads of Nodes, and of Machines with them.
#[derive(Default)]
pub(super) struct NodeReads {
    /// The read that is under way, and whether it waits for nothing that is reported.
    pub(super) under_way: Option<(bool, AbortHandle)>,
    /// None begins before.
    allowed: Option<Instant>,
    failures: u32,
    /// Why Nodes or Machines could not be read, if that is the last that is known of them.
    pub(super) error: Option<Unread>,
}

impl Task {
    /// Begins what is due beside the leases: of a suspect cluster only what a proof needs.
    pub(super) fn begin_beside(&mut self) {
        let now = Instant::now();
        // A list that is due immediately needs the connection.
        let is_idle = self.judge.next(now.into(), self.draw).instant() > now;
        let Some(shoot) = self.sources.shoot().filter(|_| is_idle) else {
            return;
        };
        let looks = self.orders.context.looks.clone();
        let looks = looks.filter(|_| !self.judge.suspect());
        let wanted = self.judge.wants_facts();
        if wanted || looks.is_some() && self.observation.nodes_due(now) {
            self.begin_nodes(&shoot, wanted, now);
        }
        let Some(looks) = looks else {
            return;
        };
        let settings = self.orders.settings.clone();
        for look in self.observation.begin(now) {
            let (looks, shoot) = (looks.clone(), shoot.clone());
            let names = (settings.policy.clone(), self.name.clone());
            self.spawn(async move {
                Beside::State(match look {
                    Look::Ready => looks.ready(shoot).await,
                    Look::Provider(place, provider) => {
                        Found::Provider(place, looks.provider(provider, shoot, names).await)
                    }
                })
            });
        }
    }

    /// Begins to read the Nodes, unless they are being read: for a verdict, past every cache and with the Machines.
    fn begin_nodes(&mut self, shoot: &Shoot, for_verdict: bool, now: Instant) {
        // What a verdict is about to need replaces what still waits for its turn on the seed.
        let urgent = for_verdict && self.judge.is_at_stake();
        let under_way = self.nodes.under_way.as_ref();
        let is_read = under_way.is_some_and(|(is_urgent, _)| *is_urgent || !urgent);
        if is_read || self.nodes.allowed > Some(now) {
            return;
        }
        let evidence = self.orders.context.evidence.clone();
        let seed = for_verdict.then(|| evidence.seed(urgent));
        let lists = evidence.nodes(self.name.clone(), shoot.clone(), seed);
        let task = self.spawn(async move { Beside::Nodes(lists.await) });
        if let Some((_, before)) = self.nodes.under_way.replace((urgent, task)) {
            before.abort();
        }
    }

    /// Begins a read once it has its turn.
    fn spawn(&mut self, read: impl Future<Output = Beside> + Send + 'static) -> AbortHandle {
        let connection = self.connection.clone();
        self.beside.spawn(async move {
            let turn = connection.lock_owned().await;
            in_turn(turn, PATIENCE, read).await
        })
    }

    /// Takes in what was read beside the leases.
    pub(super) async fn take(&mut self, ended: Result<Beside, JoinError>) {
        let found = match ended {
            Ok(Beside::State(found)) => Some(found),
            Ok(Beside::Nodes(Ok(lists))) => Some(self.learn(&lists)),
            Ok(Beside::Nodes(Err(error))) => self.not_learnt(error),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // It was replaced.
            Err(_) => None,
        };
        let Some(found) = found else {
            return;
        };
        let (at, now) = (Instant::now(), wall());
        self.observation.take(found, at, now, fastrand::f64());
        self.report(None).await;
    }

    fn learn(&mut self, lists: &NodeLists) -> Found {
        let took = Duration::from_secs_f64(lists.bytes as f64 / RATE);
        let mut allowed = Instant::now() + took;
        if lists.has_machines {
            allowed = allowed.max(lists.facts.began.instant() + MACHINES_PAUSE);
            self.judge.learn(&lists.facts, &self.orders.settings.pools);
        }
        self.nodes = NodeReads {
            allowed: Some(allowed),
            ..NodeReads::default()
        };
        Found::Nodes(Ok(NodeCounts::of(&lists.facts.nodes)))
    }

    /// Puts Nodes and Machines off that could not be read. The leases are still read, since a proof allows no gap.
    fn not_learnt(&mut self, error: Unread) -> Option<Found> {
        let failures = self.nodes.failures.saturating_add(1);
        let again = retry_after(failures).min(MOST_PAUSE);
        let pause = match error.said {
            // Each read takes a turn of what acts on the seed, whatever the shoot asks for.
            Said::Throttled(wait) => wait.max(again),
            _ => again,
        };
        // Machines that could not be read say nothing of the nodes' state.
        let found = (error.reason != SEED_UNREADABLE).then(|| Found::Nodes(Err(error.to_string())));
        self.nodes = NodeReads {
            under_way: None,
            allowed: Some(Instant::now() + pause),
            failures,
            error: Some(error),
        };
        found
    }
}
