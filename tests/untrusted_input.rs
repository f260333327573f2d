//! What comes from outside, however it was changed on the way or by whomever: it is read or refused,
//! it costs no more memory than it may, and what is read of it is what stands there.
//!
//! Each is tried with some hundred inputs. `make fuzz` goes on for as long as it is told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod support;

#[path = "untrusted_input/command_line.rs"]
mod command_line;
#[path = "untrusted_input/dependents.rs"]
mod dependents;
#[path = "untrusted_input/files.rs"]
mod files;
#[path = "untrusted_input/fuzz.rs"]
mod fuzz;
#[path = "untrusted_input/memory.rs"]
mod memory;
#[path = "untrusted_input/mutate.rs"]
mod mutate;
#[path = "untrusted_input/objects.rs"]
mod objects;
#[path = "untrusted_input/pods.rs"]
mod pods;
#[path = "untrusted_input/protobuf/mod.rs"]
mod protobuf;
#[path = "untrusted_input/seed.rs"]
mod seed;
#[path = "untrusted_input/shoots.rs"]
mod shoots;
#[path = "untrusted_input/sockets.rs"]
mod sockets;
#[path = "untrusted_input/table.rs"]
mod table;
#[path = "untrusted_input/texts.rs"]
mod texts;
