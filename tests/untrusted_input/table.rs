//! The table of what comes from outside, and of what tries it, is true.

use std::{collections::BTreeSet, fs, path::Path};

use regex::Regex;

/// The text of each Rust file below these.
fn sources(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") {
            all.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_table_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    for folder in ["src", "tests", "e2e"] {
        sources(&root.join(folder), &mut all);
    }
    let test = Regex::new(r"(?:fn |fuzzed!\(\s*(?:///[^\n]*\s*)*)([a-z][a-z0-9_]{8,})").unwrap();
    let tests: BTreeSet<&str> = test
        .captures_iter(&all)
        .map(|it| it.get(1).unwrap().as_str())
        .collect();
    let text = fs::read_to_string(root.join("docs/untrusted-input.md")).unwrap();
    let named = Regex::new(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`").unwrap();
    let mut seen = 0;
    for name in named.captures_iter(&text) {
        assert!(tests.contains(&name[1]), "there is no test {}", &name[1]);
        seen += 1;
    }
    assert!(seen > 40, "{seen}");
    // And the other way: what fuzzes something is in the table.
    let fuzzed =
        r#"(?:\bfuzzed!\(\s*(?:///[^\n]*\s*)*|fuzz\(\s*file!\(\),\s*")([a-z]+_[a-z_]+)"?,"#;
    let fuzzed = Regex::new(fuzzed).unwrap();
    let mut seen = 0;
    for name in fuzzed.captures_iter(&all) {
        let name = &name[1];
        assert!(
            text.contains(&format!("`{name}`")),
            "{name} is not in the table"
        );
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}
