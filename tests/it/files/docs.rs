//! The documentation names what there is: links, files, commands.

mod commands;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use dependency_watchdog::check::problems;
use regex::Regex;
use serde_json::{Value, json};

use super::{read, yaml};

/// Where documents are: here, and in all folders of these.
const FOLDERS: [&str; 6] = ["charts", "crds", "docs", "e2e", "hack", "manifests"];
/// A backticked path that begins like this is one from the root.
const ROOTS: &str = r"`((?:\.ci|benches|charts|crds|docs|e2e|hack|manifests|src|tests)/[\w./-]+)`";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What is in a folder, by paths from the root.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let paths = entries.map(|entry| folder.join(entry.unwrap().file_name()));
    paths.collect()
}

/// Each document: its path from the root, and its text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    let mut files = entries(Path::new(""));
    while let Some(folder) = folders.pop() {
        let (inside, beside) = entries(&folder)
            .into_iter()
            .partition::<Vec<_>, _>(|path| root().join(path).is_dir());
        folders.extend(inside);
        files.extend(beside);
    }
    let documents: Vec<_> = files
        .into_iter()
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
    // A pattern may look like a link.
    let code = Regex::new("`[^`\n]*`").unwrap();
    let mut followed = 0;
    for (path, text) in documents() {
        for link in link.captures_iter(&code.replace_all(&prose(&text), "``")) {
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

/// Gardener's own tool uses the same Leases. With a policy in DryRun, an operator that takes them leaves
/// nobody who protects, and only a rehearsal takes none.
#[test]
fn what_could_take_the_lease_of_gardeners_tool_comes_after_the_rehearsal() {
    let acts = r"(?m)-k (manifests$|docs/examples)|manifests/gardener|helm install .*--wait$|probe-policy\.yaml";
    let acts = Regex::new(acts).unwrap();
    let rehearses = Regex::new(r"manifests/examples/rehearsal|rehearsal(=|: )true|#(2-)?rehearse");
    let rehearses = rehearses.unwrap();
    for file in [
        "README.md",
        "charts/dependency-watchdog/README.md",
        "charts/dependency-watchdog/templates/NOTES.txt",
        "docs/first-policy.md",
        "docs/gitops.md",
        "docs/install.md",
        "docs/migration.md",
        "docs/rollout.md",
    ] {
        let text = read(file);
        let first = acts.find(&text).unwrap_or_else(|| panic!("{file}"));
        let before = &text[..first.start()];
        assert!(
            rehearses.is_match(before),
            "{file}: {:?} comes before the rehearsal",
            first.as_str()
        );
    }
}

#[test]
fn each_document_is_listed() {
    let list = read("docs/SUMMARY.md");
    for (path, _) in documents() {
        let Ok(name) = path.strip_prefix("docs") else {
            continue;
        };
        let name = name.to_str().unwrap();
        let listed = name == "SUMMARY.md" || list.matches(&format!("({name})")).count() == 1;
        assert!(listed, "docs/SUMMARY.md does not list {name} once");
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
    let makefile = read("Makefile");
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

#[test]
fn tests_that_are_named_are_there() {
    let named = Regex::new(r"`((?:src|tests|e2e)/[\w./-]+\.rs)::(\w+)`").unwrap();
    let mut seen = 0;
    for (path, text) in documents() {
        for test in named.captures_iter(&text) {
            let source = read(&test[1]);
            let there = source.contains(&format!("fn {}(", &test[2]));
            assert!(there, "{}: {}", path.display(), &test[0]);
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The scripts of a document: those in fences of this kind. What is in `sh` is run by a scenario, as it stands.
fn scripts(text: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}");
    let mut scripts = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == fence {
            let indent = line.len() - line.trim_start().len();
            let script = lines.by_ref().take_while(|it| it.trim() != "```");
            let script = script.map(|it| it.get(indent..).unwrap_or_default());
            scripts.push(script.collect::<Vec<_>>().join("\n"));
        }
    }
    scripts
}

/// Of a policy, a sample has to be valid within the example of its kind.
#[test]
fn samples_of_policies_are_valid() {
    let mut seen = 0;
    for (path, text) in documents() {
        if !path.starts_with("docs") {
            continue;
        }
        for text in scripts(&text, "yaml") {
            let sample: Value = serde_saphyr::from_str(&text).unwrap();
            let (example, sample) = match (sample.get("apiVersion"), sample.get("spec")) {
                (Some(_), _) => continue,
                (None, Some(_)) => ("probe-policy", sample),
                (None, None) => ("weed-policy", json!({ "spec": sample })),
            };
            let mut policy = yaml(&format!("docs/examples/{example}.yaml"));
            json_patch::merge(&mut policy, &sample);
            assert_eq!(
                problems(&policy),
                Some(vec![]),
                "{}: {text}",
                path.display()
            );
            seen += 1;
        }
    }
    assert!(seen > 2, "{seen}");
}
