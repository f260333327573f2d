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
    /// How far the clock of each instance of the server is ahead.
    skews: Vec<Micros>,
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
            skews: vec![0],
        }
    }

    /// Has the server consist of several instances, whose clocks are so far ahead: each kubelet writes to
    /// one of them, always the same. Without any it has one, whose clock is right.
    pub fn instances(&mut self, skews: &[Micros]) {
        self.skews = skews.to_vec();
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

    /// The server's store is restored from a backup that was made so long before. Roll-backs come one after
    /// the other.
    pub fn roll_back(&mut self, depth: Micros, at: Micros) {
        let to = at - depth;
        self.rollbacks.push(Rollback { at, to });
    }

    /// What the clock of an instance of the server says then.
    pub fn server_clock(&self, instance: usize, at: Micros) -> Micros {
        let place = instance.checked_rem(self.skews.len()).unwrap_or_default();
        let skew = self.skews.get(place).copied().unwrap_or_default();
        at + skew + self.stepped(None, at)
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
            stamp: self.server_clock(node, written),
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;
    const START: Micros = 1_800_000_000 * SECOND;
    const PERIOD: Duration = Duration::from_secs(10);

    fn ages(kubelets: &Kubelets, at: Micros) -> Vec<Micros> {
        kubelets.last_written(at).map(|last| at - last).collect()
    }

    #[test]
    fn each_renews_at_its_own_phase() {
        let kubelets = Kubelets::new(7, 100, PERIOD, START);
        for at in (START..START + 60 * SECOND).step_by(700_000) {
            let ages = ages(&kubelets, at);
            assert!(ages.iter().all(|age| (0..10_400_000).contains(age)));
            for quarter in 0..4 {
                let range: std::ops::Range<Micros> = quarter * 2_500_000..(quarter + 1) * 2_500_000;
                let count = ages.iter().filter(|age| range.contains(age)).count();
                assert!((10..45).contains(&count), "{count} in {range:?}");
            }
        }
        let other = Kubelets::new(8, 100, PERIOD, START);
        assert_ne!(ages(&kubelets, START), ages(&other, START));
        for renewal in kubelets.renewals(START).flatten() {
            let difference = renewal.renew_time - renewal.written;
            assert!((-53_000..=47_000).contains(&difference), "{difference}");
        }
    }

    #[test]
    fn the_revision_rises_with_every_write() {
        let mut kubelets = Kubelets::new(1, 10, PERIOD, START);
        let cut = START + 30 * SECOND;
        kubelets.cut(usize::MAX, cut);
        kubelets.restore(cut + 60 * SECOND);
        // One death within the cut, and one over its end.
        for (from, until) in [(10, 21), (50, 73)] {
            kubelets.die(cut + from * SECOND);
            kubelets.revive(cut + until * SECOND);
        }
        let is_dead = |at| {
            let since = (at - cut) / (SECOND / 10);
            (100..210).contains(&since) || (500..730).contains(&since)
        };
        let seen = |at| {
            let last: Vec<_> = kubelets.last_written(at).collect();
            (kubelets.revision(at), last)
        };
        let mut before = seen(START);
        for step in 1..1_200 {
            let at = START + step * SECOND / 10;
            let now = seen(at);
            let renewed = now.1.iter().zip(&before.1).filter(|(a, b)| a != b).count();
            let background = u64::from(step % 20 == 0 && !is_dead(at));
            assert_eq!(now.0, before.0 + renewed as u64 + background, "{step}");
            for renewal in now.1.iter().copied() {
                assert!(kubelets.revision(renewal) > kubelets.revision(renewal - 1));
            }
            before = now;
        }
    }

    #[test]
    fn a_cut_kubelet_is_silent_until_its_next_turn_after_the_cut() {
        let untouched = Kubelets::new(3, 50, PERIOD, START);
        let mut kubelets = untouched.clone();
        let (cut, restored) = (START + 5 * SECOND, START + 65 * SECOND);
        kubelets.cut(usize::MAX, cut);
        let at_cut: Vec<_> = untouched.last_written(cut - 1).collect();
        for at in [cut, cut + SECOND, restored, restored + 600 * SECOND] {
            assert!(kubelets.last_written(at).eq(at_cut.iter().copied()));
        }
        kubelets.restore(restored);
        assert!(
            kubelets
                .last_written(restored - 1)
                .eq(at_cut.iter().copied())
        );
        let later = restored + 11 * SECOND;
        assert!(
            kubelets
                .last_written(later)
                .eq(untouched.last_written(later))
        );
        let between = restored + 5 * SECOND;
        for (last, (silent, turn)) in kubelets
            .last_written(between)
            .zip(at_cut.iter().zip(untouched.last_written(between)))
        {
            assert_eq!(last, if turn < restored { *silent } else { turn });
        }
        kubelets.cut(usize::MAX, later);
        assert!(
            kubelets
                .last_written(later + SECOND)
                .eq(untouched.last_written(later - 1))
        );
    }

    #[test]
    fn a_cut_may_spare_some() {
        let untouched = Kubelets::new(3, 10, PERIOD, START);
        let mut kubelets = untouched.clone();
        kubelets.cut(4, START);
        let at = START + 60 * SECOND;
        let (last, expected) = (ages(&kubelets, at), ages(&untouched, at));
        assert!(last[..4].iter().all(|age| *age > 50 * SECOND), "{last:?}");
        assert_eq!(last[4..], expected[4..]);
        assert!(kubelets.revision(at) < untouched.revision(at));
    }

    /// Cut off from 20 s to 60 s; the server dies before, within, at the end of the cut, or after it.
    #[test]
    fn whoever_was_cut_off_is_heard_neither_in_a_cut_nor_in_a_death() {
        let after = |seconds| START + seconds * SECOND;
        for (died, revived) in [(10, 30), (30, 40), (50, 80), (70, 90)] {
            let untouched = Kubelets::new(5, 20, PERIOD, START);
            let mut kubelets = untouched.clone();
            kubelets.cut(10, after(20));
            kubelets.die(after(died));
            kubelets.revive(after(revived));
            kubelets.restore(after(60));
            let is_silent = |node: usize, at| {
                let dead = (after(died)..after(revived)).contains(&at);
                dead || (node < 10 && (after(20)..after(60)).contains(&at))
            };
            let mut expected: Vec<_> = untouched.last_written(START).collect();
            for at in (START..after(120)).step_by(100_000) {
                for (node, turn) in untouched.last_written(at).enumerate() {
                    if !is_silent(node, turn) {
                        expected[node] = expected[node].max(turn);
                    }
                }
                let last: Vec<_> = kubelets.last_written(at).collect();
                assert_eq!(last, expected, "{died} to {revived}, at {}", at - START);
            }
        }
    }

    fn renewals(kubelets: &Kubelets, at: Micros) -> Vec<Option<Renewal>> {
        kubelets.renewals(at).collect()
    }

    #[test]
    fn refused_writes_are_missing_and_none_of_the_rest() {
        let untouched = Kubelets::new(3, 10, PERIOD, START);
        let mut kubelets = untouched.clone();
        kubelets.refuse_writes(START);
        let at = START + 30 * SECOND;
        assert_eq!(kubelets.revision(at), untouched.revision(START - 1));
        assert_eq!(renewals(&kubelets, at), renewals(&untouched, START - 1));
        kubelets.accept_writes(at);
        let later = at + 11 * SECOND;
        assert_eq!(renewals(&kubelets, later), renewals(&untouched, later));
        let since = untouched.revision(later) - untouched.revision(at - 1);
        assert_eq!(kubelets.revision(later) - kubelets.revision(at - 1), since);
    }

    #[test]
    fn a_clock_that_steps_shows_in_what_it_stamps_and_in_nothing_else() {
        let untouched = Kubelets::new(3, 2, PERIOD, START);
        let mut kubelets = untouched.clone();
        kubelets.step_node(0, -90 * SECOND, START);
        kubelets.step_server(3_600 * SECOND, START + 20 * SECOND);
        let at = START + 60 * SECOND;
        let (found, usual) = (renewals(&kubelets, at), renewals(&untouched, at));
        for (node, (found, usual)) in found.into_iter().zip(usual).enumerate() {
            let (found, usual) = (found.unwrap(), usual.unwrap());
            assert_eq!(found.written, usual.written);
            let by = if node == 0 { -90 * SECOND } else { 0 };
            assert_eq!(found.renew_time - usual.renew_time, by);
            assert_eq!(found.stamp - usual.stamp, 3_600 * SECOND);
        }
        assert_eq!(kubelets.server_clock(0, at), at + 3_600 * SECOND);
        assert_eq!(
            renewals(&kubelets, START - 1),
            renewals(&untouched, START - 1)
        );
        assert_eq!(kubelets.revision(at), untouched.revision(at));
        kubelets.instances(&[SECOND, 7 * SECOND]);
        let skewed = renewals(&kubelets, at).into_iter().flatten();
        let skews: Vec<_> = skewed.map(|it| it.stamp - it.written).collect();
        assert_eq!(skews, [3_601 * SECOND, 3_607 * SECOND]);
    }

    #[test]
    fn a_lease_is_gone_until_its_kubelet_is_back_and_then_another() {
        let untouched = Kubelets::new(3, 3, PERIOD, START);
        let mut kubelets = untouched.clone();
        let (gone, back) = (START + 5 * SECOND, START + 50 * SECOND);
        kubelets.delete_lease(1, gone);
        kubelets.return_lease(1, back);
        kubelets.renew_uid(2, gone);
        assert!(renewals(&kubelets, gone - 1)[1].is_some());
        assert_eq!(kubelets.revision(gone), untouched.revision(gone) + 1);
        for at in [gone, gone + SECOND, back] {
            let leases = renewals(&kubelets, at);
            assert!(leases[1].is_none() && leases[0].is_some() && leases[2].is_some());
        }
        let leases = renewals(&kubelets, back + 11 * SECOND);
        let incarnations: Vec<_> = leases
            .into_iter()
            .map(|it| it.unwrap().incarnation)
            .collect();
        assert_eq!(incarnations, [0, 1, 1]);
        // Where nobody can write, nobody deletes; and the kubelet is away all the same.
        let mut refused = untouched.clone();
        refused.refuse_writes(gone);
        refused.delete_lease(1, gone);
        refused.accept_writes(gone + SECOND);
        assert_eq!(
            renewals(&refused, back)[1],
            renewals(&untouched, gone - 1)[1]
        );
    }

    #[test]
    fn a_backup_has_what_was_written_until_then_and_all_goes_on_from_there() {
        let untouched = Kubelets::new(3, 20, PERIOD, START);
        let mut kubelets = untouched.clone();
        let (first, second) = (START + 100 * SECOND, START + 150 * SECOND);
        kubelets.roll_back(40 * SECOND, first);
        kubelets.roll_back(80 * SECOND, second);
        for (at, backup) in [(first, first - 40 * SECOND), (second, second - 80 * SECOND)] {
            assert_eq!(
                renewals(&kubelets, at - SECOND),
                renewals(&untouched, at - SECOND)
            );
            // Whoever writes in that moment may have done so.
            let written = untouched.revision(at) - untouched.revision(at - 1);
            assert_eq!(kubelets.revision(at), untouched.revision(backup) + written);
            for (found, usual) in renewals(&kubelets, at)
                .iter()
                .zip(renewals(&untouched, backup))
            {
                assert!(*found == usual || found.unwrap().written == at);
            }
            let later = at + 11 * SECOND;
            assert_eq!(renewals(&kubelets, later), renewals(&untouched, later));
            let since = untouched.revision(later) - untouched.revision(at);
            assert_eq!(kubelets.revision(later), kubelets.revision(at) + since);
            // Who was heard was heard.
            assert!(kubelets.last_written(at).eq(untouched.last_written(at)));
        }
        // A lease that the backup has not yet seen deleted is there again.
        let mut kubelets = untouched.clone();
        kubelets.delete_lease(0, first - SECOND);
        assert!(renewals(&kubelets, first - 1)[0].is_none());
        kubelets.roll_back(10 * SECOND, first);
        assert_eq!(
            renewals(&kubelets, first)[0],
            renewals(&untouched, first - 10 * SECOND)[0]
        );
    }
}
