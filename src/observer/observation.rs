//! What is known of one cluster, and what is to be looked at when.
//!
//! Whether a cluster is reached, its probes tell. The rest is looked at in the pauses between them:
//! its Nodes, which are large, as seldom as its policy says while all is well; whether its API server
//! is ready once a minute; its providers of metrics by their own periods.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::{
    provider::{Answer, Provider},
    state::{Known, Machine, Ready, Sight, Transition},
    view::{NodeCounts, View},
};
use crate::api::{
    CheckStatus, ClusterHealthStatus, ClusterState, OUTAGE, ObserverSettings, Protection,
};

/// What may change at any time and costs little is looked at this often; so are Nodes that are not
/// well, or that could not be read.
const OFTEN: Duration = Duration::from_secs(60);
/// One that says that it is not ready is mostly just starting.
const SOON: Duration = Duration::from_secs(10);
/// That it is not ready holds for so long although it says neither any more: one that is about to fail
/// may hang first. What is older is no evidence.
const REFUSAL: Duration = Duration::from_secs(300);
/// The pause between two looks at Nodes is shortened by a random share of up to this, so that a
/// thousand clusters that were seen at once do not stay in step.
const SPREAD: f64 = 0.1;

/// What is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The Nodes.
    Nodes,
    /// Whether the API server is ready.
    Ready,
    /// The provider of metrics at this place in the settings.
    Provider(usize),
}

/// What a look has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The Nodes, or why they could not be read.
    Nodes(Result<NodeCounts, String>),
    /// What the API server says.
    Ready(Ready),
    /// What came of the provider at this place.
    Provider(usize, Answer),
}

/// The silence of the nodes, by the verdicts on their leases.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// The numbers of expired leases and of all, while that is an outage.
    now: Option<(usize, usize)>,
    /// An earlier observation may have seen the beginning of a silence, and none its end.
    before: bool,
}

impl Silence {
    /// Takes up a verdict. Returns whether it ends a silence.
    fn judged(&mut self, silent: Option<(usize, usize)>) -> bool {
        let was = std::mem::replace(&mut self.now, silent).is_some();
        silent.is_none() && (std::mem::take(&mut self.before) || was)
    }

    /// Begins a new observation.
    fn restart(&mut self) {
        self.before |= self.now.take().is_some();
    }
}

/// What is known of one cluster.
#[derive(Clone, Debug)]
pub struct Observation {
    settings: Arc<ObserverSettings>,
    machine: Machine,
    /// Whether the last probe reached it.
    reached: bool,
    /// What is known of its Nodes in this observation.
    nodes: Option<NodeCounts>,
    /// What was known of them before it, which is shown until they are seen.
    before: Option<NodeCounts>,
    unread: Option<String>,
    silence: Silence,
    api: Option<Ready>,
    /// Until when it holds that the API server is not ready.
    refused_until: Instant,
    nodes_due: Instant,
    api_due: Instant,
    providers: Vec<Provider>,
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
        let machine = match state {
            Some((status, state)) => {
                let message = status.state_message.clone().unwrap_or_default();
                Machine::recalled(&settings, state, message)
            }
            None => Machine::new(&settings),
        };
        let mut observation = Self {
            machine,
            reached: false,
            nodes: None,
            before: state.and_then(|(status, _)| NodeCounts::recalled(status)),
            unread: None,
            silence: Silence {
                now: state.and_then(|(status, _)| silent(status)),
                before: state.is_some_and(|(status, state)| {
                    state == ClusterState::NotReady || status.protection != Protection::None
                }),
            },
            api: None,
            refused_until: now,
            nodes_due: now,
            api_due: now,
            providers: Vec::new(),
            settings: settings.clone(),
        };
        let checks = recalled.map(|status| &*status.checks).unwrap_or_default();
        observation.adopt(settings, checks, now, draw);
        observation
    }

    /// Observes it anew by these settings: whatever is known by now is shown until there is something
    /// to say, and counts for nothing.
    pub fn restart(&mut self, settings: Arc<ObserverSettings>, now: Instant, draw: f64) {
        self.machine.restart(&settings);
        self.forget();
        self.silence.restart();
        let checks = self.statuses();
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
        let known = !matches!(
            self.machine.state(),
            ClusterState::Pending | ClusterState::Connecting | ClusterState::Degraded
        );
        let due = if known {
            now + OFTEN.mul_f64(draw)
        } else {
            now
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
    /// cannot be reached leaves it at what was found before. Whether it ends a silence, so that what is
    /// looked at by now is not to be taken in.
    pub fn judged(&mut self, at: Instant, silent: Option<(usize, usize)>) -> bool {
        let ends = self.silence.judged(silent);
        if ends {
            // They may have been marked meanwhile, and what is shown is of the silence until both are
            // known.
            self.machine.heard();
            self.look_anew(at);
        }
        ends
    }

    /// A probe that began then did not reach the cluster, for this reason.
    pub fn unreached(&mut self, at: Instant, why: &str) -> Option<Transition> {
        self.reached = false;
        self.machine.observe(at, Sight::Unreached(why))
    }

    /// A probe that began then reached it.
    pub fn reached(&mut self, at: Instant) -> Option<Transition> {
        self.reached = true;
        self.settle(at)
    }

    /// Takes in what a look has come to; whether there is something new to be told. `draw`, uniform in
    /// [0, 1), places the next one.
    pub fn take(&mut self, found: Found, at: Instant, now: Timestamp, draw: f64) -> bool {
        let news = match found {
            Found::Nodes(Ok(nodes)) => {
                let known = self.nodes.as_ref().or(self.before.as_ref());
                let news = known.is_none_or(|known| nodes.is_news(known));
                let pause = match nodes.well == nodes.all {
                    true => self.interval().mul_f64(1.0 - SPREAD * draw),
                    false => self.interval().min(OFTEN),
                };
                self.nodes_due = at + pause;
                self.unread = None;
                self.nodes = Some(nodes);
                news
            }
            Found::Nodes(Err(why)) => {
                self.nodes_due = at + self.interval().min(OFTEN);
                self.unread.replace(why).is_none()
            }
            Found::Ready(ready) => {
                let refused = matches!(self.api, Some(Ready::No(_))) && at < self.refused_until;
                match ready {
                    Ready::Unknown(_) if refused => {}
                    Ready::No(_) => {
                        self.refused_until = at + REFUSAL;
                        self.api = Some(ready);
                    }
                    _ => self.api = Some(ready),
                }
                let refuses = matches!(self.api, Some(Ready::No(_)));
                self.api_due = at + if refuses { SOON } else { OFTEN };
                false
            }
            Found::Provider(place, answer) => {
                let provider = self.providers.get_mut(place);
                provider.is_some_and(|provider| provider.take(answer, at, now))
            }
        };
        // What was found before a failure tells nothing against it.
        let transition = self.reached.then(|| self.settle(at)).flatten();
        transition.is_some() || news
    }

    fn settle(&mut self, at: Instant) -> Option<Transition> {
        let failing: Vec<String> = self
            .providers
            .iter()
            .filter_map(Provider::failing)
            .collect();
        let known = Known {
            api: self.api.as_ref(),
            nodes: self.nodes.as_ref(),
            silent: self.silence.now,
            unread: self.unread.as_deref(),
            failing: &failing,
        };
        let transition = self.machine.observe(at, Sight::Reached(known));
        if self.machine.state() == ClusterState::Connecting
            && let Some(_) = transition
        {
            // What was known before it was away is not what is.
            self.look_anew(at);
        }
        transition
    }

    fn look_anew(&mut self, at: Instant) {
        self.forget();
        (self.nodes_due, self.api_due) = (at, at);
    }

    /// Counts on nothing that was seen. The nodes are shown until they are seen again.
    fn forget(&mut self) {
        self.before = self.nodes.take().or(self.before.take());
        self.unread = None;
        self.api = None;
    }

    /// When the Nodes are to be read next; `None` while the cluster is not reached.
    pub fn nodes_due(&self) -> Option<Instant> {
        self.reached.then_some(self.nodes_due)
    }

    /// What else is to be looked at next, and when; nothing while the cluster is not reached.
    pub fn next(&self) -> Option<(Instant, Look)> {
        let providers = self.providers.iter().enumerate();
        let providers = providers.map(|(place, it)| (it.due, Look::Provider(place)));
        [(self.api_due, Look::Ready)]
            .into_iter()
            .chain(providers)
            .filter(|_| self.reached)
            .min_by_key(|(due, _)| *due)
    }

    /// A look begins. What it comes to is handed to [`Self::take`]; if it is lost, it is due again when it
    /// would have ended by all means.
    pub fn began(&mut self, look: Look, at: Instant) {
        match look {
            Look::Nodes => {}
            Look::Ready => self.api_due = at + OFTEN,
            Look::Provider(place) => {
                if let Some(provider) = self.providers.get_mut(place) {
                    provider.began(at);
                }
            }
        }
    }

    /// What is reported of the cluster.
    pub fn view(&self) -> View {
        View {
            state: self.machine.state(),
            message: self.machine.message().to_owned(),
            nodes: self.nodes.as_ref().or(self.before.as_ref()).cloned(),
        }
    }

    /// What is reported of its providers of metrics.
    pub fn statuses(&self) -> Vec<CheckStatus> {
        self.providers.iter().map(Provider::status).collect()
    }

    fn interval(&self) -> Duration {
        self.settings.node_interval.get()
    }
}

/// How many of how many leases an earlier run has found to be expired, if that was an outage.
fn silent(status: &ClusterHealthStatus) -> Option<(usize, usize)> {
    let outage = status.reason.as_deref() == Some(OUTAGE);
    let leases = status.leases.as_ref().filter(|_| outage)?;
    let count = |number: i32| usize::try_from(number).ok();
    Some((count(leases.expired)?, count(leases.candidates)?))
}

#[cfg(test)]
mod tests;
