//! What comes from outside, however it was changed on the way or by whomever: it is read or refused,
//! it costs no more memory than it may, and what is read of it is what stands there.
//!
//! Each is tried with some hundred inputs. `make fuzz` goes on for as long as it is told.

mod command_line;
mod dependents;
mod files;
mod fuzz;
mod memory;
mod mutate;
mod objects;
mod pods;
mod protobuf;
mod seed;
mod shoots;
mod sockets;
mod table;
mod texts;
