//! In how many clusters of a policy the same check fails.
//!
//! A check that fails in many clusters at the same time points to what they share, such as the target of
//! the check or the network of this side, and not to an outage of each. Leases have a proof against that,
//! a Trigger has none. So a Trigger is not acted on while its check fails in many clusters, and not before
//! the others have had the time to show whether they fail, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::outcome::Said;

/// Less than one in so many of the clusters is a coincidence.
const ONE_IN: usize = 4;
/// A Trigger that fails in fewer clusters is acted on, whatever share of them that is. Judgement: one more
/// than are reported as a widespread outage.
pub const FEWEST: usize = 4;
/// A hold lasts for so long after the share fell below. Judgement: a shared target does not recover for
/// all of its clients at the same moment.
pub const LINGERS: Duration = Duration::from_secs(60);

/// How many of these clusters are more than a coincidence.
pub fn needed(fewest: usize, clusters: usize) -> usize {
    fewest.max(clusters.div_ceil(ONE_IN))
}

/// The name of a policy, and the hash of how one of its checks is set up.
pub type Key = (Arc<str>, Arc<str>);

/// One cluster among those that run the same check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(u64);

/// Which clusters run which check of which policy, what it says there, and since when it fails.
#[derive(Debug, Default)]
pub struct Spread {
    checks: BTreeMap<Key, Count>,
    joined: u64,
}

#[derive(Debug, Default)]
struct Count {
    members: usize,
    passing: BTreeSet<Place>,
    failing: BTreeMap<Place, Instant>,
    held: Held,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    #[default]
    No,
    Yes,
    /// The share has fallen below.
    Until(Instant),
}

/// Why a Trigger that fails is not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerHold {
    /// Its check fails in many clusters, or did until recently.
    Widespread {
        /// In so many it fails.
        failing: usize,
        /// In so many it says whether it fails.
        clusters: usize,
        /// The end of the hold; `None` while there are many.
        until: Option<Instant>,
    },
    /// Other clusters have until then to show whether it fails there.
    Early {
        /// One period after its first failed run.
        until: Instant,
    },
    /// The API server of the cluster has answered no list of leases since its first failed run.
    Unanswered,
}

impl Spread {
    /// One more cluster runs this check. Returns its place, and whether the others have to know.
    pub fn join(&mut self, check: &Key, now: Instant) -> (Place, bool) {
        self.joined += 1;
        let changed = self.change(check, now, |count| count.members += 1);
        (Place(self.joined), changed)
    }

    /// A cluster does not run this check any more. Returns whether the others have to know.
    pub fn leave(&mut self, check: &Key, place: Place, now: Instant) -> bool {
        self.change(check, now, |count| {
            count.members = count.members.saturating_sub(1);
            count.passing.remove(&place);
            count.failing.remove(&place);
        })
    }

    /// What this check says there now; the cluster does not count while it says nothing. Returns whether the
    /// others have to know.
    pub fn says(&mut self, check: &Key, place: Place, said: Said, now: Instant) -> bool {
        self.change(check, now, |count| {
            if said == Said::Yes {
                count.passing.insert(place);
            } else {
                count.passing.remove(&place);
            }
            if said == Said::No {
                count.failing.entry(place).or_insert(now);
            } else {
                count.failing.remove(&place);
            }
        })
    }

    /// The clusters in which this check fails.
    pub fn failing(&self, check: &Key) -> impl Iterator<Item = Place> {
        let count = self.checks.get(check);
        count.into_iter().flat_map(|it| it.failing.keys().copied())
    }

    /// Why a Trigger that fails in this cluster is not acted on; `None` if it is. `answered` is when the
    /// newest list of its leases that succeeded was asked for.
    pub fn hold(
        &self,
        check: &Key,
        place: Place,
        period: Duration,
        answered: Option<Instant>,
        now: Instant,
    ) -> Option<TriggerHold> {
        let count = self.checks.get(check);
        if let Some(widespread) = count.and_then(|count| count.hold(now)) {
            return Some(widespread);
        }
        let since = count.and_then(|count| count.failing.get(&place));
        let since = since.copied().unwrap_or(now);
        let until = since + period;
        if now < until {
            return Some(TriggerHold::Early { until });
        }
        let heard = answered.is_some_and(|answered| answered >= since);
        (!heard).then_some(TriggerHold::Unanswered)
    }

    /// Whether a hold has begun, or has got an end.
    fn change(&mut self, check: &Key, now: Instant, change: impl FnOnce(&mut Count)) -> bool {
        let count = self.checks.entry(check.clone()).or_default();
        change(count);
        let before = count.held;
        count.held = match (count.is_widespread(), before) {
            (true, _) => Held::Yes,
            (false, Held::Yes) => Held::Until(now + LINGERS),
            (false, Held::No | Held::Until(_)) => before,
        };
        let changed = count.held != before;
        if count.members == 0 {
            self.checks.remove(check);
        }
        changed
    }
}

impl Count {
    fn clusters(&self) -> usize {
        self.passing.len() + self.failing.len()
    }

    fn is_widespread(&self) -> bool {
        self.failing.len() >= needed(FEWEST, self.clusters())
    }

    fn hold(&self, now: Instant) -> Option<TriggerHold> {
        let until = match self.held {
            Held::Yes => None,
            Held::Until(end) if now < end => Some(end),
            Held::Until(_) | Held::No => return None,
        };
        Some(TriggerHold::Widespread {
            failing: self.failing.len(),
            clusters: self.clusters(),
            until,
        })
    }
}

impl TriggerHold {
    /// When it ends by itself, if nothing changes.
    pub fn until(self) -> Option<Instant> {
        match self {
            Self::Widespread { until, .. } => until,
            Self::Early { until } => Some(until),
            Self::Unanswered => None,
        }
    }

    /// The reason, for people: why nothing is done about the check of this name, and what to look at.
    pub fn describe(self, check: &str, policy: &str) -> String {
        match self {
            // The same while it lingers: a share that goes up and down is not to be written each time.
            Self::Widespread {
                failing, clusters, ..
            } => format!(
                "the check {check} fails in {failing} of {clusters} clusters of the policy {policy} in which \
                 it was run lately, which is no evidence of an outage of each until {LINGERS:?} after it fails in fewer than \
                 {FEWEST} or in less than a quarter; see what they share: the target of the check, and the \
                 network, NetworkPolicies and DNS between the prober and it; an outage that the leases \
                 prove is acted on all the same"
            ),
            Self::Early { .. } => format!(
                "the check {check} began to fail less than one period ago, and other clusters have that \
                 time to show whether it fails there, too"
            ),
            Self::Unanswered => format!(
                "the API server of the cluster has answered no list of leases since the check {check} \
                 began to fail, so the network of the prober may be at fault"
            ),
        }
    }
}

/// The [`Spread`] of all clusters. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SharedSpread(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    spread: Spread,
    /// The loops that wait for a hold to begin or to end.
    loops: BTreeMap<Place, Arc<Notify>>,
}

/// One cluster runs a check, for as long as this lives.
#[derive(Debug)]
pub struct Member {
    shared: SharedSpread,
    check: Key,
    place: Place,
}

impl SharedSpread {
    /// One more cluster runs this check; `news` wakes its loop.
    pub fn join(&self, check: Key, news: Arc<Notify>) -> Member {
        let mut shared = self.lock();
        let (place, changed) = shared.spread.join(&check, Instant::now());
        shared.loops.insert(place, news);
        if changed {
            shared.wake(&check);
        }
        drop(shared);
        Member {
            shared: self.clone(),
            check,
            place,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn wake(&self, check: &Key) {
        for place in self.spread.failing(check) {
            if let Some(news) = self.loops.get(&place) {
                news.notify_one();
            }
        }
    }
}

impl Member {
    /// What the check says now.
    pub fn says(&self, said: Said) {
        let mut shared = self.shared.lock();
        let now = Instant::now();
        if shared.spread.says(&self.check, self.place, said, now) {
            shared.wake(&self.check);
        }
    }

    /// As [`Spread::hold`], at this moment.
    pub fn hold(&self, period: Duration, answered: Option<Instant>) -> Option<TriggerHold> {
        let shared = self.shared.lock();
        let now = Instant::now();
        shared
            .spread
            .hold(&self.check, self.place, period, answered, now)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut shared = self.shared.lock();
        shared.loops.remove(&self.place);
        let now = Instant::now();
        if shared.spread.leave(&self.check, self.place, now) {
            shared.wake(&self.check);
        }
    }
}

#[cfg(test)]
mod tests;
