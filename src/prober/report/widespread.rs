//! Did many clusters fall silent at once? Then the cause is likely a common one, and is worth telling. Each is
//! acted on all the same: its leases prove that it is silent.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::finding::{HEALTHY, PENDING};
use crate::api::{ClusterHealthStatus, OUTAGE, Protection};

/// Clusters that fell silent within this time of each other did so at once.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(60);
/// Fewer are no more than a coincidence, …
const FEWEST: usize = 3;
/// … and neither is less than one in so many.
const ONE_IN: usize = 4;

/// Many clusters fell silent at once and still are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Widespread {
    /// Which.
    pub(super) clusters: BTreeSet<Arc<str>>,
    /// When the first of them fell silent.
    pub(super) first: Timestamp,
    /// How many are probed in all.
    pub(super) probed: usize,
}

/// Since when the nodes of a cluster with this status are silent, given what is known from before;
/// `None` if they are not, or if nobody knows since when: that of a cluster that was not heard in this
/// run, and is not protected either. What is protected stays silent until it is seen to be healthy.
pub(super) fn silent_since(
    status: &ClusterHealthStatus,
    before: Option<Timestamp>,
    heard: bool,
    now: Timestamp,
) -> Option<Timestamp> {
    let reason = status.reason.as_deref().unwrap_or(PENDING);
    let protected = [Protection::ScalingDown, Protection::Active].contains(&status.protection);
    let silent = reason == OUTAGE || protected && reason != HEALTHY && !status.is_skipped();
    let since = before.or(status.protected_since.as_ref().map(|since| since.0));
    since.or(heard.then_some(now)).filter(|_| silent)
}

/// The largest number of clusters that fell silent at once, if it is worth telling. Of several as
/// large, the first.
pub(super) fn widespread(
    silent: &BTreeMap<Arc<str>, Timestamp>,
    probed: usize,
) -> Option<Widespread> {
    let needed = FEWEST.max(probed.div_ceil(ONE_IN));
    if silent.len() < needed {
        return None;
    }
    let mut onsets: Vec<Timestamp> = silent.values().copied().collect();
    onsets.sort_unstable();
    let sizes = onsets.iter().enumerate().map(|(index, first)| {
        let before = onsets.partition_point(|onset| onset.duration_since(*first) <= AT_ONCE);
        (before - index, Reverse(*first))
    });
    let (_, Reverse(first)) = sizes.max().filter(|(size, _)| *size >= needed)?;
    let at_once = |onset: &Timestamp| *onset >= first && onset.duration_since(first) <= AT_ONCE;
    let clusters = silent.iter().filter(|(_, onset)| at_once(onset));
    Some(Widespread {
        clusters: clusters.map(|(name, _)| name.clone()).collect(),
        first,
        probed,
    })
}

impl Widespread {
    /// For people.
    pub(super) fn message(&self) -> String {
        format!(
            "{} of {} probed clusters fell silent within {}s, the first at {:.0}: look for a common cause \
             (network of the seed, NAT, load balancer, DNS)",
            self.clusters.len(),
            self.probed,
            AT_ONCE.as_secs(),
            self.first
        )
    }
}

#[cfg(test)]
mod tests;
