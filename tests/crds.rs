//! The definitions that are shipped are those of the code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use dependency_watchdog::api::{crd_file_name, crd_yaml, crds};
use std::{collections::BTreeMap, fs, path::Path};

/// kubectl reads only files with an extension when it applies a folder, and Kustomize takes this name too.
const KUSTOMIZATION: &str = "Kustomization";

/// The files in `crds/`, by name.
fn shipped() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn files_are_up_to_date() {
    let mut shipped = shipped();
    let listed = shipped.remove(KUSTOMIZATION).unwrap();
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
        "crds/{KUSTOMIZATION} does not list the files beside it"
    );
}

/// One object of another kind makes `kubectl apply -f crds` fail.
#[test]
fn kubectl_can_apply_the_folder() {
    let files = shipped();
    let applied = files.iter().filter(|(name, _)| **name != *KUSTOMIZATION);
    for (name, text) in applied {
        let object: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(object["kind"], "CustomResourceDefinition", "{name}");
    }
    assert_eq!(Path::new(KUSTOMIZATION).extension(), None);
}
