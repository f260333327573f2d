//! The references in docs/ are what the code says: every flag, and every field of the kinds.
//! `make docs` writes them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

#[path = "reference/api.rs"]
mod api;
#[path = "reference/flags.rs"]
mod flags;
#[path = "reference/page.rs"]
mod page;
