//! How often pods of the same controller are deleted.
//!
//! A pod that crashes although its predecessor was deleted with the service ready waits for something
//! else, or is broken. Its own back-off has just begun, so to delete it gains little, and takes its
//! logs. Such successors are deleted after pauses that grow as those of a kubelet do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

/// The pause before the first successor is deleted; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What was deleted while windows were open, by namespace and by the UID of the controller.
#[derive(Debug, Default)]
pub struct Repeats(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Series>>);

/// The deletions of pods of one controller.
#[derive(Clone, Copy, Debug)]
struct Series {
    first: Instant,
    last: Instant,
    /// How many of the pods had begun to loop after the first deletion.
    successors: u32,
}

impl Repeats {
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

    /// A pod of this controller that loops since then is deleted, in a window that was opened then.
    pub fn deleted(
        &mut self,
        namespace: &Arc<str>,
        controller: &Arc<str>,
        looping_since: Instant,
        opened: Instant,
        now: Instant,
    ) {
        let controllers = self.0.entry(namespace.clone()).or_default();
        let begun = Series {
            first: now,
            last: now,
            successors: 0,
        };
        let series = controllers.entry(controller.clone()).or_insert(begun);
        if series.first < opened {
            *series = begun;
        }
        series.last = now;
        if looping_since > series.first {
            series.successors = series.successors.saturating_add(1);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses after which the pods of one controller are deleted that loop again at once.
    fn pauses(count: usize) -> Vec<u64> {
        let (namespace, controller): (Arc<str>, Arc<str>) = ("shoot".into(), "uid".into());
        let opened = Instant::now();
        let mut repeats = Repeats::default();
        repeats.deleted(&namespace, &controller, opened, opened, opened);
        let mut last = opened;
        let mut pauses = Vec::new();
        for _ in 0..count {
            let since = last + Duration::from_secs(1);
            let until = repeats.until(&namespace, &controller, since, opened);
            let at = until.unwrap();
            pauses.push((at - last).as_secs());
            repeats.deleted(&namespace, &controller, since, opened, at);
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
        let (namespace, controller): (Arc<str>, Arc<str>) = ("shoot".into(), "uid".into());
        let second = Duration::from_secs(1);
        let opened = Instant::now();
        let mut repeats = Repeats::default();
        repeats.deleted(&namespace, &controller, opened, opened, opened + second);
        let until = |repeats: &Repeats, namespace: &str, controller: &str, since, opened| {
            repeats.until(namespace, controller, since, opened)
        };
        let later = opened + 2 * second;
        assert!(until(&repeats, "shoot", "uid", later, opened).is_some());
        // Another replica, which looped before the first was deleted.
        assert_eq!(until(&repeats, "shoot", "uid", opened, opened), None);
        assert_eq!(until(&repeats, "shoot", "other", later, opened), None);
        assert_eq!(until(&repeats, "other", "uid", later, opened), None);
        // The service was away meanwhile.
        assert_eq!(until(&repeats, "shoot", "uid", later, later), None);
        repeats.deleted(&namespace, &controller, later, later, later);
        assert_eq!(until(&repeats, "shoot", "uid", later, later), None);
        assert_eq!(repeats.count(), 1);
        repeats.forget("shoot");
        assert_eq!(repeats.count(), 0);
    }
}
