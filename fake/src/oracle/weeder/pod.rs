//! What a version of a pod says of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A container that has run for so long before it failed is started again at once.
const FORGIVEN: SignedDuration = SignedDuration::from_mins(10);

/// A version of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a>(pub(super) &'a Value);

impl<'a> Pod<'a> {
    pub(super) fn labels(self) -> &'a Value {
        &self.0["metadata"]["labels"]
    }

    pub(super) fn is_terminating(self) -> bool {
        self.0["metadata"]["deletionTimestamp"].is_string()
    }

    /// Whether one of its containers waits for its back-off to end.
    pub(super) fn is_looping(self) -> bool {
        let status = &self.0["status"];
        let all = ["initContainerStatuses", "containerStatuses"];
        let mut containers = all.iter().filter_map(|it| status[it].as_array()).flatten();
        let is_over = matches!(status["phase"].as_str(), Some("Failed" | "Succeeded"));
        !is_over && containers.any(loops)
    }

    /// Whether a controller replaces it, for which a pod that is deleted has not failed.
    pub(super) fn comes_back(self) -> bool {
        let owner = self.owner();
        owner.is_some_and(|it| it["kind"] != "Job" && it["kind"] != "Node")
    }

    /// The UID of its controller.
    pub(super) fn controller(self) -> Option<&'a str> {
        self.owner()?["uid"].as_str()
    }

    fn owner(self) -> Option<&'a Value> {
        let owners = self.0["metadata"]["ownerReferences"].as_array();
        owners?.iter().find(|it| it["controller"] == true)
    }
}

/// Between its waits a kubelet tells how the container has ended.
fn loops(container: &Value) -> bool {
    let state = &container["state"];
    if state["waiting"]["reason"] == "CrashLoopBackOff" {
        return true;
    }
    let ended = &state["terminated"];
    let time = |field| ended[field].as_str()?.parse::<Timestamp>().ok();
    let (Some(started), Some(finished)) = (time("startedAt"), time("finishedAt")) else {
        return false;
    };
    let failed = ended["exitCode"].as_i64().is_some_and(|code| code != 0);
    let restarts = container["restartCount"].as_i64().unwrap_or_default();
    failed && restarts > 0 && finished.duration_since(started) < FORGIVEN
}
