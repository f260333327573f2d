//! Faults at writes: the operator protects and restores a cluster while a proxy between it and the seed, and one between
//! it and the shoot, let something go wrong at one of its writes. In the end everything must stand as promised, and no
//! rule of [`rules`](fake::chaos::rules) may have been broken on the way. See docs/faults.md.

mod call;
mod identity;
mod proxy;
mod run;
mod script;
mod stage;
mod watching;

pub use fake::chaos::{
    Fault,
    run::{CA, ETCD, KCM, MCM},
};
pub use run::{Point, problems};
pub use stage::Stage;
