//! A slim view of `Machine` (`machine.sapcloud.io/v1alpha1`), the object behind a shoot's node.
//!
//! The machine-controller-manager keeps one in the cluster's namespace for every node that it
//! manages; the label `node` names the node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// The API group of Machines.
pub const MACHINES: &str = "machine.sapcloud.io";

/// A list of Machines. Any object decodes as one: `kind` tells whether it is.
#[derive(Debug, Deserialize)]
pub struct MachineList {
    /// `MachineList`, if it is one.
    #[serde(default)]
    pub kind: String,
    /// The Machines.
    pub items: Vec<Machine>,
}

/// Part of a Machine that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Received")]
pub struct Machine {
    /// The label `node`: the name of the machine's node; `None` until it has joined.
    pub node: Option<String>,
    /// `status.currentStatus.phase`, for instance `Running`, `Failed` or `Terminating`; `None`
    /// until the machine-controller-manager has set it.
    pub phase: Option<String>,
    /// Deletion has begun: `metadata.deletionTimestamp` is there.
    pub deleted: bool,
}

impl MachineList {
    /// The path of the Machines in this namespace.
    pub fn path(namespace: &str) -> String {
        format!("/apis/{MACHINES}/v1alpha1/namespaces/{namespace}/machines")
    }
}

#[derive(Deserialize)]
struct Received {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

impl From<Received> for Machine {
    fn from(Received { metadata, status }: Received) -> Self {
        let node = metadata.labels.and_then(|mut labels| labels.remove("node"));
        let phase = status.pointer("/currentStatus/phase");
        let phase = phase.and_then(Value::as_str).map(str::to_owned);
        Self {
            node: node.filter(|node| !node.is_empty()),
            phase: phase.filter(|phase| !phase.is_empty()),
            deleted: metadata.deletion_timestamp.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::running(json!({"node": "n1"}), json!({"currentStatus": {"phase": "Running"}}), Some("n1"), Some("Running"))]
    #[case::not_joined(json!({"name": "pool-a"}), json!({"currentStatus": {"phase": "Pending"}}), None, Some("Pending"))]
    #[case::empty_label_and_phase(json!({"node": ""}), json!({"currentStatus": {"phase": ""}}), None, None)]
    #[case::no_phase(json!({"node": "n1"}), json!({"currentStatus": {}}), Some("n1"), None)]
    #[case::new(json!(null), json!(null), None, None)]
    fn reads_node_and_phase(
        #[case] labels: Value,
        #[case] status: Value,
        #[case] node: Option<&str>,
        #[case] phase: Option<&str>,
    ) {
        for deleted in [None, Some("2026-11-20T11:02:33Z")] {
            let machine = json!({
                "metadata": {"name": "m1", "labels": labels, "deletionTimestamp": deleted},
                "spec": {"class": {"kind": "MachineClass", "name": "c"}},
                "status": status,
            });
            let expected = Machine {
                node: node.map(str::to_owned),
                phase: phase.map(str::to_owned),
                deleted: deleted.is_some(),
            };
            assert_eq!(
                serde_json::from_value::<Machine>(machine).unwrap(),
                expected
            );
        }
    }
}
