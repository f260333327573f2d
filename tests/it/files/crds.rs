//! The definitions that are shipped are those of the code.

use dependency_watchdog::api::{crd_file_name, crd_yaml, crds};
use std::{collections::BTreeMap, fs, path::Path};

/// kubectl reads only files with an extension when it applies a folder, and Kustomize takes this name too.
const KUSTOMIZATION: &str = "Kustomization";

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crds");

/// The files in `crds/`, by name.
fn shipped() -> BTreeMap<String, String> {
    fs::read_dir(FOLDER)
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
    let generated: BTreeMap<String, String> = crds()
        .iter()
        .map(|crd| (crd_file_name(crd), crd_yaml(crd).unwrap()))
        .collect();
    if std::env::var_os("DWD_WRITE_DOCS").is_some() {
        for (name, text) in &generated {
            fs::write(format!("{FOLDER}/{name}"), text).unwrap();
        }
    }
    let mut shipped = shipped();
    let listed = shipped.remove(KUSTOMIZATION).unwrap();
    assert!(
        shipped == generated,
        "crds/ does not match the code: run `make crds` and commit"
    );
    let names = listed.lines().filter_map(|line| line.strip_prefix("  - "));
    assert!(
        names.eq(generated.keys()),
        "crds/{KUSTOMIZATION} does not list the files beside it"
    );
}

/// One object of another kind makes `kubectl apply -f crds` fail.
#[test]
fn kubectl_can_apply_the_folder() {
    for (name, text) in shipped().iter().filter(|it| it.0 != KUSTOMIZATION) {
        let object: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(object["kind"], "CustomResourceDefinition", "{name}");
    }
    assert_eq!(Path::new(KUSTOMIZATION).extension(), None);
}
