//! Desk of a writer: all objects that are written, and the events that wait.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use tokio::time::Instant;

use super::{
    events::{Event, queue::Queue, regarding},
    metrics::EventCounts,
    object::{Kind, Status},
    request::{Applied, Write},
    slot::{Rank, Slot, owner},
};
use crate::api::{ClusterHealth, ProbePolicy, WeedPolicy};

/// Kind and name of an object.
pub(crate) type Key = (Kind, Arc<str>);

/// The objects that are written, and the events that wait.
#[derive(Debug)]
pub(crate) struct Desk {
    /// In boxes, since half of the places in a tree are empty.
    slots: BTreeMap<Key, Box<Slot>>,
    /// Times at which objects are due to be written. A thousand clusters send a hundred reports a second, of
    /// which hardly any changes that.
    due: BTreeSet<(Instant, Key)>,
    pub(super) queue: Queue,
}

/// Object that is written next.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub(super) due: Instant,
    pub(super) rank: Rank,
    pub(super) key: Key,
}

impl Desk {
    /// Returns a desk without an object. It counts the events that are dropped.
    pub(crate) fn new(counts: EventCounts) -> Self {
        Self {
            slots: BTreeMap::new(),
            due: BTreeSet::new(),
            queue: Queue::new(counts),
        }
    }

    /// Takes up what an earlier run has left of the object with this UID, unless it is known.
    pub(crate) fn left(&mut self, name: &Arc<str>, uid: &Arc<str>, status: Status) {
        let key = (status.kind(), name.clone());
        let slot = || Box::new(Slot::left(status, uid.clone(), None));
        self.slots.entry(key).or_insert_with(slot);
    }

    /// Takes up a ClusterHealth that an earlier run has left.
    pub(crate) fn left_health(&mut self, name: &Arc<str>, health: ClusterHealth) {
        let status = Status::Cluster(Box::new(health.status.unwrap_or_default()));
        let (metadata, key) = (health.metadata, (Kind::ClusterHealth, name.clone()));
        let owner = owner(&metadata, "");
        let slot = Slot::left(status, owner, metadata.uid);
        self.slots.insert(key, Box::new(slot));
    }

    /// Takes up the status of an object with this UID. Returns whether it counts: what an earlier run left stands for
    /// a while until a report is complete.
    pub(crate) fn want(
        &mut self,
        name: &Arc<str>,
        uid: &Arc<str>,
        status: Status,
        complete: bool,
    ) -> bool {
        let key = (status.kind(), name.clone());
        let slot = || Box::new(Slot::new(key.0));
        self.slots.entry(key.clone()).or_insert_with(slot);
        let events = self.edit(&key, |slot| slot.want(uid, status, complete));
        let Some(events) = events.flatten() else {
            return false;
        };
        for event in events {
            event.log(&key);
            self.tell(&key, event);
        }
        true
    }

    /// Takes up that the watch reports a policy anew with or without the finalizer.
    pub(crate) fn found_finalizer(&mut self, name: &Arc<str>, uid: &Arc<str>, on: bool) {
        let key = (Kind::Finalizer, name.clone());
        let slot = || Box::new(Slot::new(key.0));
        self.slots.entry(key.clone()).or_insert_with(slot);
        self.edit(&key, |slot| slot.found(uid, Status::Finalizer(on)));
    }

    /// Requests the deletion of a ClusterHealth. Its status still counts, unless the cluster is unselected.
    pub(crate) fn delete(&mut self, name: &Arc<str>, unselected: bool) {
        let key = (Kind::ClusterHealth, name.clone());
        self.edit(&key, |slot| slot.delete(unselected));
    }

    /// Takes up what the watch says: there is a ClusterHealth of this name, or none. Returns whether it is of no use
    /// any more.
    pub(crate) fn seen(&mut self, name: &str, health: Option<&ObjectMeta>) -> bool {
        let key = (Kind::ClusterHealth, name.into());
        let known = self.edit(&key, |slot| slot.seen(health)).is_some();
        known && !self.slots.contains_key(&key)
    }

    /// Forgets the policies of these kinds whose name is none of these.
    pub(crate) fn retain(&mut self, kinds: &[Kind], is_there: impl Fn(&str) -> bool) {
        let over = |(kind, name): &&Key| kinds.contains(kind) && !is_there(name);
        let over: Vec<Key> = self.slots.keys().filter(over).cloned().collect();
        for key in over {
            self.forget(&key);
        }
    }

    /// The names of the ClusterHealths.
    pub(crate) fn healths(&self) -> impl Iterator<Item = &Arc<str>> {
        let healths = self.slots.keys();
        healths
            .filter(|(kind, _)| *kind == Kind::ClusterHealth)
            .map(|(_, name)| name)
    }

    /// Queues an event about an object, unless that is to be deleted.
    pub(crate) fn tell(&mut self, key: &Key, event: Event) {
        let (kind, name) = key;
        let Some(slot) = self.slots.get(key).filter(|slot| slot.is_kept()) else {
            return;
        };
        let uid = slot.object_uid();
        let regarding = match kind {
            Kind::ClusterHealth => regarding::<ClusterHealth>(name, uid),
            Kind::Finalizer | Kind::ProbePolicy => regarding::<ProbePolicy>(name, uid),
            Kind::WeedPolicy => regarding::<WeedPolicy>(name, uid),
        };
        self.tell_of(regarding, event);
    }

    /// Queues an event about any other object.
    pub(crate) fn tell_of(&mut self, regarding: ObjectReference, event: Event) {
        self.queue.push(regarding, event);
    }

    /// Returns what is due first, of what is not being written; of all that is due, by its rank. So neither a
    /// finalizer nor a protection waits for the statuses of a thousand clusters, nor any other news for
    /// states that come and go.
    pub(super) fn next(&self) -> Option<Next> {
        let now = Instant::now();
        let due = self.due.iter().enumerate();
        let due = due.take_while(|(place, (due, _))| *place == 0 || *due <= now);
        let due = due.filter_map(|(_, (due, key))| Some((*due, self.slots.get(key)?.rank(), key)));
        // What is not due yet comes in its time, whatever its rank.
        let first = due.min_by_key(|(due, rank, _)| ((*due).max(now), *rank, *due));
        first.map(|(due, rank, key)| Next {
            due,
            rank,
            key: key.clone(),
        })
    }

    /// Returns how many objects are due to be written and are not being written.
    pub(super) fn due(&self) -> usize {
        let now = Instant::now();
        self.due.iter().take_while(|(due, _)| *due <= now).count()
    }

    /// Brings forward what was put off, so as not to be written too often: nothing more is reported.
    pub(super) fn close(&mut self) {
        let keys: Vec<Key> = self.due.iter().map(|(_, key)| key.clone()).collect();
        for key in keys {
            self.edit(&key, Slot::close);
        }
    }

    /// Begins to write an object.
    pub(super) fn begin(&mut self, key: &Key) -> Option<Write> {
        self.edit(key, |slot| slot.begin(&key.1))
    }

    /// Takes up the result of a write. The object may have gone meanwhile.
    pub(super) fn ended(&mut self, write: Write, result: Applied) {
        let key = (write.kind, write.name.clone());
        self.edit(&key, |slot| slot.ended(write, result));
    }

    /// Changes an object, and when it is due.
    fn edit<T>(&mut self, key: &Key, edit: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let slot = self.slots.get_mut(key)?;
        let before = slot.due();
        let result = edit(slot);
        let (after, is_over) = (slot.due(), slot.is_over());
        if before != after {
            self.due.extend(after.map(|due| (due, key.clone())));
            if let Some(before) = before {
                self.due.remove(&(before, key.clone()));
            }
        }
        if is_over {
            self.forget(key);
        }
        Some(result)
    }

    fn forget(&mut self, key: &Key) {
        let due = self.slots.remove(key).and_then(|slot| slot.due());
        if let Some(due) = due {
            self.due.remove(&(due, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ClusterHealthStatus, ClusterState, Protection};

    fn health(change: impl FnOnce(&mut ClusterHealthStatus)) -> Status {
        let mut status = ClusterHealthStatus::default();
        change(&mut status);
        Status::Cluster(Box::new(status))
    }

    /// However many are only observed otherwise, and however long they have been due.
    #[tokio::test(start_paused = true)]
    async fn a_finalizer_goes_first_and_what_is_only_observed_last() {
        let mut desk = Desk::new(EventCounts::default());
        let uid = "uid".into();
        for name in ["a", "b", "c", "d"].map(Arc::from) {
            desk.left(&name, &uid, health(|_| ()));
        }
        let observed = || health(|it| it.state = Some(ClusterState::Online));
        desk.want(&"a".into(), &uid, observed(), true);
        desk.want(&"b".into(), &uid, observed(), true);
        let skipped = health(|it| it.skipped = Some("Hibernated".to_owned()));
        desk.want(&"c".into(), &uid, skipped, true);
        let protected = health(|it| it.protection = Protection::ScalingDown);
        desk.want(&"d".into(), &uid, protected, true);
        desk.found_finalizer(&"p".into(), &uid, false);
        desk.want(&"p".into(), &uid, Status::Finalizer(true), true);
        let next = || {
            let next = desk.next().filter(|it| it.due <= Instant::now())?;
            desk.begin(&next.key).map(|it| it.name.to_string())
        };
        let order: Vec<String> = std::iter::from_fn(next).collect();
        assert_eq!(order, ["p", "d", "c", "a", "b"]);
    }
}
