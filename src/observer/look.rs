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
use crate::{
    api::MetricsProvider,
    checks::{Outcome, Runner},
    runtime::metrics::ProbeMetrics,
    shoot::{Consistency, Readiness, Said, Shoot, Unread},
};

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

/// What the looks at all clusters share. Clones are the same.
#[derive(Clone)]
pub struct Means {
    nodes: Arc<Semaphore>,
    slow_nodes: Arc<Semaphore>,
    metrics: ProbeMetrics,
    runner: Runner,
}

impl Means {
    /// Looks are counted here; requests over HTTP to providers of metrics are made by this runner.
    pub fn new(metrics: ProbeMetrics, runner: Runner) -> Self {
        Self {
            nodes: Arc::new(Semaphore::new(NODE_LISTS)),
            slow_nodes: Arc::new(Semaphore::new(SLOW_NODE_LISTS)),
            metrics,
            runner,
        }
    }
}

/// The looks at one cluster that are under way. They end with the value.
pub struct Looks {
    cluster: Arc<str>,
    /// `None` if none is ever begun.
    means: Option<Means>,
    tasks: JoinSet<Ended>,
    /// When the last one began.
    began: Option<Instant>,
    /// Those at the API server of which the last one hung.
    hung: BTreeSet<Look>,
}

/// A look that has ended: what it has come to, and, if it asked the API server, whether it hung.
type Ended = (Found, Option<bool>);

impl Looks {
    /// None yet, of the cluster of this name.
    pub fn new(cluster: Arc<str>, means: Means) -> Self {
        Self {
            means: Some(means),
            ..Self::none(cluster)
        }
    }

    /// None, now or ever.
    pub fn none(cluster: Arc<str>) -> Self {
        Self {
            cluster,
            means: None,
            tasks: JoinSet::new(),
            began: None,
            hung: BTreeSet::new(),
        }
    }

    /// Whether any is made.
    pub fn are_made(&self) -> bool {
        self.means.is_some()
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
        let Some(means) = &self.means else { return };
        let (room, limit) = match self.apart(Look::Nodes) {
            true => (&means.slow_nodes, SLOW_LIMIT),
            false => (&means.nodes, NODES_LIMIT),
        };
        self.spawn(nodes(shoot, room.clone(), limit));
    }

    /// Begins to ask over this connection whether the API server is ready, within `limit`.
    pub fn ready(&mut self, shoot: Shoot, limit: Duration) {
        let Some(means) = &self.means else { return };
        let metrics = means.metrics.clone();
        self.spawn(ready(shoot, limit.min(READY_LIMIT), metrics));
    }

    /// Begins to look at a provider of metrics, the one at this place: its API over this connection,
    /// a URL over one of its own, among those of this policy.
    pub fn provider(
        &mut self,
        place: usize,
        provider: &MetricsProvider,
        (shoot, policy): (Shoot, &Arc<str>),
    ) {
        let Some(means) = &self.means else { return };
        let limit = timeout_of(provider);
        let api = provider.api_service.as_deref();
        if let Some((version, group)) = api.and_then(|name| name.split_once('.')) {
            let (version, group) = (version.to_owned(), group.to_owned());
            let metrics = means.metrics.clone();
            self.spawn(async move {
                let (answer, hung) = serves(&shoot, &group, &version, limit, &metrics).await;
                (Found::Provider(place, answer), Some(hung))
            });
        } else if let Some(action) = provider.http_get.clone() {
            let (runner, cluster) = (means.runner.of(policy), self.cluster.clone());
            self.spawn(async move {
                let answer = match runner.http_get(&cluster, &action, limit).await {
                    Outcome::Success | Outcome::Tolerated(_) => Answer::Passed,
                    Outcome::Unknown(why) => Answer::Unknown(why),
                    failed @ (Outcome::Failure(_) | Outcome::Timeout(_)) => {
                        Answer::Failed(failed.to_string())
                    }
                };
                (Found::Provider(place, answer), None)
            });
        }
    }

    fn spawn(&mut self, look: impl Future<Output = Ended> + Send + 'static) {
        self.began = Some(Instant::now());
        self.tasks.spawn(look);
    }

    /// What the next one that ends has come to. If dropped, nothing is lost.
    pub async fn ended(&mut self) -> Found {
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
                Some(Err(error)) => tracing::error!(
                    cluster = &*self.cluster,
                    %error,
                    "a look at the cluster ended by a defect"
                ),
                None => std::future::pending().await,
            }
        }
    }

    /// Gives up all that are under way, which says nothing of how they would have ended.
    pub fn drop_all(&mut self) {
        if !self.tasks.is_empty() {
            self.tasks = JoinSet::new();
        }
    }

    /// Gives up all that are under way, and forgets how others ended.
    pub fn stop(&mut self) {
        self.tasks = JoinSet::new();
        self.hung.clear();
    }
}

/// Whether the read may have taken its connection with it.
fn hangs<T>(read: &Result<T, Unread>) -> bool {
    matches!(read, Err(error) if matches!(error.said, Said::Late | Said::Broken))
}

async fn nodes(shoot: Shoot, room: Arc<Semaphore>, limit: Duration) -> Ended {
    let Ok(_permit) = timeout(TURN_LIMIT, room.acquire_owned()).await else {
        let why = "so many other clusters are reading theirs that its turn did not come";
        return (Found::Nodes(Err(why.to_owned())), None);
    };
    let began = Instant::now();
    let read = shoot.nodes(Consistency::Cached, limit).await;
    // One that takes long keeps the connection for as long, and would not end in time over it.
    let hung = hangs(&read) || began.elapsed() >= NODES_LIMIT;
    let counted = read.map(|nodes| NodeCounts::of(&nodes));
    let counted = counted.map_err(|error| error.to_string());
    (Found::Nodes(counted), Some(hung))
}

async fn ready(shoot: Shoot, limit: Duration, metrics: ProbeMetrics) -> Ended {
    let began = Instant::now();
    let read = shoot.readiness(limit).await;
    let hung = hangs(&read);
    let (ready, result) = match read {
        Ok(Readiness::Ready) => (Ready::Yes, "success"),
        Ok(Readiness::NotReady(failed)) => (Ready::No(failed), "failure"),
        Err(error) => (Ready::Unknown(error.to_string()), result(&error)),
    };
    metrics.ended("readyz", result, began.elapsed(), limit);
    (Found::Ready(ready), Some(hung))
}

async fn serves(
    shoot: &Shoot,
    group: &str,
    version: &str,
    limit: Duration,
    metrics: &ProbeMetrics,
) -> (Answer, bool) {
    let began = Instant::now();
    let read = shoot.serves(group, version, limit).await;
    let hung = hangs(&read);
    let (answer, result) = match read {
        Ok(()) => (Answer::Passed, "success"),
        Err(error) => match error.said {
            // What is refused to us may work all the same.
            Said::Refused => (Answer::Unknown(error.message), "unknown"),
            // An API server that breaks the connection, or has too much to do, tells nothing of what
            // stands behind it.
            Said::Throttled(_) | Said::Broken => (Answer::Missed, result(&error)),
            Said::Late | Said::Failed | Said::Other => {
                let result = result(&error);
                (Answer::Failed(error.message), result)
            }
        },
    };
    metrics.ended("apiService", result, began.elapsed(), limit);
    (answer, hung)
}

fn result(error: &Unread) -> &'static str {
    match error.said {
        Said::Late => "timeout",
        Said::Throttled(_) => "throttled",
        _ => "failure",
    }
}
