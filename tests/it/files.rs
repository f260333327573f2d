//! What is generated, installed and documented is what the code says.

mod chart;
mod crds;
mod docs;
mod image;
mod layers;
mod monitoring;
mod reference;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// A path from the root of the repository.
fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

fn read(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn yaml(file: &str) -> Value {
    serde_saphyr::from_str(&read(file)).unwrap()
}

/// Fails unless this text stands in a file, between a mark and the next that ends what is generated.
pub(crate) fn is_generated(file: &str, begin: &str, end: &str, text: &str) {
    let there = read(file);
    let (before, rest) = there
        .split_once(begin)
        .unwrap_or_else(|| panic!("{file} has no place for {begin}"));
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{begin}\n{}\n\n{end}{after}", text.trim());
    if std::env::var_os("DWD_WRITE_DOCS").is_some() {
        fs::write(path(file), &wanted).unwrap();
    }
    assert!(
        read(file) == wanted,
        "{file} is not up to date: run `make docs chart` and commit"
    );
}
