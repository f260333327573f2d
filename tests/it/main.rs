//! The whole operator, seen from outside, in virtual time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![allow(unreachable_pub, reason = "modules of a test binary")]

mod campaign;
mod world;
