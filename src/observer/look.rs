//! Looks at one cluster in the pauses between its probes.
//!
//! They share the connection of the probes, which is idle then: in steady state none is made for
//! them. None is waited for: a probe that is due begins while a look still hangs, on a connection of
//! its own, since HTTP/1 leaves it no other. After one that hung, looks at the same take connections of
//! their own until one is answered, so that this happens once, not at every look.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{
    observation::{Found, Look},
    provider::{Answer, timeout_of},
    state::Ready,
    view::NodeCounts,
};
use crate::shoot::{Consistency, ReadError, Readiness, Shoot};

/// So many lists of Nodes are read at once for the states of all clusters: no list that a verdict
/// needs waits for them.
const NODE_LISTS: usize = 8;
/// And so many of shoots that did not finish the last one in time.
const SLOW_NODE_LISTS: usize = 4;
/// The time for a list of Nodes: one of 5,000 takes a second or two.
const NODES_LIMIT: Duration = Duration::from_secs(5);
/// The time for one of a shoot that did not finish the last one.
const SLOW_LIMIT: Duration = Duration::from_secs(30);
/// A list of Nodes whose turn does not come within this is given up.
const TURN_LIMIT: Duration = Duration::from_secs(60);
/// The time in which an API server has to say whether it is ready.
const READY_LIMIT: Duration = Duration::from_secs(5);
/// A look that takes longer keeps no other from beginning.
const LONG: Duration = Duration::from_secs(1);

/// Where lists of Nodes wait for their turn. Clones are the same.
#[derive(Clone, Debug)]
pub struct Rooms {
    nodes: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

impl Default for Rooms {
    fn default() -> Self {
        Self {
            nodes: Arc::new(Semaphore::new(NODE_LISTS)),
            slow: Arc::new(Semaphore::new(SLOW_NODE_LISTS)),
        }
    }
}

/// The looks at one cluster that are under way. They end with the value.
#[derive(Debug)]
pub struct Looks {
    rooms: Rooms,
    tasks: JoinSet<Ended>,
    /// When the last one began.
    began: Option<Instant>,
    /// Those at the API server of which the last one hung.
    hung: BTreeSet<Look>,
}

/// A look that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What it has come to.
    pub found: Found,
    /// What is counted of it; `None` of a list of Nodes.
    pub took: Option<Took>,
    /// Whether it hung; `None` if it did not ask the API server.
    hung: Option<bool>,
}

/// For how long a look was under way.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// The type of probe that it is.
    pub kind: &'static str,
    /// How it ended: `success`, `failure` or `timeout`.
    pub result: &'static str,
    /// The time.
    pub time: Duration,
}

impl Looks {
    /// None yet; lists of Nodes wait in these rooms.
    pub fn new(rooms: Rooms) -> Self {
        Self {
            rooms,
            tasks: JoinSet::new(),
            began: None,
            hung: BTreeSet::new(),
        }
    }

    /// When one that is due then may begin: they go one after the other, unless one takes long.
    pub fn after(&self, due: Instant) -> Instant {
        match self.began {
            Some(began) if !self.tasks.is_empty() => due.max(began + LONG),
            _ => due,
        }
    }

    /// Whether the next one at this is to have a connection of its own.
    pub fn apart(&self, look: Look) -> bool {
        self.hung.contains(&look)
    }

    /// Begins to list the Nodes over this connection.
    pub fn nodes(&mut self, shoot: Shoot) {
        let (room, limit) = match self.apart(Look::Nodes) {
            true => (&self.means.slow_nodes, SLOW_LIMIT),
            false => (&self.means.nodes, NODES_LIMIT),
        };
        self.spawn(nodes(shoot, room.clone(), limit));
    }

    /// Begins to ask over this connection whether the API server is ready, within `limit`.
    pub fn ready(&mut self, shoot: Shoot, limit: Duration) {
        let metrics = self.means.metrics.clone();
        self.spawn(ready(shoot, limit.min(READY_LIMIT), metrics));
    }

    /// Begins to look at a provider of metrics, the one at this place: its API over this connection,
    /// a URL over one of its own.
    pub fn provider(&mut self, place: usize, provider: &MetricsProvider, shoot: Shoot) {
        let limit = timeout_of(provider);
        let api = provider.api_service.as_deref();
        if let Some((version, group)) = api.and_then(|name| name.split_once('.')) {
            let (version, group) = (version.to_owned(), group.to_owned());
            let metrics = self.means.metrics.clone();
            self.spawn(async move {
                let (answer, hung) = serves(&shoot, &group, &version, limit, &metrics).await;
                (Found::Provider(place, answer), Some(hung))
            });
        } else if let Some(action) = provider.http_get.clone() {
            let (runner, cluster) = (self.means.runner.clone(), self.cluster.clone());
            self.spawn(async move {
                let answer = match runner.http_get(&cluster, &action, limit).await {
                    Outcome::Success | Outcome::Tolerated(_) => Answer::Passed,
                    Outcome::Unknown(why) => Answer::Unknown(why),
                    failed @ (Outcome::Failure(_) | Outcome::Timeout(_)) => {
                        Answer::Failed(failed.to_string())
                    }
                };
                self.tasks.spawn(nodes(shoot, room.clone(), limit));
            }
            Look::Ready => {
                self.tasks.spawn(ready(shoot, limit.min(READY_LIMIT)));
            }
            Look::Provider(place) => {
                let Some(provider) = provider else { return };
                let name = provider.settings().api_service.as_deref();
                let Some((version, group)) = name.and_then(|name| name.split_once('.')) else {
                    return;
                };
                let (version, group) = (version.to_owned(), group.to_owned());
                let limit = provider.limit();
                self.tasks.spawn(async move {
                    let began = Instant::now();
                    let read = shoot.serves(&group, &version, limit).await;
                    let hung = read.as_ref().is_err_and(hangs);
                    let (answer, result) = api_answer(read);
                    Ended {
                        found: Found::Provider(place, answer),
                        took: Some(Took {
                            kind: "apiService",
                            result,
                            time: began.elapsed(),
                        }),
                        hung: Some(hung),
                    }
                });
            }
        }
    }

    /// The next one that ends. If dropped, nothing is lost.
    pub async fn ended(&mut self) -> Ended {
        loop {
            match self.tasks.join_next().await {
                Some(Ok((found, hung))) => {
                    match hung {
                        Some(true) => self.hung.insert(found.look()),
                        Some(false) => self.hung.remove(&found.look()),
                        None => false,
                    };
                    return found;
                }
                // It had a defect, and is begun again when it is due.
                Some(Err(error)) => {
                    tracing::error!(%error, "a look at a cluster ended by a defect")
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Gives up all that are under way.
    pub fn stop(&mut self) {
        self.tasks = JoinSet::new();
        self.hung.clear();
    }
}

/// Whether the read may have taken its connection with it.
fn hangs(error: &ReadError) -> bool {
    matches!(
        error,
        ReadError::Timeout { .. } | ReadError::Unreachable { .. }
    )
}

async fn nodes(shoot: Shoot, room: Arc<Semaphore>, limit: Duration) -> Ended {
    let Ok(_permit) = timeout(TURN_LIMIT, room.acquire_owned()).await else {
        let why = "so many other clusters are reading theirs that its turn did not come";
        return Ended {
            found: Found::Nodes(Err(why.to_owned())),
            took: None,
            hung: None,
        };
    };
    let read = shoot.nodes(Consistency::Cached, limit).await;
    Ended {
        hung: Some(read.as_ref().is_err_and(hangs)),
        found: Found::Nodes(match read {
            Ok(nodes) => Ok(NodeCounts::of(&nodes)),
            Err(error) => Err(error.to_string()),
        }),
        took: None,
    }
}

async fn ready(shoot: Shoot, limit: Duration) -> Ended {
    let began = Instant::now();
    let read = shoot.readiness(limit).await;
    let hung = read.as_ref().is_err_and(hangs);
    let (ready, result) = match read {
        Ok(Readiness::Ready) => (Ready::Yes, "success"),
        Ok(Readiness::NotReady(failed)) => (Ready::No(failed), "failure"),
        Err(error) => (Ready::Unknown(error.to_string()), result(&error)),
    };
    Ended {
        found: Found::Ready(ready),
        took: Some(Took {
            kind: "readyz",
            result,
            time: began.elapsed(),
        }),
        hung: Some(hung),
    }
}

/// What is asked of a provider may be refused to us although it works.
fn api_answer(read: Result<(), ReadError>) -> (Answer, &'static str) {
    match read {
        Ok(()) => (Answer::Passed, "success"),
        Err(error @ (ReadError::Unauthorized { .. } | ReadError::Forbidden { .. })) => {
            (Answer::Unknown(error.to_string()), "failure")
        }
        Err(error) => (Answer::Failed(error.to_string()), result(&error)),
    }
}

fn result(error: &ReadError) -> &'static str {
    match error {
        ReadError::Timeout { .. } => "timeout",
        _ => "failure",
    }
}
