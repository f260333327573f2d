//! Deciding about one cluster: no client, no task, no clock.

pub mod decide;
pub mod dependents;
pub mod pace;
pub mod scale_error;
pub mod step;
pub mod treatment;
