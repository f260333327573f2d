//! Reads evidence, and reads and writes dependents.

pub mod confirm;
pub mod metrics;
pub mod perform;
pub mod reader;
pub mod rights;
pub mod scale;
pub mod secrets;
pub mod sources;
