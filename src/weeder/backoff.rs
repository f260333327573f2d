//! How often pods of the same controller are deleted.
//!
//! A pod that crashes although its predecessor was deleted with the service ready waits for something
//! else, or is broken. Its own back-off has just begun, so to delete it gains little, and takes its
//! logs. Such successors are deleted after pauses that grow as those of a kubelet do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::attempts::Deletion;

/// The pause before the first successor is deleted; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What was deleted while windows were open, by namespace and by the UID of the controller.
#[derive(Debug, Default)]
pub struct Backoff(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Series>>);

/// The deletions of pods of one controller, at least one, without those that came to nothing.
#[derive(Debug)]
struct Series {
    /// By the UID of the pod: when it began, and since when the pod looped.
    deletions: BTreeMap<Arc<str>, (Instant, Instant)>,
    first: Instant,
    last: Instant,
    /// How many of the pods had begun to loop after the first deletion.
    successors: usize,
}

impl Backoff {
    /// Until when a pod of this controller waits that loops since then, in a window that was opened
    /// then; `None` if it is no successor of one that was deleted in the window.
    pub fn until(
        &self,
        namespace: &str,
        controller: &str,
        looping_since: Instant,
        opened: Instant,
    ) -> Option<Instant> {
        let series = self.0.get(namespace)?.get(controller)?;
        if series.first < opened || looping_since <= series.first {
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << series.successors.min(8));
        series.last.checked_add(pause.min(LONGEST_PAUSE))
    }

    /// This deletion begins, in a window that was opened then; tells whether it is the first of its pod.
    /// It counts from now on, so that no sibling is deleted while it is on its way.
    pub fn begun(&mut self, deletion: &Deletion, opened: Instant, now: Instant) -> bool {
        let controllers = self.0.entry(deletion.namespace.clone()).or_default();
        let series = controllers.entry(deletion.owner.uid.clone());
        let series = series.or_insert_with(|| Series::new(now));
        if series.first < opened {
            *series = Series::new(now);
        }
        if series.deletions.contains_key(&deletion.uid) {
            return false;
        }
        let times = (now, deletion.looping_since);
        series.deletions.insert(deletion.uid.clone(), times);
        series.last = now;
        series.successors += usize::from(deletion.looping_since > series.first);
        true
    }

    /// This deletion came to nothing; tells whether it has counted until now.
    pub fn failed(&mut self, deletion: &Deletion) -> bool {
        let controller = &deletion.owner.uid;
        let Some(controllers) = self.0.get_mut(&deletion.namespace) else {
            return false;
        };
        let Some(mut series) = controllers.remove(controller) else {
            return false;
        };
        let counted = series.deletions.remove(&deletion.uid).is_some();
        if let Some(series) = Series::of(series.deletions) {
            controllers.insert(controller.clone(), series);
        }
        counted
    }

    /// No window is open in this namespace.
    pub fn forget(&mut self, namespace: &str) {
        self.0.remove(namespace);
    }

    /// How many controllers are remembered.
    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }
}

impl Series {
    /// Without any yet; the first begins now.
    fn new(now: Instant) -> Self {
        Self {
            deletions: BTreeMap::new(),
            first: now,
            last: now,
            successors: 0,
        }
    }

    /// Of these.
    fn of(deletions: BTreeMap<Arc<str>, (Instant, Instant)>) -> Option<Self> {
        let begun = deletions.values().map(|(begun, _)| *begun);
        let (first, last) = (begun.clone().min()?, begun.max()?);
        let successors = deletions.values().filter(|(_, looping)| *looping > first);
        Some(Self {
            first,
            last,
            successors: successors.count(),
            deletions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weeder::report::PodOwner;

    /// Of a pod of the controller `uid` that loops since then.
    fn deletion(pod: &str, looping_since: Instant) -> Deletion {
        Deletion {
            namespace: "shoot".into(),
            pod: pod.into(),
            uid: pod.into(),
            resource_version: "1".into(),
            owner: PodOwner {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "api".into(),
                uid: "uid".into(),
            },
            containers: vec![],
            policy: "p".into(),
            policy_uid: "uid-p".into(),
            service: "etcd".into(),
            ready_since: looping_since,
            looping_since,
            called_for: looping_since,
        }
    }

    /// The pauses after which the pods of one controller are deleted that loop again at once.
    fn pauses(count: usize) -> Vec<u64> {
        let opened = Instant::now();
        let mut backoff = Backoff::default();
        assert!(backoff.begun(&deletion("first", opened), opened, opened));
        let mut last = opened;
        let mut pauses = Vec::new();
        for number in 0..count {
            let since = last + Duration::from_secs(1);
            let until = backoff.until("shoot", "uid", since, opened);
            let at = until.unwrap();
            pauses.push((at - last).as_secs());
            backoff.begun(&deletion(&number.to_string(), since), opened, at);
            last = at;
        }
        pauses
    }

    #[test]
    fn successors_wait_ever_longer() {
        assert_eq!(pauses(8), [10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn only_successors_wait() {
        let second = Duration::from_secs(1);
        let opened = Instant::now();
        let mut backoff = Backoff::default();
        backoff.begun(&deletion("a", opened), opened, opened + second);
        let until = |backoff: &Backoff, namespace: &str, controller: &str, since, opened| {
            backoff.until(namespace, controller, since, opened)
        };
        let later = opened + 2 * second;
        assert!(until(&backoff, "shoot", "uid", later, opened).is_some());
        // Another replica, which looped before the first was deleted.
        assert_eq!(until(&backoff, "shoot", "uid", opened, opened), None);
        assert_eq!(until(&backoff, "shoot", "other", later, opened), None);
        assert_eq!(until(&backoff, "other", "uid", later, opened), None);
        // The service was away meanwhile.
        assert_eq!(until(&backoff, "shoot", "uid", later, later), None);
        backoff.begun(&deletion("b", later), later, later);
        assert_eq!(until(&backoff, "shoot", "uid", later, later), None);
        assert_eq!(backoff.count(), 1);
        backoff.forget("shoot");
        assert_eq!(backoff.count(), 0);
    }

    #[test]
    fn what_came_to_nothing_does_not_count() {
        let opened = Instant::now();
        let at = |second| opened + Duration::from_secs(second);
        let mut backoff = Backoff::default();
        let [first, sibling] = ["a1", "b1"].map(|pod| deletion(pod, opened));
        assert!(backoff.begun(&first, opened, at(1)));
        assert!(backoff.begun(&sibling, opened, at(2)));
        let successor = deletion("a2", at(3));
        assert!(backoff.begun(&successor, opened, at(12)));
        // To try again is no other deletion.
        assert!(!backoff.begun(&successor, opened, at(13)));
        let until = |backoff: &Backoff| backoff.until("shoot", "uid", at(20), opened);
        assert_eq!(until(&backoff), Some(at(12 + 20)));
        assert!(backoff.failed(&successor) && !backoff.failed(&successor));
        assert_eq!(until(&backoff), Some(at(2 + 10)));
        assert!(backoff.failed(&first));
        assert_eq!(until(&backoff), Some(at(2 + 10)));
        assert!(backoff.failed(&sibling));
        assert_eq!((until(&backoff), backoff.count()), (None, 0));
        assert!(!backoff.failed(&sibling));
    }
}
