//! What a policy has to show: the pods that were deleted for it, and those that were not.
//!
//! It goes on where the recorded status ends, so that a restart loses nothing.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    case::{Case, Deed},
    pod::Reason,
};
use crate::api::{LastWeed, LeftAlone, MAX_LAST_WEEDS, MAX_LEFT_ALONE, WeedPolicyStatus};

/// The account of one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// How many pods were deleted for it.
    pub(super) weeded: i64,
    /// The last of these, and those that would have been, the newest first.
    pub(super) last_weeds: Vec<LastWeed>,
    /// The last pods that were left alone, the newest first.
    pub(super) left_alone: Vec<LeftAlone>,
    /// The status that it goes on from.
    pub(super) recorded: WeedPolicyStatus,
}

impl Account {
    /// The account of a policy with this status.
    pub(super) fn new(recorded: WeedPolicyStatus) -> Self {
        let mut account = Self {
            weeded: recorded.weeded,
            last_weeds: recorded.last_weeds.clone(),
            left_alone: recorded.left_alone.clone(),
            recorded,
        };
        account.last_weeds.truncate(MAX_LAST_WEEDS);
        account.left_alone.truncate(MAX_LEFT_ALONE);
        account
    }

    /// Takes up what was done to a pod.
    pub(super) fn take(&mut self, case: &Case, deed: &Deed, now: Timestamp) {
        match deed {
            Deed::Weeded => {
                self.weeded = self.weeded.saturating_add(1);
                self.weed(case, false, now);
            }
            Deed::WouldWeed => self.weed(case, true, now),
            Deed::LeftAlone(reason) => self.leave_alone(case, *reason, now),
            Deed::Refused(_) => {}
        }
    }

    fn weed(&mut self, case: &Case, dry_run: bool, now: Timestamp) {
        let owner = case.pod.controller.as_ref();
        let weed = LastWeed {
            time: Time(now),
            namespace: case.namespace.to_string(),
            pod: case.pod.name.to_string(),
            owner: owner.map_or_else(String::new, |it| format!("{}/{}", it.kind, it.name)),
            service: case.service.to_string(),
            containers: case.pod.containers.clone(),
            dry_run,
        };
        self.last_weeds.insert(0, weed);
        self.last_weeds.truncate(MAX_LAST_WEEDS);
    }

    /// A pod was left alone. Each is shown once, however often it is come across.
    fn leave_alone(&mut self, case: &Case, reason: Reason, now: Timestamp) {
        let left = LeftAlone {
            time: Time(now),
            namespace: case.namespace.to_string(),
            pod: case.pod.name.to_string(),
            service: case.service.to_string(),
            reason: reason.as_str().to_owned(),
            message: reason.message().to_owned(),
        };
        let same = |it: &LeftAlone| (&it.namespace, &it.pod) == (&left.namespace, &left.pod);
        self.left_alone.retain(|it| !same(it));
        self.left_alone.insert(0, left);
        self.left_alone.truncate(MAX_LEFT_ALONE);
    }
}
