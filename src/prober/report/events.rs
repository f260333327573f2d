//! Events on ClusterHealths, ProbePolicies and dependents: what has just become otherwise.

pub(super) mod cluster;
pub(super) mod dependent;
pub(super) mod hysteresis;
pub(super) mod policy;
