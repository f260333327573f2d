//! The results as a table in Markdown: one column a run.

use crate::bench::stats::Spread;
use std::fmt::Display;

/// What a run has measured: names of rows, and what stands there.
pub(crate) type Rows = Vec<(&'static str, String)>;

/// The table of runs, by the heads of their columns. All have the same rows.
pub(crate) fn markdown(runs: &[(String, Rows)]) -> String {
    let mut lines = vec![
        row("shoots × nodes", runs.iter().map(|(head, _)| head)),
        row("---", runs.iter().map(|_| "---:")),
    ];
    let names = runs.first().into_iter().flat_map(|(_, rows)| rows);
    lines.extend(names.enumerate().map(|(place, (name, _))| {
        let cells = runs
            .iter()
            .filter_map(|(_, rows)| Some(&rows.get(place)?.1));
        row(name, cells)
    }));
    lines.join("\n")
}

fn row(name: &str, cells: impl Iterator<Item = impl Display>) -> String {
    let cells = cells.map(|cell| format!(" {cell} |"));
    format!("| {name} |{}", cells.collect::<String>())
}

/// A size in MiB.
pub(crate) fn mib(bytes: u64) -> String {
    tenths(bytes as f64 / 1024.0 / 1024.0)
}

/// A number with one decimal.
pub(crate) fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// A number with two decimals.
pub(crate) fn hundredths(value: f64) -> String {
    // To add zero takes the sign from a zero.
    let rounded = (value * 100.0).round() / 100.0 + 0.0;
    format!("{rounded:.2}")
}

/// The median, the 99th percentile and the greatest of some values.
pub(crate) fn spread(values: impl IntoIterator<Item = f64>) -> String {
    match Spread::of(values) {
        Some(Spread { median, p99, worst }) => [median, p99, worst].map(hundredths).join(" / "),
        None => "none".to_owned(),
    }
}
