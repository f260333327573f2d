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

use jiff::Timestamp;

pub use self::clock::Window;
use self::clock::{ServerClock, strays};
use super::{
    nodes::{Exclusion, Facts, Place},
    proof::Proof,
};
use crate::{
    shoot::{Consistency, Digest, Lease, LeaseRead},
    util::mono_time::MonoTime,
};

/// A stamp may lie this far beyond the response's own `Date`: both are rounded down.
const STAMP_AHEAD_SECONDS: i64 = 1;
/// Judgement: the most by which two renewals differ in the time from the node's reading of its
/// clock to the server's stamp.
const LATENCY: Duration = Duration::from_millis(100);

/// A kubelet renews its lease so many times in `leaseDurationSeconds`.
const RENEWALS: u32 = 4;
/// The kubelet's default, used where a lease does not say.
const LEASE_SECONDS: u8 = 40;
/// Kubelets renew every second to every minute, whatever their leases say.
const SHORTEST_SECONDS: i32 = 4;
const LONGEST_SECONDS: i32 = 240;
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
#[derive(Clone, Debug)]
pub struct Beat {
    uid: Digest,
    resource_version: u64,
    /// The renewTime, in microseconds since the unix epoch: a third smaller than as it was read.
    value: Option<i64>,
    /// The server's stamp of that value; `None` if it cannot be read.
    stamp: Option<i64>,
    renewed: Window,
    /// The zero of the node's clock, as successive renewals allow it.
    node_zero: Option<Window>,
    /// `leaseDurationSeconds`, within what kubelets use.
    seconds: u8,
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
    /// The `Date` of the last list; `None` if it strayed, so that new stamps say nothing.
    date: Option<i64>,
    last_consistent: Option<MonoTime>,
    beats: BTreeMap<Digest, Beat>,
    /// Leases that were last renewed before this, and are silent, count neither way.
    pub(super) cut: Option<MonoTime>,
    /// The protection at hand was ended then.
    pub(super) ended: bool,
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
        let is_older = |lease: &Lease| self.get(lease.name).is_some_and(|it| it.is_ahead_of(lease));
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
        self.date = self.take_date(read);
        let unread = self.placed.then_some(Exclusion::NotReadYet);
        let beats = read.list.items.iter().map(|lease| {
            let before = self.get(lease.name);
            let same = before.filter(|it| rolled_back || it.uid == lease.uid);
            let mut beat = self.sight(same.filter(|_| !rolled_back), lease, read);
            // A lease that was created anew may be that of another node.
            (beat.since, beat.place) = match same {
                Some(same) => (same.since, same.place.clone()),
                None => (read.finished, Place::of(unread)),
            };
            (lease.name, beat)
        });
        self.beats = beats.collect();
        if consistent {
            self.last_consistent = Some(read.started);
        }
        match rolled_back {
            true => Intake::RolledBack,
            false => Intake::Taken,
        }
    }

    /// Learns from Nodes and Machines which leases count, of those that there were before both were read.
    pub(crate) fn learn(&mut self, facts: &Facts) {
        for (name, beat) in &mut self.beats {
            beat.place = match beat.since <= facts.began {
                true => facts.of(*name),
                false => Place::of(Some(Exclusion::NotReadYet)),
            };
        }
        self.lacks_machines = !facts.has_machines;
        self.placed = true;
        (self.counting, self.alive) = facts.counts();
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
        self.longest_period() * LOOKS
    }

    /// The longest renewal period of all leases, whether or not they count.
    fn longest_period(&self) -> Duration {
        let seconds = self.iter().map(|beat| beat.seconds).max();
        period(seconds.unwrap_or(LEASE_SECONDS))
    }

    /// Returns whether Nodes and Machines were read after each lease had come.
    pub(super) fn are_placed(&self) -> bool {
        self.placed && !self.iter().any(|it| it.place.is_unread())
    }

    /// The lease of this name.
    pub fn get(&self, name: Digest) -> Option<&Beat> {
        self.beats.get(&name)
    }

    /// All leases that the last list held.
    pub fn iter(&self) -> impl Iterator<Item = &Beat> {
        self.beats.values()
    }

    /// Moves the server's clock on. Returns the `Date`, unless it strayed.
    fn take_date(&mut self, read: &LeaseRead) -> Option<i64> {
        let date = read.date?;
        let (clock, step) = ServerClock::after(self.clock, date, read);
        self.clock = Some(clock);
        if !step.is_zero() {
            // Stamps from before a step cannot be read after it.
            self.beats.values_mut().for_each(|beat| beat.stamp = None);
        }
        (!strays(step)).then_some(date)
    }

    fn sight(&self, known: Option<&Beat>, lease: &Lease, read: &LeaseRead) -> Beat {
        let value = lease.renew_time.map(Timestamp::as_microsecond);
        let is_renewed =
            |known: &Beat| value != known.value && lease.resource_version > known.resource_version;
        let mut beat = match known {
            Some(known) if !is_renewed(known) => known.clone(),
            known => self.renewal(known, lease, read),
        };
        let stamped = beat.stamp.zip(self.clock);
        let stamped = stamped.map(|(stamp, clock)| clock.window_of(stamp));
        beat.renewed = beat.renewed.narrowed_by(stamped);
        let seconds = lease.duration_seconds.map(|seconds| {
            let bounded = seconds.clamp(SHORTEST_SECONDS, LONGEST_SECONDS);
            u8::try_from(bounded).unwrap_or(LEASE_SECONDS)
        });
        beat.seconds = seconds.unwrap_or(LEASE_SECONDS);
        beat.resource_version = beat.resource_version.max(lease.resource_version);
        beat.confirmed |= read.consistency == Consistency::Consistent;
        beat
    }

    /// A value that we see for the first time.
    fn renewal(&self, known: Option<&Beat>, lease: &Lease, read: &LeaseRead) -> Beat {
        // A lease that an earlier consistent list did not hold was created after that list.
        let unseen = self.last_consistent;
        let unseen = unseen.filter(|_| known.is_none_or(|it| it.confirmed));
        let seen = Window {
            // A renewal is later than the one before.
            earliest: unseen.max(known.and_then(|it| it.renewed.earliest)),
            latest: read.finished,
        };
        let stamped = lease.stamp.zip(self.clock).and_then(|(stamp, clock)| {
            let latest = self.date?.saturating_add(STAMP_AHEAD_SECONDS);
            let is_readable = Some(stamp) >= clock.strayed && stamp <= latest;
            is_readable.then(|| clock.window_of(stamp))
        });
        // One that contradicts what was seen is of another server's clock: drift must not let it agree later.
        let stamped = stamped.filter(|stamped| seen.meets(*stamped));
        let mut renewed = seen.narrowed_by(stamped);

        let nanos = lease.renew_time.map(Timestamp::as_nanosecond);
        let shown = nanos.map(|nanos| (nanos, nanos));
        // What we saw is too coarse to notice that a node's clock has stepped.
        let told = shown.filter(|_| stamped.is_some());
        let told = told.map(|shown| renewed.zero_by(shown));
        let before = known.and_then(|it| {
            let elapsed = read.finished.since(it.renewed.latest);
            Some(it.node_zero?.drifted(elapsed))
        });
        // A clock that has stepped is known by what it shows now.
        let node_zero = told.map(|told| told.narrowed_by(before));
        let by_node = shown.zip(node_zero);
        let by_node = by_node.map(|(shown, zero)| zero.widened(LATENCY).shows(shown));
        renewed = renewed.narrowed_by(by_node);

        Beat {
            uid: lease.uid,
            resource_version: lease.resource_version,
            value: lease.renew_time.map(Timestamp::as_microsecond),
            stamp: lease.stamp.filter(|_| stamped.is_some()),
            renewed,
            node_zero,
            seconds: LEASE_SECONDS,
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

    /// Time between two renewals by its kubelet.
    pub fn period(&self) -> Duration {
        period(self.seconds)
    }
}

/// Time between two renewals of a lease of so many seconds.
fn period(seconds: u8) -> Duration {
    Duration::from_secs(seconds.into()) / RENEWALS
}

#[cfg(test)]
mod tests;
