//! Weeding: when a service that a WeedPolicy names becomes ready, the pods that need it and are
//! stuck in CrashLoopBackOff are deleted, for a limited time, so that they restart at once.

pub mod news;
pub mod now;
pub mod pod;
pub mod scopes;
pub mod selector;
pub mod services;
pub mod slice;
pub mod state;
pub mod weeds;
