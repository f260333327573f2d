//! A row per cluster, and their order.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::core::DeserializeGuard;
use serde::Serialize;

use crate::{
    api::{ClusterHealth, ClusterHealthStatus, ClusterState, LeaseCounts, Protection, is_outage},
    explain::is_stale,
    prober::report::HEALTHY,
    status::conditions::{DEGRADED, PROTECTED_TOO_LONG},
};

/// The condition of a cluster in one word. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum Standing {
    /// Its dependents are scaled down, are being scaled down, or are not all back
    Protected,
    /// It is in an outage, and nothing is scaled down: by the policy's mode, or not yet
    Outage,
    /// The evidence does not suffice for a verdict, or the record is out of date
    Undetermined,
    /// Its nodes renew their leases, and something is wrong: the condition Degraded, or its state
    Degraded,
    /// It is selected, and has not been probed yet
    Pending,
    /// Its nodes renew their leases, and nothing is wrong
    Healthy,
    /// It is not to be probed
    Skipped,
}

impl Standing {
    /// All, the worst first.
    pub const ALL: [Self; 7] = [
        Self::Protected,
        Self::Outage,
        Self::Undetermined,
        Self::Degraded,
        Self::Pending,
        Self::Healthy,
        Self::Skipped,
    ];
}

/// What is shown of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The Cluster's name.
    pub cluster: String,
    /// Its condition in one word.
    pub standing: Standing,
    /// Whether dependents are scaled down.
    pub protection: Protection,
    /// Since when they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protected_since: Option<Time>,
    /// How many dependents are owed their replicas.
    pub owed: usize,
    /// The state that was observed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ClusterState>,
    /// Healthy nodes of all, such as 3/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// The leases at the last verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeaseCounts>,
    /// The reason in one word.
    pub reason: String,
    /// The same as a sentence.
    pub message: String,
    /// The responsible ProbePolicy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// When it was last probed; may lag by a quarter of an hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
}

/// All clusters of a seed, the worst first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// When it was listed, by the seed's clock.
    pub time: Time,
    /// The clusters.
    pub clusters: Vec<Row>,
}

impl Fleet {
    /// The rows of these records at this time.
    pub fn new(records: &[DeserializeGuard<ClusterHealth>], now: Timestamp) -> Self {
        let mut clusters: Vec<Row> = records.iter().map(|record| row(record, now)).collect();
        // Of those protected, the one that has waited longest comes first.
        let key = |row: &Row| {
            let since = row.protected_since.as_ref().map(|since| since.0);
            (
                row.standing,
                since.unwrap_or(Timestamp::MAX),
                row.cluster.clone(),
            )
        };
        clusters.sort_by_cached_key(key);
        Self {
            time: Time(now),
            clusters,
        }
    }

    /// Keeps the clusters of this policy, and those in one of these conditions; no condition keeps all.
    pub fn retain(&mut self, policy: Option<&str>, standings: &[Standing]) {
        self.clusters.retain(|row| {
            let of_policy = policy.is_none_or(|policy| row.policy.as_deref() == Some(policy));
            of_policy && (standings.is_empty() || standings.contains(&row.standing))
        });
    }
}

fn row(record: &DeserializeGuard<ClusterHealth>, now: Timestamp) -> Row {
    match &record.0 {
        Ok(health) => {
            let name = health.metadata.name.clone().unwrap_or_default();
            let status = health.status.clone().unwrap_or_default();
            of_status(name, status, now)
        }
        // A newer operator may have written it.
        Err(invalid) => Row {
            standing: Standing::Undetermined,
            reason: "RecordUnreadable".to_owned(),
            message: format!(
                "the ClusterHealth cannot be decoded: {}; use the binary of the operator's version",
                invalid.error
            ),
            ..of_status(
                invalid.metadata.name.clone().unwrap_or_default(),
                ClusterHealthStatus::default(),
                now,
            )
        },
    }
}

fn of_status(cluster: String, status: ClusterHealthStatus, now: Timestamp) -> Row {
    let trouble = [PROTECTED_TOO_LONG, DEGRADED].iter().find_map(|kind| {
        let mut conditions = status.conditions.iter();
        conditions.find(|it| it.type_ == *kind && it.status == "True")
    });
    let stale = is_stale(&status, now);
    let standing = standing(&status, stale, trouble.is_some());
    let mut reason = status.reason.unwrap_or_default();
    let mut message = status.message.unwrap_or_default();
    match standing {
        Standing::Pending if reason.is_empty() => "Pending".clone_into(&mut reason),
        // The state says it otherwise.
        Standing::Degraded => {
            if let Some(trouble) = trouble {
                reason.clone_from(&trouble.reason);
                message.clone_from(&trouble.message);
            } else if let Some(text) = status.state_message {
                message = text;
            }
        }
        _ => {}
    }
    if stale {
        "RecordOutdated".clone_into(&mut reason);
        message = format!(
            "the record should have been refreshed by now: see whether a prober leads; it said: {message}"
        );
    }
    Row {
        cluster,
        standing,
        protection: status.protection,
        protected_since: status.protected_since,
        owed: status.dependents.iter().filter(|it| it.owed).count(),
        state: status.state,
        nodes: status.nodes,
        leases: status.leases,
        reason,
        message,
        policy: status.policy,
        last_probe_time: status.last_probe_time,
    }
}

fn standing(status: &ClusterHealthStatus, stale: bool, trouble: bool) -> Standing {
    let owed = status.dependents.iter().any(|it| it.owed);
    let unwell = status
        .state
        .is_some_and(|it| !matches!(it, ClusterState::Online | ClusterState::Pending));
    match status.reason.as_deref() {
        _ if status.protection != Protection::None || owed => Standing::Protected,
        // What was seen so long ago says nothing of now.
        _ if stale => Standing::Undetermined,
        Some(reason) if is_outage(reason) => Standing::Outage,
        // A Shoot that cannot be read, say: it may have to be probed.
        _ if status.is_skipped() && trouble => Standing::Undetermined,
        _ if status.is_skipped() => Standing::Skipped,
        None | Some("Pending") => Standing::Pending,
        Some(HEALTHY) if trouble || unwell => Standing::Degraded,
        Some(HEALTHY) => Standing::Healthy,
        Some(_) => Standing::Undetermined,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-20T12:00:00Z";

    fn fleet(statuses: &[(&str, Value)]) -> Fleet {
        let records: Vec<_> = statuses
            .iter()
            .map(|(name, status)| {
                let record = json!({
                    "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
                    "kind": "ClusterHealth", "metadata": {"name": name}, "spec": {},
                    "status": status,
                });
                serde_json::from_value(record).unwrap()
            })
            .collect();
        Fleet::new(&records, NOW.parse().unwrap())
    }

    fn condition(kind: &str, reason: &str) -> Value {
        json!([{
            "type": kind, "status": "True", "reason": reason, "message": "why",
            "lastTransitionTime": NOW,
        }])
    }

    #[rstest]
    #[case::healthy(json!({"reason": "Healthy", "state": "ONLINE"}), Standing::Healthy, "Healthy")]
    #[case::no_state_yet(json!({"reason": "Healthy"}), Standing::Healthy, "Healthy")]
    #[case::state_pending(json!({"reason": "Healthy", "state": "PENDING"}), Standing::Healthy, "Healthy")]
    #[case::pressure(json!({"reason": "Healthy", "state": "UNHEALTHY"}), Standing::Degraded, "Healthy")]
    #[case::degraded(
        json!({"reason": "Healthy", "conditions": condition("Degraded", "DependentMissing")}),
        Standing::Degraded, "DependentMissing"
    )]
    #[case::suspect(json!({"reason": "Suspect"}), Standing::Undetermined, "Suspect")]
    #[case::unread(json!({"reason": "Timeout"}), Standing::Undetermined, "Timeout")]
    #[case::outage(json!({"reason": "Outage"}), Standing::Outage, "Outage")]
    #[case::trigger(json!({"reason": "TriggerFailed"}), Standing::Outage, "TriggerFailed")]
    #[case::protected(json!({"reason": "Outage", "protection": "Active"}), Standing::Protected, "Outage")]
    #[case::going(json!({"reason": "Outage", "protection": "ScalingDown"}), Standing::Protected, "Outage")]
    #[case::restoring(json!({"reason": "Healthy", "protection": "Restoring"}), Standing::Protected, "Healthy")]
    #[case::protected_and_skipped(
        json!({"reason": "Hibernated", "skipped": "Hibernated", "protection": "Active"}),
        Standing::Protected, "Hibernated"
    )]
    #[case::skipped(json!({"reason": "Hibernated", "skipped": "Hibernated"}), Standing::Skipped, "Hibernated")]
    #[case::unreadable(
        json!({"reason": "Unreadable", "skipped": "Unreadable", "conditions": condition("Degraded", "Unreadable")}),
        Standing::Undetermined, "Unreadable"
    )]
    #[case::let_go(json!({"reason": "Timeout", "skipped": "NoWorkers"}), Standing::Undetermined, "Timeout")]
    #[case::let_go_and_outdated(
        json!({"reason": "Healthy", "skipped": "NoWorkers", "lastProbeTime": "2026-11-20T11:40:00Z"}),
        Standing::Undetermined, "RecordOutdated"
    )]
    #[case::pending(json!({"reason": "Pending"}), Standing::Pending, "Pending")]
    #[case::nothing_written(json!(null), Standing::Pending, "Pending")]
    #[case::refreshed(
        json!({"reason": "Healthy", "lastProbeTime": "2026-11-20T11:45:00Z"}), Standing::Healthy, "Healthy"
    )]
    #[case::outdated(
        json!({"reason": "Healthy", "lastProbeTime": "2026-11-20T11:40:00Z"}),
        Standing::Undetermined, "RecordOutdated"
    )]
    #[case::outdated_and_protected(
        json!({"reason": "Outage", "protection": "Active", "lastProbeTime": "2026-11-20T11:40:00Z"}),
        Standing::Protected, "RecordOutdated"
    )]
    #[case::newer(json!({"reason": "Healthy", "state": "SERENE"}), Standing::Undetermined, "RecordUnreadable")]
    fn a_record_has_a_standing(
        #[case] status: Value,
        #[case] standing: Standing,
        #[case] reason: &str,
    ) {
        let fleet = fleet(&[("a", status)]);
        let row = &fleet.clusters[0];
        assert_eq!(
            (&*row.cluster, row.standing, &*row.reason),
            ("a", standing, reason)
        );
    }

    #[test]
    fn a_debt_is_a_protection_whatever_else_is_said() {
        let dependent = |owed: bool| {
            json!({
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                "owed": owed, "level": 0, "initialDelay": "0s", "timeout": "30s",
            })
        };
        let status =
            json!({"reason": "Healthy", "dependents": [dependent(true), dependent(false)]});
        let fleet = fleet(&[("a", status)]);
        let row = &fleet.clusters[0];
        assert_eq!((row.standing, row.owed), (Standing::Protected, 1));
    }

    #[test]
    fn the_worst_comes_first() {
        let protected = |since: &str| json!({"protection": "Active", "reason": "Outage", "protectedSince": since});
        let skipped = json!({"reason": "Hibernated", "skipped": "Hibernated"});
        let listed = fleet(&[
            ("skipped", skipped),
            ("healthy-b", json!({"reason": "Healthy"})),
            ("healthy-a", json!({"reason": "Healthy"})),
            ("pending", json!({"reason": "Pending"})),
            (
                "degraded",
                json!({"reason": "Healthy", "state": "NOTREADY"}),
            ),
            ("undetermined", json!({"reason": "Timeout"})),
            ("outage", json!({"reason": "Outage"})),
            ("protected-late", protected("2026-11-20T11:59:00Z")),
            ("protected-long", protected("2026-11-20T11:00:00Z")),
        ]);
        let names: Vec<&str> = listed.clusters.iter().map(|row| &*row.cluster).collect();
        assert_eq!(
            names,
            [
                "protected-long",
                "protected-late",
                "outage",
                "undetermined",
                "degraded",
                "pending",
                "healthy-a",
                "healthy-b",
                "skipped",
            ]
        );
        let mut standings: Vec<Standing> = listed.clusters.iter().map(|row| row.standing).collect();
        standings.dedup();
        assert_eq!(standings, Standing::ALL);
    }

    #[rstest]
    #[case::all(None, &[], "a b c")]
    #[case::of_a_policy(Some("shoots"), &[], "b c")]
    #[case::of_none(Some("shoot"), &[], "")]
    #[case::standing(None, &[Standing::Healthy, Standing::Outage], "a c")]
    #[case::both(Some("shoots"), &[Standing::Healthy], "c")]
    fn clusters_are_filtered(
        #[case] policy: Option<&str>,
        #[case] standings: &[Standing],
        #[case] expected: &str,
    ) {
        let mut fleet = fleet(&[
            ("a", json!({"reason": "Outage"})),
            ("b", json!({"reason": "Timeout", "policy": "shoots"})),
            ("c", json!({"reason": "Healthy", "policy": "shoots"})),
        ]);
        fleet.retain(policy, standings);
        let names: Vec<&str> = fleet.clusters.iter().map(|row| &*row.cluster).collect();
        assert_eq!(names.join(" "), expected);
    }
}
