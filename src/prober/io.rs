//! Reads evidence, and reads and writes dependents.

pub mod confirm;
pub mod evidence;
pub mod metrics;
pub mod node_lists;
pub mod observe;
pub mod perform;
pub mod rights;
pub mod scale;
pub mod secrets;
