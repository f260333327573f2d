//! The tests that the documentation names are there, and what the model checks is stated in
//! docs/invariants.md.

use std::{collections::BTreeSet, fs};

use regex::Regex;

use super::{documents, root};

fn text(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn tests_that_are_named_exist() {
    let check = Regex::new(r"`((?:src|tests|e2e)/[\w./-]+\.rs)::(\w+)`").unwrap();
    let documents: Vec<String> = documents().into_iter().map(|(_, text)| text).collect();
    let mut seen = 0;
    for check in check.captures_iter(&documents.concat()) {
        let (path, name) = (&check[1], &check[2]);
        let text = text(path);
        let function = Regex::new(&format!(r"(?m)^ *(?:async )?fn {name}\(")).unwrap();
        let there = function.find(&text).is_some_and(|found| {
            // Its attributes stand above it, without a blank line in between; a scenario is listed.
            let above = text[..found.start()].rsplit("\n\n").next();
            let listed = name.starts_with("e2e_") && text.matches(name).count() > 1;
            listed || above.is_some_and(|above| above.contains("test"))
        });
        assert!(there, "{path} has no test {name}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

#[test]
fn each_rule_of_the_model_is_an_invariant_that_a_flaw_breaks() {
    let names = |path: &str, pattern: &str| -> BTreeSet<String> {
        let pattern = Regex::new(pattern).unwrap();
        let text = text(path);
        let found = pattern.captures_iter(&text);
        found.map(|found| found[1].to_owned()).collect()
    };
    let stated = names("docs/invariants.md", r"(?m)^### ([a-z-]+)$");
    let checked = names("tests/it/model/rules.rs", r#""([a-z]+(?:-[a-z]+)+)""#);
    let broken = names(
        "tests/it/model/explorations.rs",
        r#"case\(Flaw::\w+, .*"([a-z]+(?:-[a-z]+)+)"\)\]"#,
    );
    assert!(stated.len() > 8, "{stated:?}");
    assert_eq!(checked, stated);
    assert_eq!(broken, stated);
}
