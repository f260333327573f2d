//! The states of a cluster, and what leads from one to another.
//!
//! | state | seen | next |
//! |---|---|---|
//! | OFFLINE, CONNECTING | not reached | OFFLINE |
//! | any other | not reached | DEGRADED, or OFFLINE once the retries are used up |
//! | OFFLINE | reached | CONNECTING |
//! | any other | reached, and all is known | the worst of what is known |
//! | PENDING, DEGRADED | reached, and not all is known | PENDING |
//! | any other | reached, and not all is known | the same |
//!
//! All is known when the nodes were seen and the API server was asked whether it is ready, or when
//! its leases are an outage: nothing is worse. From the worst: NOTREADY, UNHEALTHY, FAILING_METRICS,
//! ONLINE.

use std::time::Duration;

use tokio::time::Instant;

use super::{nodes, view::NodeCounts};
use crate::api::{ClusterState, ObserverSettings};

/// The pause before a retry does not grow beyond this.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

/// Ends of a message, for what could not be found out.
const NODES_UNREAD: &str = "; its nodes could not be read: ";
const API_UNKNOWN: &str = "; whether its API server is ready is not known: ";

const UNPROBED: &str = "it has not been probed yet";
const UNSEEN: &str =
    "it answers; its nodes, or whether its API server is ready, have not been seen yet";
const BACK: &str = "it was OFFLINE and answers again; its nodes and whether its API server is ready \
                    are looked at anew";
const HEARD: &str = "its kubelets were silent and are heard again; its nodes and whether its API \
                     server is ready are looked at anew";

/// Whether this message is of a state that stands only since its nodes have not been seen after a silence.
pub fn is_left_of_silence(message: &str) -> bool {
    message.starts_with(HEARD)
}

/// All states, in the order of the table in the documentation.
pub const STATES: [ClusterState; 8] = [
    ClusterState::Pending,
    ClusterState::Connecting,
    ClusterState::Online,
    ClusterState::Degraded,
    ClusterState::Offline,
    ClusterState::Unhealthy,
    ClusterState::NotReady,
    ClusterState::FailingMetrics,
];

/// What a probe of a cluster has come to.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// It could not be reached, for this reason.
    Unreached(&'a str),
    /// It was reached, and this is known of it.
    Reached(Known<'a>),
}

/// What is known of a cluster that is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// What came of asking its API server whether it is ready. `None` until it was asked.
    pub api: Option<&'a Ready>,
    /// Its nodes. `None` until they were seen.
    pub nodes: Option<&'a NodeCounts>,
    /// How many of how many leases are expired, if that has been found to be an outage: their kubelets
    /// do not work, whatever the Nodes say that nobody updates any more.
    pub silent: Option<(usize, usize)>,
    /// Why the nodes could not be read when they were last tried, if they could not.
    pub unread: Option<&'a str>,
    /// Each provider of metrics that fails, and how.
    pub failing: &'a [String],
}

/// What came of asking an API server whether it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It says that it is.
    Yes,
    /// It says that it is not: the first of its checks that fail.
    No(Vec<String>),
    /// It says neither, for this reason, which is no evidence.
    Unknown(String),
}

/// A state that has given way to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: ClusterState,
    /// The state now.
    pub to: ClusterState,
}

/// The state of one cluster.
#[derive(Clone, Debug)]
pub struct Machine {
    limits: Limits,
    state: ClusterState,
    /// Why, without what could not be found out.
    reason: String,
    message: String,
    /// While it is not reached.
    retries: Option<Retries>,
}

/// When a cluster that is not reached is given up.
#[derive(Clone, Copy, Debug)]
struct Limits {
    delay: Duration,
    factor: u32,
    /// `None`: without end.
    most: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Retries {
    failed: u32,
    /// When the last of them began, or the first failure.
    last: Instant,
}

impl Machine {
    /// A cluster that has not been seen.
    pub fn new(settings: &ObserverSettings) -> Self {
        Self::recalled(settings, ClusterState::Pending, UNPROBED.to_owned())
    }

    /// A cluster that was last seen in this state, with this message.
    pub fn recalled(settings: &ObserverSettings, state: ClusterState, message: String) -> Self {
        let without = |text, end| str::split_once(text, end).map_or(text, |(reason, _)| reason);
        let reason = without(without(&message, NODES_UNREAD), API_UNKNOWN).to_owned();
        Self {
            limits: limits(settings),
            state,
            reason,
            message,
            retries: None,
        }
    }

    /// Observes it anew by these settings. The state stays until there is something to say.
    pub fn restart(&mut self, settings: &ObserverSettings) {
        self.limits = limits(settings);
        self.retries = None;
    }

    /// The leases are silent no more, of which nothing is known yet that could tell another state.
    pub fn heard(&mut self) {
        if self.state == ClusterState::NotReady {
            HEARD.clone_into(&mut self.reason);
        }
    }

    /// The state.
    pub fn state(&self) -> ClusterState {
        self.state
    }

    /// Why, as a sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Takes in what was seen by a probe that began then.
    pub fn observe(&mut self, at: Instant, sight: Sight<'_>) -> Option<Transition> {
        let from = self.state;
        let exhausted = match sight {
            Sight::Unreached(_) => self.failed(at),
            Sight::Reached(_) => {
                self.retries = None;
                false
            }
        };
        self.state = next(from, sight, exhausted);
        self.explain(from, sight);
        let to = self.state;
        (from != to).then_some(Transition { from, to })
    }

    /// Counts a failure; whether the retries are used up.
    fn failed(&mut self, at: Instant) -> bool {
        let Limits {
            delay,
            factor,
            most,
        } = self.limits;
        let failed = match &mut self.retries {
            None => {
                self.retries = Some(Retries {
                    failed: 0,
                    last: at,
                });
                0
            }
            Some(retries) => {
                let pause = delay.saturating_mul(factor.saturating_pow(retries.failed));
                if at.saturating_duration_since(retries.last) >= pause.min(MAX_PAUSE) {
                    retries.failed = retries.failed.saturating_add(1);
                    retries.last = at;
                }
                retries.failed
            }
        };
        most.is_some_and(|most| failed >= most)
    }

    fn explain(&mut self, from: ClusterState, sight: Sight<'_>) {
        let known = match sight {
            Sight::Unreached(why) => {
                self.reason = format!("it is not reached: {why}; {}", self.tries());
                self.message.clone_from(&self.reason);
                return;
            }
            Sight::Reached(known) => known,
        };
        match self.state {
            ClusterState::Pending => self.reason = UNSEEN.to_owned(),
            ClusterState::Connecting => self.reason = BACK.to_owned(),
            // What is known by now does not suffice for another.
            state if state == from && known.worst().is_none() => {}
            _ => self.reason = known.words(),
        }
        self.message.clone_from(&self.reason);
        if let Some(why) = known.unread {
            self.message.push_str(NODES_UNREAD);
            self.message.push_str(why);
        }
        if let Some(Ready::Unknown(why)) = known.api {
            self.message.push_str(API_UNKNOWN);
            self.message.push_str(why);
        }
    }

    /// How many times it is tried.
    fn tries(&self) -> String {
        let failed = self.retries.map_or(0, |retries| retries.failed);
        match (self.state, self.limits.most) {
            (ClusterState::Offline, Some(0)) => "no retry is asked for".to_owned(),
            (ClusterState::Offline, _) => "the retries are used up".to_owned(),
            (_, None) => "it is tried again without end".to_owned(),
            (_, Some(most)) => format!("{failed} of {most} retries have failed"),
        }
    }
}

fn limits(settings: &ObserverSettings) -> Limits {
    Limits {
        delay: settings.backoff_delay.get(),
        factor: u32::try_from(settings.backoff).unwrap_or(1),
        // -1 stands for no limit.
        most: u32::try_from(settings.backoff_limit).ok(),
    }
}

/// The state that follows; `exhausted`: the retries are used up.
fn next(state: ClusterState, sight: Sight<'_>, exhausted: bool) -> ClusterState {
    use ClusterState::{Connecting, Degraded, Offline, Pending};
    match (state, sight) {
        (Offline | Connecting, Sight::Unreached(_)) => Offline,
        (_, Sight::Unreached(_)) if exhausted => Offline,
        (_, Sight::Unreached(_)) => Degraded,
        (Offline, Sight::Reached(_)) => Connecting,
        (Pending | Degraded, Sight::Reached(known)) => known.worst().unwrap_or(Pending),
        (state, Sight::Reached(known)) => known.worst().unwrap_or(state),
    }
}

impl Known<'_> {
    /// The worst of what is known; `None` until all is on which a state depends.
    fn worst(&self) -> Option<ClusterState> {
        // Whatever else may be found, it is no worse.
        if self.silent.is_some() {
            return Some(ClusterState::NotReady);
        }
        let (api, nodes) = (self.api?, self.nodes?);
        Some(if matches!(api, Ready::No(_)) || nodes.not_ready > 0 {
            ClusterState::NotReady
        } else if nodes.well < nodes.all {
            ClusterState::Unhealthy
        } else if !self.failing.is_empty() {
            ClusterState::FailingMetrics
        } else {
            ClusterState::Online
        })
    }

    /// All that is amiss, from the worst; or that nothing is.
    fn words(&self) -> String {
        let mut amiss = Vec::new();
        if let Some(Ready::No(failed)) = self.api {
            amiss.push(format!(
                "its API server says that it is not ready: {} failed",
                failed.join(", ")
            ));
        }
        if let Some((expired, all)) = self.silent {
            amiss.push(format!(
                "its kubelets are silent: {expired} of {all} node leases that count are expired"
            ));
        }
        amiss.extend(self.nodes.into_iter().flat_map(nodes::troubles));
        amiss.extend(
            self.failing
                .iter()
                .map(|provider| format!("its provider of metrics {provider}")),
        );
        match (amiss.is_empty(), self.nodes.map_or(0, |nodes| nodes.all)) {
            (false, _) => amiss.join("; "),
            (true, 0) => "it answers, and has no nodes".to_owned(),
            (true, 1) => "it answers, and its node is well".to_owned(),
            (true, all) => format!("it answers, and its {all} nodes are well"),
        }
    }
}

#[cfg(test)]
mod tests;
