//! The references in docs/ are what the code says: every flag, and every field of the kinds.
//! `make docs` writes them.

mod api;
mod flags;
mod page;
