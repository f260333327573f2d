//! What is done about a cluster and its dependents: pure, with time as an argument.

pub mod debts;
pub mod flow;
pub mod machine;
pub mod pace;
pub mod plan;
pub mod scale_error;
pub mod treatment;
