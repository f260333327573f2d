//! An API server of Kubernetes, shoots and kubelets in memory, by a clock of the caller's.

#![allow(
    clippy::indexing_slicing,
    reason = "JSON that is written by index does not panic"
)]

pub mod chaos;
pub mod farm;
pub mod fault;
pub mod kinds;
pub mod oracle;
pub mod refusal;
pub mod server;
pub mod store;
