//! A model of an API server with policies, namespaces, slices and pods, watches that lag and break,
//! and the rules of the weeder in their plainest form.

pub(crate) mod objects;
mod rules;
pub(crate) mod steps;
pub(crate) mod world;
