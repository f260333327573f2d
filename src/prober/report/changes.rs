//! When the log tells that the state of a cluster is another: one that changes at every probe is told of
//! a few times, and then now and then, with how often it has changed meanwhile.

use tokio::time::Instant;

use crate::{api::ClusterState, status::allowance::Allowance};

/// What the log has told of the state of one cluster.
#[derive(Debug)]
pub(super) struct Changes {
    told: Option<ClusterState>,
    last: Option<ClusterState>,
    /// How many have not been told.
    untold: u32,
    allowance: Allowance,
}

impl Changes {
    /// Of a cluster that an earlier run has left in this state, if in any.
    pub(super) fn new(state: Option<ClusterState>) -> Self {
        Self {
            told: state,
            last: state,
            untold: 0,
            allowance: Allowance::full(),
        }
    }

    /// It has none for now, which another log line tells.
    pub(super) fn rest(&mut self) {
        (self.told, self.last, self.untold) = (None, None, 0);
    }

    /// Takes in the state as it is now. What is to be told: the state that was told last, and how many
    /// changes there were in between.
    pub(super) fn take(
        &mut self,
        state: ClusterState,
        now: Instant,
    ) -> Option<(Option<ClusterState>, u32)> {
        if self.last.replace(state) != Some(state) {
            self.untold = self.untold.saturating_add(1);
        }
        if self.untold == 0 || self.allowance.next(now) > now {
            return None;
        }
        self.allowance.spend(now);
        let between = std::mem::take(&mut self.untold).saturating_sub(1);
        Some((self.told.replace(state), between))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ClusterState::{Degraded, Online};

    /// At a probe each ten seconds, and what it ends with is told, too.
    #[test]
    fn one_that_flaps_is_told_of_now_and_then() {
        let begin = Instant::now();
        let mut changes = Changes::new(Some(Online));
        let mut told = Vec::new();
        for probe in 1..=360_u32 {
            let state = if probe % 2 == 0 { Online } else { Degraded };
            let now = begin + Duration::from_secs(10) * probe;
            told.extend(changes.take(state, now));
        }
        assert!((60..80).contains(&told.len()), "{}", told.len());
        assert!(told.iter().skip(15).all(|(_, between)| *between >= 4));
        let all: u32 = told.iter().map(|(_, between)| 1 + between).sum();
        assert_eq!(all + changes.untold, 360);
        let over = begin + Duration::from_secs(3700);
        let last = changes.take(Online, over);
        assert!(last.is_some());
        assert_eq!(changes.take(Online, over), None);
    }
}
