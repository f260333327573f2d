//! The text of recorded runs, without repetition, and its comparison with a snapshot.

use std::{collections::BTreeMap, fmt::Write as _};

/// The fewest entries of an earlier run that are replaced by a reference to it.
const WORTHWHILE: usize = 4;
/// The most entries that are folded together when they repeat.
const FOLDED: usize = 4;

/// Entries of one run by the object that they are about. An entry is a read, or one or more lines.
#[derive(Default)]
pub(super) struct Page(BTreeMap<String, Entries>);

#[derive(Default, PartialEq)]
struct Entries {
    all: Vec<String>,
    /// How many of the last ones are reads.
    reads: usize,
}

impl Page {
    /// Adds an entry.
    pub(super) fn add(&mut self, about: String, entry: String) {
        let entries = self.0.entry(about).or_default();
        entries.all.push(entry);
        entries.reads = 0;
    }

    /// Adds a read, unless there was the same since the last write.
    pub(super) fn add_read(&mut self, about: String, entry: String) {
        let entries = self.0.entry(about).or_default();
        if !entries
            .all
            .iter()
            .rev()
            .take(entries.reads)
            .any(|it| *it == entry)
        {
            entries.all.push(entry);
            entries.reads += 1;
        }
    }

    /// The text, in which objects with the same entries share them.
    fn text(&self, earlier: &[Self]) -> String {
        let mut blocks = Vec::<(Vec<&str>, String)>::new();
        for (about, entries) in &self.0 {
            let block = block(about, &entries.all, earlier);
            match blocks.iter_mut().find(|(_, known)| *known == block) {
                Some((same, _)) => same.push(about),
                None => blocks.push((vec![about], block)),
            }
        }
        let mut text = String::new();
        for (about, block) in blocks {
            let _ = writeln!(text, "{}\n{block}", heading(&about));
        }
        text
    }
}

/// The objects, those of a kind without repeating the kind.
fn heading(about: &[&str]) -> String {
    let mut heading = String::new();
    let mut kind = "";
    for about in about {
        let (of, name) = about.rsplit_once(' ').unwrap_or((about, ""));
        let comma = if heading.is_empty() { "" } else { ", " };
        let about = if of == kind { name } else { about };
        heading.extend([comma, about]);
        kind = of;
    }
    heading
}

/// The entries of an object, those at the beginning by reference to an earlier run of the same test
/// if it has them.
fn block(about: &str, entries: &[String], earlier: &[Page]) -> String {
    let mut lines = Vec::new();
    let mut rest = entries;
    let runs = earlier.iter().enumerate().filter_map(|(run, page)| {
        let others = &page.0.get(about)?.all;
        let same = entries
            .iter()
            .zip(others)
            .take_while(|(one, other)| one == other);
        Some((same.count(), *others == entries, run + 1))
    });
    // The first run of those with the most in common.
    if let Some((count, is_same, run)) = runs.rev().max_by_key(|it| (it.0, it.1)) {
        if is_same {
            return format!("  (as in run {run})\n");
        }
        if count >= WORTHWHILE {
            lines.push(format!("(the first {count} as in run {run})"));
            rest = &entries[count..];
        }
    }
    while !rest.is_empty() {
        let repeats = |length: usize| {
            let (first, others) = rest.split_at(length.min(rest.len()));
            others.chunks(length).take_while(|it| *it == first).count()
        };
        let length = (1..=FOLDED).find(|it| repeats(*it) > 0).unwrap_or(1);
        let times = repeats(length);
        lines.extend_from_slice(&rest[..length]);
        if times > 0 {
            let times = match times {
                1 => String::new(),
                _ => format!(", {times} times"),
            };
            lines.push(match length {
                1 => format!("(again{times})"),
                _ => format!("(the last {length} again{times})"),
            });
        }
        rest = &rest[length * (times + 1)..];
    }
    format!("  {}\n", lines.join("\n  "))
}

/// Compares all runs of a test with its snapshot.
pub(super) fn compare(name: &str, pages: &[Page]) {
    let mut text = String::new();
    for (index, page) in pages.iter().enumerate() {
        let page = page.text(&pages[..index]);
        let _ = write!(text, "# run {}\n\n{page}", index + 1);
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../../../snapshots/acts");
    settings.bind(|| insta::assert_snapshot!(name, text));
}
