//! What the API server of a shoot answers: the bodies, byte for byte as large as real ones.

use super::{
    clock::{Micros, micro_time, stamp},
    kubelets::Kubelets,
    template::Template,
};
use serde_json::{Value, json};
use std::{fmt::Write as _, sync::LazyLock};

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

/// The list of a shoot's leases.
pub(super) fn leases(shoot: usize, kubelets: &Kubelets, duration: u64, at: Micros) -> String {
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
        Template::new(LEASE, &marks)
    });
    let duration = duration.to_string();
    let items = kubelets.renewals(at).enumerate();
    let revision = kubelets.revision(at);
    list(
        "coordination.k8s.io/v1",
        "LeaseList",
        revision,
        items,
        |(node, renewal), out| {
            let revision = kubelets.revision(renewal.written).to_string();
            let values = [
                &node_name(shoot, node),
                &uid(1, shoot, node),
                &uid(0, shoot, node),
                &revision,
                &stamp(renewal.written),
                &duration,
                &micro_time(renewal.renew_time),
            ];
            ITEM.fill(&values.map(String::as_str), out);
        },
    )
}

/// The list of a shoot's Nodes.
pub(super) fn nodes(shoot: usize, count: usize, revision: u64) -> String {
    static ITEM: LazyLock<Template> = LazyLock::new(|| {
        Template::new(&node().to_string(), &["@NAME@", "@UID@", "@ZONE@", "@POD@"])
    });
    list("v1", "NodeList", revision, 0..count, |node, out| {
        let zone = ZONES.get(node % ZONES.len()).copied().unwrap_or_default();
        let pods = format!("100.{}.{}", 64 + node / 256, node % 256);
        let values = [&node_name(shoot, node), &uid(0, shoot, node), zone, &pods];
        ITEM.fill(&values, out);
    })
}

/// What `/version` answers.
pub(super) fn version() -> String {
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3", "goVersion": "go1.26.8",
        "compiler": "gc", "platform": "linux/amd64",
    })
    .to_string()
}

/// What a request for anything else, or without the token, answers.
pub(super) fn status(code: u16, reason: &str) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("the farm serves no such thing: {reason}"),
        "reason": reason, "code": code,
    })
    .to_string()
}

fn list<T>(
    version: &str,
    kind: &str,
    revision: u64,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(T, &mut String),
) -> String {
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = write!(
        out,
        r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"resourceVersion":"{revision}"}},"items":["#
    );
    for (place, item) in items.enumerate() {
        if place > 0 {
            out.push(',');
        }
        write(item, &mut out);
    }
    out.push_str("]}\n");
    out
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
    json!({
        "metadata": {
            "name": "@NAME@",
            "uid": "@UID@",
            "resourceVersion": "999999",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": "@NAME@",
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.xlarge",
                "node.kubernetes.io/role": "node",
                "topology.kubernetes.io/region": "eu-west-1",
                "topology.kubernetes.io/zone": "@ZONE@",
                "worker.gardener.cloud/cri-name": "containerd",
                "worker.gardener.cloud/pool": "worker",
                "worker.gardener.cloud/system-components": "true",
            },
            "annotations": {
                "checksum/cloud-config-data": format!("{:064x}", 7),
                "csi.volume.kubernetes.io/nodeid": r#"{"ebs.csi.aws.com":"@UID@"}"#,
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
            "podCIDR": "@POD@.0/24",
            "podCIDRs": ["@POD@.0/24"],
            "providerID": "aws:///@ZONE@/@UID@",
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "10.250.0.2"},
                {"type": "Hostname", "address": "@NAME@"},
            ],
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": images,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "@UID@",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.44",
                "kubeletVersion": "v1.36.3",
                "machineID": "@UID@",
                "operatingSystem": "linux",
                "osImage": "Garden Linux 1877.4",
                "systemUUID": "@UID@",
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
        let body = leases(12, &kubelets, 40, START);
        let each = body.len() / 100;
        assert!((800..900).contains(&each), "{each} bytes a lease");
        let list = LeaseList::decode(body.as_bytes()).unwrap();
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
        let body = nodes(3, 4, 77);
        let each = body.len() / 4;
        assert!((15_000..20_000).contains(&each), "{each} bytes a node");
        let nodes = Node::decode_list(body.as_bytes()).unwrap();
        assert_eq!(nodes.len(), 4);
        for (place, node) in nodes.iter().enumerate() {
            assert_eq!(*node.name, node_name(3, place));
            assert_eq!(node.worker_pool.as_deref(), Some("worker"));
            assert_eq!(node.zone.as_deref(), Some(ZONES[place % 3]));
            assert_eq!(node.true_conditions, ["Ready"]);
            assert!(!node.not_managed_by_mcm && !node.in_place_update);
        }
    }
}
