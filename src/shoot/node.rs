//! The slim view of the nodes of a shoot: what decides whether a silent lease counts.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::list::{self, DecodeError, Fold, Folded, Object, Text};
use super::wire;

mod protobuf;

const KIND: &str = "NodeList";

/// The labels and the annotation that are read.
const WORKER_POOL: &str = "worker.gardener.cloud/pool";
const ZONE: &str = "topology.kubernetes.io/zone";
const EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";
const NOT_MANAGED_BY_MCM: &str = "node.machine.sapcloud.io/not-managed-by-mcm";

/// So many conditions of a node are kept; with those of a problem detector it has some twenty.
const MAX_CONDITIONS: usize = 100;

/// What one Node says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name.
    pub name: Box<str>,
    /// Label `worker.gardener.cloud/pool`: the worker pool whose node conditions apply.
    pub worker_pool: Option<String>,
    /// Label `topology.kubernetes.io/zone`, for telling where the silent nodes are.
    pub zone: Option<String>,
    /// Label `node.kubernetes.io/exclude-disruption` is there, whatever its value: kube-controller-manager
    /// does not count this node when it decides whether a zone is disrupted.
    pub exclude_disruption: bool,
    /// Annotation `node.machine.sapcloud.io/not-managed-by-mcm` is there, whatever its value: the
    /// machine-controller-manager leaves this node alone.
    pub not_managed_by_mcm: bool,
    /// The types of the conditions whose status is `True`, in the server's order; the first hundred.
    pub true_conditions: Vec<String>,
    /// In an in-place update: condition `InPlaceUpdate` with reason `ReadyForUpdate` or
    /// `UpdateFailed`. The kubelet may rest meanwhile.
    pub in_place_update: bool,
}

impl Node {
    /// Whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.true_conditions.iter().any(|it| it == "Ready")
    }

    /// Decodes the body of a list of nodes, in JSON or in protobuf.
    ///
    /// A node in JSON whose fields have other types reads as far as it is readable; one without a name
    /// is left out. A body that is no whole NodeList is an error, and so is a name that no object can
    /// have.
    pub fn decode_list(body: &[u8]) -> Result<Vec<Self>, DecodeError> {
        if wire::is_protobuf(body) {
            return Ok(wire::decode(body, KIND, protobuf::node)?.1);
        }
        let (_, items) = list::decode::<RawNode<'_>>(body, KIND)?;
        let nodes = items.into_iter().filter_map(|it| it.node().transpose());
        nodes.collect()
    }
}

#[derive(Deserialize)]
struct RawNode<'a> {
    #[serde(borrow, default)]
    metadata: Object<RawMeta<'a>>,
    #[serde(default)]
    status: Object<RawStatus>,
}

#[derive(Default, Deserialize)]
struct RawMeta<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    labels: Object<RawLabels<'a>>,
    #[serde(default)]
    annotations: Object<RawAnnotations>,
}

#[derive(Default, Deserialize)]
struct RawLabels<'a> {
    #[serde(borrow, rename = "worker.gardener.cloud/pool", default)]
    worker_pool: Text<'a>,
    #[serde(borrow, rename = "topology.kubernetes.io/zone", default)]
    zone: Text<'a>,
    #[serde(rename = "node.kubernetes.io/exclude-disruption")]
    exclude_disruption: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct RawAnnotations {
    #[serde(rename = "node.machine.sapcloud.io/not-managed-by-mcm")]
    not_managed_by_mcm: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
struct RawStatus {
    #[serde(default)]
    conditions: Folded<Conditions>,
}

#[derive(Deserialize)]
struct RawCondition<'a> {
    #[serde(borrow, default)]
    r#type: Text<'a>,
    #[serde(borrow, default)]
    status: Text<'a>,
    #[serde(borrow, default)]
    reason: Text<'a>,
}

impl RawNode<'_> {
    fn node(self) -> Result<Option<Node>, DecodeError> {
        let meta = self.metadata.0.unwrap_or_default();
        let labels = meta.labels.0.unwrap_or_default();
        let annotations = meta.annotations.0;
        let said = Said {
            name: meta.name.as_str().unwrap_or_default(),
            worker_pool: labels.worker_pool.as_str().unwrap_or_default().into(),
            zone: labels.zone.as_str().unwrap_or_default().into(),
            exclude_disruption: labels.exclude_disruption.is_some(),
            not_managed_by_mcm: annotations.is_some_and(|a| a.not_managed_by_mcm.is_some()),
            conditions: self.status.0.unwrap_or_default().conditions.0,
        };
        said.node()
    }
}

/// What a node says, in either encoding; texts are empty where it says nothing.
#[derive(Default)]
struct Said<'a> {
    name: &'a str,
    worker_pool: Cow<'a, str>,
    zone: Cow<'a, str>,
    exclude_disruption: bool,
    not_managed_by_mcm: bool,
    conditions: Conditions,
}

impl Said<'_> {
    /// The node; `None` if it has no name.
    fn node(self) -> Result<Option<Node>, DecodeError> {
        let Some(name) = list::name_of(self.name, KIND)? else {
            return Ok(None);
        };
        let non_empty = |text: Cow<'_, str>| (!text.is_empty()).then(|| text.into_owned());
        Ok(Some(Node {
            name,
            worker_pool: non_empty(self.worker_pool),
            zone: non_empty(self.zone),
            exclude_disruption: self.exclude_disruption,
            not_managed_by_mcm: self.not_managed_by_mcm,
            true_conditions: self.conditions.true_types,
            in_place_update: self.conditions.in_place_update,
        }))
    }
}

/// What the conditions of a node come to.
#[derive(Default)]
struct Conditions {
    true_types: Vec<String>,
    in_place_update: bool,
}

impl Conditions {
    fn add(&mut self, kind: &str, status: &str, reason: &str) {
        self.in_place_update |=
            kind == "InPlaceUpdate" && matches!(reason, "ReadyForUpdate" | "UpdateFailed");
        if status == "True" && !kind.is_empty() && self.true_types.len() < MAX_CONDITIONS {
            self.true_types.push(kind.to_owned());
        }
    }
}

impl<'de> Fold<'de> for Conditions {
    type Item = RawCondition<'de>;

    fn take(&mut self, condition: RawCondition<'de>) {
        self.add(
            condition.r#type.as_str().unwrap_or_default(),
            condition.status.as_str().unwrap_or_default(),
            condition.reason.as_str().unwrap_or_default(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn decode(items: Value) -> Vec<Node> {
        let body = json!({
            "kind": "NodeList", "apiVersion": "v1",
            "metadata": {"resourceVersion": "812"}, "items": items,
        });
        Node::decode_list(body.to_string().as_bytes()).unwrap()
    }

    fn named(name: &str) -> Node {
        Node {
            name: name.into(),
            ..Node::default()
        }
    }

    #[test]
    fn a_node_of_a_shoot() {
        let nodes = decode(json!([{
            "metadata": {
                "name": "shoot--a--b-worker-z1-5d7f9-abcde",
                "labels": {
                    "kubernetes.io/hostname": "ip-10-250-0-1",
                    "worker.gardener.cloud/pool": "worker",
                    "topology.kubernetes.io/zone": "eu-west-1a",
                    "node.kubernetes.io/exclude-disruption": "",
                },
                "annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": ""},
                "managedFields": [{"fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {}}}}}],
            },
            "spec": {"podCIDR": "100.64.0.0/24"},
            "status": {
                "capacity": {"cpu": "4"},
                "conditions": [
                    {"type": "KernelDeadlock", "status": "False", "reason": "KernelHasNoDeadlock"},
                    {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"},
                    {"type": "PIDPressure", "status": "Unknown"},
                    {"type": "Ready", "status": "True", "reason": "KubeletReady"},
                ],
                "images": [{"names": ["a@sha256:0", "a:1"], "sizeBytes": 1}],
            },
        }]));
        assert_eq!(
            nodes,
            [Node {
                worker_pool: Some("worker".into()),
                zone: Some("eu-west-1a".into()),
                exclude_disruption: true,
                not_managed_by_mcm: true,
                true_conditions: vec!["DiskPressure".into(), "Ready".into()],
                ..named("shoot--a--b-worker-z1-5d7f9-abcde")
            }]
        );
    }

    #[test]
    fn in_place_updates_are_told_by_the_reason() {
        for (kind, reason, expected) in [
            ("InPlaceUpdate", "ReadyForUpdate", true),
            ("InPlaceUpdate", "UpdateFailed", true),
            ("InPlaceUpdate", "UpdateSuccessful", false),
            ("InPlaceUpdate", "", false),
            ("Ready", "ReadyForUpdate", false),
        ] {
            let condition = json!({"type": kind, "status": "Unknown", "reason": reason});
            let nodes =
                decode(json!([{"metadata": {"name": "n"}, "status": {"conditions": [condition]}}]));
            assert_eq!(
                nodes,
                [Node {
                    in_place_update: expected,
                    ..named("n")
                }],
                "{kind} {reason}"
            );
        }
    }

    #[test]
    fn malformed_nodes_do_not_hide_the_others() {
        let nodes = decode(json!([
            null, 7, "x", [],
            {"metadata": null},
            {"metadata": {"name": ""}},
            {"metadata": {"name": "a", "labels": [], "annotations": "x"}, "status": 3},
            {"metadata": {"name": "b", "labels": {"worker.gardener.cloud/pool": 5}},
             "status": {"conditions": {"type": "Ready"}}},
            {"metadata": {"name": "c", "labels": {"worker.gardener.cloud/pool": ""}},
             "status": {"conditions": [null, {"status": "True"}, {"type": 1, "status": "True"}]}},
        ]));
        assert_eq!(nodes, [named("a"), named("b"), named("c")]);
    }

    #[test]
    fn so_many_conditions_are_kept() {
        let condition = |index: usize| json!({"type": format!("c{index}"), "status": "True"});
        let mut conditions: Vec<_> = (0..=MAX_CONDITIONS).map(condition).collect();
        conditions.push(json!({"type": "InPlaceUpdate", "reason": "UpdateFailed"}));
        let nodes =
            decode(json!([{"metadata": {"name": "n"}, "status": {"conditions": conditions}}]));
        assert_eq!(nodes[0].true_conditions.len(), MAX_CONDITIONS);
        assert!(nodes[0].in_place_update);
    }

    #[test]
    fn other_bodies_are_refused() {
        for (body, expected) in [
            (
                r#"{"kind":"LeaseList","metadata":{"resourceVersion":"1"},"items":[]}"#,
                "LeaseList",
            ),
            (
                r#"{"kind":"NodeList","metadata":{"resourceVersion":"1","continue":"x"},"items":[]}"#,
                "only a part",
            ),
            (
                r#"{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":{}}"#,
                "without items",
            ),
            (
                r#"{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[{]}"#,
                "not whole JSON",
            ),
        ] {
            let error = Node::decode_list(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            prop_assert!(Node::decode_list(&bytes).is_err());
        }
    }
}
