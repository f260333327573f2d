//! When each of the clusters that may be restored gets its turn.
//!
//! After an outage of many clusters, restoring all at the same time starts as many control planes on the
//! nodes of one seed. If their API servers starve, leases go silent again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

/// Restores that begin without a pause. Judgement: an outage of a few shoots does not affect others.
pub(crate) const AT_ONCE: u32 = 20;
/// Pause between further restores. Judgement: some 1,200 within [`LATEST`], less [`HELD`].
pub(crate) const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait of a cluster, however many there are.
pub(crate) const LATEST: Duration = Duration::from_secs(5 * 60);
/// Longest wait for a widespread outage to stop growing.
pub(crate) const HELD: Duration = Duration::from_secs(60);
/// An outage has stopped growing when no cluster fell silent for this long. Judgement: clusters with the
/// same cause are found within a renewal period, of 10 s by default, and the time that a read takes.
pub(crate) const GROWS: Duration = Duration::from_secs(15);
/// Many clusters that fall silent within this time have a common cause.
pub(crate) const TOGETHER: Duration = Duration::from_secs(60);
/// Fewer are no more than a coincidence, …
const FEWEST: usize = 3;
/// … and neither is less than one in so many.
const ONE_IN: usize = 4;

/// One cluster among those that are restored by turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// The clusters that wait to be restored, and what makes them wait.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    joined: u64,
    /// Those that are scaled down if they fall silent.
    guarded: BTreeSet<Place>,
    /// By when each could first be restored; the value is when it began to wait.
    waiting: BTreeMap<(Instant, Place), Instant>,
    /// In order of waiting.
    queue: BTreeSet<(Instant, Place)>,
    /// When [`AT_ONCE`] restores are free again.
    rested: Option<Instant>,
    /// When each cluster was last scaled down.
    fell: BTreeMap<Place, Instant>,
}

impl Turns {
    /// Adds a cluster.
    pub(crate) fn join(&mut self) -> Place {
        self.joined += 1;
        Place(self.joined)
    }

    /// Removes a cluster, which does not wait.
    pub(crate) fn leave(&mut self, place: Place) {
        self.guard(place, false);
        self.fell.remove(&place);
    }

    /// Whether this cluster is scaled down if it falls silent.
    pub(crate) fn guard(&mut self, place: Place, is_guarded: bool) {
        if is_guarded {
            self.guarded.insert(place);
        } else {
            self.guarded.remove(&place);
        }
    }

    /// This cluster was scaled down.
    pub(crate) fn falls(&mut self, place: Place, now: Instant) {
        self.fell.insert(place, now);
    }

    /// Whether this cluster, which could be restored since then, is restored now. If not, it waits.
    pub(crate) fn take(&mut self, place: Place, since: Instant, now: Instant) -> bool {
        let begun = *self.waiting.entry((since, place)).or_insert(now);
        self.queue.insert((begun, place));
        if self.due(place, now).is_none_or(|due| now < due) {
            return false;
        }
        let pause = self.pause(now);
        self.give_up(place, since);
        self.rested = Some(self.rested.map_or(now, |at| at.max(now)) + pause);
        true
    }

    /// This cluster, which might be restored since then, does not wait any more.
    pub(crate) fn give_up(&mut self, place: Place, since: Instant) {
        if let Some(begun) = self.waiting.remove(&(since, place)) {
            self.queue.remove(&(begun, place));
        }
    }

    /// The one that could first be restored.
    pub(crate) fn first(&self) -> Option<Place> {
        self.waiting.keys().next().map(|(_, place)| *place)
    }

    /// When this cluster may be restored, as far as is known; `None` while another comes first.
    pub(crate) fn due(&self, place: Place, now: Instant) -> Option<Instant> {
        let rested = self.rested;
        let paced = rested.and_then(|rested| rested.checked_sub((AT_ONCE - 1) * PAUSE));
        let (longest, _) = *self.queue.first()?;
        let held = self.grows_until(now).map(|until| until.min(longest + HELD));
        let due = paced.into_iter().chain(held).max().unwrap_or(now);
        (self.first() == Some(place)).then(|| due.min(longest + LATEST))
    }

    /// The pause between two, so that none waits for too long.
    fn pause(&self, now: Instant) -> Duration {
        let longest = self.queue.first();
        let rest = longest.map(|(begun, _)| (*begun + LATEST).duration_since(now));
        let each = u32::try_from(self.waiting.len()).ok().zip(rest);
        PAUSE.min(each.map_or(Duration::ZERO, |(waiting, rest)| rest / waiting.max(1)))
    }

    /// Until when an outage counts as growing, if one does.
    fn grows_until(&self, now: Instant) -> Option<Instant> {
        let until = *self.fell.values().max()? + GROWS;
        let lately = self.fell.values().filter(|at| now <= **at + TOGETHER);
        (now < until && lately.count() >= many(self.guarded.len())).then_some(until)
    }
}

/// The number of clusters, of so many, that have a common cause.
pub(crate) fn many(clusters: usize) -> usize {
    FEWEST.max(clusters.div_ceil(ONE_IN))
}

#[cfg(test)]
mod tests;
