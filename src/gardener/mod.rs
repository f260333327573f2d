//! The Gardener kinds that are only read: slim views that keep the few fields the rules need.

mod cluster;
mod machine;

pub use cluster::{Cluster, MachineSettings, Shoot, Worker};
pub use machine::{MACHINES, Machine, MachineList};
