//! What is known of each node lease: the only home of its age, and of what is known of its node.
//!
//! Ages are measured on the API server's clock, never on a node's: the server stamps the
//! managedFields entry that owns `f:renewTime` whenever the value changes, and the `Date` of the
//! same response says what "now" is there. Both are whole seconds, so a stamp gives a [`Window`] on
//! our own monotonic clock, not a point. What we saw ourselves bounds it, and the microseconds of
//! the node's own renewTime narrow it. Where the server's word cannot be used, only what we saw
//! counts.

mod clock;

use std::{collections::BTreeMap, time::Duration};

use self::clock::{OtherClock, ServerClock, Stamp};
use super::{
    nodes::{Facts, Place, Places, Pools},
    proof::Proof,
};
use crate::{
    shoot::{Consistency, Lease, LeaseRead, RenewTime, Uid},
    util::mono_time::{MonoTime, Window},
};

/// A stamp may lie this far beyond the response's own `Date`: both are rounded down.
const STAMP_AHEAD_SECONDS: i64 = 1;
/// Judgement: the most by which two renewals differ in the time from the node's reading of its
/// clock to the server's stamp.
const LATENCY: Duration = Duration::from_millis(100);

/// A kubelet renews its lease at a quarter of `leaseDurationSeconds`; this is in milliseconds.
const MILLIS_BETWEEN_RENEWALS_PER_SECOND: u64 = 1000 / 4;
/// The kubelet's default, for leases of 40 s; used where a lease does not say.
const DEFAULT_PERIOD: Duration = Duration::from_secs(10);
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
const LONGEST_PERIOD: Duration = Duration::from_secs(60);
/// Nodes and Machines of a protected cluster are read every so many renewal periods.
const LOOKS: u32 = 6;

/// The use of a list of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// A cache older than one seen before answered: nothing was learnt, read again consistently.
    Stale,
    /// The list was taken in.
    Taken,
    /// The whole list is older than one seen, as of a restored etcd, so all that was seen of ages had to be
    /// forgotten, and no proof may rest on earlier reads.
    RolledBack,
}

/// A lease, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    uid: Uid,
    resource_version: u64,
    value: Option<RenewTime>,
    stamp: Option<Stamp>,
    renewed: Window,
    /// The node's clock, as successive renewals allow it.
    node_clock: Option<OtherClock>,
    period_millis: u32,
    /// The last list that held it, by its number.
    list: u32,
    /// The end of the first read that showed it.
    since: MonoTime,
    pub(super) place: Place,
    /// The last consistent read showed the present value.
    confirmed: bool,
}

/// All node leases of one shoot, as seen so far.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    newest: u64,
    clock: Option<ServerClock>,
    last_consistent: Option<MonoTime>,
    beats: BTreeMap<Box<str>, Beat>,
    /// Number of lists that were taken in.
    lists: u32,
    /// Leases that were last renewed before this, and are silent, count neither way.
    pub(super) cut: Option<MonoTime>,
    /// The protection at hand was ended then.
    pub(super) ended: bool,
    /// The names of the zones. Places hold an index: there are many of them, and few zones.
    zones: Vec<Box<str>>,
    /// The seed does not serve Machines.
    pub(super) lacks_machines: bool,
    /// Nodes and Machines have been read; until then every lease counts.
    pub(super) placed: bool,
    /// Number of Nodes that count, whether or not they have a lease.
    counting: usize,
    /// Number of Nodes that are meant to be alive.
    pub(super) alive: usize,
    /// The first and the last of the consistent reads of Nodes and Machines in a row that show none.
    none_alive: Option<(MonoTime, MonoTime)>,
}

impl Leases {
    /// Learns from one list of leases.
    pub(crate) fn take(&mut self, read: &LeaseRead) -> Intake {
        let is_older = |lease: &Lease| {
            self.get(&lease.name)
                .is_some_and(|it| it.is_ahead_of(lease))
        };
        // A lease that went back shows a restored etcd even if its revision has caught up since.
        let rolled_back =
            read.list.resource_version < self.newest || read.list.items.iter().any(is_older);
        let consistent = read.consistency == Consistency::Consistent;
        if rolled_back && !consistent {
            return Intake::Stale;
        }
        if rolled_back {
            self.last_consistent = None;
        }
        self.newest = read.list.resource_version;
        self.lists = self.lists.wrapping_add(1);
        let date = read.date.filter(|date| self.set_clock(*date, read));
        for lease in &read.list.items {
            let before = self.beats.get(&lease.name).copied();
            let same = before.filter(|it| rolled_back || it.uid == lease.uid);
            let known = same.filter(|_| !rolled_back);
            let mut beat = self.sight(known, lease, date, read);
            // A lease that was created anew may be that of another node.
            (beat.since, beat.place) = match same {
                Some(same) => (same.since, same.place),
                None => (read.finished, Place::unread(self.placed)),
            };
            beat.list = self.lists;
            match self.beats.get_mut(&lease.name) {
                Some(before) => *before = beat,
                None => _ = self.beats.insert(lease.name.clone(), beat),
            }
        }
        self.beats.retain(|_, beat| beat.list == self.lists);
        if consistent {
            self.last_consistent = Some(read.started);
        }
        match rolled_back {
            true => Intake::RolledBack,
            false => Intake::Taken,
        }
    }

    /// Learns from Nodes and Machines which leases count, of those that there were before both were read.
    pub(crate) fn learn(&mut self, facts: &Facts, pools: &Pools) {
        let places = Places::new(facts, pools, self.beats.keys());
        for (name, beat) in &mut self.beats {
            beat.place = match beat.since <= facts.began {
                true => places.of(name),
                false => Place::unread(true),
            };
        }
        self.lacks_machines = facts.machines.is_none();
        self.placed = true;
        (self.counting, self.alive, self.zones) = (places.counting, places.alive, places.zones);
        let first = self.none_alive.map_or(facts.began, |(first, _)| first);
        self.none_alive = (self.alive == 0).then_some((first, facts.began));
    }

    /// Drops what reads have shown of whether any Node is meant to be alive: two more have to.
    pub(super) fn doubt_nodes(&mut self) {
        self.none_alive = None;
    }

    /// Counts the Nodes that count and have no lease, unless a lease that is newer than the last read is theirs.
    pub(super) fn missing(&self) -> usize {
        let theirs = |it: &&Beat| it.place.excluded.is_none() || it.place.is_unread();
        let leases = self.iter().filter(theirs).count();
        self.counting.saturating_sub(leases)
    }

    /// Returns whether two consistent reads of Nodes and Machines, so far apart that neither was a slip, show that no
    /// Node is meant to be alive.
    pub(super) fn are_abandoned(&self) -> bool {
        let apart = self.none_alive.map(|(first, last)| last.since(first));
        apart.is_some_and(|apart| apart >= Proof::length(self.longest_period()))
    }

    /// The pause after which Nodes and Machines of a protected cluster are to be read again, consistently.
    pub(super) fn look_again(&self) -> Duration {
        let period = self.longest_period();
        match self.none_alive {
            Some(_) if !self.are_abandoned() => Proof::length(period),
            _ => period * LOOKS,
        }
    }

    /// The longest renewal period of all leases, whether or not they count.
    fn longest_period(&self) -> Duration {
        let periods = self.iter().map(Beat::period);
        periods.max().unwrap_or(DEFAULT_PERIOD)
    }

    /// Returns whether Nodes and Machines were read after each lease had come.
    pub(super) fn are_placed(&self) -> bool {
        self.placed && !self.beats.values().any(|it| it.place.is_unread())
    }

    /// The lease of this name.
    pub fn get(&self, name: &str) -> Option<&Beat> {
        self.beats.get(name)
    }

    /// All leases that the last list held.
    pub fn iter(&self) -> impl Iterator<Item = &Beat> {
        self.beats.values()
    }

    /// The names of the zones that nodes say they are in, in order; all different.
    pub(super) fn zones(&self) -> &[Box<str>] {
        &self.zones
    }

    /// Moves the server's clock on; false if its `Date` strayed, so that its stamps say nothing.
    fn set_clock(&mut self, date: i64, read: &LeaseRead) -> bool {
        match &mut self.clock {
            Some(clock) => clock.advance(date, read),
            None => {
                self.clock = ServerClock::new(date, read);
                self.clock.is_some()
            }
        }
    }

    fn sight(
        &self,
        known: Option<Beat>,
        lease: &Lease,
        date: Option<i64>,
        read: &LeaseRead,
    ) -> Beat {
        let is_renewed = |known: &Beat| {
            lease.renew_time != known.value && lease.resource_version > known.resource_version
        };
        let mut beat = match known {
            Some(known) if !is_renewed(&known) => known,
            known => self.renewal(known, lease, date, read),
        };
        if let (Some(stamp), Some(clock)) = (beat.stamp, &self.clock) {
            beat.renewed = beat.renewed.narrowed_by(clock.window_of(stamp));
        }
        beat.period_millis = millis(renewal_period(lease.duration_seconds));
        beat.resource_version = beat.resource_version.max(lease.resource_version);
        beat.confirmed |= read.consistency == Consistency::Consistent;
        beat
    }

    /// A value that we see for the first time.
    fn renewal(
        &self,
        known: Option<Beat>,
        lease: &Lease,
        date: Option<i64>,
        read: &LeaseRead,
    ) -> Beat {
        let (not_before, node_clock, as_of) = match &known {
            // A renewal is later than the one before.
            Some(known) => (
                self.last_consistent
                    .filter(|_| known.confirmed)
                    .max(known.renewed.earliest),
                known.node_clock,
                known.renewed.latest,
            ),
            // A lease that an earlier consistent list did not hold was created after that list.
            None => (self.last_consistent, None, read.started),
        };
        let seen = Window {
            earliest: not_before,
            latest: read.finished,
        };
        let clock = self.clock.as_ref();
        let stamp = lease.stamp.zip(date).zip(clock);
        let stamp = stamp.and_then(|((seconds, date), clock)| {
            let range = clock.strayed..=date.saturating_add(STAMP_AHEAD_SECONDS);
            let epoch = clock.epoch;
            range.contains(&seconds).then_some(Stamp { seconds, epoch })
        });
        // One that contradicts what was seen is of another server's clock: drift must not let it agree later.
        let stamped = stamp.zip(clock).and_then(|(stamp, clock)| {
            let stamped = clock.window_of(stamp);
            stamped.filter(|stamped| seen.meets(*stamped))
        });
        let stamp = stamp.filter(|_| stamped.is_some());
        let window = seen.narrowed_by(stamped);

        // What we saw is too coarse to notice that a node's clock has stepped.
        let shown = lease.renew_time.map(|time| {
            let nanos = i128::from(time.as_micros()) * 1_000;
            (nanos, nanos)
        });
        let implied = stamped.and(shown);
        let implied = implied.and_then(|shown| OtherClock::new(shown, window));
        let node_clock = implied.map(|implied| {
            node_clock
                .map(|before| before.drifted(read.finished.since(as_of)))
                .and_then(|before| before.intersect(implied))
                // An empty intersection is a stepped clock: start over.
                .unwrap_or(implied)
        });
        let by_node = shown.zip(node_clock);
        let by_node = by_node.map(|(shown, clock)| clock.widened(LATENCY).window_of(shown));

        Beat {
            uid: lease.uid,
            resource_version: lease.resource_version,
            value: lease.renew_time,
            stamp,
            renewed: window.narrowed_by(by_node),
            node_clock,
            period_millis: millis(DEFAULT_PERIOD),
            list: 0,
            since: read.finished,
            place: Place::default(),
            confirmed: false,
        }
    }
}

impl Beat {
    /// When the lease was last renewed; `None` if it carries no renewTime that can be read.
    pub fn renewed(&self) -> Option<Window> {
        self.value.map(|_| self.renewed)
    }

    /// The lease's resourceVersion when it was last read.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// Returns whether this was seen in a newer state than the lease shows.
    fn is_ahead_of(&self, lease: &Lease) -> bool {
        // Without a renewTime its resourceVersion may not have been readable either.
        lease.renew_time.is_some()
            && self.uid == lease.uid
            && lease.resource_version < self.resource_version
    }

    /// Time between two renewals by its kubelet: a quarter of `leaseDurationSeconds`, within 1 to 60 s.
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
