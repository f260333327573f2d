//! What comes from outside, however it was changed on the way or by whomever: our own readers read it or refuse it,
//! it costs no more memory than it may, and what is read of it is what stands there.
//!
//! Each is tried with some hundred inputs. `make fuzz` goes on for as long as it is told.

mod fuzz;
mod kubeconfig;
mod memory;
mod mutate;
mod objects;
mod shoots;
mod sockets;
mod texts;
