//! The folders of `src`, and the parts of the prober, use each other in one direction: from the bottom of a list to its
//! top.

use std::{fs, path::Path};

/// Bottom up. A folder may use those before it.
const ORDER: [&str; 14] = [
    "util", "api", "gardener", "runtime", "shoot", "report", "cluster", "checks", "observer",
    "prober", "weeder", "explain", "restore", "cli",
];

/// The parts of the prober, bottom up. What is in none of them uses all.
const PARTS: [&str; 4] = ["judge", "act", "report", "io"];

/// Each file with code that is shipped, by its path in `src`, and this code without blank lines and comments.
fn sources() -> Vec<(String, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![];
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if ["tests", "fixtures"].contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // A module of tests in a file of its own is no end of this one.
            let text = text.replace("#[cfg(test)]\nmod tests;\n", "");
            let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let lines = shipped.lines().map(str::trim_start);
            let code = lines.filter(|it| !it.is_empty() && !it.starts_with("//"));
            let path = path.strip_prefix(&source).unwrap().to_str().unwrap();
            found.push((path.to_owned(), code.collect::<Vec<_>>().join("\n")));
        }
    }
    found
}

/// What follows a path: one name, or each of a list in braces.
fn used<'a>(code: &'a str, path: &str) -> Vec<&'a str> {
    let mut used = vec![];
    for after in code.split(path).skip(1) {
        let (mut depth, mut before) = (0, "");
        for word in after.split_inclusive(|it: char| !it.is_alphanumeric() && it != '_') {
            let (name, sign) = word.split_at(word.len() - 1);
            if depth < 2 && before != ":" && !name.is_empty() {
                used.push(name);
            }
            match sign {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            before = sign;
        }
    }
    used
}

#[test]
fn folders_use_each_other_in_one_direction() {
    let rank = |folder: &str| ORDER.iter().position(|it| *it == folder);
    let mut seen = 0;
    for (file, code) in sources() {
        let Some((folder, _)) = file.split_once('/') else {
            continue;
        };
        let own = rank(folder);
        assert!(own.is_some(), "{folder} has no place in the order");
        for used in used(&code, "crate::") {
            assert!(
                rank(used) <= own,
                "{file} may not use {used}, which is above it"
            );
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen} uses were found");
}

#[test]
fn the_parts_of_the_prober_use_each_other_in_one_direction() {
    let rank = |part: &str| PARTS.iter().position(|it| *it == part);
    let prober = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prober");
    // A module is re-exported from the part that has it; what `report` has is its own.
    let part_of = |module: &str| {
        let has = |part: &&str| {
            let path = prober.join(part).join(module);
            *part == module || *part != "report" && path.with_extension("rs").is_file()
        };
        PARTS.into_iter().find(has)
    };
    let mut seen = 0;
    for (file, code) in sources() {
        let mut folders = file.split('/');
        let (Some("prober"), Some(part)) = (folders.next(), folders.next()) else {
            continue;
        };
        let Some(own) = rank(part) else { continue };
        for module in used(&code, "prober::") {
            let Some(other) = part_of(module) else {
                continue;
            };
            assert!(
                rank(other) <= Some(own),
                "{file} may not use {module} of {other}, which is above it"
            );
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen} uses were found");
}

#[test]
fn no_file_is_longer_than_300_lines_of_code() {
    for (file, code) in sources() {
        assert!(code.lines().count() <= 300, "split {file}, along a seam");
    }
}
