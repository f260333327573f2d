//! What is written to ClusterHealths, and when.

mod events;
mod writer;
