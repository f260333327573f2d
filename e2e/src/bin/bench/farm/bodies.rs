//! What the API server of a shoot answers: the bodies, byte for byte as large as real ones.

use super::{
    clock::{Micros, micro_time, stamp},
    framing::Body,
    kubelets::{Kubelets, Renewal},
    template::Template,
    wire,
};
use prost::Message as _;
use serde_json::{Value, json};
use std::sync::LazyLock;

const SECOND: Micros = 1_000_000;
/// The content type of this encoding.
const JSON: &str = "application/json";

/// As kube-apiserver v1.36 encodes a lease that a kubelet renews.
const LEASE: &str = concat!(
    r#"{"metadata":{"name":"@NAME@","namespace":"kube-node-lease","uid":"@UID@","#,
    r#""resourceVersion":"@REVISION@","creationTimestamp":"2026-01-01T00:00:00Z","#,
    r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"@NAME@","uid":"@NODE@"}],"#,
    r#""managedFields":[{"manager":"kubelet","operation":"Update","#,
    r#""apiVersion":"coordination.k8s.io/v1","time":"@STAMP@","fieldsType":"FieldsV1","#,
    r#""fieldsV1":{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"@NODE@\"}":{}}},"#,
    r#""f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}}]},"#,
    r#""spec":{"holderIdentity":"@NAME@","leaseDurationSeconds":@DURATION@,"#,
    r#""renewTime":"@RENEWED@"}}"#
);

/// What the kubelet owns of it, as it stands there.
const OWNED: &str = concat!(
    r#"{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"@NODE@\"}":{}}},"#,
    r#""f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}"#
);
/// The `creationTimestamp` of everything, in seconds since the unix epoch.
const CREATED: i64 = 1_767_225_600;

/// Marks in a Node, each as long as what replaces it.
const NAME: &str = "@NAME-----------------------------------@";
const UID: &str = "@UID-------------------------------@";
const ZONE: &str = "@ZONE----@";
const POD: &str = "@POD------@";

/// Container images that a node has pulled: most of a Node's size.
const IMAGES: usize = 50;
const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];

/// The name of a node, as the machine-controller-manager gives them.
pub(crate) fn node_name(shoot: usize, node: usize) -> String {
    let zone = node % ZONES.len() + 1;
    format!("shoot--bench--s{shoot:04}-worker-z{zone}-5d7f9-{node:05}")
}

fn uid(kind: u16, shoot: usize, node: usize) -> String {
    format!("{shoot:08x}-{kind:04x}-4000-8000-{node:012x}")
}

/// How a list is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Protobuf,
}

/// The list of a shoot's leases.
pub(super) fn leases(
    encoding: Encoding,
    shoot: usize,
    kubelets: &Kubelets,
    duration: u32,
    at: Micros,
) -> Body {
    let items = kubelets.renewals(at).enumerate().map(|(node, renewal)| {
        let revision = kubelets.revision(renewal.written);
        LeaseOf {
            name: node_name(shoot, node),
            uid: uid(1, shoot, node),
            node_uid: uid(0, shoot, node),
            revision: revision.to_string(),
            duration,
            renewal,
        }
    });
    let revision = kubelets.revision(at);
    list(
        encoding,
        "coordination.k8s.io/v1",
        "LeaseList",
        revision,
        items.map(|lease| lease.encode(encoding)),
    )
}

/// The list of a shoot's Nodes.
pub(super) fn nodes(encoding: Encoding, shoot: usize, count: usize, revision: u64) -> Body {
    const MARKS: [&str; 4] = [NAME, UID, ZONE, POD];
    static JSON: LazyLock<Template> =
        LazyLock::new(|| Template::new(node().to_string().as_bytes(), &MARKS));
    static MESSAGE: LazyLock<Template> = LazyLock::new(|| {
        // The lengths in it stay right, since a mark is as long as its values.
        let message: wire::Node = serde_json::from_value(node()).unwrap_or_default();
        Template::new(&message.encode_to_vec(), &MARKS)
    });
    let template: &Template = match encoding {
        Encoding::Json => &JSON,
        Encoding::Protobuf => &MESSAGE,
    };
    let items = (0..count).map(|node| {
        let mut item = Vec::new();
        template.fill(
            &node_values(shoot, node).each_ref().map(String::as_str),
            &mut item,
        );
        item
    });
    list(encoding, "v1", "NodeList", revision, items)
}

/// What stands for the marks in one Node.
fn node_values(shoot: usize, node: usize) -> [String; 4] {
    let zone = ZONES.get(node % ZONES.len()).copied().unwrap_or_default();
    let pods = format!("100.{}.{}", 100 + node / 100, 100 + node % 100);
    [
        node_name(shoot, node),
        uid(0, shoot, node),
        zone.to_owned(),
        pods,
    ]
}

/// What `/version` answers.
pub(super) fn version() -> Body {
    let version = json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "goVersion": "go1.26.8",
        "compiler": "gc", "platform": "linux/amd64",
    });
    Body::new(JSON, version.to_string().into_bytes())
}

/// What `/readyz` answers.
pub(super) fn ready() -> Body {
    Body::new("text/plain; charset=utf-8", b"ok".to_vec())
}

/// What a request for anything else, or without the token, answers: in JSON whatever is asked for.
pub(super) fn status(code: u16, reason: &str) -> Body {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("the farm serves no such thing: {reason}"),
        "reason": reason, "code": code,
    });
    Body::new(JSON, status.to_string().into_bytes())
}

/// What differs from lease to lease.
struct LeaseOf {
    name: String,
    uid: String,
    node_uid: String,
    revision: String,
    duration: u32,
    renewal: Renewal,
}

impl LeaseOf {
    fn encode(self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Json => self.json(),
            Encoding::Protobuf => self.message().encode_to_vec(),
        }
    }

    fn json(&self) -> Vec<u8> {
        static ITEM: LazyLock<Template> = LazyLock::new(|| {
            let marks = [
                "@NAME@",
                "@UID@",
                "@NODE@",
                "@REVISION@",
                "@STAMP@",
                "@DURATION@",
                "@RENEWED@",
            ];
            Template::new(LEASE.as_bytes(), &marks)
        });
        let values = [
            &self.name,
            &self.uid,
            &self.node_uid,
            &self.revision,
            &stamp(self.renewal.written),
            &self.duration.to_string(),
            &micro_time(self.renewal.renew_time),
        ];
        let mut item = Vec::with_capacity(2 * LEASE.len());
        ITEM.fill(&values.map(String::as_str), &mut item);
        item
    }

    fn message(self) -> wire::Lease {
        // In whole seconds, as all times but renewTime.
        let written = wire::Time::from_micros(self.renewal.written - self.renewal.written % SECOND);
        let fields = OWNED.replace("@NODE@", &self.node_uid).into_bytes();
        wire::Lease {
            spec: wire::LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: self.duration.try_into().ok(),
                renew_time: Some(wire::Time::from_micros(self.renewal.renew_time)),
            },
            metadata: wire::ObjectMeta {
                namespace: "kube-node-lease".to_owned(),
                uid: self.uid,
                resource_version: self.revision,
                creation_timestamp: wire::Time {
                    seconds: CREATED,
                    nanos: 0,
                },
                owner_references: vec![wire::OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: self.name.clone(),
                    uid: self.node_uid,
                }],
                managed_fields: vec![wire::ManagedFieldsEntry {
                    manager: "kubelet".to_owned(),
                    operation: "Update".to_owned(),
                    api_version: "coordination.k8s.io/v1".to_owned(),
                    time: Some(written),
                    fields_type: "FieldsV1".to_owned(),
                    fields_v1: Some(wire::FieldsV1 { raw: fields }),
                    ..wire::ManagedFieldsEntry::default()
                }],
                name: self.name,
                ..wire::ObjectMeta::default()
            },
        }
    }
}

/// A list of encoded items, which kube-apiserver writes one by one.
fn list(
    encoding: Encoding,
    version: &str,
    kind: &str,
    revision: u64,
    items: impl Iterator<Item = Vec<u8>>,
) -> Body {
    if encoding == Encoding::Protobuf {
        let metadata = wire::ListMeta {
            resource_version: revision.to_string(),
            ..wire::ListMeta::default()
        };
        return wire::list(version, kind, metadata, items.collect());
    }
    let head = format!(
        r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"{revision}"}},"items":["#
    );
    let mut body = Body::new(JSON, head.into_bytes());
    for (place, item) in items.enumerate() {
        if place > 0 {
            body.bytes.push(b',');
        }
        body.writes.push(body.bytes.len());
        body.bytes.extend(item);
        body.writes.push(body.bytes.len());
    }
    body.bytes.extend_from_slice(b"]}\n");
    body
}

fn node() -> Value {
    let condition = |(kind, status, reason): (&str, &str, &str)| {
        json!({
            "type": kind, "status": status, "reason": reason,
            "message": format!("{reason}, as the kubelet or the node problem detector says"),
            "lastHeartbeatTime": "2026-01-01T00:05:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let conditions: Vec<Value> = [
        ("Ready", "True", "KubeletReady"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ("NetworkUnavailable", "False", "CalicoIsUp"),
        ("KernelDeadlock", "False", "KernelHasNoDeadlock"),
        ("ReadonlyFilesystem", "False", "FilesystemIsNotReadOnly"),
        ("CorruptDockerOverlay2", "False", "NoCorruptDockerOverlay2"),
        (
            "FrequentKubeletRestart",
            "False",
            "NoFrequentKubeletRestart",
        ),
        (
            "FrequentContainerdRestart",
            "False",
            "NoFrequentContainerdRestart",
        ),
        (
            "FrequentUnregisterNetDevice",
            "False",
            "NoFrequentUnregisterNetDevice",
        ),
        ("ClusterNetworkProblem", "False", "NoNetworkProblems"),
    ]
    .into_iter()
    .map(condition)
    .collect();
    let images: Vec<Value> = (0..IMAGES)
        .map(|image| {
            let repository =
                format!("europe-docker.pkg.dev/gardener-project/releases/component-{image:02}");
            json!({
                "names": [
                    format!("{repository}@sha256:{image:064x}"),
                    format!("{repository}:v1.{image}.0"),
                ],
                "sizeBytes": 40_000_000 + image,
            })
        })
        .collect();
    let owned: Value = conditions
        .iter()
        .filter_map(|condition| condition.get("type")?.as_str())
        .map(|kind| {
            let fields = json!({
                ".": {}, "f:lastHeartbeatTime": {}, "f:lastTransitionTime": {},
                "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {},
            });
            (format!("k:{{\"type\":\"{kind}\"}}"), fields)
        })
        .collect::<serde_json::Map<_, _>>()
        .into();
    let manager = |name: &str, fields: Value| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1",
            "time": "2026-01-01T00:05:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
            "subresource": "status",
        })
    };
    let capacity = json!({
        "cpu": "4", "memory": "16039316Ki", "pods": "110",
        "ephemeral-storage": "50633164Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let pods = format!("{POD}.0/24");
    json!({
        "metadata": {
            "name": NAME,
            "uid": UID,
            "resourceVersion": "999999",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": NAME,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.xlarge",
                "node.kubernetes.io/role": "node",
                "topology.kubernetes.io/region": "eu-west-1",
                "topology.kubernetes.io/zone": ZONE,
                "worker.gardener.cloud/cri-name": "containerd",
                "worker.gardener.cloud/pool": "worker",
                "worker.gardener.cloud/system-components": "true",
            },
            "annotations": {
                "checksum/cloud-config-data": format!("{:064x}", 7),
                "csi.volume.kubernetes.io/nodeid": json!({"ebs.csi.aws.com": UID}).to_string(),
                "node.alpha.kubernetes.io/ttl": "0",
                "node.machine.sapcloud.io/last-applied-anno-labels-taints":
                    r#"{"metadata":{"labels":{"worker.gardener.cloud/pool":"worker"}},"spec":{}}"#,
                "projectcalico.org/IPv4Address": "10.250.0.2/19",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
            "managedFields": [
                manager("kubelet", json!({"f:status": {
                    "f:allocatable": {"f:cpu": {}, "f:memory": {}, "f:ephemeral-storage": {}},
                    "f:conditions": owned,
                    "f:images": {},
                    "f:nodeInfo": {"f:bootID": {}},
                }})),
                manager("machine-controller-manager", json!({"f:metadata": {"f:labels": {}}})),
            ],
        },
        "spec": {
            "podCIDR": pods,
            "podCIDRs": [pods],
            "providerID": format!("aws:///{ZONE}/{UID}"),
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "10.250.0.2"},
                {"type": "Hostname", "address": NAME},
            ],
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": images,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": UID,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.44",
                "kubeletVersion": "v1.36.3",
                "machineID": UID,
                "operatingSystem": "linux",
                "osImage": "Garden Linux 1877.4",
                "systemUUID": UID,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dependency_watchdog::shoot::{LeaseList, Node};
    use std::time::Duration;

    const START: Micros = 1_800_000_000_250_000;

    #[test]
    fn leases_are_as_large_as_real_ones_and_tell_their_renewals() {
        let kubelets = Kubelets::new(12, 100, Duration::from_secs(10), START);
        let body = leases(Encoding::Json, 12, &kubelets, 40, START).bytes;
        let each = body.len() / 100;
        assert!((800..900).contains(&each), "{each} bytes a lease");
        let list = LeaseList::decode(&body).unwrap();
        assert_eq!(list.resource_version, kubelets.revision(START));
        assert_eq!(list.leases.len(), 100);
        for (place, (lease, renewal)) in
            list.leases.iter().zip(kubelets.renewals(START)).enumerate()
        {
            assert_eq!(*lease.name, node_name(12, place));
            assert_eq!(lease.duration_seconds, Some(40));
            assert_eq!(lease.stamp, Some(renewal.written / 1_000_000));
            assert_eq!(lease.renew_time.unwrap().as_micros(), renewal.renew_time);
            assert!(lease.resource_version <= list.resource_version);
        }
    }

    #[test]
    fn nodes_are_as_large_as_real_ones_and_in_their_zones() {
        let body = nodes(Encoding::Json, 3, 4, 77).bytes;
        let each = body.len() / 4;
        assert!((15_000..20_000).contains(&each), "{each} bytes a node");
        let nodes = Node::decode_list(&body).unwrap();
        assert_eq!(nodes.len(), 4);
        for (place, node) in nodes.iter().enumerate() {
            assert_eq!(*node.name, node_name(3, place));
            assert_eq!(node.worker_pool.as_deref(), Some("worker"));
            assert_eq!(node.zone.as_deref(), Some(ZONES[place % 3]));
            assert_eq!(node.true_conditions, ["Ready"]);
            assert!(!node.not_managed_by_mcm && !node.in_place_update);
        }
    }

    #[test]
    fn both_encodings_say_the_same() {
        let kubelets = Kubelets::new(12, 100, Duration::from_secs(10), START);
        let of = |encoding| leases(encoding, 12, &kubelets, 40, START);
        let expected = wire::from_json::<wire::Lease>(&of(Encoding::Json).bytes);
        let message = of(Encoding::Protobuf);
        assert_eq!(message.bytes, expected.bytes);
        assert_eq!(message.writes, expected.writes);
        // The last node has a number of as many digits as any.
        let of = |encoding| nodes(encoding, 9_999, 101, 77);
        let expected = wire::from_json::<wire::Node>(&of(Encoding::Json).bytes);
        assert_eq!(of(Encoding::Protobuf).bytes, expected.bytes);
    }

    #[test]
    fn a_mark_is_as_long_as_what_replaces_it() {
        for values in [node_values(0, 0), node_values(9_999, 15_000)] {
            for (mark, value) in [NAME, UID, ZONE, POD].iter().zip(values) {
                assert_eq!(mark.len(), value.len(), "{value}");
            }
        }
    }
}
