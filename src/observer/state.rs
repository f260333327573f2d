//! The states of a cluster, what leads from one to another, and what is to be looked at when.
//!
//! | state | seen | next |
//! |---|---|---|
//! | OFFLINE, CONNECTING | not reached | OFFLINE |
//! | any other | not reached | DEGRADED, or OFFLINE once the retries are used up |
//! | OFFLINE | reached | CONNECTING |
//! | CONNECTING | reached, and not all is known | CONNECTING |
//! | any other | reached, and not all is known | PENDING |
//! | any but OFFLINE | reached, and all is known | the worst of what is known |
//!
//! All is known when the nodes were seen and the API server was asked whether it is ready, or when
//! its leases are an outage: nothing is worse. From the worst: NOTREADY, UNHEALTHY, FAILING_METRICS,
//! ONLINE.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{NodeCounts, nodes::NOT_READY, provider::Provider};
use crate::{
    api::{CheckStatus, ClusterState, MetricsProvider, ObserverSettings},
    checks::Outcome,
    shoot::Readiness,
};

/// Pause between two looks at what may change at any time and costs little, and at Nodes that are not well, or that
/// could not be read.
const OFTEN: Duration = Duration::from_secs(60);
/// The pause between two looks at Nodes is shortened by a random share of up to this, so that a
/// thousand clusters that were seen at once do not stay in step.
const SPREAD: f64 = 0.1;
/// The pause before a retry does not grow beyond this.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

const UNSEEN: &str = "its nodes, or whether its API server is ready, have not been seen yet";
const BACK: &str = "it was OFFLINE and answers again; all of it is looked at anew";

/// The state of one cluster, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The state.
    pub state: ClusterState,
    /// Why, as a sentence for people.
    pub message: String,
    /// Its Nodes. `None` until they were seen.
    pub nodes: Option<NodeCounts>,
    /// Its providers of metrics.
    pub providers: Vec<CheckStatus>,
}

/// Object of a look, except for the Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// `/readyz` of the API server.
    Ready,
    /// The provider of metrics at this place in the settings.
    Provider(usize, MetricsProvider),
}

/// Result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The Nodes, or why they could not be read.
    Nodes(Result<NodeCounts, String>),
    /// Answer of the API server, or the reason why there is none.
    Ready(Result<Readiness, String>),
    /// The provider at this place; `None` if it was not asked, for a reason of the way to it.
    Provider(usize, Option<Outcome>),
}

/// State of a cluster, and what is known of it. Pure, with time as an argument.
#[derive(Debug, Default)]
pub struct Observation {
    settings: Arc<ObserverSettings>,
    state: ClusterState,
    /// Set while it is not reached.
    lost: Option<Lost>,
    /// Answer of its API server, or the reason why there is none, which is no evidence. `None` until it was asked.
    ready: Option<Result<Readiness, String>>,
    /// Its nodes, as they were last seen.
    nodes: Option<NodeCounts>,
    /// Why the nodes could not be read when they were last tried, if they could not.
    unread: Option<String>,
    /// Expired leases, and all that count, if that has been found to be an outage. Then kubelets do not work, and the
    /// Nodes are out of date.
    silent: Option<(usize, usize)>,
    providers: Vec<Provider>,
    /// When the nodes are to be read; `None` stands for as soon as possible.
    nodes_due: Option<Instant>,
    ready_due: Due,
}

/// When something is looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    /// `None` stands for as soon as possible.
    next: Option<Instant>,
    /// Start of the look that is under way.
    begun: Option<Instant>,
}

impl Due {
    /// Begins a look, if one is due and none is under way.
    fn begin(&mut self, at: Instant) -> Option<()> {
        let begins = self.begun.is_none() && self.next <= Some(at);
        begins.then(|| self.begun = Some(at))
    }

    /// Gives up a look that is under way. It is due immediately.
    fn restart(&mut self) {
        (self.next, self.begun) = (self.next.filter(|_| self.begun.is_none()), None);
    }

    /// Ends the look that is under way. The next one follows so long after its start.
    pub(super) fn end(&mut self, pause: Duration) {
        self.next = self.begun.take().map(|begun| begun + pause);
    }
}

/// Probes in a row that did not reach the cluster.
#[derive(Clone, Debug)]
struct Lost {
    /// Why the last one did not.
    why: String,
    /// Number of those that were retries.
    retries: i32,
    /// When the last retry began, or the first probe.
    last: Instant,
}

impl Observation {
    /// Observes a cluster from now on.
    pub fn new(settings: Arc<ObserverSettings>) -> Self {
        let mut new = Self::default();
        new.restart(settings, Instant::now(), 0.0);
        new
    }

    /// Observes it by these settings from now on; looks that were under way are given up, and due immediately. The
    /// nodes are read within a minute: `draw`, uniform in [0, 1), says when, since a policy may apply to a thousand
    /// clusters.
    pub fn restart(&mut self, settings: Arc<ObserverSettings>, now: Instant, draw: f64) {
        let providers = settings.metrics_providers.iter().map(|asked| {
            let known = self.providers.iter().find(|it| it.settings == *asked);
            known.map_or_else(|| Provider::new(asked.clone()), Clone::clone)
        });
        self.providers = providers.collect();
        let dues = self.providers.iter_mut().map(|it| &mut it.due);
        dues.chain([&mut self.ready_due]).for_each(Due::restart);
        self.nodes_due = self.nodes_due.min(Some(now + OFTEN.mul_f64(draw)));
        self.settings = settings;
    }

    /// A verdict on the leases: how many of how many are expired, if that is an outage. One that
    /// cannot be reached leaves it at what was found before.
    pub fn judged(&mut self, silent: Option<(usize, usize)>) {
        if silent.is_none() && self.silent.is_some() {
            // The nodes may have been marked meanwhile.
            self.nodes_due = None;
        }
        self.silent = silent;
    }

    /// A probe that began then did not reach the cluster, for this reason.
    pub fn unreached(&mut self, at: Instant, why: &str) {
        let (retries, last) = match &self.lost {
            Some(lost) if at - lost.last >= self.pause(lost.retries) => (lost.retries + 1, at),
            Some(lost) => (lost.retries, lost.last),
            None => (0, at),
        };
        let why = why.to_owned();
        self.lost = Some(Lost { why, retries, last });
        // -1 stands for no limit.
        let limit = self.settings.backoff_limit;
        let is_exhausted = limit >= 0 && retries >= limit;
        self.state = match self.state {
            ClusterState::Offline | ClusterState::Connecting => ClusterState::Offline,
            _ if is_exhausted => ClusterState::Offline,
            _ => ClusterState::Degraded,
        };
    }

    /// Returns the pause before the retry after so many.
    fn pause(&self, retries: i32) -> Duration {
        let factor = self.settings.backoff.unsigned_abs();
        let factor = factor.saturating_pow(retries.unsigned_abs());
        let pause = self.settings.backoff_delay.get().saturating_mul(factor);
        pause.min(MAX_PAUSE)
    }

    /// A probe reached it.
    pub fn reached(&mut self) {
        self.lost = None;
        if self.state == ClusterState::Offline {
            self.state = ClusterState::Connecting;
            (self.ready, self.nodes, self.unread) = (None, None, None);
            (self.ready_due.next, self.nodes_due) = (None, None);
        } else {
            self.settle();
        }
    }

    /// Takes in what a look has come to. `draw`, uniform in [0, 1), places the next one.
    pub fn take(&mut self, found: Found, at: Instant, now: Timestamp, draw: f64) {
        let interval = self.settings.node_interval.get();
        match found {
            Found::Nodes(Ok(nodes)) => {
                let pause = match nodes.well == nodes.all {
                    true => interval.mul_f64(1.0 - SPREAD * draw),
                    false => interval.min(OFTEN),
                };
                self.nodes_due = Some(at + pause);
                (self.nodes, self.unread) = (Some(nodes), None);
            }
            Found::Nodes(Err(why)) => {
                self.nodes_due = Some(at + interval.min(OFTEN));
                self.unread = Some(why);
            }
            Found::Ready(ready) => {
                self.ready_due.end(match ready {
                    // It is mostly just starting.
                    Ok(Readiness::NotReady(_)) => Duration::ZERO,
                    _ => OFTEN,
                });
                self.ready = Some(ready);
            }
            Found::Provider(place, outcome) => {
                if let Some(provider) = self.providers.get_mut(place) {
                    provider.take(outcome, now);
                }
            }
        }
        // What was found before a failure tells nothing against it.
        if self.lost.is_none() {
            self.settle();
        }
    }

    /// Derives the state of a cluster that is reached.
    fn settle(&mut self) {
        self.state = match (self.worst(), self.state) {
            (Some(worst), _) => worst,
            (None, ClusterState::Connecting) => ClusterState::Connecting,
            (None, _) => ClusterState::Pending,
        };
    }

    /// Returns the worst of what is known; `None` until all is on which a state depends.
    fn worst(&self) -> Option<ClusterState> {
        // Nothing that may be found is worse.
        if self.silent.is_some() {
            return Some(ClusterState::NotReady);
        }
        let (ready, nodes) = (self.ready.as_ref()?, self.nodes.as_ref()?);
        let refuses = matches!(ready, Ok(Readiness::NotReady(_)));
        Some(if refuses || nodes.with(NOT_READY) > 0 {
            ClusterState::NotReady
        } else if nodes.well < nodes.all {
            ClusterState::Unhealthy
        } else if self.providers.iter().any(|it| it.failing().is_some()) {
            ClusterState::FailingMetrics
        } else {
            ClusterState::Online
        })
    }

    /// Returns whether the Nodes are to be read.
    pub fn nodes_due(&self, at: Instant) -> bool {
        self.nodes_due <= Some(at)
    }

    /// Begins all other looks that are due. What each comes to is handed to [`Self::take`].
    pub fn begin(&mut self, at: Instant) -> Vec<Look> {
        let ready = self.ready_due.begin(at).map(|()| Look::Ready);
        let providers = self.providers.iter_mut().enumerate();
        let providers = providers.filter_map(|(place, it)| {
            it.due.begin(at)?;
            Some(Look::Provider(place, it.settings.clone()))
        });
        ready.into_iter().chain(providers).collect()
    }

    /// Returns what is reported of the cluster.
    pub fn view(&self) -> View {
        View {
            state: self.state,
            message: self.message(),
            nodes: self.nodes.clone(),
            providers: self.providers.iter().map(Provider::status).collect(),
        }
    }

    fn message(&self) -> String {
        if let Some(lost) = &self.lost {
            let tries = match (self.state, self.settings.backoff_limit) {
                (ClusterState::Offline, _) => "no retries are left".to_owned(),
                (_, ..0) => "it is tried again without end".to_owned(),
                (_, limit) => format!("{} of {limit} retries have failed", lost.retries),
            };
            return format!("it is not reached: {}; {tries}", lost.why);
        }
        let mut parts = match self.state {
            ClusterState::Pending => vec![UNSEEN.to_owned()],
            ClusterState::Connecting => vec![BACK.to_owned()],
            _ => self.amiss(),
        };
        if parts.is_empty() {
            parts.push("it answers, and all its nodes are well".to_owned());
        }
        if let Some(why) = &self.unread {
            parts.push(format!("its nodes could not be read: {why}"));
        }
        if let Some(Err(why)) = &self.ready {
            parts.push(format!(
                "whether its API server is ready is not known: {why}"
            ));
        }
        parts.join("; ")
    }

    /// All that is amiss, from the worst.
    fn amiss(&self) -> Vec<String> {
        let mut amiss = Vec::new();
        if let Some(Ok(Readiness::NotReady(failed))) = &self.ready {
            let failed = failed.join(", ");
            amiss.push(format!(
                "its API server says that it is not ready: {failed} failed"
            ));
        }
        if let Some((expired, all)) = self.silent {
            amiss.push(format!(
                "its kubelets are silent: {expired} of {all} node leases that count are expired"
            ));
        }
        amiss.extend(self.nodes.iter().flat_map(NodeCounts::troubles));
        amiss.extend(self.providers.iter().filter_map(Provider::failing));
        amiss
    }
}

#[cfg(test)]
mod tests;
