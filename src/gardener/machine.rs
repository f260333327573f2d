//! A slim view of `Machine` (`machine.sapcloud.io/v1alpha1`), the object behind a shoot's node.
//!
//! The machine-controller-manager keeps one in the cluster's namespace for every node that it
//! manages; the label `node` names the node.

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// The label with the name of the machine's node; it is absent until the node has joined.
const NODE_LABEL: &str = "node";

/// What is read of a Machine. `kube::core::ObjectList<Machine>` decodes a list of them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Received")]
pub struct Machine {
    /// Identity, labels and timestamps.
    pub metadata: ObjectMeta,
    /// `status.currentStatus.phase`, for instance `Running`, `Failed` or `Terminating`; `None`
    /// until the machine-controller-manager has set it.
    pub phase: Option<String>,
}

impl Machine {
    /// The name of the machine's node, once it has joined.
    pub fn node(&self) -> Option<&str> {
        let node = self.metadata.labels.as_ref()?.get(NODE_LABEL)?;
        (!node.is_empty()).then_some(node)
    }
}

impl Resource for Machine {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Machine".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "machine.sapcloud.io".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "machines".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[derive(Deserialize)]
struct Received {
    #[serde(deserialize_with = "super::meta::slim")]
    metadata: ObjectMeta,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    current_status: Option<CurrentStatus>,
}

#[derive(Deserialize)]
struct CurrentStatus {
    phase: Option<String>,
}

impl From<Received> for Machine {
    fn from(received: Received) -> Self {
        let phase = received
            .status
            .and_then(|status| status.current_status)
            .and_then(|current| current.phase)
            .filter(|phase| !phase.is_empty());
        Self {
            metadata: received.metadata,
            phase,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;
    use rstest::rstest;
    use serde_json::{Value, json};

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
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m1", "namespace": "shoot--a--b", "labels": labels},
            "spec": {"class": {"kind": "MachineClass", "name": "c"}},
            "status": status,
        }))
        .unwrap();
        assert_eq!((machine.node(), machine.phase.as_deref()), (node, phase));
    }

    #[test]
    fn a_list_keeps_only_what_is_read() {
        let list: ObjectList<Machine> = serde_json::from_value(json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "MachineList",
            "metadata": {"resourceVersion": "42"},
            "items": [
                {"metadata": {
                    "name": "m1",
                    "labels": {"node": "n1"},
                    "annotations": {"a": "b"},
                    "managedFields": [{"manager": "mcm", "operation": "Update"}],
                }},
                {"metadata": {"name": "m2", "labels": {"node": "n2"}}},
            ],
        }))
        .unwrap();
        assert_eq!(list.metadata.resource_version.as_deref(), Some("42"));
        let nodes: Vec<_> = list.items.iter().filter_map(Machine::node).collect();
        assert_eq!(nodes, ["n1", "n2"]);
        assert_eq!(list.items[0].metadata.managed_fields, None);
        assert_eq!(list.items[0].metadata.annotations, None);
    }

    #[test]
    fn the_path_is_that_of_the_namespaced_resource() {
        assert_eq!(
            Machine::url_path(&(), Some("shoot--a--b")),
            "/apis/machine.sapcloud.io/v1alpha1/namespaces/shoot--a--b/machines"
        );
    }
}
