//! An API server of Kubernetes, shoots and kubelets in memory, by a clock of the caller's.

pub mod farm;
pub mod oracle;
