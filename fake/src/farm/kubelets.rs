//! When the kubelets of a shoot renew their leases: a function of time, so that thousands of them
//! cost nothing while nobody looks, and whoever knows the outages knows every renewal.
//!
//! So are the clocks that step, the leases that are created anew, and backups from which the server's
//! store is restored.

use super::clock::{Micros, micros};
use fastrand::Rng;
use std::time::Duration;

/// A kubelet waits up to so much longer than its period.
const JITTER: f64 = 0.04;
/// The clocks of nodes differ from the server's by at most so much.
const SKEW: f64 = 50_000.0;
/// From the kubelet's clock to the server's store.
const LATENCY: Micros = 3_000;
/// kube-controller-manager renews its own lease so often, which makes the list's resourceVersion
/// rise even while all kubelets are silent.
const BACKGROUND: Micros = 2_000_000;
/// What was written before the first renewal.
const REVISIONS: u64 = 1_000_000;

/// The kubelets of one shoot.
#[derive(Clone, Debug)]
pub struct Kubelets {
    started: Micros,
    kubelets: Vec<Kubelet>,
    /// In the order of their beginnings.
    gaps: Vec<Gap>,
    steps: Vec<Step>,
    /// Leases that have another UID from their next renewal on.
    renewed_uids: Vec<(usize, Micros)>,
    /// In the order in which they come.
    rollbacks: Vec<Rollback>,
}

#[derive(Clone, Copy, Debug)]
struct Kubelet {
    /// The server's time of its first renewal; each further one comes a period later.
    first: Micros,
    period: Micros,
    skew: Micros,
}

/// A time in which renewals do not arrive.
#[derive(Clone, Copy, Debug)]
struct Gap {
    cause: Cause,
    from: Micros,
    until: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The first so many kubelets are cut off.
    Cut(usize),
    /// The server is dead, to which nobody writes then.
    Death,
    /// The server takes no writes.
    Refusal,
    /// The lease of this one is deleted, and not created again.
    Deletion(usize),
}

/// A clock that is set.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// That of a node; otherwise the server's.
    node: Option<usize>,
    at: Micros,
    by: Micros,
}

/// The server's store is as it was at an earlier time.
#[derive(Clone, Copy, Debug)]
struct Rollback {
    at: Micros,
    to: Micros,
}

impl Cause {
    fn silences(self, node: usize) -> bool {
        match self {
            Self::Cut(nodes) => node < nodes,
            Self::Death | Self::Refusal => true,
            Self::Deletion(of) => node == of,
        }
    }

    fn stops_writes(self) -> bool {
        matches!(self, Self::Death | Self::Refusal)
    }
}

/// The last renewal of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// When the server wrote it.
    pub written: Micros,
    /// What the node's clock said.
    pub renew_time: Micros,
    /// What the server's clock said.
    pub stamp: Micros,
    /// How many leases of this name there were before.
    pub incarnation: u16,
}

impl Kubelets {
    /// Those of a shoot by its number, which have been renewing for more than a period when the
    /// farm starts.
    pub fn new(shoot: usize, nodes: usize, period: Duration, started: Micros) -> Self {
        let period = micros(period);
        let kubelet = |node| {
            // Always the same for the same lease.
            let mut draw = Rng::with_seed((shoot as u64) << 32 | node as u64);
            // Seeds that are close to each other begin alike.
            draw.u64(..);
            let period = period + (draw.f64() * JITTER * period as f64) as Micros;
            Kubelet {
                first: started - period - (draw.f64() * period as f64) as Micros,
                period,
                skew: ((draw.f64() - 0.5) * 2.0 * SKEW) as Micros,
            }
        };
        Self {
            started: started - 3 * period,
            kubelets: (0..nodes).map(kubelet).collect(),
            gaps: Vec::new(),
            steps: Vec::new(),
            renewed_uids: Vec::new(),
            rollbacks: Vec::new(),
        }
    }

    /// From then on the first so many of them do not reach the server. Cuts do not overlap.
    pub fn cut(&mut self, nodes: usize, from: Micros) {
        self.begin(Cause::Cut(nodes), from);
    }

    /// From then on each renews again, at its next turn.
    pub fn restore(&mut self, at: Micros) {
        self.end(at, |cause| matches!(cause, Cause::Cut(_)));
    }

    /// From then on nobody writes to the server, whoever is cut off. Deaths do not overlap.
    pub fn die(&mut self, from: Micros) {
        self.begin(Cause::Death, from);
    }

    /// From then on those who are not cut off do again, each at its next turn.
    pub fn revive(&mut self, at: Micros) {
        self.end(at, |cause| cause == Cause::Death);
    }

    /// From then on the server refuses all writes. Refusals do not overlap.
    pub fn refuse_writes(&mut self, from: Micros) {
        self.begin(Cause::Refusal, from);
    }

    /// From then on it takes them again, each kubelet's at its next turn.
    pub fn accept_writes(&mut self, at: Micros) {
        self.end(at, |cause| cause == Cause::Refusal);
    }

    /// The lease of a node is deleted then, and the node does not renew it. Deletions of one lease do not
    /// overlap.
    pub fn delete_lease(&mut self, node: usize, at: Micros) {
        self.begin(Cause::Deletion(node), at);
    }

    /// From then on the node creates its lease again, at its next turn.
    pub fn return_lease(&mut self, node: usize, at: Micros) {
        self.end(at, |cause| cause == Cause::Deletion(node));
    }

    /// At its next turn from then on a node creates its lease anew, with another UID.
    pub fn renew_uid(&mut self, node: usize, at: Micros) {
        self.renewed_uids.push((node, at));
    }

    /// The clock of a node is ahead by so much more from then on.
    pub fn step_node(&mut self, node: usize, by: Micros, at: Micros) {
        let node = Some(node);
        self.steps.push(Step { node, at, by });
    }

    /// The clock of the server is ahead by so much more from then on.
    pub fn step_server(&mut self, by: Micros, at: Micros) {
        let node = None;
        self.steps.push(Step { node, at, by });
    }

    /// The server's store is restored from a backup that was made so long before, or when all had renewed for
    /// the first time, if that was later: no backup is older than the leases in it. Roll-backs come one after
    /// the other.
    pub fn roll_back(&mut self, depth: Micros, at: Micros) {
        let first = self.kubelets.iter().map(|it| it.first).max();
        let to = first.map_or(at - depth, |first| first.max(at - depth));
        self.rollbacks.push(Rollback { at, to });
    }

    /// What the server's clock says then.
    pub fn server_clock(&self, at: Micros) -> Micros {
        at + self.stepped(None, at)
    }

    fn stepped(&self, node: Option<usize>, at: Micros) -> Micros {
        let steps = self
            .steps
            .iter()
            .filter(|it| it.node == node && it.at <= at);
        steps.map(|it| it.by).sum()
    }

    fn begin(&mut self, cause: Cause, from: Micros) {
        let until = Micros::MAX;
        let place = self.gaps.partition_point(|gap| gap.from <= from);
        self.gaps.insert(place, Gap { cause, from, until });
    }

    fn end(&mut self, at: Micros, is_meant: impl Fn(Cause) -> bool) {
        let mut newest_first = self.gaps.iter_mut().rev();
        if let Some(gap) = newest_first.find(|gap| is_meant(gap.cause)) {
            gap.until = gap.until.min(at);
        }
    }

    /// When each kubelet was heard last by the server, whatever became of what it wrote.
    pub fn last_written(&self, at: Micros) -> impl Iterator<Item = Micros> {
        let kubelets = self.kubelets.iter().enumerate();
        kubelets.map(move |(node, kubelet)| kubelet.last(at, self.gaps_of(node)))
    }

    /// For how long each kubelet was not heard, and how old its lease looks to who began to watch then: older if
    /// the server's clock stepped before, or its store is from a backup.
    pub fn silences(&self, at: Micros, watched: Micros) -> impl Iterator<Item = (Micros, Micros)> {
        let heard = self.last_written(at).map(move |last| at - last);
        heard.zip(self.renewals(at)).map(move |(heard, lease)| {
            let Some(lease) = lease else {
                return (heard, heard);
            };
            let server = self.steps.iter().filter(|it| it.node.is_none());
            let unseen = server.filter(|it| lease.written < it.at && it.at <= watched);
            let steps: Micros = unseen.map(|it| it.by.abs()).sum();
            (heard, at - lease.written + steps)
        })
    }

    /// The last renewal of each lease as the server's store has it; none of a lease that is deleted.
    pub fn renewals(&self, at: Micros) -> impl Iterator<Item = Option<Renewal>> {
        (0..self.kubelets.len()).map(move |node| self.renewal(node, at))
    }

    fn renewal(&self, node: usize, at: Micros) -> Option<Renewal> {
        let kubelet = self.kubelets.get(node)?;
        let written = kubelet.last(at, self.gaps_of(node));
        let rollback = self.rolled_back(at);
        let since = rollback.map_or(written, |it| written.max(it.at));
        let mut deletions = self.deletions().filter(|(of, _)| *of == node);
        if deletions.any(|(_, it)| (since..=at).contains(&it)) {
            return None;
        }
        if let Some(rollback) = rollback.filter(|it| written < it.at) {
            return self.renewal(node, rollback.to);
        }
        let sent = written - LATENCY;
        let renewed = self.renewed_uids.iter().copied().chain(self.deletions());
        let incarnation = renewed
            .filter(|(of, it)| *of == node && *it <= written)
            .count();
        Some(Renewal {
            written,
            renew_time: sent + kubelet.skew + self.stepped(Some(node), sent),
            stamp: self.server_clock(written),
            incarnation: u16::try_from(incarnation).unwrap_or(u16::MAX),
        })
    }

    /// Whose lease was deleted, and when.
    fn deletions(&self) -> impl Iterator<Item = (usize, Micros)> {
        self.gaps.iter().filter_map(|gap| match gap.cause {
            Cause::Deletion(node) if self.is_writable(gap.from) => Some((node, gap.from)),
            _ => None,
        })
    }

    fn is_writable(&self, at: Micros) -> bool {
        let mut stops = self.gaps.iter().filter(|gap| gap.cause.stops_writes());
        !stops.any(|gap| (gap.from..gap.until).contains(&at))
    }

    /// The newest roll-back by then.
    fn rolled_back(&self, at: Micros) -> Option<Rollback> {
        let mut newest_first = self.rollbacks.iter().rev();
        newest_first.find(|it| it.at <= at).copied()
    }

    /// The server's resourceVersion: the number of the writes that its store has.
    pub fn revision(&self, at: Micros) -> u64 {
        match self.rolled_back(at) {
            None => REVISIONS.saturating_add_signed(self.writes(at)),
            Some(it) => {
                let since = self.writes(at) - self.writes(it.at - 1);
                self.revision(it.to).saturating_add_signed(since)
            }
        }
    }

    /// How often the server was written to by then.
    fn writes(&self, at: Micros) -> i64 {
        let background = |at: Micros| at.saturating_sub(self.started) / BACKGROUND;
        let stops = self.gaps.iter().filter(|gap| gap.cause.stops_writes());
        let kubelets = self.kubelets.iter().enumerate();
        let renewals = kubelets.map(|(node, it)| made(|at| it.turns(at), self.gaps_of(node), at));
        let deletions = self.deletions().filter(|(_, it)| *it <= at).count();
        made(background, stops, at) + renewals.sum::<i64>() + deletions as i64
    }

    fn gaps_of(&self, node: usize) -> impl DoubleEndedIterator<Item = &Gap> {
        self.gaps.iter().filter(move |gap| gap.cause.silences(node))
    }
}

/// How many of the turns that have come by then did not fall into a gap; gaps may overlap.
fn made<'a>(turns: impl Fn(Micros) -> i64, gaps: impl Iterator<Item = &'a Gap>, at: Micros) -> i64 {
    let (mut missed, mut counted) = (0, Micros::MIN);
    for gap in gaps {
        let (from, last) = (gap.from.max(counted), at.min(gap.until - 1));
        if from <= last {
            missed += turns(last) - turns(from - 1);
            counted = last + 1;
        }
    }
    turns(at) - missed
}

impl Kubelet {
    /// How many times its turn has come.
    fn turns(&self, at: Micros) -> i64 {
        if at < self.first {
            return 0;
        }
        (at - self.first) / self.period + 1
    }

    /// Its last renewal; its first, if it has made none.
    fn last<'a>(&self, at: Micros, gaps: impl DoubleEndedIterator<Item = &'a Gap>) -> Micros {
        let last_turn = |at| self.first + (self.turns(at) - 1).max(0) * self.period;
        gaps.rev().fold(last_turn(at), |last, gap| {
            if gap.from <= last && last < gap.until {
                last_turn(gap.from - 1)
            } else {
                last
            }
        })
    }
}
