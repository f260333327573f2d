//! An oracle that sees the operator from outside: what happens to shoots is drawn, what is so follows
//! from it, and each version of a dependent is compared with the one before.

#![allow(
    missing_docs,
    reason = "a field or variant without a comment is what its name says"
)]

mod deck;
pub mod event;
pub mod leading;
pub mod outages;
pub mod plan;
pub mod policy;
pub mod rules;
pub mod trouble;
pub mod truth;
pub mod versions;
pub mod weeder;

use self::{outages::Outages, truth::Truth, versions::Version};
use crate::farm::Micros;

/// The dependents of Gardener, in the order in which they are scaled down.
pub const DEPENDENTS: [&str; 3] = [
    "kube-controller-manager",
    "machine-controller-manager",
    "cluster-autoscaler",
];
/// The annotation of what the operator has scaled to zero.
pub const MARK: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
/// The annotation with the number of replicas that it had.
pub const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";
/// The annotation by which people have the operator leave it alone, with the value `true`.
pub const IGNORE: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";
/// The field manager as which the operator writes.
pub const OPERATOR: &str = "dependency-watchdog";

/// All that is broken by the versions of the dependents that were written until then: what was done and must not be,
/// and outages that had to be met and were not.
pub fn judge(history: &[Version], truth: &Truth, until: Micros) -> Vec<String> {
    let mut broken = rules::broken(history, truth);
    broken.extend(Outages::new(truth, history, until).broken);
    broken
}
