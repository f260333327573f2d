//! The folders of `src` use each other in one direction: from the bottom of this list to its top.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Bottom up. A folder may use those before it.
const ORDER: [&str; 14] = [
    "util", "api", "gardener", "runtime", "shoot", "status", "cluster", "checks", "observer",
    "prober", "weeder", "explain", "restore", "cli",
];

#[test]
fn folders_use_each_other_in_one_direction() {
    let rank: BTreeMap<&str, usize> = ORDER.iter().copied().zip(0..).collect();
    let mut against = BTreeSet::new();
    let mut seen = 0;
    for file in sources() {
        let Some((folder, _)) = file.split_once('/') else {
            continue;
        };
        let own = rank
            .get(folder)
            .unwrap_or_else(|| panic!("{folder} has no place in the order"));
        let text = fs::read_to_string(source().join(&file)).unwrap();
        for used in folders_used(&text) {
            seen += 1;
            if rank.get(&*used).is_some_and(|used| used > own) {
                against.insert((file.clone(), used));
            }
        }
    }
    assert!(seen > 300, "{seen} uses were found");
    assert_eq!(
        against,
        BTreeSet::new(),
        "a file may use no folder above its own"
    );
}

/// The parts of the prober, bottom up. What is in none of them uses all.
const PARTS: [&str; 4] = ["judge", "protect", "report", "io"];

#[test]
fn the_parts_of_the_prober_use_each_other_in_one_direction() {
    let folder = source().join("prober");
    let mut part_of: BTreeMap<String, &str> = BTreeMap::new();
    for part in PARTS {
        part_of.insert(part.to_owned(), part);
        for entry in fs::read_dir(folder.join(part)).unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_str().unwrap();
            // What `report` has is its own.
            if part != "report" {
                part_of.insert(module.to_owned(), part);
            }
        }
    }
    let ranks: BTreeMap<&str, usize> = PARTS.iter().copied().zip(0..).collect();
    let mut against = BTreeSet::new();
    let mut seen = 0;
    for file in sources() {
        let Some((part, _)) = file
            .strip_prefix("prober/")
            .and_then(|rest| rest.split_once('/'))
        else {
            continue;
        };
        let Some(own) = ranks.get(part) else {
            continue;
        };
        let text = fs::read_to_string(source().join(&file)).unwrap();
        for used in used_of(&text, "prober::") {
            seen += 1;
            let other = part_of.get(&*used).copied();
            // A module of none of the parts is above them.
            let above = other.is_none_or(|other| ranks.get(other) > Some(own));
            if above {
                against.insert((file.clone(), used));
            }
        }
    }
    assert!(seen > 60, "{seen} uses were found");
    assert_eq!(against, BTreeSet::new(), "a part may use no other above it");
}

#[test]
fn no_file_is_longer_than_300_lines_of_code() {
    let lines = |file: &String| code(&fs::read_to_string(source().join(file)).unwrap()).len();
    let files = sources().into_iter();
    let long: Vec<_> = files.filter(|file| lines(file) > 300).collect();
    assert_eq!(long, [""; 0], "split what is too long, along a seam");
}

/// The lines that are shipped, without blank ones and comments: as `hack/lines.sh` counts them.
fn code(text: &str) -> Vec<String> {
    // A module of tests in a file of its own is no end of this one.
    let text = text.replace("#[cfg(test)]\nmod tests;\n", "");
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = shipped.lines().map(str::trim_start);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(str::to_owned)
        .collect()
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The files with code that is shipped.
fn sources() -> Vec<String> {
    let mut found = vec![];
    let mut folders = vec![source()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if ["tests", "fixtures"].contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let path = path.strip_prefix(source()).unwrap();
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn folders_used(text: &str) -> Vec<String> {
    used_of(text, "crate::")
}

/// What follows this in the code that is shipped: one name, or each of a list in braces.
fn used_of(text: &str, path: &str) -> Vec<String> {
    let code = code(text).join("\n");
    let name = |text: &str| -> String {
        text.chars()
            .take_while(|it| it.is_alphanumeric() || *it == '_')
            .collect()
    };
    let mut used = vec![];
    for (_, after) in code
        .match_indices(path)
        .map(|(at, it)| (at, &code[at + it.len()..]))
    {
        let Some(list) = after.strip_prefix('{') else {
            used.push(name(after));
            continue;
        };
        let (mut depth, mut item) = (0, String::new());
        for sign in list.chars() {
            match sign {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => used.push(name(std::mem::take(&mut item).trim())),
                _ if depth == 0 => item.push(sign),
                _ => {}
            }
        }
        used.push(name(item.trim()));
    }
    // A list may end with a comma.
    used.retain(|name| !name.is_empty());
    used
}

#[test]
fn uses_are_found_in_each_form() {
    let text = "use crate::{api::{A, B}, runtime::seed::Seed,\n    shoot};\nuse crate::util::text;\n\
                // crate::cli\nfn f() { crate::prober::run() }\n#[cfg(test)]\nmod tests {\n crate::cli";
    let expected = ["api", "runtime", "shoot", "util", "prober"];
    assert_eq!(folders_used(text), expected);
}
