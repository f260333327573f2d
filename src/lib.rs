//! Protects hosted Kubernetes control planes from cascading failure, and says why it acted.
//!
//! Data flows one way: *select* ([`cluster`]) → *observe* ([`shoot`], [`checks`]) → *judge* and *act*
//! ([`prober`]) → *report* ([`prober::report`]). What decides takes no client, no clock and no task: time
//! is an argument, so that every rule can be tested by table and by property. Effects sit at the
//! ends.

pub mod api;
pub mod check;
pub mod checks;
pub mod cli;
pub mod cluster;
pub mod convert;
pub mod explain;
pub mod gardener;
pub mod observer;
pub mod prober;
pub mod report;
pub mod restore;
pub mod runtime;
pub mod shoot;
pub mod util;
pub mod weeder;
