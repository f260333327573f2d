//! The documentation names what there is: links, files, commands of make, flags.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, CommandFactory as _};
use dependency_watchdog::cli::Cli;
use regex::Regex;

/// Where documents are.
const FOLDERS: [&str; 4] = ["", "charts/dependency-watchdog", "docs", "docs/commands"];
/// A backticked path that begins like this is one from the root.
const ROOTS: &str = r"`((?:\.ci|charts|crds|docs|e2e|hack|manifests|src|tests)/[\w./-]+)`";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Each document: its path from the root, and its text.
fn documents() -> Vec<(PathBuf, String)> {
    let entries = FOLDERS.iter().flat_map(|folder| {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        entries.map(move |entry| Path::new(folder).join(entry.unwrap().file_name()))
    });
    let documents: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .map(|path| {
            (
                path.clone(),
                fs::read_to_string(root().join(&path)).unwrap(),
            )
        })
        .collect();
    assert!(documents.len() > 10, "{documents:?}");
    documents
}

/// The text without what stands between fences.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// What a heading is called in a link.
fn anchor(heading: &str) -> String {
    let heading = heading.trim().to_lowercase().replace(' ', "-");
    let kept = |it: &char| it.is_alphanumeric() || ['-', '_'].contains(it);
    heading.chars().filter(kept).collect()
}

fn anchors(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let text = prose(&text);
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut followed = 0;
    for (path, text) in documents() {
        for link in link.captures_iter(&prose(&text)) {
            let link = &link[1];
            if link.contains("://") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let source = root().join(&path);
            let target = match file {
                "" => source,
                file => source.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link}", path.display());
            let there = fragment.is_empty() || anchors(&target).contains(fragment);
            assert!(there, "{}: no heading for {link}", path.display());
            followed += 1;
        }
    }
    assert!(followed > 50, "{followed}");
}

#[test]
fn each_document_is_listed() {
    let list = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for (path, _) in documents() {
        let Ok(name) = path.strip_prefix("docs") else {
            continue;
        };
        let name = name.to_str().unwrap();
        let listed = name == "README.md" || list.contains(&format!("({name})"));
        assert!(listed, "{name}");
    }
}

#[test]
fn files_that_are_named_are_there() {
    let named = Regex::new(ROOTS).unwrap();
    let mut seen = 0;
    for (path, text) in documents() {
        for file in named.captures_iter(&text) {
            let file = &file[1];
            assert!(root().join(file).exists(), "{}: {file}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_make_is_asked_for_it_can_do() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let named = Regex::new(r"(?m)(?:`|^)make ([a-z][a-z0-9-]*)").unwrap();
    let mut seen = 0;
    for (path, text) in documents() {
        for target in named.captures_iter(&text) {
            let target = format!("\n{}:", &target[1]);
            assert!(makefile.contains(&target), "{}: {target}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

/// The row of a flag in docs/flags.md, up to what it says.
fn row(flag: &Arg) -> String {
    let name = flag.get_long().unwrap();
    let variable = flag.get_env().unwrap().to_str().unwrap();
    let defaults = flag.get_default_values().iter();
    let default: Vec<&str> = defaults.map(|it| it.to_str().unwrap()).collect();
    let default = match (name, &default[..]) {
        ("kubeconfig", []) => "as kubectl",
        (_, [default]) => default,
        other => panic!("{other:?}"),
    };
    format!("--{name} | {variable} | {default} |")
}

/// What is said of flags before the first heading of another section, or below this one.
fn described(guide: &str, component: Option<&str>) -> Vec<String> {
    let mut sections = guide.split("\n## ");
    let section = match component {
        None => sections.next(),
        Some(name) => sections.find(|it| it.starts_with(&format!("Flags of {name}\n"))),
    };
    let lines = section.into_iter().flat_map(str::lines);
    let rows = lines.filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter(|line| line.starts_with("--"));
    rows.map(str::to_owned).collect()
}

#[test]
fn each_flag_is_described() {
    let guide = fs::read_to_string(root().join("docs/flags.md")).unwrap();
    let guide = guide.replace('`', "");
    let command = Cli::command();
    for (component, own) in [("prober", true), ("weeder", false)] {
        let flags = command.find_subcommand(component).unwrap().get_arguments();
        let flags = flags.filter(|flag| !flag.is_hide_set());
        let rows: Vec<String> = flags.map(row).collect();
        assert!(rows.len() > 10, "{rows:?}");
        let mut there = described(&guide, Some(component));
        assert_eq!(there.is_empty(), !own, "{there:?}");
        there.extend(described(&guide, None));
        for row in &rows {
            let described = there.iter().any(|line| line.starts_with(row.as_str()));
            assert!(
                described,
                "docs/flags.md has no row for {component} that begins: | {row}"
            );
        }
        assert_eq!(there.len(), rows.len(), "{component}: {there:#?}");
    }
}

#[test]
fn each_flag_of_explain_is_described() {
    let command = Cli::command();
    let explain = command.find_subcommand("explain").unwrap();
    let flags = explain
        .get_arguments()
        .filter(|flag| flag.get_long().is_some());
    let rows: Vec<String> = flags.map(row).collect();
    let guide = fs::read_to_string(root().join("docs/flags.md")).unwrap();
    let guide = guide.replace('`', "");
    let mut sections = guide.split("\n## ");
    let section = sections
        .find(|it| it.starts_with("Flags of explain\n"))
        .unwrap();
    let described = section.lines().filter_map(|line| line.strip_prefix("| "));
    let described: Vec<&str> = described.filter(|line| line.starts_with("--")).collect();
    for row in &rows {
        let there = described.iter().any(|line| line.starts_with(row.as_str()));
        assert!(
            there,
            "docs/flags.md has no row for explain that begins: | {row}"
        );
    }
    assert_eq!(described.len(), rows.len(), "{described:#?}");
}

#[test]
fn each_flag_of_restore_is_described() {
    let command = Cli::command();
    let restore = command.find_subcommand("restore").unwrap();
    let flags = restore.get_arguments().filter(|flag| !flag.is_positional());
    let row = |flag: &Arg| match flag.get_env() {
        Some(_) => row(flag),
        None => format!("--{} | none | off |", flag.get_long().unwrap()),
    };
    let rows: Vec<String> = flags.map(row).collect();
    let guide = fs::read_to_string(root().join("docs/flags.md")).unwrap();
    let guide = guide.replace('`', "");
    let mut sections = guide.split("\n## ");
    let section = sections.find(|it| it.starts_with("Flags of restore\n"));
    let described = section.unwrap().lines();
    let described: Vec<&str> = described.filter(|line| line.starts_with("| --")).collect();
    for row in &rows {
        let there = described.iter().any(|line| line[2..].starts_with(row));
        assert!(
            there,
            "docs/flags.md has no row of restore that begins: | {row}"
        );
    }
    assert_eq!(described.len(), rows.len(), "{described:#?}");
}

/// The row of a flag that has no variable, up to what it says.
fn plain_row(flag: &Arg) -> String {
    let name = match flag.get_short() {
        Some(short) => format!("-{short}, --{}", flag.get_long().unwrap()),
        None => format!("--{}", flag.get_long().unwrap()),
    };
    let default = match flag.get_default_values() {
        [default] => default.to_str().unwrap(),
        _ if flag.is_required_set() => "required",
        _ => "none",
    };
    format!("| {name} | none | {default} |")
}

#[test]
fn each_flag_of_the_commands_for_files_is_described() {
    let guide = fs::read_to_string(root().join("docs/flags.md")).unwrap();
    let guide = guide.replace('`', "");
    for name in ["convert", "check"] {
        let command = Cli::command();
        let command = command.find_subcommand(name).unwrap();
        let rows: Vec<String> = command.get_arguments().map(plain_row).collect();
        assert!(rows.len() > 1, "{rows:?}");
        let heading = format!("Flags of {name}\n");
        let mut sections = guide.split("\n## ");
        let section = sections.find(|it| it.starts_with(&heading)).unwrap();
        let described: Vec<&str> = section.lines().filter(|it| it.starts_with("| -")).collect();
        for row in &rows {
            let there = described.iter().any(|line| line.starts_with(row));
            assert!(
                there,
                "docs/flags.md has no row of {name} that begins: {row}"
            );
        }
        assert_eq!(described.len(), rows.len(), "{described:#?}");
    }
}
