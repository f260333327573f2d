//! Each recording in `tests/snapshots/acts` belongs to a test.

use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn every_recording_belongs_to_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let folder = fs::read_dir(tests.join("snapshots/acts")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let acts: BTreeSet<String> = names.collect();
    assert!(!acts.is_empty());
    let is_of_a_test = |name: &&String| {
        let mut parts = name.strip_suffix(".snap").unwrap_or_default().split("__");
        let [area, suite, test] = [(); 3].map(|()| parts.next().unwrap_or_default());
        let code = fs::read_to_string(tests.join(format!("it/{area}/{suite}.rs")));
        code.unwrap_or_default().contains(&format!("fn {test}("))
    };
    let unused: Vec<_> = acts.iter().filter(|name| !is_of_a_test(name)).collect();
    assert!(
        unused.is_empty(),
        "these belong to no test, delete them: {unused:?}"
    );
}
