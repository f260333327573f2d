//! Reads beside the leases, over the connection that is idle after a list of them: Nodes with Machines, and
//! looks at the state.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::{
    task::{AbortHandle, JoinError},
    time::Instant,
};

use super::{Task, in_turn};
use crate::{
    observer::state::{Found, Look},
    prober::{lease_judge::RATE, schedule::retry_after, sources::NodeLists},
    shoot::{Said, Shoot, Unread},
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
    /// Begins the reads that are due beside the leases; but no look at the state while the leases prove an outage.
    pub(super) fn begin_beside(&mut self, is_proving: bool) {
        let now = Instant::now();
        // A list that is due immediately needs the connection; but all may be, if they take as long as the interval.
        let is_idle = self.judge.next(now.into(), self.draw).instant() > now;
        self.put_off = !is_idle && !self.put_off;
        let Some(shoot) = self.sources.shoot().filter(|_| !self.put_off) else {
            return;
        };
        let looks = self.orders.context.looks.clone();
        let wanted = self.judge.wants_facts();
        if wanted || looks.is_some() && self.observation.nodes_due(now) {
            self.begin_nodes(&shoot, wanted, now);
        }
        let Some(looks) = looks.filter(|_| !is_proving) else {
            return;
        };
        for look in self.observation.begin(now) {
            let (looks, shoot) = (looks.clone(), shoot.clone());
            let names = (self.orders.settings.policy.clone(), self.name.clone());
            let shares = !matches!(&look, Look::Provider(_, it) if it.http_get.is_some());
            let found = async move {
                Beside::State(match look {
                    Look::Ready => looks.ready(shoot).await,
                    Look::Provider(place, provider) => {
                        Found::Provider(place, looks.provider(provider, shoot, names).await)
                    }
                })
            };
            self.spawn(shares, found.boxed());
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
        let settings = self.orders.settings.clone();
        let lists = evidence.nodes(self.name.clone(), shoot.clone(), seed, settings);
        let task = self.spawn(!urgent, lists.map(Beside::Nodes).boxed());
        if let Some((_, before)) = self.nodes.under_way.replace((urgent, task)) {
            before.abort();
        }
    }

    /// Begins a read, once it has its turn if it shares the connection with others.
    fn spawn(&mut self, shares: bool, read: BoxFuture<'static, Beside>) -> AbortHandle {
        let own = Arc::default();
        let turn = if shares { &self.connection } else { &own };
        let turn = turn.clone().lock_owned();
        self.beside
            .spawn(async move { in_turn(turn.await, PATIENCE, read).await })
    }

    /// Takes in what was read beside the leases.
    pub(super) async fn take(&mut self, ended: Result<Beside, JoinError>) {
        let found = match ended {
            Ok(Beside::State(found)) => found,
            Ok(Beside::Nodes(Ok(lists))) => {
                self.learn(&lists);
                Found::Nodes(Ok(lists.counts))
            }
            Ok(Beside::Nodes(Err(error))) => {
                self.not_learnt(&error);
                Found::Nodes(Err(error.to_string()))
            }
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // It was replaced.
            Err(_) => return,
        };
        let (at, now) = (Instant::now(), wall());
        self.observation.take(found, at, now, fastrand::f64());
        self.report(None).await;
    }

    fn learn(&mut self, lists: &NodeLists) {
        let took = Duration::from_secs_f64(lists.bytes as f64 / RATE);
        let mut allowed = Instant::now() + took;
        match &lists.facts {
            Ok(Some(facts)) => {
                allowed = allowed.max(facts.began.instant() + MACHINES_PAUSE);
                self.judge.learn(facts);
            }
            Ok(None) => {}
            Err(error) => return self.not_learnt(error),
        }
        self.nodes = NodeReads {
            allowed: Some(allowed),
            ..NodeReads::default()
        };
    }

    /// Puts Nodes and Machines off that could not be read. The leases are still read, since a proof allows no gap.
    fn not_learnt(&mut self, error: &Unread) {
        let failures = self.nodes.failures.saturating_add(1);
        let again = retry_after(failures).min(MOST_PAUSE);
        let pause = match error.said {
            // Each read takes a turn of what acts on the seed, whatever the shoot asks for.
            Said::Throttled(wait) => wait.max(again),
            _ => again,
        };
        self.nodes = NodeReads {
            under_way: None,
            allowed: Some(Instant::now() + pause),
            failures,
            error: Some(error.clone()),
        };
    }
}
