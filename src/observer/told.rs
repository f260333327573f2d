//! Events about the state of a cluster: one when it gets into trouble, and one when the trouble is over.

use crate::{
    api::{ClusterHealthStatus, ClusterState, OUTAGE, Protection},
    status::events::{
        Event, Kind,
        kinds::{FAILING_METRICS, NOT_READY, OFFLINE, ONLINE, UNHEALTHY},
    },
};

/// State of a cluster that was reported last.
#[derive(Debug, Default)]
pub(crate) struct ToldState(Option<&'static Kind>);

/// Event of a state in which a cluster is in trouble. `DEGRADED` has none here: if it lasts, the event about failing
/// probes tells it.
fn trouble(state: ClusterState) -> Option<&'static Kind> {
    match state {
        ClusterState::Offline => Some(&OFFLINE),
        ClusterState::NotReady => Some(&NOT_READY),
        ClusterState::Unhealthy => Some(&UNHEALTHY),
        ClusterState::FailingMetrics => Some(&FAILING_METRICS),
        ClusterState::Pending
        | ClusterState::Connecting
        | ClusterState::Online
        | ClusterState::Degraded => None,
    }
}

/// An outage is told as such, and that the cluster is protected from it.
fn is_told_otherwise(status: &ClusterHealthStatus) -> bool {
    let outage = status.reason.as_deref() == Some(OUTAGE);
    let protected = status.protection != Protection::None;
    status.state == Some(ClusterState::NotReady) && (outage || protected)
}

impl ToldState {
    /// Goes on from what an earlier run has left.
    pub(crate) fn recorded(status: &ClusterHealthStatus) -> Self {
        Self(match status.state {
            Some(_) if is_told_otherwise(status) => None,
            Some(ClusterState::Connecting) => Some(&OFFLINE),
            state => state.and_then(trouble),
        })
    }

    /// Returns the event of a status that was written.
    pub(crate) fn tell(&mut self, status: &ClusterHealthStatus) -> Option<Event> {
        let before = self.0;
        let now = match status.state {
            // It is not probed: neither is known, and both begin anew.
            None => {
                self.0 = None;
                return None;
            }
            Some(ClusterState::Online) => {
                self.0 = None;
                before.map(|_| &ONLINE)
            }
            Some(_) if is_told_otherwise(status) => None,
            Some(state) => {
                let now = trouble(state).filter(|now| before != Some(*now));
                self.0 = now.or(before);
                now
            }
        };
        Some(Event::new(now?, status.state_message.as_deref()?))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use ClusterState::{
        Connecting, Degraded, FailingMetrics, NotReady, Offline, Online, Pending, Unhealthy,
    };

    fn status(state: Option<ClusterState>) -> ClusterHealthStatus {
        ClusterHealthStatus {
            state,
            state_message: state.map(|_| "why".to_owned()),
            ..ClusterHealthStatus::default()
        }
    }

    #[rstest]
    #[case::begins_well(&[Some(Pending), Some(Online), Some(Online)], &[])]
    #[case::a_failure(&[Some(Online), Some(Degraded), Some(Online)], &[])]
    #[case::an_outage(
        &[Some(Online), Some(Degraded), Some(Offline), Some(Connecting), Some(Online)],
        &[&OFFLINE, &ONLINE]
    )]
    #[case::an_outage_that_comes_back(
        &[Some(Offline), Some(Connecting), Some(Offline), Some(Connecting), Some(Online)],
        &[&OFFLINE, &ONLINE]
    )]
    #[case::begins_badly(&[Some(Pending), Some(NotReady)], &[&NOT_READY])]
    #[case::from_bad_to_worse(
        &[Some(FailingMetrics), Some(Unhealthy), Some(NotReady), Some(Unhealthy), Some(Online)],
        &[&FAILING_METRICS, &UNHEALTHY, &NOT_READY, &UNHEALTHY, &ONLINE]
    )]
    #[case::a_failure_meanwhile(
        &[Some(Unhealthy), Some(Degraded), Some(Unhealthy), Some(Degraded), Some(Online)],
        &[&UNHEALTHY, &ONLINE]
    )]
    #[case::not_probed_meanwhile(
        &[Some(NotReady), None, Some(Online), Some(NotReady)], &[&NOT_READY, &NOT_READY]
    )]
    fn what_is_told(#[case] states: &[Option<ClusterState>], #[case] expected: &[&Kind]) {
        let mut told = ToldState::default();
        let events = states.iter().filter_map(|state| told.tell(&status(*state)));
        let kinds: Vec<&Kind> = events.map(|event| event.kind).collect();
        assert_eq!(kinds, expected);
    }
}
