//! A strict reader of OpenMetrics text: whatever the format forbids fails the test.

use std::collections::{BTreeMap, BTreeSet};

use dependency_watchdog::runtime::metrics::{self, Registry};

/// A family of series.
#[derive(Debug)]
pub struct Family {
    /// `counter`, `gauge`, `histogram` or `info`.
    pub kind: String,
    /// What it tells.
    pub help: String,
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    /// What follows the name of the family.
    suffix: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// All families, by name.
#[derive(Debug)]
pub struct Exposition(pub BTreeMap<String, Family>);

impl Exposition {
    /// All that a registry shows.
    pub fn of(registry: &Registry) -> Self {
        Self::parse(&metrics::text(registry).unwrap())
    }

    /// Reads a whole exposition.
    pub fn parse(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").expect("it ends with # EOF");
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut current: Option<String> = None;
        for line in body.lines() {
            assert_eq!(line.trim(), line, "no space around");
            if let Some(rest) = line.strip_prefix("# ") {
                let (what, rest) = rest.split_once(' ').unwrap();
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                match what {
                    "HELP" => {
                        assert!(rest.ends_with('.') && rest.len() > 5, "{line}");
                        let family = Family {
                            kind: String::new(),
                            help: rest.to_owned(),
                            samples: vec![],
                        };
                        let before = families.insert(name.to_owned(), family);
                        assert!(before.is_none(), "{name} is there twice");
                        current = Some(name.to_owned());
                    }
                    "TYPE" => {
                        assert_eq!(current.as_deref(), Some(name), "{line}");
                        let family = families.get_mut(name).unwrap();
                        assert!(family.samples.is_empty(), "{line}");
                        family.kind = rest.to_owned();
                    }
                    _ => panic!("{line}"),
                }
                continue;
            }
            let name = current.as_deref().expect("a family begins with its help");
            let sample = Sample::parse(name, line);
            families.get_mut(name).unwrap().samples.push(sample);
        }
        let exposition = Self(families);
        for (name, family) in &exposition.0 {
            family.check(name);
        }
        exposition
    }

    /// The value of one series; 0 if there is none.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let wanted: BTreeMap<String, String> = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let found = self.samples(name).find(|sample| sample.labels == wanted);
        found.map_or(0.0, |sample| sample.value)
    }

    /// The sum over all series of a name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            let mut labels = labels.iter();
            labels.all(|(key, value)| sample.labels.get(*key).is_some_and(|it| it == value))
        };
        self.samples(name).filter(has).map(|it| it.value).sum()
    }

    /// The names of labels that series of a family have, but for that of buckets.
    pub fn labels(&self, family: &str) -> BTreeSet<String> {
        let samples = self.0[family].samples.iter();
        let labels = samples.flat_map(|sample| sample.labels.keys().cloned());
        labels.filter(|label| label != "le").collect()
    }

    /// The names of all families and series.
    pub fn series(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|(name, family)| {
            let suffixes = family.samples.iter().map(|it| &*it.suffix);
            suffixes.chain([""]).map(move |it| format!("{name}{it}"))
        })
    }

    fn samples<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        let families = self.0.iter();
        families.flat_map(move |(family, it)| {
            let samples = it.samples.iter();
            samples.filter(move |sample| {
                name.strip_prefix(family.as_str()) == Some(sample.suffix.as_str())
            })
        })
    }
}

impl Sample {
    fn parse(family: &str, line: &str) -> Self {
        let end = line.find(['{', ' ']).unwrap();
        let suffix = line[..end].strip_prefix(family).expect("of its family");
        let mut labels = BTreeMap::new();
        let mut rest = &line[end..];
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            loop {
                let (key, after) = rest.split_once("=\"").unwrap();
                let (value, after) = quoted(after);
                assert!(is_name(key), "{line}");
                assert!(labels.insert(key.to_owned(), value).is_none(), "{line}");
                rest = after;
                match rest.strip_prefix(',') {
                    Some(more) => rest = more,
                    None => break,
                }
            }
            rest = rest.strip_prefix('}').expect("labels end");
        }
        let value = rest.strip_prefix(' ').expect("one space before the value");
        let value = match value {
            "+Inf" => f64::INFINITY,
            _ => value
                .parse()
                .expect("a number, without timestamp or exemplar"),
        };
        Self {
            suffix: suffix.to_owned(),
            labels,
            value,
        }
    }
}

/// A label's value up to its quote, and what follows that.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next().unwrap().1 {
                'n' => value.push('\n'),
                escaped @ ('"' | '\\') => value.push(escaped),
                other => panic!("\\{other} is no escape"),
            },
            letter => value.push(letter),
        }
    }
    panic!("a value without end: {text}");
}

fn is_name(text: &str) -> bool {
    let first = text.starts_with(|letter: char| letter.is_ascii_lowercase());
    let rest =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    first && text.chars().all(rest)
}

impl Family {
    fn check(&self, name: &str) {
        assert!(is_name(name), "{name}");
        for suffix in ["_total", "_count", "_sum", "_bucket", "_info", "_created"] {
            assert!(
                !name.ends_with(suffix),
                "{name} has a suffix of its samples"
            );
        }
        let mut series = BTreeSet::new();
        for sample in &self.samples {
            let identity = (&sample.suffix, &sample.labels);
            assert!(series.insert(identity), "{name}{identity:?} is there twice");
            let known: &[&str] = match &*self.kind {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("{name} is of the type {other:?}"),
            };
            assert!(known.contains(&&*sample.suffix), "{name}{identity:?}");
            if self.kind != "gauge" {
                assert!(sample.value >= 0.0, "{name}{identity:?}");
            }
        }
    }
}
