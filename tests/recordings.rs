//! Each recording in `tests/snapshots/acts` and `tests/snapshots/words` belongs to a test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_recording_belongs_to_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let names = |kind: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(tests.join("snapshots").join(kind)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    let acts = names("acts");
    assert_eq!(acts, names("words"));
    assert!(!acts.is_empty());
    let is_of_a_test = |name: &&String| {
        let mut parts = name.strip_suffix(".snap").unwrap_or_default().split("__");
        let [binary, test] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
        let code = fs::read_to_string(tests.join(format!("{binary}.rs"))).unwrap_or_default();
        code.contains(&format!("fn {test}("))
    };
    let unused: Vec<_> = acts.iter().filter(|name| !is_of_a_test(name)).collect();
    assert!(
        unused.is_empty(),
        "these belong to no test, delete them: {unused:?}"
    );
}
