//! Reads evidence, and reads and writes dependents.

pub mod confirm;
pub mod metrics;
pub mod reader;
pub mod rights;
pub mod scale;
pub mod secrets;
pub mod sources;

use kube::api::ListParams;

/// Parameters of a list that has the object of this name alone. It needs no right that a watch does not need.
pub(crate) fn named(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}
