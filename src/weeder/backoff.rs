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
