//! Statuses that are written, and the finalizer of policies: what is new in one, and how much it matters.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use super::{
    conditions::{self, said},
    events::{Rule, rules},
};
use crate::api::{ClusterHealthStatus, ProbePolicyStatus, Protection, WeedPolicyStatus};

/// Kind of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The finalizer of a ProbePolicy.
    Finalizer,
    ClusterHealth,
    ProbePolicy,
    WeedPolicy,
}

/// A status, or whether a policy carries the finalizer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Status {
    Finalizer(bool),
    Cluster(Box<ClusterHealthStatus>),
    Probe(Box<ProbePolicyStatus>),
    Weed(Box<WeedPolicyStatus>),
}

/// Weight of what is new in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Something was done or is owed: written immediately.
    Deed,
    /// Something was observed, which may come and go: written within an allowance.
    Words,
}

impl Kind {
    /// Returns the kind of the object that is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClusterHealth => "ClusterHealth",
            Self::Finalizer | Self::ProbePolicy => "ProbePolicy",
            Self::WeedPolicy => "WeedPolicy",
        }
    }
}

impl Status {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Finalizer(_) => Kind::Finalizer,
            Self::Cluster(_) => Kind::ClusterHealth,
            Self::Probe(_) => Kind::ProbePolicy,
            Self::Weed(_) => Kind::WeedPolicy,
        }
    }

    /// Returns the weight of what is new in it; `None` if nothing is.
    pub(super) fn weigh(&self, there: Option<&Self>) -> Option<Weight> {
        match (self, there) {
            (Self::Cluster(_) | Self::Finalizer(_), None) => Some(Weight::Deed),
            (Self::Cluster(wanted), Some(Self::Cluster(there))) => {
                let words = || (words(wanted) != words(there)).then_some(Weight::Words);
                (deeds(wanted) != deeds(there))
                    .then_some(Weight::Deed)
                    .or_else(words)
            }
            (_, Some(there)) if self == there => None,
            (Self::Finalizer(_), _) => Some(Weight::Deed),
            _ => Some(Weight::Words),
        }
    }

    /// Gives what differs from the status before the time of the change.
    pub(super) fn date(&mut self, before: Option<&Self>, now: Timestamp) {
        if let Self::Cluster(status) = self {
            let none = ClusterHealthStatus::default();
            let before = match before {
                Some(Self::Cluster(before)) => before,
                _ => &none,
            };
            status.last_transition_time = match before.protection == status.protection {
                true => before.last_transition_time.clone(),
                false => Some(Time(now)),
            };
            let same_state = before.state == status.state;
            let since = before.last_state_transition_time.clone();
            let since = since.filter(|_| same_state).unwrap_or(Time(now));
            status.last_state_transition_time = status.state.map(|_| since);
        }
        let before = before.map(Self::conditions).unwrap_or_default();
        let conditions = match self {
            Self::Finalizer(_) => &mut vec![],
            Self::Cluster(status) => &mut status.conditions,
            Self::Probe(status) => &mut status.conditions,
            Self::Weed(status) => &mut status.conditions,
        };
        conditions::date(conditions, before, now);
    }

    fn conditions(&self) -> &[Condition] {
        match self {
            Self::Finalizer(_) => &[],
            Self::Cluster(status) => &status.conditions,
            Self::Probe(status) => &status.conditions,
            Self::Weed(status) => &status.conditions,
        }
    }

    /// The conditions whose changes are events.
    pub(super) fn rules(&self) -> &'static [Rule] {
        match self {
            Self::Finalizer(_) => &[],
            Self::Cluster(_) => rules::CLUSTER,
            Self::Probe(_) => rules::PROBE,
            Self::Weed(_) => rules::WEED,
        }
    }

    /// The reason and the message of a condition, or of the state of a cluster.
    pub(super) fn said(&self, condition: &str) -> Option<(&str, &str)> {
        match self {
            Self::Cluster(status) if condition == rules::STATE => {
                Some((status.state?.name(), status.state_message.as_deref()?))
            }
            _ => said(self.conditions(), condition),
        }
    }
}

/// Returns what is done for a cluster and owed to it, and what decides that.
fn deeds(status: &ClusterHealthStatus) -> impl PartialEq + '_ {
    (
        (&status.policy, &status.skipped, &status.dependents),
        (status.protection, &status.protected_since),
        (&status.max_protection_reached, &status.last_action),
        &status.node_monitor_grace_period,
    )
}

/// Returns a status without what changes from probe to probe: times, counts of leases, the output of checks, and,
/// unless the cluster is protected, numbers in sentences, which may be ages, ports or counters.
fn words(status: &ClusterHealthStatus) -> ClusterHealthStatus {
    let mut words = ClusterHealthStatus {
        leases: None,
        silent_since: None,
        last_probe_time: None,
        last_transition_time: None,
        last_state_transition_time: None,
        ..status.clone()
    };
    for check in &mut words.checks {
        (check.since, check.message) = (None, None);
    }
    let texts = [&mut words.message, &mut words.state_message];
    let texts = texts.into_iter().flatten();
    let conditions = words.conditions.iter_mut().map(|condition| {
        condition.last_transition_time = Time(Timestamp::UNIX_EPOCH);
        &mut condition.message
    });
    for text in texts.chain(conditions) {
        text.retain(|sign| status.protection != Protection::None || !sign.is_ascii_digit());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{
            Action, CheckResult, CheckRole, CheckStatus, CheckType, ClusterState, Duration,
            LastAction, LeaseCounts,
        },
        report::conditions::condition,
    };
    use Weight::{Deed, Words};

    fn status() -> ClusterHealthStatus {
        ClusterHealthStatus {
            state: Some(ClusterState::Online),
            state_message: Some("3 nodes".to_owned()),
            nodes: Some("3/3".to_owned()),
            nodes_pid_pressure: Some("0/3".to_owned()),
            leases: Some(LeaseCounts::default()),
            reason: Some("Healthy".to_owned()),
            message: Some("none of 3".to_owned()),
            checks: vec![CheckStatus {
                name: "a".to_owned(),
                role: Some(CheckRole::Gate),
                r#type: CheckType::Exec,
                result: CheckResult::Passing,
                since: None,
                message: None,
            }],
            conditions: vec![condition("Ready", true, "Healthy", "none of 3")],
            ..ClusterHealthStatus::default()
        }
    }

    fn time() -> Option<Time> {
        Some(Time(Timestamp::from_second(7).unwrap()))
    }

    #[test]
    fn what_is_new() {
        type Change = fn(&mut ClusterHealthStatus);
        let cases: [(&str, Change, Option<Weight>); 22] = [
            ("nothing", |_| (), None),
            (
                "counts of leases",
                |it| {
                    it.leases = Some(LeaseCounts {
                        candidates: 9,
                        ..LeaseCounts::default()
                    })
                },
                None,
            ),
            (
                "counts of nodes",
                |it| it.nodes = Some("2/4".to_owned()),
                Some(Words),
            ),
            ("a probe", |it| it.last_probe_time = time(), None),
            ("the onset", |it| it.silent_since = time(), None),
            (
                "numbers",
                |it| it.message = Some("none of 12".to_owned()),
                None,
            ),
            (
                "numbers of a condition",
                |it| it.conditions[0].message = "none of 12".to_owned(),
                None,
            ),
            (
                "the output of a check",
                |it| it.checks[0].message = Some("exit code 1".to_owned()),
                None,
            ),
            ("nodes are not known", |it| it.nodes = None, Some(Words)),
            (
                "a state",
                |it| it.state = Some(ClusterState::NotReady),
                Some(Words),
            ),
            (
                "why",
                |it| it.state_message = Some("4 pods".to_owned()),
                Some(Words),
            ),
            (
                "a check",
                |it| it.checks[0].result = CheckResult::Failing,
                Some(Words),
            ),
            (
                "a finding",
                |it| it.reason = Some("Outage".to_owned()),
                Some(Words),
            ),
            (
                "a condition",
                |it| it.conditions[0] = condition("Ready", false, "Healthy", "none of 3"),
                Some(Words),
            ),
            (
                "another message",
                |it| it.message = Some("all of 3".to_owned()),
                Some(Words),
            ),
            (
                "protected",
                |it| it.protection = Protection::Active,
                Some(Deed),
            ),
            ("since when", |it| it.protected_since = time(), Some(Deed)),
            ("cut", |it| it.max_protection_reached = time(), Some(Deed)),
            (
                "a policy",
                |it| it.policy = Some("p".to_owned()),
                Some(Deed),
            ),
            (
                "skipped",
                |it| it.skipped = Some("Hibernated".to_owned()),
                Some(Deed),
            ),
            (
                "the grace",
                |it| it.node_monitor_grace_period = Some(Duration::from_secs(40)),
                Some(Deed),
            ),
            (
                "an act",
                |it| {
                    it.last_action = Some(LastAction {
                        time: time().unwrap(),
                        action: Action::Restored,
                        message: String::new(),
                    })
                },
                Some(Deed),
            ),
        ];
        for (case, change, expected) in cases {
            let there = status();
            let mut wanted = status();
            change(&mut wanted);
            let [there, wanted] = [there, wanted].map(|it| Status::Cluster(Box::new(it)));
            assert_eq!(wanted.weigh(Some(&there)), expected, "{case}");
        }
    }
}
