//! The states of a cluster, what leads from one to another, and what is to be looked at when.
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

mod known;

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use self::known::Known;
use super::{NodeCounts, provider::Provider};
use crate::{
    api::{
        CheckStatus, ClusterHealthStatus, ClusterState, MetricsProvider, OUTAGE, ObserverSettings,
        Protection,
    },
    checks::Outcome,
    shoot::Readiness,
};

/// Pause between two looks at what may change at any time and costs little, and at Nodes that are not well, or that
/// could not be read.
const OFTEN: Duration = Duration::from_secs(60);
/// Pause between two looks at an API server that says that it is not ready: it is mostly just starting.
const SOON: Duration = Duration::from_secs(10);
/// The pause between two looks at Nodes is shortened by a random share of up to this, so that a
/// thousand clusters that were seen at once do not stay in step.
const SPREAD: f64 = 0.1;
/// The pause before a retry does not grow beyond this.
const MAX_PAUSE: Duration = Duration::from_secs(3600);

const UNPROBED: &str = "it has not been probed yet";
const UNSEEN: &str =
    "it answers; its nodes, or whether its API server is ready, have not been seen yet";
const BACK: &str = "it was OFFLINE and answers again; its nodes and whether its API server is ready \
                    are looked at anew";

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
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct Observation {
    settings: Arc<ObserverSettings>,
    state: ClusterState,
    message: String,
    /// While it is not reached.
    retries: Option<Retries>,
    /// The last probe reached it.
    is_reached: bool,
    known: Known,
    /// An earlier observation may have seen the beginning of a silence, and none its end.
    silent_before: bool,
    nodes_due: Instant,
    api_due: Instant,
    providers: Vec<Provider>,
}

#[derive(Clone, Copy, Debug)]
struct Retries {
    failed: i32,
    /// When the last of them began, or the first failure.
    last: Instant,
}

impl Observation {
    /// Observes a cluster from now on; `recalled` is what an earlier run has left in its
    /// ClusterHealth. `draw`, uniform in [0, 1), spreads the first looks at what is known.
    pub fn new(
        settings: Arc<ObserverSettings>,
        recalled: Option<&ClusterHealthStatus>,
        now: Instant,
        draw: f64,
    ) -> Self {
        let state = recalled.and_then(|status| Some((status, status.state?)));
        let mut observation = Self {
            state: state.map_or(ClusterState::Pending, |(_, state)| state),
            message: match state {
                Some((status, _)) => status.state_message.clone().unwrap_or_default(),
                None => UNPROBED.to_owned(),
            },
            retries: None,
            is_reached: false,
            known: Known {
                silent: state.and_then(|(status, _)| silent(status)),
                ..Known::default()
            },
            silent_before: state.is_some_and(|(status, state)| {
                state == ClusterState::NotReady || status.protection != Protection::None
            }),
            nodes_due: now,
            api_due: now,
            providers: Vec::new(),
            settings: settings.clone(),
        };
        let checks = recalled.map(|status| &*status.checks).unwrap_or_default();
        observation.adopt(settings, checks, now, draw);
        observation
    }

    /// Observes it anew by these settings: the state stays until there is something to say, and what is known counts
    /// for nothing.
    pub fn restart(&mut self, settings: Arc<ObserverSettings>, now: Instant, draw: f64) {
        self.retries = None;
        self.silent_before |= self.known.silent.is_some();
        self.known = Known::default();
        let checks = self.view().providers;
        self.adopt(settings, &checks, now, draw);
    }

    fn adopt(
        &mut self,
        settings: Arc<ObserverSettings>,
        checks: &[CheckStatus],
        now: Instant,
        draw: f64,
    ) {
        // A policy may apply to a thousand clusters, of which all is known already.
        let due = match self.state {
            ClusterState::Pending | ClusterState::Connecting | ClusterState::Degraded => now,
            _ => now + OFTEN.mul_f64(draw),
        };
        (self.nodes_due, self.api_due) = (due, due);
        let providers = settings.metrics_providers.iter().map(|provider| {
            let before = |it: &&CheckStatus| it.role.is_none() && it.name == provider.name;
            Provider::new(provider.clone(), checks.iter().find(before), due)
        });
        self.providers = providers.collect();
        self.settings = settings;
    }

    /// A verdict on the leases: how many of how many are expired, if that is an outage. One that
    /// cannot be reached leaves it at what was found before.
    pub fn judged(&mut self, at: Instant, silent: Option<(usize, usize)>) {
        let was_silent = self.silent_before || self.known.silent.is_some();
        self.known.silent = silent;
        if silent.is_none() && was_silent {
            self.silent_before = false;
            // They may have been marked meanwhile, and what is known is of the silence.
            if self.state == ClusterState::NotReady {
                (self.state, self.message) = (ClusterState::Pending, UNSEEN.to_owned());
            }
            self.look_anew(at);
        }
    }

    /// A probe that began then did not reach the cluster, for this reason.
    pub fn unreached(&mut self, at: Instant, why: &str) {
        self.is_reached = false;
        let failed = self.failed(at);
        let limit = self.settings.backoff_limit;
        // -1 stands for no limit.
        let exhausted = limit >= 0 && failed >= limit;
        self.state = match self.state {
            ClusterState::Offline | ClusterState::Connecting => ClusterState::Offline,
            _ if exhausted => ClusterState::Offline,
            _ => ClusterState::Degraded,
        };
        let tries = match (self.state, limit) {
            (ClusterState::Offline, 0) => "no retry is asked for".to_owned(),
            (ClusterState::Offline, _) => "the retries are used up".to_owned(),
            (_, ..0) => "it is tried again without end".to_owned(),
            (_, most) => format!("{failed} of {most} retries have failed"),
        };
        self.message = format!("it is not reached: {why}; {tries}");
    }

    /// A probe that began then reached it.
    pub fn reached(&mut self, at: Instant) {
        self.is_reached = true;
        self.retries = None;
        let before = self.state;
        self.settle();
        if before == ClusterState::Offline {
            self.look_anew(at);
        }
    }

    /// Counts a failure, and returns how many retries have failed.
    fn failed(&mut self, at: Instant) -> i32 {
        let first = Retries {
            failed: 0,
            last: at,
        };
        let Some(retries) = &mut self.retries else {
            return self.retries.insert(first).failed;
        };
        let factor = self.settings.backoff.unsigned_abs();
        let factor = factor.saturating_pow(retries.failed.unsigned_abs());
        let pause = self.settings.backoff_delay.get().saturating_mul(factor);
        if at.saturating_duration_since(retries.last) >= pause.min(MAX_PAUSE) {
            retries.failed = retries.failed.saturating_add(1);
            retries.last = at;
        }
        retries.failed
    }

    /// Takes in what a look has come to. Returns whether there is something new to be told. `draw`, uniform in
    /// [0, 1), places the next one.
    pub fn take(&mut self, found: Found, at: Instant, now: Timestamp, draw: f64) -> bool {
        let interval = self.settings.node_interval.get();
        let known = &mut self.known;
        let news = match found {
            Found::Nodes(Ok(nodes)) => {
                let pause = match nodes.well == nodes.all {
                    true => interval.mul_f64(1.0 - SPREAD * draw),
                    false => interval.min(OFTEN),
                };
                self.nodes_due = at + pause;
                known.unread = None;
                let before = known.nodes.as_ref();
                let is_news = before.is_none_or(|before| nodes.is_news(before));
                known.nodes = Some(nodes);
                is_news
            }
            Found::Nodes(Err(why)) => {
                self.nodes_due = at + interval.min(OFTEN);
                known.unread.replace(why).is_none()
            }
            Found::Ready(ready) => {
                let refuses = matches!(ready, Ok(Readiness::NotReady(_)));
                self.api_due = at + if refuses { SOON } else { OFTEN };
                known.api = Some(ready);
                false
            }
            Found::Provider(place, outcome) => {
                let provider = self.providers.get_mut(place);
                provider.is_some_and(|provider| provider.take(outcome, at, now))
            }
        };
        let before = self.state;
        // What was found before a failure tells nothing against it.
        if self.is_reached {
            self.settle();
        }
        self.state != before || news
    }

    /// Derives the state of a cluster that is reached.
    fn settle(&mut self) {
        let failing: Vec<String> = self
            .providers
            .iter()
            .filter_map(Provider::failing)
            .collect();
        let worst = self.known.worst(!failing.is_empty());
        self.state = match (self.state, worst) {
            (ClusterState::Offline, _) => ClusterState::Connecting,
            (_, Some(worst)) => worst,
            (ClusterState::Pending | ClusterState::Degraded, None) => ClusterState::Pending,
            (state, None) => state,
        };
        self.message = match self.state {
            ClusterState::Pending => UNSEEN.to_owned(),
            ClusterState::Connecting => BACK.to_owned(),
            // What is known by now does not suffice for another.
            _ if worst.is_none() => return,
            _ => self.known.words(&failing),
        };
        if let Some(why) = &self.known.unread {
            self.message += &format!("; its nodes could not be read: {why}");
        }
        if let Some(Err(why)) = &self.known.api {
            self.message += &format!("; whether its API server is ready is not known: {why}");
        }
    }

    /// Counts on nothing that was seen, and looks again immediately.
    fn look_anew(&mut self, at: Instant) {
        self.known = Known {
            silent: self.known.silent,
            ..Known::default()
        };
        (self.nodes_due, self.api_due) = (at, at);
    }

    /// Returns whether the Nodes are to be read.
    pub fn nodes_due(&self, at: Instant) -> bool {
        self.nodes_due <= at
    }

    /// Begins all other looks that are due. What each comes to is handed to [`Self::take`]; if it is lost, it is due
    /// again when it would have ended by all means.
    pub fn begin(&mut self, at: Instant) -> Vec<Look> {
        let mut looks = vec![];
        if self.api_due <= at {
            self.api_due = at + OFTEN;
            looks.push(Look::Ready);
        }
        for (place, provider) in self.providers.iter_mut().enumerate() {
            looks.extend(provider.begin(at).map(|it| Look::Provider(place, it)));
        }
        looks
    }

    /// Returns what is reported of the cluster.
    pub fn view(&self) -> View {
        let providers = self.providers.iter();
        View {
            state: self.state,
            message: self.message.clone(),
            nodes: self.known.nodes.clone(),
            providers: providers.map(|it| it.status.clone()).collect(),
        }
    }
}

/// Counts, of all leases that count, those that an earlier run has found to be expired, if that was an outage.
fn silent(status: &ClusterHealthStatus) -> Option<(usize, usize)> {
    let outage = status.reason.as_deref() == Some(OUTAGE);
    let leases = status.leases.as_ref().filter(|_| outage)?;
    let count = |number: i32| usize::try_from(number).ok();
    Some((count(leases.expired)?, count(leases.candidates)?))
}

#[cfg(test)]
mod tests;
