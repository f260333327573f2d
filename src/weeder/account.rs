//! What a policy has to show: the pods that were deleted for it, and those that were not.
//!
//! It goes on where the recorded status ends, so that a restart loses nothing.

use std::sync::Arc;

use crate::api::{LastWeed, LeftAlone, MAX_LAST_WEEDS, MAX_LEFT_ALONE, WeedPolicyStatus};

/// The account of one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The UID of the policy: one that is created anew under the same name begins at nothing.
    pub uid: Arc<str>,
    /// How many pods were deleted for it.
    pub weeded: i64,
    /// The last of these, and those that would have been, the newest first.
    pub last_weeds: Vec<LastWeed>,
    /// The last pods that were left alone, the newest first.
    pub left_alone: Vec<LeftAlone>,
    /// The status that it goes on from.
    pub recorded: WeedPolicyStatus,
}

impl Account {
    /// The account of the policy with this UID and status.
    pub fn new(uid: Arc<str>, recorded: WeedPolicyStatus) -> Self {
        let mut account = Self {
            uid,
            weeded: recorded.weeded,
            last_weeds: recorded.last_weeds.clone(),
            left_alone: recorded.left_alone.clone(),
            recorded,
        };
        account.last_weeds.truncate(MAX_LAST_WEEDS);
        account.left_alone.truncate(MAX_LEFT_ALONE);
        account
    }

    /// A pod was deleted, or would have been.
    pub fn weed(&mut self, weed: LastWeed) {
        if !weed.dry_run {
            self.weeded = self.weeded.saturating_add(1);
        }
        self.last_weeds.insert(0, weed);
        self.last_weeds.truncate(MAX_LAST_WEEDS);
    }

    /// A pod was left alone. Each is shown once, however often it is come across.
    pub fn leave_alone(&mut self, left: LeftAlone) {
        self.left_alone
            .retain(|it| (&it.namespace, &it.pod) != (&left.namespace, &left.pod));
        self.left_alone.insert(0, left);
        self.left_alone.truncate(MAX_LEFT_ALONE);
    }
}
