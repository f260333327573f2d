//! Where which fault happens, and the choice of points for a campaign.

use super::Fault;
use anyhow::{Context as _, Error, Result, ensure};
use clap::ValueEnum as _;
use std::{cmp::Ordering, collections::BTreeSet, fmt, str::FromStr};

/// Between the fault and its write.
const AT: char = '@';
/// Between two faults of one run.
const AND: char = '+';

/// The faults of one run, each at a write. Its text is `fault@write`, or several of these with a `+`
/// between them; a write is named as the journal of a run does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(Vec<(Fault, String)>);

impl Point {
    /// Nothing goes wrong.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    fn one(fault: Fault, write: &str) -> Self {
        Self(vec![(fault, write.to_owned())])
    }

    /// The faults, each with its write.
    pub(crate) fn faults(&self) -> &[(Fault, String)] {
        &self.0
    }

    /// Whether any of its faults is so.
    pub(crate) fn any(&self, is: impl Fn(Fault) -> bool) -> bool {
        self.0.iter().any(|(fault, _)| is(*fault))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (fault, write)) in self.0.iter().enumerate() {
            if place > 0 {
                write!(f, "{AND}")?;
            }
            write!(f, "{fault}{AT}{write}")?;
        }
        Ok(())
    }
}

impl FromStr for Point {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let faults = text.split(AND).map(|part| {
            let (fault, write) = part
                .split_once(AT)
                .with_context(|| format!("{part:?} is not FAULT{AT}WRITE"))?;
            let fault = Fault::from_str(fault, true).map_err(Error::msg)?;
            ensure!(!write.is_empty(), "{part:?} names no write");
            Ok((fault, write.to_owned()))
        });
        Ok(Self(faults.collect::<Result<_>>()?))
    }
}

/// Whether this write is to a dependent.
pub(super) fn is_to_a_dependent(write: &str) -> bool {
    write.starts_with("deployments/") || write.starts_with("etcds/")
}

/// Whether this write to a dependent was made before. Each is made once unless something goes wrong.
pub(super) fn is_again_to_a_dependent(write: &str) -> bool {
    is_to_a_dependent(write) && !write.ends_with("#1")
}

/// Every fault of these kinds at every write.
pub(crate) fn every(writes: &[String], kinds: &[Fault]) -> Vec<Point> {
    let of_fault = |fault| {
        let at = writes.iter();
        at.map(move |write| Point::one(fault, write))
    };
    kinds.iter().copied().flat_map(of_fault).collect()
}

/// So many faults that are mere answers share a run of a sample.
const TOGETHER: usize = 3;

/// A sample in which every write has a fault and every kind occurs, of those that can be had on a
/// seed that others use too.
pub(crate) fn sample(writes: &[String], kinds: &[Fault], random: &mut fastrand::Rng) -> Vec<Point> {
    let mut singles: Vec<(Fault, String)> = every(writes, kinds)
        .into_iter()
        .flat_map(|point| point.0)
        .filter(|(fault, _)| !fault.needs_own_seed())
        .collect();
    random.shuffle(&mut singles);
    // Each kind once, at a write of its own if there is one; what is left of the writes gets faults
    // that can share a run.
    let (mut kinds, mut at) = (BTreeSet::new(), BTreeSet::new());
    let mut chosen = Vec::new();
    let mut choose = |wanted: fn(Fault, bool, bool) -> bool| {
        singles.retain(|(fault, write)| {
            let (new_kind, new_write) = (!kinds.contains(fault), !at.contains(write));
            let wanted = wanted(*fault, new_kind, new_write);
            if wanted {
                kinds.insert(*fault);
                at.insert(write.clone());
                chosen.push((*fault, write.clone()));
            }
            !wanted
        });
    };
    choose(|_, new_kind, new_write| new_kind && new_write);
    choose(|fault, _, new_write| new_write && fault.is_mere_answer());
    choose(|_, new_kind, new_write| new_kind || new_write);

    let place = |write: &String| writes.iter().position(|it| it == write);
    let (mut together, alone): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .partition(|(fault, _)| fault.is_mere_answer());
    // Those of one run are far from each other, so that each finds an operator that is at ease.
    together.sort_by_key(|(_, write)| place(write));
    let runs = together.len().div_ceil(TOGETHER).max(1);
    let mut points: Vec<Point> = (0..runs)
        .map(|first| Point(together.iter().skip(first).step_by(runs).cloned().collect()))
        .filter(|point| !point.0.is_empty())
        .collect();
    points.extend(alone.into_iter().map(|single| Point(vec![single])));
    random.shuffle(&mut points);
    points
}

/// So many pairs of faults at random, of which the second is at a later write than the first: a write has
/// one fault.
pub(crate) fn pairs(
    writes: &[String],
    kinds: &[Fault],
    count: usize,
    random: &mut fastrand::Rng,
) -> Vec<Point> {
    let mut singles = every(writes, kinds);
    singles.retain(|point| !point.any(Fault::needs_own_seed));
    let place = |point: &Point| {
        let write = point.faults().first().map(|(_, write)| write);
        writes.iter().position(|it| Some(it) == write)
    };
    let mut pairs = BTreeSet::new();
    // There are far more than are ever asked for; where there are not, fewer have to do.
    for _ in 0..count.saturating_mul(10) {
        if pairs.len() == count {
            break;
        }
        let (Some(one), Some(other)) = (random.choice(&singles), random.choice(&singles)) else {
            break;
        };
        let (first, second) = match place(one).cmp(&place(other)) {
            Ordering::Less => (one, other),
            Ordering::Equal => continue,
            Ordering::Greater => (other, one),
        };
        pairs.insert(Point([first.faults(), second.faults()].concat()));
    }
    let mut pairs: Vec<Point> = pairs.into_iter().collect();
    random.shuffle(&mut pairs);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes() -> Vec<String> {
        let names = (0..40).map(|place| match place % 3 {
            0 => format!("deployments/d{place}:down#1"),
            _ => format!("events:E{place}#1"),
        });
        names.collect()
    }

    #[test]
    fn a_point_is_read_as_it_is_written() {
        for text in [
            "crash-before@deployments/kube-controller-manager:down#1",
            "too-many@clusterhealths:create#1+hang@events:Protected#2",
        ] {
            assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
        }
        for text in ["", "hang", "hang@", "burns@events:A#1", "hang@a#1+lost"] {
            assert!(text.parse::<Point>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sample_has_every_write_and_every_kind_and_is_reproducible() {
        let writes = writes();
        let draw = |seed| sample(&writes, Fault::all(), &mut fastrand::Rng::with_seed(seed));
        let points = draw(7);
        assert_eq!(points, draw(7));
        assert_ne!(points, draw(8));
        assert!(points.len() < writes.len());
        for write in &writes {
            let mut faults = points.iter().flat_map(Point::faults);
            assert!(faults.any(|(_, at)| at == write), "{write}");
        }
        for point in &points {
            let faults = point.faults();
            assert!(faults.len() <= TOGETHER && !faults.is_empty());
            let alone = faults.len() == 1 || faults.iter().all(|it| it.0.is_mere_answer());
            assert!(alone, "{point}");
        }
        for fault in Fault::all() {
            let occurs = points.iter().any(|it| it.any(|other| other == *fault));
            assert_eq!(occurs, !fault.needs_own_seed(), "{fault}");
        }
    }

    #[test]
    fn pairs_are_at_different_writes_in_their_order() {
        let writes = writes();
        let draw = |seed| {
            pairs(
                &writes,
                Fault::all(),
                100,
                &mut fastrand::Rng::with_seed(seed),
            )
        };
        let pairs = draw(1);
        assert_eq!(pairs, draw(1));
        assert_eq!(pairs.iter().collect::<BTreeSet<_>>().len(), 100);
        let place = |write: &String| writes.iter().position(|it| it == write).unwrap();
        for pair in &pairs {
            let [(_, first), (_, second)] = pair.faults() else {
                panic!("{pair}");
            };
            assert!(place(first) < place(second), "{pair}");
        }
    }

    #[test]
    fn every_fault_is_tried_at_every_write() {
        let points = every(&writes(), Fault::all());
        let different: BTreeSet<&Point> = points.iter().collect();
        assert_eq!(different.len(), 40 * Fault::all().len());
        assert_eq!(points.len(), different.len());
    }
}
