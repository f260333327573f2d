//! What the process needs around its work: the seed, logs, the end.

pub mod leader;
pub mod seed;
pub mod shutdown;
pub mod telemetry;
pub(crate) mod timer;
