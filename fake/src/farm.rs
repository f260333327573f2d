//! Shoots that are played: to the operator each is a shoot like any other, an HTTPS server whose leases
//! are renewed and stamped, and whose Nodes are as large as real ones. What they do is a function of
//! time, so that hundreds of them cost little.

mod behaviour;
mod clock;
mod count;
mod death;
mod kubelets;
mod lease;
mod names;
mod node;
mod server;
mod shoot;
mod tls;
pub mod wire;

pub use self::{
    behaviour::{Answer, Behaviour, Read, Special},
    clock::{Micros, micros},
    count::Count,
    death::Death,
    kubelets::{Kubelets, Renewal},
    lease::leases,
    names::{namespace, node_name},
    server::{Server, TOKEN},
    shoot::Shoot,
    tls::{DOMAIN, identity},
};

/// A kubelet renews its lease so many times in the lease's duration.
pub const RENEWALS_PER_LEASE: u32 = 4;
/// From an order to a farm until it takes effect, so that a farm in another process has it in time.
pub const NOTICE: Micros = 500_000;
