//! Metrics as they are shown, read back.

use std::collections::{BTreeMap, BTreeSet};

use dependency_watchdog::runtime::metrics::{self, Registry};
use regex::Regex;

/// A family of series.
#[derive(Debug, Default)]
pub struct Family {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// What it tells.
    pub help: String,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// All families, by name, and their samples.
#[derive(Debug)]
pub struct Exposition(pub BTreeMap<String, Family>, Vec<Sample>);

impl Exposition {
    /// All that a registry shows.
    pub fn of(registry: &Registry) -> Self {
        let text = metrics::text(registry);
        let said = Regex::new("^# (HELP|TYPE) ([a-z0-9_]+) (.*)$").unwrap();
        let mut shown = Self(BTreeMap::new(), Vec::new());
        for line in text.strip_suffix("# EOF\n").unwrap().lines() {
            match said.captures(line) {
                Some(said) => {
                    let family = shown.0.entry(said[2].to_owned()).or_default();
                    let part = match &said[1] {
                        "HELP" => &mut family.help,
                        _ => &mut family.kind,
                    };
                    assert!(part.is_empty(), "it is there twice: {line}");
                    said[3].clone_into(part);
                }
                None => shown.1.push(Sample::parse(line)),
            }
        }
        shown
    }

    /// The value of one series; 0 if there is none.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let mut found = self.having(name, labels);
        let found = found.find(|sample| sample.labels.len() == labels.len());
        found.map_or(0.0, |sample| sample.value)
    }

    /// The sum over all series of a name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.having(name, labels).map(|it| it.value).sum()
    }

    /// The names of labels that series of a family have, but for that of buckets.
    pub fn labels(&self, family: &str) -> BTreeSet<String> {
        let of = self.1.iter().filter(|it| it.family(&self.0) == family);
        let labels = of.flat_map(|sample| sample.labels.keys().cloned());
        labels.filter(|label| label != "le").collect()
    }

    /// The names of all families and series.
    pub fn series(&self) -> impl Iterator<Item = String> {
        let series = self.1.iter().map(|it| &it.name);
        self.0.keys().chain(series).cloned()
    }

    fn having(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Sample> {
        self.1.iter().filter(move |sample| {
            let mut labels = labels.iter();
            sample.name == name
                && labels.all(|(key, value)| sample.labels.get(*key).is_some_and(|it| it == value))
        })
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let sample = Regex::new(r"^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$").unwrap();
        let label = Regex::new(r#"([a-z_]+)="([^"]*)""#).unwrap();
        let parts = sample.captures(line).unwrap();
        let labels = parts.get(2).map_or("", |it| it.as_str());
        let labels = label.captures_iter(labels);
        Self {
            name: parts[1].to_owned(),
            labels: labels
                .map(|it| (it[1].to_owned(), it[2].to_owned()))
                .collect(),
            value: parts[3].parse().unwrap(),
        }
    }

    /// The family that it is of: the longest name of one that its own begins with.
    fn family<'a>(&'a self, families: &BTreeMap<String, Family>) -> &'a str {
        let cut = self.name.rsplit_once('_').map_or("", |it| it.0);
        match families.contains_key(&self.name) {
            true => &self.name,
            false => cut,
        }
    }
}
