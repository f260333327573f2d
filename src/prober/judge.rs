//! Evidence in, verdict out: pure, with time as an argument.

pub mod finding;
pub mod lease_judge;
pub mod leases;
pub mod nodes;
pub mod proof;
pub mod schedule;
pub mod verdict;
