//! A model of the seed and of whoever acts on it, in which the operator's own decisions run.
//!
//! The operator is what production runs: `ClusterMachine` and `FlowMachine`. The environment is modelled: objects with resourceVersions, people, an HPA, crashes,
//! leadership, requests that fail, are carried out unanswered, or arrive late.

pub(crate) mod action;
pub(crate) mod bounds;
pub(crate) mod ends;
pub(crate) mod environment;
pub(crate) mod explorer;
pub(crate) mod flaws;
pub(crate) mod flow;
pub(crate) mod object;
pub(crate) mod operator;
pub(crate) mod possible;
pub(crate) mod presence;
pub(crate) mod rules;
