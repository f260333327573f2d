//! What queries can name, for the tests of those that ask: the alert rules and the dashboard.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use dependency_watchdog::{prober, weeder};
use regex::Regex;
use serde_json::Value;

/// Where alert rules and dashboard are.
pub const MONITORING: &str = "manifests/monitoring";

/// A series of the binary.
pub struct Series {
    /// It only rises, so its rate is what tells.
    pub cumulative: bool,
    /// The names of its labels, without those that Prometheus adds.
    pub labels: BTreeSet<&'static str>,
    /// What it tells.
    pub help: &'static str,
}

/// The series of both components, by name.
pub fn series() -> BTreeMap<String, Series> {
    let (_, prober) = prober::instruments::Instruments::new();
    let (_, weeder) = weeder::instruments::Instruments::new();
    let described = [&prober, &weeder].map(|registry| registry.descriptions());
    let mut series = BTreeMap::new();
    for metric in described.into_iter().flatten() {
        let suffixes: &[&str] = match metric.kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        for suffix in suffixes {
            let mut labels: BTreeSet<&str> = metric.labels.iter().copied().collect();
            if *suffix == "_bucket" {
                labels.insert("le");
            }
            let it = Series {
                cumulative: ["counter", "histogram"].contains(&metric.kind),
                labels,
                help: metric.help,
            };
            series.insert(format!("{}{suffix}", metric.name), it);
        }
    }
    series
}

/// Finds the names of the binary's series. Names of jobs have hyphens, so they are no match.
pub fn named() -> Regex {
    Regex::new(r"\b(dependency_watchdog|process)_\w+").unwrap()
}

/// The text of this file of the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The one document of this file of the repository.
pub fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).unwrap()
}
