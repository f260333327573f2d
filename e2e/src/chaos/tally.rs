//! What a campaign has come to.

use super::{Point, point::is_to_a_dependent};
use anyhow::{Result, ensure};
use std::{collections::BTreeMap, fmt, time::Duration};

/// What was tried, and what came of it.
#[derive(Debug, Default)]
pub struct Tally {
    kinds: BTreeMap<String, Kind>,
    /// The points whose runs were not as they should be, with what was wrong.
    pub failures: Vec<(Point, Vec<String>)>,
    /// The faults that did not happen, since what they happen at was not written, each with its point.
    pub unreached: Vec<(Point, String)>,
    /// How many runs there were.
    pub runs: usize,
    /// How many faults at writes to dependents were tried.
    at_dependents: usize,
}

#[derive(Debug, Default)]
struct Kind {
    tried: usize,
    reached: usize,
    converged: usize,
    differing: usize,
    took: Vec<Duration>,
}

impl Tally {
    /// A run has ended: without these of its faults, and with problems. Each fault counts under its
    /// kind.
    pub(super) fn add(
        &mut self,
        point: Point,
        took: Duration,
        unreached: Vec<String>,
        problems: Vec<String>,
    ) {
        self.runs += 1;
        for (fault, write) in point.faults() {
            let kind = self.kinds.entry(fault.to_string()).or_default();
            let reached = !unreached.contains(write);
            kind.tried += 1;
            self.at_dependents += usize::from(is_to_a_dependent(write));
            kind.reached += usize::from(reached);
            if !problems.is_empty() {
                kind.differing += 1;
            } else if reached {
                // A run in which nothing went wrong says nothing of what would.
                kind.converged += 1;
                kind.took.push(took);
            }
        }
        let unreached = unreached.into_iter().map(|write| (point.clone(), write));
        self.unreached.extend(unreached);
        if !problems.is_empty() {
            self.failures.push((point, problems));
        }
    }

    /// How many faults were tried.
    pub fn tried(&self) -> usize {
        self.kinds.values().map(|kind| kind.tried).sum()
    }

    /// How many of them happened.
    pub fn reached(&self) -> usize {
        self.kinds.values().map(|kind| kind.reached).sum()
    }

    /// Fails unless there were faults at writes to dependents, and all of them happened. These are
    /// written in every run, whereas which statuses and events are depends on the moment.
    pub fn ensure_dependents_reached(&self) -> Result<()> {
        let unreached = self.unreached.iter();
        let of_dependents = unreached.filter(|(_, write)| is_to_a_dependent(write));
        let told = of_dependents.map(|(point, write)| format!("{write} of {point}"));
        let missed: Vec<String> = told.collect();
        ensure!(
            missed.is_empty(),
            "faults at writes to dependents did not happen, so nothing is known of them: {}",
            missed.join(", ")
        );
        ensure!(
            self.at_dependents > 0,
            "no fault at a write to a dependent was tried"
        );
        Ok(())
    }

    /// How many kinds of faults there were.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }
}

/// As a Markdown table.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| fault | points | reached | converged | differing | median | longest |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        let mut all = Kind::default();
        for (name, kind) in &self.kinds {
            kind.row(f, name)?;
            all.tried += kind.tried;
            all.converged += kind.converged;
            all.differing += kind.differing;
            all.reached += kind.reached;
            all.took.extend(&kind.took);
        }
        all.row(f, "all")
    }
}

impl Kind {
    fn row(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let mut took = self.took.clone();
        took.sort_unstable();
        let seconds = |time: Option<&Duration>| {
            time.map_or("-".to_owned(), |time| {
                format!("{:.1} s", time.as_secs_f64())
            })
        };
        let (median, longest) = (seconds(took.get(took.len() / 2)), seconds(took.last()));
        let (tried, reached) = (self.tried, self.reached);
        let (converged, differing) = (self.converged, self.differing);
        writeln!(
            f,
            "| {name} | {tried} | {reached} | {converged} | {differing} | {median} | {longest} |"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_at_dependents_have_to_be_tried_and_to_happen() {
        let (down, status) = ("etcds/a:down#1", "clusterhealths:create#1");
        let happens = |points: &[(&str, bool)]| {
            let mut tally = Tally::default();
            for (write, is_reached) in points {
                let point = format!("lost@{write}").parse().unwrap();
                let unreached = (!is_reached).then(|| (*write).to_owned());
                let unreached = unreached.into_iter().collect();
                tally.add(point, Duration::ZERO, unreached, Vec::new());
            }
            tally.ensure_dependents_reached().is_ok()
        };
        for (points, expected) in [
            (&[][..], false),
            (&[(status, true)], false),
            (&[(down, true)], true),
            (&[(down, true), (status, false)], true),
            (&[(down, true), (down, false)], false),
        ] {
            assert_eq!(happens(points), expected, "{points:?}");
        }
    }
}
