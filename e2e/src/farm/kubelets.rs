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
    cuts: Vec<Cut>,
}

#[derive(Clone, Copy, Debug)]
struct Kubelet {
    /// The server's time of its first renewal; each further one comes a period later.
    first: Micros,
    period: Micros,
    skew: Micros,
}

/// A time in which no renewal of the first so many arrives.
#[derive(Clone, Copy, Debug)]
struct Cut {
    nodes: usize,
    from: Micros,
    until: Micros,
}

/// The last renewal of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renewal {
    /// When the server wrote it.
    pub(super) written: Micros,
    /// What the node's clock said.
    pub(super) renew_time: Micros,
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
            cuts: Vec::new(),
        }
    }

    /// From then on the first so many of them do not reach the server. Cuts do not overlap.
    pub fn cut(&mut self, nodes: usize, from: Micros) {
        let until = Micros::MAX;
        self.cuts.push(Cut { nodes, from, until });
    }

    /// From then on each renews again, at its next turn.
    pub fn restore(&mut self, at: Micros) {
        if let Some(cut) = self.cuts.last_mut() {
            cut.until = cut.until.min(at);
        }
    }

    /// When the server wrote the last renewal of each lease.
    pub fn last_written(&self, at: Micros) -> impl Iterator<Item = Micros> {
        self.renewals(at).map(|renewal| renewal.written)
    }

    /// The last renewal of each lease.
    pub(super) fn renewals(&self, at: Micros) -> impl Iterator<Item = Renewal> {
        self.kubelets
            .iter()
            .enumerate()
            .map(move |(node, kubelet)| {
                let written = kubelet.last(at, self.cuts_of(node));
                Renewal {
                    written,
                    renew_time: written - LATENCY + kubelet.skew,
                }
            })
    }

    /// The server's resourceVersion: the number of its writes.
    pub(super) fn revision(&self, at: Micros) -> u64 {
        let background = at.saturating_sub(self.started) / BACKGROUND;
        let made = self.kubelets.iter().enumerate();
        let made = made.map(|(node, it)| it.made(at, self.cuts_of(node)));
        let writes = background + made.sum::<i64>();
        REVISIONS.saturating_add_signed(writes)
    }

    fn cuts_of(&self, node: usize) -> impl DoubleEndedIterator<Item = &Cut> {
        self.cuts.iter().filter(move |cut| node < cut.nodes)
    }
}

impl Kubelet {
    /// How many times its turn has come.
    fn turns(&self, at: Micros) -> i64 {
        if at < self.first {
            return 0;
        }
        (at - self.first) / self.period + 1
    }

    /// How many renewals it has made.
    fn made<'a>(&self, at: Micros, cuts: impl Iterator<Item = &'a Cut>) -> i64 {
        let missed = cuts.filter(|cut| cut.from <= at).map(|cut| {
            let last_missed = at.min(cut.until - 1);
            self.turns(last_missed) - self.turns(cut.from - 1)
        });
        self.turns(at) - missed.sum::<i64>()
    }

    /// Its last renewal; its first, if it has made none.
    fn last<'a>(&self, at: Micros, cuts: impl DoubleEndedIterator<Item = &'a Cut>) -> Micros {
        let last_turn = |at| self.first + (self.turns(at) - 1).max(0) * self.period;
        cuts.rev().fold(last_turn(at), |last, cut| {
            if cut.from <= last && last < cut.until {
                last_turn(cut.from - 1)
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
        let seen = |at| {
            let last: Vec<_> = kubelets.last_written(at).collect();
            (kubelets.revision(at), last)
        };
        let mut before = seen(START);
        for step in 1..1_200 {
            let at = START + step * SECOND / 10;
            let now = seen(at);
            let renewed = now.1.iter().zip(&before.1).filter(|(a, b)| a != b).count();
            let background = u64::from(step % 20 == 0);
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
}
