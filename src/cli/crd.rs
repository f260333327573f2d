//! `crd`: prints the definitions of the kinds, for `kubectl apply --server-side -f -`.

use super::files;
use crate::api::{crd_yaml, crds};

/// Prints one YAML document per kind, and returns the exit code.
///
/// # Errors
/// When the standard output takes no more.
pub(super) fn run() -> Result<u8, String> {
    let documents: Result<Vec<String>, _> = crds().iter().map(crd_yaml).collect();
    let documents = documents.map_err(|error| format!("writing a definition as YAML: {error}"))?;
    files::print(&documents.concat())?;
    Ok(0)
}
