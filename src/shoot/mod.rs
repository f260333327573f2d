//! Reaching a shoot: credentials from an untrusted Secret, one kept connection, slim reads.
//!
//! [`parse`] turns the bytes of a kubeconfig into an [`Access`], [`Shoot::new`] turns that into
//! a connection, and [`Shoot::leases`], [`Shoot::list`], [`Shoot::readiness`] and [`Shoot::serves`] read over it. A read
//! either succeeds entirely or is [`Unread`]; nothing here judges what was read.

mod api;
mod client;
mod dial;
mod kubeconfig;
mod lease;
mod list;
mod node;
mod read;
mod unread;
mod wire;

pub use api::Readiness;
pub use client::Shoot;
pub use dial::{Dial, Wire};
pub use kubeconfig::{Access, MAX_KUBECONFIG_BYTES, parse};
pub use lease::{Digest, Lease};
pub use list::{Item, List, MAX_FIELD_BYTES, MAX_ITEMS, MAX_NAME_BYTES};
pub use node::Node;
pub use read::{Consistency, LeaseRead};
pub use unread::{SEED_UNREADABLE, Said, Target, Unread};
