//! The kinds that are served.

use serde_json::{Value, json};

/// What raises the generation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Nothing: there is none.
    None,
    /// A change of the spec.
    Spec,
    /// A change of the spec or of an annotation.
    SpecOrAnnotations,
    /// A change of anything but metadata, and the status if that is a subresource.
    All,
}

/// One kind.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Such as `deployments`.
    pub plural: &'static str,
    /// Such as `Deployment`.
    pub kind: &'static str,
    /// Such as `apps`; empty for the core.
    pub group: &'static str,
    /// The version that is served unless told otherwise.
    pub version: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource.
    pub status: bool,
    /// Whether `scale` is a subresource.
    pub scale: bool,
    pub(crate) generation: Generation,
    /// Whether it is defined by a CustomResourceDefinition.
    pub(crate) custom: bool,
    /// Whether a PUT without a resourceVersion is taken.
    pub(crate) unconditional: bool,
    /// The fields that a selector can name, beside those of the metadata.
    pub(crate) fields: &'static [&'static str],
}

impl Kind {
    /// The one with this plural.
    pub(crate) fn find(plural: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.plural == plural)
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.kind == name)
    }

    /// Such as `apps/v1`.
    pub(crate) fn group_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// Such as `deployments.apps`.
    pub(crate) fn qualified(&self) -> String {
        dotted(self.plural, self.group)
    }

    /// Such as `Deployment.apps`.
    pub(crate) fn qualified_kind(&self) -> String {
        dotted(self.kind, self.group)
    }

    /// What an API server adds to a new object of this kind.
    pub(crate) fn complete(&self, name: &str, object: &mut Value) {
        let missing = |object: &Value, pointer: &str| object.pointer(pointer).is_none();
        match self.plural {
            "namespaces" => {
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
                object["spec"] = json!({"finalizers": ["kubernetes"]});
                object["status"] = json!({"phase": "Active"});
            }
            "pods" if missing(object, "/status/phase") => {
                object["status"]["phase"] = "Pending".into();
                object["status"]["qosClass"] = "BestEffort".into();
            }
            "statefulsets" if missing(object, "/status") => {
                object["status"] = json!({"replicas": 0, "availableReplicas": 0});
            }
            "replicasets" if missing(object, "/status") => {
                object["status"] = json!({"replicas": 0});
            }
            _ => {}
        }
        if self.scale && !self.custom && missing(object, "/spec/replicas") {
            object["spec"]["replicas"] = 1.into();
        }
    }
}

/// Such as `apps/v1`, or `v1` for the core.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

fn dotted(name: &str, group: &str) -> String {
    match group {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    }
}

const BUILT_IN: Kind = Kind {
    plural: "",
    kind: "",
    group: "",
    version: "v1",
    namespaced: true,
    status: false,
    scale: false,
    generation: Generation::None,
    custom: false,
    unconditional: true,
    fields: &[],
};
const WORKLOAD: Kind = Kind {
    group: "apps",
    status: true,
    scale: true,
    generation: Generation::Spec,
    ..BUILT_IN
};
const CUSTOM: Kind = Kind {
    version: "v1alpha1",
    generation: Generation::All,
    custom: true,
    unconditional: false,
    ..BUILT_IN
};
const OWN: Kind = Kind {
    group: "dependency-watchdog.gardener.cloud",
    namespaced: false,
    status: true,
    ..CUSTOM
};

/// All of them.
pub(crate) const KINDS: [Kind; 18] = [
    Kind {
        plural: "namespaces",
        kind: "Namespace",
        namespaced: false,
        status: true,
        fields: &["status.phase"],
        ..BUILT_IN
    },
    Kind {
        plural: "nodes",
        kind: "Node",
        namespaced: false,
        status: true,
        fields: &["spec.unschedulable"],
        ..BUILT_IN
    },
    Kind {
        plural: "pods",
        kind: "Pod",
        status: true,
        generation: Generation::Spec,
        fields: &["spec.nodeName", "status.phase"],
        ..BUILT_IN
    },
    Kind {
        plural: "secrets",
        kind: "Secret",
        fields: &["type"],
        ..BUILT_IN
    },
    Kind {
        plural: "services",
        kind: "Service",
        status: true,
        ..BUILT_IN
    },
    Kind {
        plural: "events",
        kind: "Event",
        group: "events.k8s.io",
        ..BUILT_IN
    },
    Kind {
        plural: "leases",
        kind: "Lease",
        group: "coordination.k8s.io",
        unconditional: false,
        ..BUILT_IN
    },
    Kind {
        plural: "endpointslices",
        kind: "EndpointSlice",
        group: "discovery.k8s.io",
        generation: Generation::All,
        ..BUILT_IN
    },
    Kind {
        plural: "deployments",
        kind: "Deployment",
        generation: Generation::SpecOrAnnotations,
        ..WORKLOAD
    },
    Kind {
        plural: "statefulsets",
        kind: "StatefulSet",
        ..WORKLOAD
    },
    Kind {
        plural: "replicasets",
        kind: "ReplicaSet",
        ..WORKLOAD
    },
    Kind {
        plural: "jobs",
        kind: "Job",
        group: "batch",
        scale: false,
        ..WORKLOAD
    },
    Kind {
        plural: "etcds",
        kind: "Etcd",
        group: "druid.gardener.cloud",
        status: true,
        scale: true,
        ..CUSTOM
    },
    Kind {
        plural: "machines",
        kind: "Machine",
        group: "machine.sapcloud.io",
        status: true,
        ..CUSTOM
    },
    Kind {
        plural: "clusters",
        kind: "Cluster",
        group: "extensions.gardener.cloud",
        namespaced: false,
        ..CUSTOM
    },
    Kind {
        plural: "probepolicies",
        kind: "ProbePolicy",
        ..OWN
    },
    Kind {
        plural: "weedpolicies",
        kind: "WeedPolicy",
        ..OWN
    },
    Kind {
        plural: "clusterhealths",
        kind: "ClusterHealth",
        fields: &["status.state", "status.protection"],
        ..OWN
    },
];
