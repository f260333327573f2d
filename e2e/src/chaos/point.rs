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

/// How many points a sample has.
const SAMPLE: usize = 12;

/// A sample, each of another kind and at another write, of kinds that can be had on a seed that others use too. Writes
/// to dependents come first.
pub(crate) fn sample(writes: &[String], kinds: &[Fault], random: &mut fastrand::Rng) -> Vec<Point> {
    let mut points = every(writes, kinds);
    points.retain(|point| !point.any(Fault::needs_own_seed));
    random.shuffle(&mut points);
    points.sort_by_key(|point| !point.faults().iter().any(|(_, it)| is_to_a_dependent(it)));
    let (mut kinds, mut at) = (BTreeSet::new(), BTreeSet::new());
    points.retain(|point| {
        let new = |(fault, write): &(Fault, String)| !kinds.contains(fault) && !at.contains(write);
        let is_new = point.faults().iter().all(new);
        if is_new {
            kinds.extend(point.faults().iter().map(|(fault, _)| *fault));
            at.extend(point.faults().iter().map(|(_, write)| write.clone()));
        }
        is_new
    });
    points.truncate(SAMPLE);
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
