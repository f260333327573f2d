//! The definitions that are shipped are those of the code.

use dependency_watchdog::api::{crd_file_name, crd_yaml, crds};
use std::{collections::BTreeMap, fs, path::Path};

#[test]
fn files_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let mut shipped: BTreeMap<String, String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    let listed = shipped.remove("kustomization.yaml").unwrap();
    let generated: BTreeMap<String, String> = crds()
        .iter()
        .map(|crd| (crd_file_name(crd), crd_yaml(crd).unwrap()))
        .collect();
    assert!(
        shipped == generated,
        "crds/ does not match the code: run `make crds` and commit"
    );
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("  - "))
        .collect();
    assert!(
        names.into_iter().eq(generated.keys()),
        "crds/kustomization.yaml does not list the files beside it"
    );
}
