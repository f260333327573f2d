//! The flowcharts of the documentation, in Mermaid, hold together: what a line joins is named once. A
//! typing error there is no error to Mermaid, which draws one more box. Errors in other kinds of pictures are errors
//! to Mermaid as well.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// Kinds of pictures that GitHub and the book draw.
const KINDS: [&str; 5] = [
    "flowchart",
    "gantt",
    "sequenceDiagram",
    "stateDiagram-v2",
    "timeline",
];

/// The README, and the documents in `docs`.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("docs")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let documents = paths.filter(|path| path.extension().is_some_and(|it| it == "md"));
    documents.chain([root.join("README.md")]).collect()
}

/// What stands between the fences of each picture.
fn pictures(document: &Path) -> Vec<String> {
    let text = fs::read_to_string(document).unwrap();
    let fenced = text.split("```mermaid\n").skip(1);
    fenced
        .map(|it| it.split_once("\n```").unwrap().0.to_owned())
        .collect()
}

/// Fails unless each name that a line of a flowchart joins has one text.
fn holds_together(picture: &str) {
    let group = Regex::new(r#"^subgraph (\w+)\["[^"]+"\]$"#).unwrap();
    let line = Regex::new(r#" (?:(?:-- "[^"]+" )?-->|(?:== "[^"]+" )?==>|~~~) "#).unwrap();
    let node = Regex::new(r#"^(\w+)(\["[^"]+"\]|\{"[^"]+"\}|\(\["[^"]+"\]\))?$"#).unwrap();
    let (mut named, mut joined) = (BTreeSet::new(), BTreeSet::new());
    let mut open = 0;
    for text in picture.lines().skip(1).map(str::trim) {
        if text == "end" {
            open -= 1;
        } else if let Some(group) = group.captures(text) {
            assert!(named.insert(group[1].to_owned()), "{text} is there twice");
            open += 1;
        } else if text != "direction LR" {
            for end in line.split(text) {
                let Some(node) = node.captures(end) else {
                    panic!("{end:?} in {text:?} is no node");
                };
                let name = node[1].to_owned();
                let first = node.get(2).is_none() || named.insert(name.clone());
                assert!(first, "{name} is named twice");
                joined.insert(name);
            }
        }
    }
    assert_eq!(open, 0, "a subgraph has no end");
    let unnamed: Vec<&String> = joined.difference(&named).collect();
    assert!(unnamed.is_empty(), "{unnamed:?} are named nowhere");
}

#[test]
fn what_lines_join_is_named_once() {
    let mut seen = 0;
    for document in documents() {
        for picture in pictures(&document) {
            println!("{}:\n{picture}", document.display());
            let kind = picture.split([' ', '\n']).next().unwrap();
            assert!(KINDS.contains(&kind), "{kind} is no kind of picture");
            if kind == "flowchart" {
                holds_together(&picture);
            }
            seen += 1;
        }
    }
    assert!(seen > 2, "{seen}");
}
