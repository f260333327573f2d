//! What a soak has shown, as tables in Markdown.

use crate::{leaks::Growth, rest::Rest, world::World};
use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

/// All that is told in the end.
pub(crate) struct Report<'a> {
    pub(crate) command: String,
    pub(crate) took: Duration,
    pub(crate) world: &'a World,
    pub(crate) rests: &'a [Rest],
    pub(crate) growth: &'a Growth,
}

impl Report<'_> {
    /// The tables.
    pub(crate) fn markdown(&self) -> String {
        let (world, history) = (self.world, self.world.versions.history());
        let (taken, given) = fake::oracle::rules::moves(&history);
        let outages = world.outages();
        let mut text = format!(
            "`{}`, {:.1} minutes.\n\n| | |\n|---|---:|\n",
            self.command,
            self.took.as_secs_f64() / 60.0
        );
        for (what, value) in [
            ("versions of dependents that were judged", history.len()),
            ("outages", outages.all),
            ("… that lasted until the leases were expired", outages.long),
            ("… of which were met by a scale-down", outages.met),
            ("… of which had to be", outages.due),
            (
                "… of which were not met, and over before they had to be",
                outages.brief,
            ),
            (
                "… of which were not met, and excused",
                outages.excused.len(),
            ),
            ("dependents scaled to zero", taken),
            ("dependents restored", given),
            ("leaders that lost the leadership", world.deposed),
            (
                "events left out, since nothing was to be done then",
                world.left_out,
            ),
            (
                "processes that led and whose memory was compared",
                self.growth.compared,
            ),
            ("… over at most so many legs", self.growth.legs),
        ] {
            // Writing to a String does not fail.
            let _ = writeln!(text, "| {what} | {value} |");
        }
        text.push_str("\n| not met, since | outages |\n|---|---:|\n");
        for (reason, count) in outages.reasons() {
            let _ = writeln!(text, "| {reason} | {count} |");
        }
        text.push('\n');
        text.push_str(&outages.table());
        text.push_str("\n| event | times |\n|---|---:|\n");
        for (kind, count) in &world.done {
            let _ = writeln!(text, "| {kind} | {count} |");
        }
        text.push('\n');
        text.push_str(&rests(self.rests));
        text
    }
}

fn rests(rests: &[Rest]) -> String {
    let mut text = String::from(
        "| rest | all well after, s | requests per shoot and minute | drill protected after, s \
         | process | MiB | threads | tasks | files | to shoots | to the seed |\n\
         |---|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|\n",
    );
    // So that it shows which of them are the same.
    let mut known: BTreeMap<u32, usize> = BTreeMap::new();
    for rest in rests {
        let protected = rest
            .protected
            .map_or(String::new(), |it| format!("{it:.0}"));
        for (place, it) in rest.samples.iter().enumerate() {
            let next = known.len() + 1;
            let life = known.entry(it.pid).or_insert(next);
            let role = if it.leads { "leads" } else { "waits" };
            let head = match place {
                0 => format!(
                    "{} | {:.0} | {:.1} | {protected}",
                    it.rest, rest.well, rest.requests
                ),
                _ => " | | | ".to_owned(),
            };
            let _ = writeln!(
                text,
                "| {head} | {life} {role} | {:.1} | {} | {} | {} | {} | {} |",
                it.memory as f64 / 1024.0 / 1024.0,
                it.threads,
                it.tasks,
                it.files,
                it.to_shoots,
                it.to_seed
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaks::Sample;

    #[test]
    fn each_process_of_a_rest_has_a_row() {
        let sample = |pid, leads| Sample {
            rest: 2,
            name: "prober-a",
            pid,
            leads,
            memory: 30 * 1024 * 1024,
            threads: 5,
            tasks: 42,
            files: 50,
            to_shoots: 9,
            to_seed: 7,
        };
        let rest = Rest {
            well: 20.4,
            samples: vec![sample(7, false), sample(9, true)],
            requests: 12.34,
            protected: Some(19.6),
        };
        let text = rests(&[rest]);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| 2 | 20 | 12.3 | 20 | 1 waits | 30.0 | 5 | 42 | 50 | 9 | 7 |",
                "|  | | |  | 2 leads | 30.0 | 5 | 42 | 50 | 9 | 7 |"
            ]
        );
    }
}
