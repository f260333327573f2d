//! A slim view of `Pod`, and what may become of one that crashes.
//!
//! Of a Pod the looping containers matter, who would replace it, and what identifies this very
//! version of it; the rest, some ten kilobytes, is dropped while decoding.

use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::{
    api::core::v1,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::Deserialize;

use crate::weeder::report::PodOwner;

/// The reason for which a kubelet waits before it starts a container that crashed again.
const CRASH_LOOP: &str = "CrashLoopBackOff";
/// A kubelet forgets the back-off of a container that has run for so long, twice the longest back-off, and
/// starts it again without delay.
const FORGIVEN: SignedDuration = SignedDuration::from_mins(10);
/// What is read of a Pod.
#[derive(Clone, Debug, PartialEq, Deserialize, Resource)]
#[serde(from = "Received")]
#[resource(inherit = "v1::Pod")]
pub struct Pod {
    /// Name, namespace, UID, resourceVersion and deletionTimestamp.
    pub metadata: ObjectMeta,
    /// The owner with `controller: true`: it replaces the pod.
    pub controller: Option<PodOwner>,
    /// The containers, init containers first, that wait for their back-off to end.
    pub looping: Vec<Arc<str>>,
}

/// Why a looping pod is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No owner is its controller: nothing would bring it back.
    NoController,
    /// It mirrors a static pod, which its kubelet alone starts and ends: deleting the mirror
    /// restarts nothing.
    StaticPod,
    /// A Job takes a pod that is deleted for one that has failed, and gives up after some.
    JobPod,
    /// Its predecessor was deleted in the same window: it waits for its turn.
    Repeated,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::NoController,
        Self::StaticPod,
        Self::JobPod,
        Self::Repeated,
    ];
}

impl Pod {
    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether a container waits for its back-off to end and the pod is to stay.
    pub fn is_looping(&self) -> bool {
        !self.looping.is_empty() && !self.is_terminating()
    }
}

/// Returns why a looping pod with this controller is left alone; `None` if it may be deleted.
///
/// The group of the kind makes no difference: Jobs of other groups count a deleted pod as failed, too.
pub fn left_alone(controller: Option<&PodOwner>) -> Option<Reason> {
    match controller.map(|it| &*it.kind) {
        None => Some(Reason::NoController),
        Some("Node") => Some(Reason::StaticPod),
        Some("Job") => Some(Reason::JobPod),
        Some(_) => None,
    }
}

impl Reason {
    /// The reason in one word, for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoController => "NoController",
            Self::StaticPod => "StaticPod",
            Self::JobPod => "JobPod",
            Self::Repeated => "Repeated",
        }
    }

    /// The reason in a sentence, for people.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoController => {
                "it is in CrashLoopBackOff, but no controller owns it: nothing would create it \
                 anew, so it is not deleted"
            }
            Self::StaticPod => {
                "it is in CrashLoopBackOff, but it mirrors a static pod: to delete the mirror \
                 restarts nothing"
            }
            Self::JobPod => {
                "it is in CrashLoopBackOff, but belongs to a Job, which takes a pod that is deleted \
                 for one that has failed, and gives up after backoffLimit of them"
            }
            Self::Repeated => {
                "it is in CrashLoopBackOff like the pod before it, which was deleted with the service \
                 ready: it is deleted too, but only after a pause, which grows each time"
            }
        }
    }
}

/// A Pod as it is written. Every field may be absent or null: one odd object must not break the
/// watch.
#[derive(Deserialize)]
struct Received {
    metadata: Meta,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    owner_references: Option<Vec<Option<Owner>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    init_container_statuses: Option<Vec<Option<Container>>>,
    container_statuses: Option<Vec<Option<Container>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: Option<String>,
    restart_count: Option<i32>,
    state: Option<ContainerState>,
}

#[derive(Deserialize)]
struct ContainerState {
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    exit_code: Option<i32>,
    started_at: Option<Time>,
    finished_at: Option<Time>,
}

#[derive(Deserialize)]
struct Waiting {
    reason: Option<String>,
}

impl Container {
    fn is_looping(&self) -> bool {
        let Some(state) = &self.state else {
            return false;
        };
        let waiting = state.waiting.as_ref();
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some(CRASH_LOOP)
            || self.waits_for_restart(state)
    }

    /// A kubelet (since Kubernetes 1.33) sleeps until the back-off ends, for a minute or more at a time: until it wakes
    /// up it goes on telling how the container ended, and `CrashLoopBackOff` only then. The first restart
    /// has no back-off, so there is none before that.
    fn waits_for_restart(&self, state: &ContainerState) -> bool {
        let Some(ended) = &state.terminated else {
            return false;
        };
        let lasted = match (&ended.started_at, &ended.finished_at) {
            (Some(started), Some(finished)) => finished.0.duration_since(started.0),
            _ => return false,
        };
        let failed = ended.exit_code.is_some_and(|code| code != 0);
        failed && self.restart_count.is_some_and(|count| count > 0) && lasted < FORGIVEN
    }
}

impl From<Owner> for PodOwner {
    fn from(owner: Owner) -> Self {
        let text = |field: Option<String>| field.unwrap_or_default().into();
        Self {
            api_version: text(owner.api_version),
            kind: text(owner.kind),
            name: text(owner.name),
            uid: text(owner.uid),
        }
    }
}

impl From<Received> for Pod {
    fn from(Received { metadata, status }: Received) -> Self {
        let owners = metadata.owner_references.into_iter().flatten().flatten();
        let status = status.unwrap_or_default();
        let init = status.init_container_statuses.into_iter().flatten();
        let containers = init.chain(status.container_statuses.into_iter().flatten());
        // One that has failed or succeeded as a whole is started by nobody.
        let over = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
        let looping = containers.flatten().filter(|it| !over && it.is_looping());
        Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                deletion_timestamp: metadata.deletion_timestamp,
                ..ObjectMeta::default()
            },
            controller: owners
                .filter(|owner| owner.controller == Some(true))
                .map(PodOwner::from)
                .next(),
            looping: looping
                .map(|container| container.name.unwrap_or_default().into())
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Pod {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "shoot--a--b", "uid": "u", "resourceVersion": "7"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"containerStatuses": [waiting("c", "CrashLoopBackOff")]},
        });
        change(&mut object);
        serde_json::from_value(object).unwrap()
    }

    fn waiting(name: &str, reason: &str) -> Value {
        json!({"name": name, "ready": false, "state": {"waiting": {"reason": reason}}})
    }

    /// Ended so many restarts later with this code, at this time of the day, which began with its start.
    fn ended(restarts: i32, code: i32, at: &str) -> Value {
        json!({"name": "e", "ready": false, "restartCount": restarts, "state": {"terminated": {
            "reason": "Error",
            "exitCode": code,
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": format!("2026-01-01T{at}Z"),
        }}})
    }

    #[rstest]
    #[case::container(json!({"containerStatuses": [waiting("a", CRASH_LOOP)]}), &["a"])]
    #[case::init_container(json!({"initContainerStatuses": [waiting("i", CRASH_LOOP)]}), &["i"])]
    #[case::both(
        json!({
            "containerStatuses": [waiting("a", CRASH_LOOP), waiting("b", "PodInitializing")],
            "initContainerStatuses": [waiting("i", CRASH_LOOP)],
        }),
        &["i", "a"]
    )]
    #[case::other_reason(json!({"containerStatuses": [waiting("a", "ImagePullBackOff")]}), &[])]
    #[case::crashed_and_not_waiting_yet(
        json!({"containerStatuses": [{"name": "a", "state": {"terminated": {"reason": "Error"}}}]}),
        &[]
    )]
    #[case::crashed_before(
        json!({"containerStatuses": [{
            "name": "a",
            "state": {"running": {}},
            "lastState": {"waiting": {"reason": CRASH_LOOP}},
        }]}),
        &[]
    )]
    #[case::ended_again(json!({"containerStatuses": [ended(1, 1, "00:00:05")]}), &["e"])]
    #[case::init_container_ended_again(json!({"initContainerStatuses": [ended(2, 1, "00:09:59")]}), &["e"])]
    #[case::restarted_without_delay(json!({"containerStatuses": [ended(0, 1, "00:00:05")]}), &[])]
    #[case::completed_after_failures(json!({"initContainerStatuses": [ended(2, 0, "00:00:05")]}), &[])]
    #[case::back_off_forgotten(json!({"containerStatuses": [ended(2, 1, "00:10:00")]}), &[])]
    #[case::failed_for_good(json!({"phase": "Failed", "containerStatuses": [ended(2, 137, "00:00:05")]}), &[])]
    #[case::running_pod(json!({"phase": "Running", "containerStatuses": [ended(2, 137, "00:00:05")]}), &["e"])]
    #[case::nulls(
        json!({
            "containerStatuses": [null, {"name": null, "state": null}, {"state": {"waiting": null}}],
            "initContainerStatuses": null,
        }),
        &[]
    )]
    #[case::no_status(json!(null), &[])]
    fn looping(#[case] status: Value, #[case] expected: &[&str]) {
        let pod = pod(|it| it["status"] = status);
        let looping: Vec<_> = pod.looping.iter().map(|name| &**name).collect();
        assert_eq!(looping, expected);
        assert_eq!(pod.is_looping(), !expected.is_empty());
    }
}
