//! The Gardener kinds that are only read: slim views that keep the few fields the rules need.

mod cluster;
mod machine;

pub use cluster::{Cluster, LastOperation, Shoot, Unreadable, Worker};
pub use machine::{MACHINES, Machine, MachineList};
