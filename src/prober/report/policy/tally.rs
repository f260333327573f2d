//! The clusters of one policy, counted and named.

use std::collections::BTreeSet;

use super::{
    super::brief::{Brief, Standing},
    Known,
};
use crate::api::{ClusterCounts, Protection};

/// The clusters of one policy, counted, and named with what is said of each.
pub(super) struct Tally {
    pub(super) counts: ClusterCounts,
    pub(super) judged: usize,
    /// Clusters whose first verdict is due.
    pub(super) new: usize,
    pub(super) protected: Vec<String>,
    /// Protected, but not selected any more.
    pub(super) kept: Vec<String>,
    pub(super) overdue: Vec<String>,
    /// Their dependents could not be scaled.
    pub(super) troubled: Vec<String>,
    pub(super) doubtful: Vec<String>,
    /// The policy waits for them while it is being deleted.
    pub(super) awaited: Vec<String>,
}

pub(super) fn tally<'a>(policy: &'a Known, cluster: impl Fn(&str) -> Option<&'a Brief>) -> Tally {
    let selected: BTreeSet<&str> = policy.view.selected.iter().map(|name| &**name).collect();
    let known = selected
        .iter()
        .filter_map(|name| Some((*name, cluster(name)?)));
    let known: Vec<_> = known.collect();
    let (mut kept, mut awaited) = (vec![], vec![]);
    for name in policy.holding.iter().map(|name| &**name) {
        let seen = cluster(name);
        awaited.push(format!("{name} ({})", state(seen)));
        let unselected = seen.filter(|_| !selected.contains(name));
        kept.extend(unselected.map(|seen| (name, seen)));
    }
    let all = || known.iter().chain(&kept);
    let names = |is: fn(&Brief) -> bool| -> Vec<String> {
        let those = all().filter(|(_, it)| is(it));
        those.map(|(name, _)| (*name).to_owned()).collect()
    };
    let mut protected = names(|it| it.protected);
    protected.sort_unstable();
    let are = |standing| {
        let those = known.iter().filter(|(_, it)| it.standing == standing);
        those.count()
    };
    let doubtful = named(known.iter(), |it| {
        (it.standing == Standing::Doubtful).then(|| it.reason.clone())
    });
    Tally {
        counts: ClusterCounts {
            selected: size(selected.len()),
            probing: size(known.len() - are(Standing::Skipped)),
            skipped: size(are(Standing::Skipped)),
            undetermined: size(doubtful.len()),
            protected: size(protected.len()),
        },
        judged: are(Standing::Judged),
        // The loop of one without a summary is about to start.
        new: selected.len() - known.len() + are(Standing::Pending),
        protected,
        kept: named(kept.iter(), |it| it.protected.then(|| state(Some(it)))),
        overdue: names(|it| it.overdue),
        troubled: named(all(), |it| it.trouble.clone()),
        doubtful,
        awaited,
    }
}

/// The clusters for which there is a reason, each with that.
fn named<'a>(
    clusters: impl Iterator<Item = &'a (&'a str, &'a Brief)>,
    why: impl Fn(&Brief) -> Option<String>,
) -> Vec<String> {
    let named = clusters.filter_map(|(name, it)| Some(format!("{name} ({})", why(it)?)));
    named.collect()
}

fn size(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The state of a cluster that is not let go yet.
fn state(seen: Option<&Brief>) -> String {
    match seen {
        Some(seen) if seen.protected && seen.protection == Protection::None => {
            format!("owed, {}", seen.reason)
        }
        Some(seen) if seen.protected => format!("{:?}, {}", seen.protection, seen.reason),
        Some(_) | None => "not looked at yet".to_owned(),
    }
}
