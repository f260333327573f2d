//! When the kubelets of a shoot renew their leases: a function of time, so that thousands of them
//! cost nothing while nobody looks, and whoever knows the outages knows every renewal.

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
}

impl Cause {
    fn silences(self, node: usize) -> bool {
        match self {
            Self::Cut(nodes) => node < nodes,
            Self::Death => true,
        }
    }
}

/// The last renewal of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// When the server wrote it.
    pub written: Micros,
    /// What the node's clock said.
    pub renew_time: Micros,
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
        }
    }

    /// From then on the first so many of them do not reach the server. Cuts do not overlap.
    pub fn cut(&mut self, nodes: usize, from: Micros) {
        self.begin(Cause::Cut(nodes), from);
    }

    /// From then on each renews again, at its next turn.
    pub fn restore(&mut self, at: Micros) {
        self.end(at, |cause| cause != Cause::Death);
    }

    /// From then on nobody writes to the server, whoever is cut off. Deaths do not overlap.
    pub fn die(&mut self, from: Micros) {
        self.begin(Cause::Death, from);
    }

    /// From then on those who are not cut off do again, each at its next turn.
    pub fn revive(&mut self, at: Micros) {
        self.end(at, |cause| cause == Cause::Death);
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

    /// When the server wrote the last renewal of each lease.
    pub fn last_written(&self, at: Micros) -> impl Iterator<Item = Micros> {
        self.renewals(at).map(|renewal| renewal.written)
    }

    /// The last renewal of each lease.
    pub fn renewals(&self, at: Micros) -> impl Iterator<Item = Renewal> {
        self.kubelets
            .iter()
            .enumerate()
            .map(move |(node, kubelet)| {
                let written = kubelet.last(at, self.gaps_of(node));
                Renewal {
                    written,
                    renew_time: written - LATENCY + kubelet.skew,
                }
            })
    }

    /// The server's resourceVersion: the number of its writes.
    pub fn revision(&self, at: Micros) -> u64 {
        let background = |at: Micros| at.saturating_sub(self.started) / BACKGROUND;
        let deaths = self.gaps.iter().filter(|gap| gap.cause == Cause::Death);
        let kubelets = self.kubelets.iter().enumerate();
        let renewals = kubelets.map(|(node, it)| made(|at| it.turns(at), self.gaps_of(node), at));
        let writes = made(background, deaths, at) + renewals.sum::<i64>();
        REVISIONS.saturating_add_signed(writes)
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
        for renewal in kubelets.renewals(START) {
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
}
