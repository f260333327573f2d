//! What the process needs around its work: clients, logs, the end.

pub mod client;
pub mod shutdown;
pub mod telemetry;
