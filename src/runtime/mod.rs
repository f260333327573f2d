//! What the process needs around its work: the seed, logs, metrics, health, the end.

pub mod admin;
pub mod health;
pub mod instruments;
pub mod leader;
pub mod metrics;
pub mod names;
pub(crate) mod rights;
pub(crate) mod salvage;
pub mod seed;
pub mod shutdown;
pub mod telemetry;
pub(crate) mod timer;
pub mod watch;
pub mod wire;
