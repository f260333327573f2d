//! Room for large answers: what all of them take together is bounded, whoever sends them.
//!
//! Each answer has a limit of its own, but a few shoots that each use theirs to the full would take
//! the memory of all the others. When there is no room for more, the largest answer is given up, so
//! that none is kept from being read by one that is larger than itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What large answers take together at most, in bytes: a quarter of the memory that the manifests
/// allow, and two lists of 5,000 nodes.
pub const ROOM_BYTES: usize = 256 * 1024 * 1024;

/// An answer up to this is not large, in bytes: more than 1,000 leases.
pub(super) const LARGE_BYTES: usize = 1024 * 1024;

/// The room of all shoots.
pub(super) static ROOM: Room = Room::new(ROOM_BYTES);

/// Room for so many bytes.
#[derive(Debug)]
pub(super) struct Room {
    limit: usize,
    shares: Mutex<Shares>,
}

#[derive(Debug)]
struct Shares {
    taken: usize,
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    bytes: usize,
    given_up: Arc<Notify>,
}

impl Room {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            limit,
            shares: Mutex::new(Shares {
                taken: 0,
                next: 0,
                held: BTreeMap::new(),
            }),
        }
    }

    /// A share that takes nothing yet.
    pub(super) fn share(&self) -> Share<'_> {
        let given_up = Arc::new(Notify::new());
        let mut shares = self.lock();
        let id = shares.next;
        shares.next += 1;
        let held = Held {
            bytes: 0,
            given_up: Arc::clone(&given_up),
        };
        shares.held.insert(id, held);
        Share {
            room: self,
            id,
            given_up,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    fn largest_but(&self, id: u64) -> Option<(u64, usize)> {
        let others = self.held.iter().filter(|(other, _)| **other != id);
        let largest = others.max_by_key(|(_, held)| held.bytes);
        largest.map(|(id, held)| (*id, held.bytes))
    }

    fn set(&mut self, id: u64, bytes: usize) {
        if let Some(held) = self.held.get_mut(&id) {
            self.taken = self.taken - held.bytes + bytes;
            held.bytes = bytes;
        }
    }
}

/// The share of one answer. It is given back with this value.
#[derive(Debug)]
pub(super) struct Share<'r> {
    room: &'r Room,
    id: u64,
    given_up: Arc<Notify>,
}

impl Share<'_> {
    /// Takes so many bytes in all, for which the largest other answers are given up if need be;
    /// `false`, and no more than before, if this one would be the largest.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let mut shares = self.room.lock();
        let own = shares.held.get(&self.id).map_or(0, |held| held.bytes);
        let more = bytes.saturating_sub(own);
        while shares.taken.saturating_add(more) > self.room.limit {
            match shares.largest_but(self.id) {
                Some((largest, held)) if held > bytes => {
                    shares.set(largest, 0);
                    if let Some(held) = shares.held.get(&largest) {
                        held.given_up.notify_one();
                    }
                }
                _ => return false,
            }
        }
        shares.set(self.id, own.saturating_add(more));
        true
    }

    /// Waits until another answer needs what this one has.
    pub(super) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut shares = self.room.lock();
        shares.set(self.id, 0);
        shares.held.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use proptest::prelude::*;

    fn is_given_up(share: &Share<'_>) -> bool {
        share.given_up().now_or_never().is_some()
    }

    #[test]
    fn the_largest_is_given_up_for_a_smaller_one() {
        let room = Room::new(100);
        let (mut hostile, mut large, mut small) = (room.share(), room.share(), room.share());
        assert!(hostile.grow(60) && large.grow(30) && small.grow(10));
        assert!(
            !hostile.grow(61),
            "the largest has to do with what there is"
        );
        assert!(small.grow(20));
        assert!(is_given_up(&hostile) && !is_given_up(&large) && !is_given_up(&small));
        drop(hostile);
        assert!(large.grow(80));
        assert!(!large.grow(81));
        drop(small);
        assert!(large.grow(100));
    }

    proptest! {
        #[test]
        fn no_more_is_taken_than_there_is(
            steps in prop::collection::vec((0..5usize, 0..150usize, any::<bool>()), 1..60)
        ) {
            let room = Room::new(100);
            let mut held: Vec<Share<'_>> = (0..5).map(|_| room.share()).collect();
            for (index, bytes, leave) in steps {
                if leave {
                    held[index] = room.share();
                    continue;
                }
                let smallest = |shares: &Shares| {
                    let others = shares.held.iter().filter(|(id, _)| **id != held[index].id);
                    others.map(|(_, held)| held.bytes).max().unwrap_or(0)
                };
                let largest_other = smallest(&room.lock());
                let granted = held[index].grow(bytes);
                // One that is not the largest, and fits at all, always gets what it needs.
                if bytes < largest_other && bytes * 5 <= 100 {
                    prop_assert!(granted);
                }
                let shares = room.lock();
                prop_assert!(shares.taken <= 100);
                prop_assert_eq!(shares.taken, shares.held.values().map(|it| it.bytes).sum::<usize>());
            }
        }
    }
}
