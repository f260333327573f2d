//! Whose turn it is when more runs are due than may be under way at once.
//!
//! A run that hangs keeps its place until its timeout, and those of one policy hang together: what
//! they ask may be away in all of its clusters. So a policy has at most half of the places.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Gives out places.
#[derive(Debug)]
pub(super) struct Turns {
    places: usize,
    all: Arc<Semaphore>,
    policies: Mutex<BTreeMap<Arc<str>, Arc<Semaphore>>>,
}

/// A place, for as long as this lives.
pub(super) type Turn = [Option<OwnedSemaphorePermit>; 2];

impl Turns {
    /// So many places.
    pub(super) fn new(places: usize) -> Self {
        Self {
            places,
            all: Arc::new(Semaphore::new(places)),
            policies: Mutex::default(),
        }
    }

    /// Waits for a place for a run of this policy. Whoever drops this waits no more.
    pub(super) async fn take(&self, policy: &Arc<str>) -> Turn {
        let own = {
            let mut policies = self.policies.lock();
            let own = policies.entry(policy.clone());
            own.or_insert_with(|| Arc::new(Semaphore::new(self.places / 2)))
                .clone()
        };
        // They are never closed.
        let own = own.acquire_owned().await.ok();
        [own, self.all.clone().acquire_owned().await.ok()]
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_policy_has_at_most_half_of_the_places() {
        let turns = Turns::new(4);
        let take = |name: &str| turns.take(&name.into()).now_or_never();
        let mut one: Vec<Turn> = std::iter::from_fn(|| take("one")).collect();
        assert_eq!(one.len(), 2);
        let other: Vec<Turn> = std::iter::from_fn(|| take("other")).collect();
        assert_eq!(other.len(), 2);
        assert!(take("third").is_none());
        one.pop();
        assert!(take("other").is_none() && take("third").is_some());
    }
}
