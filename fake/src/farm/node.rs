//! The Nodes of a shoot, as large as real ones.

use super::{
    behaviour::Special,
    clock::Micros,
    names::{ZONES, by_name, node_name, uid},
    wire::{Message, list, manager, metadata, time},
};
use std::{collections::BTreeMap, sync::LazyLock};

/// Container images that a node has pulled: most of a Node's size.
const IMAGES: u64 = 50;
/// When a node was heard last.
const HEARD: Micros = 1_767_225_900_000_000;
/// The conditions of a node, and the reason for each.
const CONDITIONS: [(&str, &str); 12] = [
    ("Ready", "KubeletReady"),
    ("MemoryPressure", "KubeletHasSufficientMemory"),
    ("DiskPressure", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "KubeletHasSufficientPID"),
    ("NetworkUnavailable", "CalicoIsUp"),
    ("KernelDeadlock", "KernelHasNoDeadlock"),
    ("ReadonlyFilesystem", "FilesystemIsNotReadOnly"),
    ("CorruptDockerOverlay2", "NoCorruptDockerOverlay2"),
    ("FrequentKubeletRestart", "NoFrequentKubeletRestart"),
    ("FrequentContainerdRestart", "NoFrequentContainerdRestart"),
    (
        "FrequentUnregisterNetDevice",
        "NoFrequentUnregisterNetDevice",
    ),
    ("ClusterNetworkProblem", "NoNetworkProblems"),
];

/// The list of so many Nodes of a shoot, of which some are special, as the body of an answer.
pub(super) fn nodes(
    shoot: usize,
    count: usize,
    revision: u64,
    special: &BTreeMap<usize, Special>,
) -> Vec<u8> {
    static STATUS: LazyLock<Message> = LazyLock::new(status);
    static OWNED: LazyLock<String> = LazyLock::new(owned);
    let node = |number: usize| {
        let special = special.get(&number).copied();
        let (name, uid) = (node_name(shoot, number), uid(0, shoot, number));
        let zone = ZONES.get(number % ZONES.len()).copied().unwrap_or_default();
        let labels = [
            ("beta.kubernetes.io/arch", "amd64"),
            ("beta.kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("kubernetes.io/hostname", &name),
            ("kubernetes.io/os", "linux"),
            ("node.kubernetes.io/instance-type", "m5.xlarge"),
            ("node.kubernetes.io/role", "node"),
            ("topology.kubernetes.io/region", "eu-west-1"),
            ("topology.kubernetes.io/zone", zone),
            ("worker.gardener.cloud/cri-name", "containerd"),
            ("worker.gardener.cloud/system-components", "true"),
            ("worker.gardener.cloud/pool", "worker"),
        ];
        let labels = match special {
            Some(Special::NoPool) => labels.split_last().map_or(&labels[..], |(_, rest)| rest),
            _ => &labels,
        };
        let annotations = [
            (
                "csi.volume.kubernetes.io/nodeid",
                &*format!("{{\"ebs.csi.aws.com\":\"{uid}\"}}"),
            ),
            ("node.alpha.kubernetes.io/ttl", "0"),
            (
                "node.machine.sapcloud.io/last-applied-anno-labels-taints",
                r#"{"metadata":{"labels":{"worker.gardener.cloud/pool":"worker"}},"spec":{}}"#,
            ),
            ("projectcalico.org/IPv4Address", "10.250.0.2/19"),
            (
                "volumes.kubernetes.io/controller-managed-attach-detach",
                "true",
            ),
        ];
        let labelled = r#"{"f:metadata":{"f:labels":{}}}"#;
        let metadata = metadata(&name, "", &uid, 999_999)
            .map(11, labels.iter().copied())
            .map(12, annotations)
            .bytes(17, manager("kubelet", "v1", HEARD, &OWNED, "status"))
            .bytes(
                17,
                manager("machine-controller-manager", "v1", HEARD, labelled, ""),
            );
        let pods = format!("100.{}.{}.0/24", 100 + number / 100, 100 + number % 100);
        let spec = Message::default().bytes(1, &pods).bytes(2, "");
        let provider = format!("aws:///{zone}/{uid}");
        let spec = spec.bytes(3, provider).number(4, 0).bytes(7, pods);
        let (mut metadata, mut spec, mut status) = (metadata, spec, STATUS.clone());
        match special {
            Some(Special::Gone) => return None,
            Some(Special::Deleted) => metadata = metadata.bytes(9, time(HEARD)),
            Some(Special::OutOfService) => {
                let taint = Message::default().bytes(1, "node.kubernetes.io/out-of-service");
                spec = spec.bytes(5, taint.bytes(2, "nodeshutdown").bytes(3, "NoExecute"));
            }
            Some(Special::Condition(kind)) => {
                status = status.bytes(4, Message::default().bytes(1, kind).bytes(2, "True"));
            }
            Some(Special::NoPool) | None => {}
        }
        let node = Message::default().bytes(1, metadata).bytes(2, spec);
        Some(node.bytes(3, status))
    };
    list(
        "v1",
        "NodeList",
        revision,
        by_name(count).filter_map(node).collect(),
    )
}

/// What a kubelet owns of its Node, as JSON.
fn owned() -> String {
    let conditions = CONDITIONS.map(|(kind, _)| {
        format!(
            r#""k:{{\"type\":\"{kind}\"}}":{{".":{{}},"f:lastHeartbeatTime":{{}},"f:lastTransitionTime":{{}},"f:message":{{}},"f:reason":{{}},"f:status":{{}},"f:type":{{}}}}"#
        )
    });
    let conditions = conditions.join(",");
    format!(r#"{{"f:status":{{"f:conditions":{{{conditions}}},"f:images":{{}}}}}}"#)
}

/// The status of any Node.
fn status() -> Message {
    let resources = [
        ("cpu", "4"),
        ("ephemeral-storage", "50633164Ki"),
        ("hugepages-1Gi", "0"),
        ("hugepages-2Mi", "0"),
        ("memory", "16039316Ki"),
        ("pods", "110"),
    ];
    let quantities = resources.map(|(name, of)| (name, Message::default().bytes(1, of)));
    let conditions = CONDITIONS.map(|(kind, reason)| {
        let status = if kind == "Ready" { "True" } else { "False" };
        let told = Message::default().bytes(1, kind).bytes(2, status);
        let told = told.bytes(3, time(HEARD)).bytes(4, time(HEARD));
        let message = format!("{reason}, as the kubelet or the node problem detector says");
        told.bytes(5, reason).bytes(6, message)
    });
    let address = Message::default()
        .bytes(1, "InternalIP")
        .bytes(2, "10.250.0.2");
    let port = Message::default().number(1, 10250);
    let info = [
        "bootID",
        "machineID",
        "systemUUID",
        "6.12.44",
        "Garden Linux 1877.4",
    ];
    let info = (1..)
        .zip(info)
        .fold(Message::default(), |it, (field, value)| {
            it.bytes(field, value)
        });
    let images = (0..IMAGES).map(|image| {
        let name = format!("europe-docker.pkg.dev/gardener-project/releases/component-{image:02}");
        let names = [
            format!("{name}@sha256:{image:064x}"),
            format!("{name}:v1.{image}.0"),
        ];
        Message::default()
            .all(1, names)
            .number(2, 40_000_000 + image)
    });
    let resources = Message::default()
        .map(1, quantities.clone())
        .map(2, quantities);
    let heard = resources.bytes(3, "").all(4, conditions).bytes(5, address);
    let endpoints = Message::default().bytes(1, port);
    heard.bytes(6, endpoints).bytes(7, info).all(8, images)
}
