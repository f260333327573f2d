//! The table of what comes from outside, and of what tries it, is true.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use regex::Regex;

/// Each Rust file below this folder, and its text.
fn sources(folder: &Path, all: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            all.push((path, text));
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document() -> String {
    fs::read_to_string(root().join("docs/untrusted-input.md")).unwrap()
}

#[test]
fn every_test_that_the_table_names_is_there() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "e2e"] {
        sources(&root().join(folder), &mut files);
    }
    let all: String = files.into_iter().map(|(_, text)| text).collect();
    let test = Regex::new(r"(?:fn |fuzzed!\(\s*(?:///[^\n]*\s*)*)([a-z][a-z0-9_]{8,})").unwrap();
    let tests: BTreeSet<&str> = test
        .captures_iter(&all)
        .map(|it| it.get(1).unwrap().as_str())
        .collect();
    let text = document();
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

/// Whoever adds a type that is read from outside adds a row, and with it a test.
#[test]
fn every_file_that_decodes_is_in_the_table() {
    let decodes = Regex::new(
        r"derive\([^)]*\bDeserialize\b|impl\S* (?:\w+::)*(?:FromStr|Deserialize(?:<'de>)?) for ",
    );
    let decodes = decodes.unwrap();
    let text = document();
    let named = Regex::new(r"`(src/[a-z_/]+)(?:\.rs)?`").unwrap();
    let named: BTreeSet<&str> = named
        .captures_iter(&text)
        .map(|it| it.get(1).unwrap().as_str())
        .collect();
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let mut seen = 0;
    for (path, text) in files {
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let module = path.strip_suffix(".rs").unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        if path.ends_with("tests.rs") || !decodes.is_match(text) {
            continue;
        }
        // A module is named with those in it.
        let mut parents = Path::new(module).ancestors().map(|it| it.to_str().unwrap());
        assert!(
            parents.any(|it| named.contains(it)),
            "{path} decodes, and is not in the table"
        );
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}
