//! When an outage began: which of the silent leases fell silent together.
//!
//! A network that breaks silences its nodes within one renewal period. Nodes that died one by one, or long
//! ago, are silent for reasons of their own, and an outage's scale-down would stop what replaces them.

use std::{collections::VecDeque, time::Duration};

use super::LeaseRules;
use crate::util::mono_time::MonoTime;

/// Judgement: leases whose last renewals lie further apart than this, or than [`GRACES`], did not fall
/// silent together. An outage may take this long to spread from zone to zone.
const TOGETHER: Duration = Duration::from_secs(15 * 60);
/// In graces: kube-controller-manager marks what fell silent within them at about one time.
const GRACES: u32 = 3;

/// A lease that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Renewal {
    /// When it was last renewed, at the latest.
    pub(super) at: MonoTime,
    /// It is certainly expired.
    pub(super) expired: bool,
}

/// For how long leases may fall silent one after the other and still be one outage.
pub(super) fn spread(thresholds: &LeaseRules) -> Duration {
    TOGETHER.max(thresholds.grace * GRACES)
}

/// Earliest renewal of an expired lease from which enough leases, of those not silent before, fell silent
/// together to be an outage. `certain` counts only expired ones; otherwise the others may join.
///
/// `unknown` is the number of counted leases whose renewal is unknown, `evidence` that of fresh ones that
/// do not count. The renewals are in order.
pub(super) fn earliest(
    renewals: &[Renewal],
    unknown: usize,
    evidence: usize,
    thresholds: &LeaseRules,
    certain: bool,
) -> Option<MonoTime> {
    let spread = spread(thresholds);
    let all = renewals.len() + unknown + evidence;
    let unknown = if certain { 0 } else { unknown };
    let silent = renewals.iter().filter(|it| it.expired).map(|it| it.at);
    let counted = renewals.iter().filter(|it| it.expired || !certain);
    let mut later = counted.map(|it| it.at).peekable();
    // The renewals within `spread` of one moment, and the number of silent leases before it.
    let mut together = VecDeque::new();
    let mut before = 0;
    silent.enumerate().find_map(|(index, from)| {
        while let Some(next) = later.next_if(|next| next.since(from) <= spread) {
            together.push_back(next);
        }
        while together.pop_front_if(|first| *first < from).is_some() {
            before = index;
        }
        let reached = thresholds.reached(together.len() + unknown, all - before);
        reached.then_some(from)
    })
}
