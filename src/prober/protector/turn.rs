//! One cluster's place among those that are restored by turns.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::Notify, time::Instant};

use crate::{
    prober::turns::{Place, Turns},
    runtime::timer::until,
};

/// The turns of all clusters. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct SharedTurns(Arc<Mutex<Shared>>);

#[derive(Debug, Default)]
struct Shared {
    turns: Turns,
    /// Wakes the loop that comes next.
    loops: BTreeMap<Place, Arc<Notify>>,
}

/// One cluster is restored by turns, for as long as this lives.
#[derive(Debug)]
pub(super) struct Turn {
    shared: SharedTurns,
    place: Place,
    comes_first: Arc<Notify>,
    /// Since when it might have been restored, while it waits.
    waits: Option<Instant>,
    /// Whether it is scaled down if it falls silent.
    is_guarded: bool,
}

impl SharedTurns {
    /// One more cluster.
    pub(super) fn join(&self) -> Turn {
        let comes_first = Arc::new(Notify::new());
        let mut shared = self.lock();
        let place = shared.turns.join();
        shared.loops.insert(place, comes_first.clone());
        drop(shared);
        Turn {
            shared: self.clone(),
            place,
            comes_first,
            waits: None,
            is_guarded: false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Changes who waits, and wakes the one that comes first by that.
    fn change<T>(&mut self, change: impl FnOnce(&mut Turns) -> T) -> T {
        let before = self.turns.first();
        let changed = change(&mut self.turns);
        let first = self.turns.first();
        if first != before
            && let Some(next) = first.and_then(|first| self.loops.get(&first))
        {
            next.notify_one();
        }
        changed
    }
}

impl Turn {
    /// Whether the cluster, which might have been restored since then, may be now. If not, it waits from now on.
    pub(super) fn take(&mut self, since: Instant) -> bool {
        if self.waits != Some(since) {
            self.give_up();
        }
        let (place, now) = (self.place, Instant::now());
        let taken = self
            .shared
            .lock()
            .change(|turns| turns.take(place, since, now));
        self.waits = (!taken).then_some(since);
        taken
    }

    /// The cluster does not wait to be restored any more.
    pub(super) fn give_up(&mut self) {
        if let Some(since) = self.waits.take() {
            let place = self.place;
            self.shared
                .lock()
                .change(|turns| turns.give_up(place, since));
        }
    }

    /// Whether the cluster is scaled down if it falls silent.
    pub(super) fn guard(&mut self, is_guarded: bool) {
        if self.is_guarded != is_guarded {
            self.is_guarded = is_guarded;
            self.shared.lock().turns.guard(self.place, is_guarded);
        }
    }

    /// The cluster was scaled down.
    pub(super) fn falls(&self) {
        self.shared.lock().turns.falls(self.place, Instant::now());
    }

    /// Waits until it is worth asking again; forever while another comes first. Nothing is lost if this is
    /// dropped.
    pub(super) async fn due(&self) {
        let due = self.shared.lock().turns.due(self.place, Instant::now());
        tokio::select! {
            () = self.comes_first.notified() => {}
            () = until(due) => {}
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.give_up();
        let mut shared = self.shared.lock();
        shared.loops.remove(&self.place);
        shared.turns.leave(self.place);
    }
}
