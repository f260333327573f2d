//! Evidence in, verdict out: pure, with time as an argument.

pub mod candidates;
pub mod finding;
pub mod heartbeat;
pub mod proof;
pub mod schedule;
pub mod verdict;
pub mod watch;
