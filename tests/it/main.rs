//! The tests that need no servers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(unreachable_pub, reason = "modules of a test binary")]

mod campaign;
mod checks;
mod endpoints;
mod explain;
mod files;
mod health;
mod model;
mod prober;
mod restore;
mod shoot;
mod simulation;
mod stories;
mod support;
mod untrusted;
mod weeder;
mod world;
