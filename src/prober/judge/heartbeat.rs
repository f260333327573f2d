//! The last renewal of each node lease: the only home of a lease's age.
//!
//! Ages are measured on the API server's clock, never on a node's: the server stamps the
//! managedFields entry that owns `f:renewTime` whenever the value changes, and the `Date` of the
//! same response says what "now" is there. Both are whole seconds, so a stamp gives a [`Window`] on
//! our own monotonic clock, not a point. What we saw ourselves bounds it, and the microseconds of
//! the node's own renewTime narrow it. Where the server's word cannot be used, only what we saw
//! counts.

mod clock;
mod names;

use std::{mem, sync::Arc, time::Duration};

use self::clock::{NodeClock, Offset, SECOND, ServerClock, Stamp, nanos_of};
pub use self::names::LeaseNames;
use crate::{
    shoot::{Lease, RenewTime, Uid},
    util::mono_time::{MonoTime, Window},
};

/// A stamp may lie this far beyond the response's own `Date`: both are rounded down.
const STAMP_AHEAD_SECONDS: i64 = 1;
/// Judgement: the most by which two renewals differ in the time from the node's reading of its
/// clock to the server's stamp.
const LATENCY: i128 = SECOND / 10;

/// A kubelet renews its lease at a quarter of `leaseDurationSeconds`; this is in milliseconds.
const MILLIS_BETWEEN_RENEWALS_PER_SECOND: u64 = 1000 / 4;
/// The kubelet's default, for leases of 40 s; used where a lease does not say.
const DEFAULT_PERIOD: Duration = Duration::from_secs(10);
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
const LONGEST_PERIOD: Duration = Duration::from_secs(60);

/// One successful list of a shoot's node leases.
#[derive(Clone, Debug)]
pub struct LeaseSnapshot<'a> {
    /// When the request was sent.
    pub started: MonoTime,
    /// When its body had been read.
    pub finished: MonoTime,
    /// The response's `Date`, in Unix seconds.
    pub date: Option<i64>,
    /// Whether the list was consistent, rather than from a cache of any age.
    pub consistent: bool,
    /// The list's resourceVersion.
    pub resource_version: u64,
    /// Its items.
    pub leases: &'a [Lease],
}

/// The use of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    /// A cache older than one seen before answered: nothing was learnt, read again consistently.
    Stale,
    /// The snapshot was taken in.
    Taken {
        /// Leases came or went.
        names_changed: bool,
        /// The whole list is older than one seen, as of a restored etcd, so all that was seen had to be
        /// forgotten, and no proof may rest on earlier reads.
        rolled_back: bool,
        /// Leases whose UID is new: what was seen of them had to be forgotten.
        recreated: Vec<Box<str>>,
    },
}

/// What is known of one lease.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    uid: Uid,
    resource_version: u64,
    value: Option<RenewTime>,
    stamp: Option<Stamp>,
    renewed: Window,
    /// Our clock minus the node's, as successive renewals allow it.
    node_clock: Option<NodeClock>,
    period_millis: u32,
    /// The last consistent read showed the present value.
    confirmed: bool,
    /// It was silent in the outage under way.
    pub(super) silenced: bool,
    /// It was last renewed before the [cut](Heartbeats::set_cut).
    pub(super) is_cut: bool,
}

/// All node leases of one shoot, as seen so far.
#[derive(Clone, Debug, Default)]
pub struct Heartbeats {
    newest: u64,
    clock: Option<ServerClock>,
    last_consistent: Option<MonoTime>,
    /// Sorted: hash tables for 1,000 shoots would take twice the memory.
    names: Arc<LeaseNames>,
    /// One per name.
    beats: Vec<Heartbeat>,
    /// Leases that were last renewed before this, and are silent, count neither way.
    cut: Option<MonoTime>,
}

impl Heartbeats {
    /// Learns from one list of leases.
    pub(crate) fn observe(&mut self, snapshot: &LeaseSnapshot<'_>) -> Intake {
        let mut in_order: Vec<&Lease> = snapshot.leases.iter().collect();
        in_order.sort_by(|one, other| one.name.cmp(&other.name));
        let rolled_back =
            snapshot.resource_version < self.newest || self.is_ahead_of_any(&in_order);
        if rolled_back && !snapshot.consistent {
            return Intake::Stale;
        }
        if rolled_back {
            self.names = Arc::default();
            self.beats.clear();
            self.last_consistent = None;
        }
        self.newest = snapshot.resource_version;

        let trusted_date = snapshot.date.filter(|date| self.set_clock(*date, snapshot));
        let mut recreated = vec![];
        let names = self.names.clone();
        let mut before = names.iter().zip(mem::take(&mut self.beats)).peekable();
        let mut beats: Vec<Heartbeat> = Vec::with_capacity(in_order.len());
        let mut names_changed = rolled_back;
        let mut last = None;
        for lease in &in_order {
            // A name that comes twice has one place.
            let known = if last == Some(&lease.name) {
                beats.pop()
            } else {
                while before.next_if(|(name, _)| **name < *lease.name).is_some() {
                    names_changed = true;
                }
                let known = before.next_if(|(name, _)| **name == *lease.name);
                names_changed |= known.is_none();
                known.map(|(_, beat)| beat)
            };
            last = Some(&lease.name);
            let known = known.filter(|known| {
                let same = known.uid == lease.uid;
                if !same {
                    recreated.push(lease.name.clone());
                }
                same
            });
            beats.push(self.sight(known, lease, trusted_date, snapshot));
        }
        names_changed |= before.next().is_some();
        if names_changed {
            self.names = Arc::new(in_order.iter().map(|lease| &*lease.name).collect());
        }
        beats.shrink_to_fit();
        self.beats = beats;
        if snapshot.consistent {
            self.last_consistent = Some(snapshot.started);
        }
        Intake::Taken {
            names_changed,
            rolled_back,
            recreated,
        }
    }

    /// What is known of the lease of this name.
    pub fn get(&self, name: &str) -> Option<&Heartbeat> {
        self.beats.get(self.names.position(name)?)
    }

    /// All leases that the last list held, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Heartbeat)> {
        self.names.iter().zip(&self.beats)
    }

    /// The names of all leases that the last list held.
    pub fn names(&self) -> &Arc<LeaseNames> {
        &self.names
    }

    /// Records for each lease, in the order of their names, whether it is silent in the outage under way.
    pub(crate) fn silenced(&mut self, silent: impl Iterator<Item = bool>) {
        for (beat, silent) in self.beats.iter_mut().zip(silent) {
            beat.silenced |= silent;
        }
    }

    /// Leases that were last renewed before this, and are silent, count neither way from now on.
    pub(crate) fn set_cut(&mut self, cut: Option<MonoTime>) {
        self.cut = cut;
        for beat in &mut self.beats {
            beat.is_cut = cut.is_some_and(|cut| beat.renewed.latest < cut);
        }
    }

    /// The outage is over.
    pub(crate) fn recovered(&mut self) {
        for beat in &mut self.beats {
            beat.silenced = false;
        }
    }

    /// Lower bound of the last renewal of any lease, if there is one.
    pub fn last_renewal(&self) -> Option<MonoTime> {
        let renewed = self.beats.iter().filter_map(Heartbeat::renewed);
        renewed.filter_map(|window| window.earliest).max()
    }

    /// Whether one of these leases, in the order of their names, is in an older state than one seen
    /// before. That shows a restored etcd even if its revision has caught up since.
    fn is_ahead_of_any(&self, leases: &[&Lease]) -> bool {
        let mut known = self.iter().peekable();
        leases.iter().any(|lease| {
            while known.next_if(|(name, _)| *name < &*lease.name).is_some() {}
            let known = known.peek().filter(|(name, _)| *name == &*lease.name);
            known.is_some_and(|(_, known)| known.is_ahead_of(lease))
        })
    }

    /// Moves the server's clock on; false if its `Date` strayed, so that its stamps say nothing.
    fn set_clock(&mut self, date: i64, snapshot: &LeaseSnapshot<'_>) -> bool {
        match &mut self.clock {
            Some(clock) => clock.advance(date, snapshot),
            None => {
                self.clock = Some(ServerClock::new(date, snapshot));
                true
            }
        }
    }

    fn sight(
        &self,
        known: Option<Heartbeat>,
        lease: &Lease,
        date: Option<i64>,
        snapshot: &LeaseSnapshot<'_>,
    ) -> Heartbeat {
        let is_renewed = |known: &Heartbeat| {
            lease.renew_time != known.value && lease.resource_version > known.resource_version
        };
        let mut beat = match known {
            Some(known) if !is_renewed(&known) => known,
            known => self.renewal(known, lease, date, snapshot),
        };
        if let (Some(stamp), Some(clock)) = (beat.stamp, &self.clock) {
            beat.renewed = beat.renewed.narrowed_by(clock.window_of(stamp));
        }
        beat.period_millis = millis(renewal_period(lease.duration_seconds));
        beat.resource_version = beat.resource_version.max(lease.resource_version);
        beat.confirmed |= snapshot.consistent;
        beat.is_cut = self.cut.is_some_and(|cut| beat.renewed.latest < cut);
        beat
    }

    /// A value that we see for the first time.
    fn renewal(
        &self,
        known: Option<Heartbeat>,
        lease: &Lease,
        date: Option<i64>,
        snapshot: &LeaseSnapshot<'_>,
    ) -> Heartbeat {
        let (not_before, node_clock, as_of) = match &known {
            // A renewal is later than the one before.
            Some(known) => (
                self.last_consistent
                    .filter(|_| known.confirmed)
                    .max(known.renewed.earliest),
                known.node_clock.map(NodeClock::offset),
                known.renewed.latest,
            ),
            // A lease that an earlier consistent list did not hold was created after that list.
            None => (self.last_consistent, None, snapshot.started),
        };
        let seen = Window {
            earliest: not_before,
            latest: snapshot.finished,
        };
        let clock = self.clock.as_ref();
        let stamp = lease.stamp.zip(date).zip(clock);
        let stamp = stamp.and_then(|((seconds, date), clock)| {
            let range = clock.strayed..=date.saturating_add(STAMP_AHEAD_SECONDS);
            let epoch = clock.epoch;
            range.contains(&seconds).then_some(Stamp { seconds, epoch })
        });
        let stamped = stamp
            .zip(clock)
            .and_then(|(stamp, clock)| clock.window_of(stamp));
        let window = seen.narrowed_by(stamped);
        // One that contradicts what was seen is of another server's clock: drift must not let it agree later.
        let stamp = stamp.filter(|_| stamped.is_some_and(|stamped| seen.meets(stamped)));

        // What we saw is too coarse to notice that a node's clock has stepped.
        let implied = stamped
            .and(lease.renew_time)
            .and_then(|t| Offset::of_node(t, window));
        let node_clock = implied.map(|implied| {
            node_clock
                .map(|before| before.drifted(snapshot.finished.since(as_of)))
                .and_then(|before| before.intersect(implied))
                // An empty intersection is a stepped clock: start over.
                .unwrap_or(implied)
        });
        let by_node = lease
            .renew_time
            .zip(node_clock)
            .map(|(t, offset)| offset.widened(LATENCY).window_from(nanos_of(t)));

        Heartbeat {
            uid: lease.uid,
            resource_version: lease.resource_version,
            value: lease.renew_time,
            stamp,
            renewed: window.narrowed_by(by_node),
            node_clock: node_clock.and_then(NodeClock::new),
            period_millis: millis(DEFAULT_PERIOD),
            confirmed: false,
            silenced: known.is_some_and(|known| known.silenced),
            is_cut: false,
        }
    }
}

impl Heartbeat {
    /// When the lease was last renewed; `None` if it carries no renewTime that can be read.
    pub fn renewed(&self) -> Option<Window> {
        self.value.map(|_| self.renewed)
    }

    /// The lease's resourceVersion when it was last read.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// Whether this was seen in a newer state than the lease shows.
    fn is_ahead_of(&self, lease: &Lease) -> bool {
        // Without a renewTime its resourceVersion may not have been readable either.
        lease.renew_time.is_some()
            && self.uid == lease.uid
            && lease.resource_version < self.resource_version
    }

    /// How often its kubelet renews it: a quarter of `leaseDurationSeconds`, within 1 to 60 s.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_millis.into())
    }
}

/// A period is at most 60 s, in steps of 250 ms.
fn millis(period: Duration) -> u32 {
    u32::try_from(period.as_millis()).unwrap_or(u32::MAX)
}

fn renewal_period(lease_duration_seconds: Option<i32>) -> Duration {
    lease_duration_seconds.map_or(DEFAULT_PERIOD, |seconds| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        Duration::from_millis(seconds * MILLIS_BETWEEN_RENEWALS_PER_SECOND)
            .clamp(SHORTEST_PERIOD, LONGEST_PERIOD)
    })
}

#[cfg(test)]
mod tests;
