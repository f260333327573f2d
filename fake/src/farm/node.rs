//! The Nodes of a shoot, byte for byte as large as real ones.

use super::{
    bodies::{Encoding, list},
    framing::Body,
    names::{ZONES, by_name, node_name, uid},
    template::Template,
    wire,
};
use prost::Message as _;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::LazyLock};

/// Marks in a Node, each as long as what replaces it.
const NAME: &str = "@NAME-----------------------------------@";
const UID: &str = "@UID-------------------------------@";
const ZONE: &str = "@ZONE----@";
const POD: &str = "@POD------@";
const MARKS: [&str; 4] = [NAME, UID, ZONE, POD];

/// Container images that a node has pulled: most of a Node's size.
const IMAGES: usize = 50;

/// The list of a shoot's Nodes. By their numbers some are changed by a merge patch, or are not there.
pub(super) fn nodes(
    encoding: Encoding,
    shoot: usize,
    count: usize,
    revision: u64,
    changed: &BTreeMap<usize, Option<Value>>,
) -> Body {
    static JSON: LazyLock<Template> = LazyLock::new(|| template(Encoding::Json, &node()));
    static MESSAGE: LazyLock<Template> = LazyLock::new(|| template(Encoding::Protobuf, &node()));
    let usual: &Template = match encoding {
        Encoding::Json => &JSON,
        Encoding::Protobuf => &MESSAGE,
    };
    let items = by_name(count).filter_map(|number| {
        let values = node_values(shoot, number);
        let values = values.each_ref().map(String::as_str);
        let mut item = Vec::new();
        match changed.get(&number) {
            None => usual.fill(&values, &mut item),
            Some(None) => return None,
            Some(Some(patch)) => {
                let mut node = node();
                json_patch::merge(&mut node, patch);
                template(encoding, &node).fill(&values, &mut item);
            }
        }
        Some(item)
    });
    list(encoding, "v1", "NodeList", revision, items)
}

fn template(encoding: Encoding, node: &Value) -> Template {
    match encoding {
        Encoding::Json => Template::new(node.to_string().as_bytes(), &MARKS),
        Encoding::Protobuf => {
            // The lengths in it stay right, since a mark is as long as its values.
            let message = wire::Node::deserialize(node).unwrap_or_default();
            Template::new(&message.encode_to_vec(), &MARKS)
        }
    }
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
