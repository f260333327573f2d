//! The objects of the model, and what the watches show of them.

use dependency_watchdog::weeder::{pod, policy::Stored, slice};
use k8s_openapi::{api::core::v1::Namespace as NamespaceObject, jiff::Timestamp};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};

/// The services; policies do not name the last.
pub(crate) const SERVICES: [&str; 3] = ["etcd", "apiserver", "other"];
/// The pod selectors of policies: their text, and the values of the label `app` that they match.
pub(crate) const SELECTORS: [(&str, &[usize]); 3] =
    [("app=0", &[0]), ("app in (0,1)", &[0, 1]), ("app=1", &[1])];

/// A WeedPolicy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) uid: u32,
    /// By the index of the service, the indices of its selectors.
    pub(crate) services: Vec<(usize, Vec<usize>)>,
    /// Whether it selects only namespaces with the label.
    pub(crate) zoned: bool,
    pub(crate) enforce: bool,
    pub(crate) suspend: bool,
    pub(crate) flaw: Flaw,
    pub(crate) deleting: bool,
    /// In seconds.
    pub(crate) lasts: u64,
}

/// What is wrong with a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    Invalid,
    Unreadable,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Namespace {
    pub(crate) zoned: bool,
    pub(crate) deleting: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    pub(crate) service: usize,
    pub(crate) version: u64,
    pub(crate) ready: bool,
    /// What it was last changed for, by its annotation.
    pub(crate) changed: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    pub(crate) namespace: usize,
    pub(crate) uid: u32,
    pub(crate) version: u64,
    pub(crate) app: usize,
    pub(crate) looping: bool,
    pub(crate) terminating: bool,
    pub(crate) owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    None,
    Node,
    Job,
    ReplicaSet,
    Other,
}

pub(crate) fn namespace_name(namespace: usize) -> String {
    format!("ns-{namespace}")
}

pub(crate) fn policy_name(policy: usize) -> String {
    format!("policy-{policy}")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what the model writes can be read")
}

const DELETED: &str = "2026-01-01T00:00:00Z";

fn deletion(deleting: bool) -> Option<&'static str> {
    deleting.then_some(DELETED)
}

impl Policy {
    /// Whether it is in force.
    pub(crate) fn in_force(&self) -> bool {
        !self.suspend && !self.deleting && self.flaw == Flaw::None
    }

    /// The selectors of a service.
    pub(crate) fn selectors(&self, service: usize) -> Option<&[usize]> {
        let named = self.services.iter().find(|(named, _)| *named == service);
        named.map(|(_, selectors)| &selectors[..])
    }

    pub(crate) fn object(&self, policy: usize) -> Stored {
        let services: serde_json::Map<String, Value> = self
            .services
            .iter()
            .map(|(service, selectors)| {
                let selectors: Vec<Value> = selectors.iter().map(|it| selector(*it)).collect();
                (
                    SERVICES[*service].to_owned(),
                    json!({"podSelectors": selectors}),
                )
            })
            .collect();
        let duration = match self.flaw {
            Flaw::None => json!(format!("{}s", self.lasts)),
            Flaw::Invalid => json!("0s"),
            Flaw::Unreadable => json!(5),
        };
        object(json!({
            "apiVersion": "dependency-watchdog.gardener.cloud/v1alpha1",
            "kind": "WeedPolicy",
            "metadata": {
                "name": policy_name(policy),
                "uid": format!("policy-{}", self.uid),
                "generation": 1,
                "deletionTimestamp": deletion(self.deleting),
            },
            "spec": {
                "namespaceSelector": if self.zoned { json!({"matchLabels": {"zone": "a"}}) } else { json!({}) },
                "watchDuration": duration,
                "servicesAndDependantSelectors": services,
                "mode": if self.enforce { "Enforce" } else { "DryRun" },
                "suspend": self.suspend,
            },
        }))
    }
}

fn selector(index: usize) -> Value {
    match SELECTORS[index].1 {
        [value] => json!({"matchLabels": {"app": value.to_string()}}),
        values => {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]})
        }
    }
}

impl Namespace {
    pub(crate) fn object(&self, namespace: usize) -> PartialObjectMeta<NamespaceObject> {
        object(json!({
            "metadata": {
                "name": namespace_name(namespace),
                "labels": if self.zoned { json!({"zone": "a"}) } else { json!({}) },
                "deletionTimestamp": deletion(self.deleting),
            },
        }))
    }
}

impl Slice {
    pub(crate) fn object(&self, (namespace, slice): (usize, usize)) -> slice::EndpointSlice {
        object(json!({
            "metadata": {
                "name": format!("slice-{slice}"),
                "namespace": namespace_name(namespace),
                "resourceVersion": self.version.to_string(),
                "labels": {slice::SERVICE_LABEL: SERVICES[self.service]},
                "annotations": {slice::CHANGED_ANNOTATION: self.changed},
            },
            "endpoints": [{"conditions": {"ready": self.ready}}],
        }))
    }
}

impl Pod {
    /// Whether it is to be deleted if an enforcing window claims it.
    pub(crate) fn is_weed(&self) -> bool {
        let replaced = match self.owner {
            Owner::None | Owner::Node | Owner::Job => false,
            Owner::ReplicaSet | Owner::Other => true,
        };
        self.looping && !self.terminating && replaced
    }

    pub(crate) fn matches(&self, selector: &str) -> bool {
        let (_, values) = SELECTORS
            .iter()
            .find(|(text, _)| *text == selector)
            .expect("a selector of the model");
        values.contains(&self.app)
    }

    pub(crate) fn object(&self) -> pod::Pod {
        let kind = match self.owner {
            Owner::None => None,
            Owner::Node => Some(("v1", "Node")),
            Owner::Job => Some(("batch/v1", "Job")),
            Owner::ReplicaSet => Some(("apps/v1", "ReplicaSet")),
            Owner::Other => Some(("apps.kruise.io/v1alpha1", "CloneSet")),
        };
        let owner = kind.map(|(version, kind)| {
            let uid = format!("r-{}", self.uid);
            json!([{"apiVersion": version, "kind": kind, "name": "r", "uid": uid, "controller": true}])
        });
        let reason = if self.looping {
            "CrashLoopBackOff"
        } else {
            "ContainerCreating"
        };
        object(json!({
            "metadata": {
                "name": format!("pod-{}", self.uid),
                "namespace": namespace_name(self.namespace),
                "uid": self.uid.to_string(),
                "resourceVersion": self.version.to_string(),
                "deletionTimestamp": deletion(self.terminating),
                "ownerReferences": owner,
            },
            "status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]},
        }))
    }
}
