//! What is read of a Pod, and what may become of one that crashes.

use std::{collections::BTreeMap, sync::Arc};

use jiff::SignedDuration;
use k8s_openapi::{
    api::core::v1::{self, ContainerState, ContainerStatus, PodStatus},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::Resource;
use serde::Deserialize;
use tokio::time::Instant;

/// The reason for which a kubelet waits before it starts a container that crashed again.
const CRASH_LOOP: &str = "CrashLoopBackOff";
/// A kubelet forgets the back-off of a container that has run for so long, twice the longest back-off, and
/// starts it again without delay.
const FORGIVEN: SignedDuration = SignedDuration::from_mins(10);

/// A Pod without its spec, which is most of it.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "v1::Pod")]
pub(super) struct Pod {
    pub(super) metadata: ObjectMeta,
    status: Option<PodStatus>,
}

/// A pod in CrashLoopBackOff.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Looping {
    /// Its name.
    pub(super) name: Arc<str>,
    /// Its UID.
    pub(super) uid: Arc<str>,
    /// Its resourceVersion.
    pub(super) version: Arc<str>,
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// The owner with `controller: true`: it replaces the pod.
    pub(super) controller: Option<OwnerReference>,
    /// The containers, init containers first, that wait for their back-off to end.
    pub(super) containers: Vec<String>,
    /// Since when it has been seen in CrashLoopBackOff.
    pub(super) since: Instant,
}

/// Why a looping pod is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// No owner is its controller: nothing would bring it back.
    NoController,
    /// It mirrors a static pod, which its kubelet alone starts and ends: deleting the mirror
    /// restarts nothing.
    StaticPod,
    /// A Job takes a pod that is deleted for one that has failed, and gives up after some.
    JobPod,
}

impl Pod {
    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Returns whether a container waits for its back-off to end and the pod is to stay.
    pub(super) fn is_looping(&self) -> bool {
        self.metadata.deletion_timestamp.is_none() && self.looping().next().is_some()
    }

    /// Returns what counts of it while it loops, as it does since then.
    pub(super) fn looping_since(self, since: Instant) -> Looping {
        let containers = self.looping().map(|it| it.name.clone()).collect();
        let metadata = self.metadata;
        let mut owners = metadata.owner_references.into_iter().flatten();
        Looping {
            name: metadata.name.unwrap_or_default().into(),
            uid: metadata.uid.unwrap_or_default().into(),
            version: metadata.resource_version.unwrap_or_default().into(),
            labels: metadata.labels.unwrap_or_default(),
            controller: owners.find(|owner| owner.controller == Some(true)),
            containers,
            since,
        }
    }

    /// Returns the containers that wait for their back-off to end. Those of a pod that has failed or succeeded as a
    /// whole are started by nobody.
    fn looping(&self) -> impl Iterator<Item = &ContainerStatus> {
        let is_over = |it: &&PodStatus| matches!(it.phase.as_deref(), Some("Failed" | "Succeeded"));
        let status = self.status.iter().filter(move |it| !is_over(it));
        let containers = status.flat_map(|it| {
            let init = it.init_container_statuses.iter().flatten();
            init.chain(it.container_statuses.iter().flatten())
        });
        containers.filter(|it| is_looping(it))
    }
}

fn is_looping(container: &ContainerStatus) -> bool {
    let Some(state) = &container.state else {
        return false;
    };
    let waiting = state.waiting.as_ref();
    waiting.and_then(|waiting| waiting.reason.as_deref()) == Some(CRASH_LOOP)
        || waits_for_restart(container, state)
}

/// A kubelet (since Kubernetes 1.33) sleeps until the back-off ends, for a minute or more at a time: until it wakes
/// up it goes on telling how the container ended, and `CrashLoopBackOff` only then. The first restart
/// has no back-off, so there is none before that.
fn waits_for_restart(container: &ContainerStatus, state: &ContainerState) -> bool {
    let Some(ended) = &state.terminated else {
        return false;
    };
    let lasted = match (&ended.started_at, &ended.finished_at) {
        (Some(started), Some(finished)) => finished.0.duration_since(started.0),
        _ => return false,
    };
    ended.exit_code != 0 && container.restart_count > 0 && lasted < FORGIVEN
}

/// Returns why a looping pod with this controller is left alone; `None` if it may be deleted.
///
/// The group of the kind makes no difference: Jobs of other groups count a deleted pod as failed, too.
pub(super) fn left_alone(controller: Option<&OwnerReference>) -> Option<Reason> {
    match controller.map(|it| &*it.kind) {
        None => Some(Reason::NoController),
        Some("Node") => Some(Reason::StaticPod),
        Some("Job") => Some(Reason::JobPod),
        Some(_) => None,
    }
}

impl Reason {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::NoController, Self::StaticPod, Self::JobPod];

    /// Returns the reason in one word, for programs.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::NoController => "NoController",
            Self::StaticPod => "StaticPod",
            Self::JobPod => "JobPod",
        }
    }

    /// Returns the reason in a sentence, for people.
    pub(super) fn message(self) -> &'static str {
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
    #[case::no_status(json!(null), &[])]
    fn looping(#[case] status: Value, #[case] expected: &[&str]) {
        let pod = pod(|it| it["status"] = status);
        let looping: Vec<_> = pod.looping().map(|it| &*it.name).collect();
        assert_eq!(looping, expected);
        assert_eq!(pod.is_looping(), !expected.is_empty());
    }
}
