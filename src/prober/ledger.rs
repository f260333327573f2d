//! What one cluster's dependents are owed, and what is known of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    flow::What,
    plan::{Memory, Observed, Record, Settled, Step},
};
use crate::{
    api::{self, ClusterHealthStatus, DependentRef, DependentStatus},
    cluster::{Dependent, Scale},
};

/// The dependents of a cluster: those of its policy, and those that are owed something although
/// the policy does not name them any more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger(BTreeMap<DependentRef, Entry>);

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    dependent: Dependent,
    memory: Memory,
    problem: Option<Problem>,
}

/// Why a dependent is not where it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// CamelCase, for conditions.
    pub reason: &'static str,
    /// For people: names the dependent and the remedy.
    pub message: String,
}

impl Ledger {
    /// What an earlier run of the operator has left behind.
    pub fn recall(status: &ClusterHealthStatus) -> Self {
        let entries = status.dependents.iter().map(|known| {
            let scale = Scale {
                level: u32::try_from(known.level).unwrap_or(0),
                initial_delay: known.initial_delay.get(),
                timeout: known.timeout.get(),
            };
            let entry = Entry {
                dependent: Dependent {
                    reference: known.r#ref.clone(),
                    optional: true,
                    up: scale,
                    down: scale,
                },
                memory: Memory {
                    owed: known.owed,
                    replicas: known.recorded_replicas,
                },
                problem: None,
            };
            (known.r#ref.clone(), entry)
        });
        Self(entries.collect())
    }

    /// Adopts the dependents of a policy. Those that it does not name stay as long as they are
    /// owed something.
    pub fn adopt(&mut self, dependents: &[Dependent]) {
        let mut before = std::mem::take(&mut self.0);
        for dependent in dependents {
            let known = before.remove(&dependent.reference);
            let entry = Entry {
                dependent: dependent.clone(),
                memory: known
                    .as_ref()
                    .map_or_else(Memory::default, |known| known.memory),
                problem: known.and_then(|known| known.problem),
            };
            self.0.insert(dependent.reference.clone(), entry);
        }
        self.0
            .extend(before.into_iter().filter(|(_, entry)| entry.memory.owed));
    }

    /// Whether any dependent is owed its replicas.
    pub fn owes(&self) -> bool {
        self.0.values().any(|entry| entry.memory.owed)
    }

    /// All dependents.
    pub fn dependents(&self) -> Arc<[Dependent]> {
        self.0
            .values()
            .map(|entry| entry.dependent.clone())
            .collect()
    }

    /// What is remembered of each.
    pub fn memory(&self) -> BTreeMap<DependentRef, Memory> {
        let entries = self.0.iter();
        entries
            .map(|(reference, entry)| (reference.clone(), entry.memory))
            .collect()
    }

    /// Why dependents are not where they should be.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.0.values().filter_map(|entry| entry.problem.as_ref())
    }

    /// Takes down what a flow did to a dependent, or met there. A flow that ends may still have
    /// scaled one that the policy has just ceased to name.
    pub fn note(&mut self, dependent: &Dependent, what: &What) {
        let reference = &dependent.reference;
        let entry = self.0.entry(reference.clone()).or_insert_with(|| Entry {
            dependent: dependent.clone(),
            memory: Memory::default(),
            problem: None,
        });
        match what {
            What::Did(step, found) => {
                entry.problem = None;
                entry.memory = after(*step, found.as_ref(), entry.memory);
            }
            What::Settled(settled, found) => {
                entry.problem = left_behind(*settled, found.as_ref(), entry.memory, reference);
                entry.memory = settle(*settled, found.as_ref(), entry.memory);
            }
            What::Late(timeout) => {
                entry.problem = Some(Problem {
                    reason: "ScalingLate",
                    message: format!("{reference} was not scaled within {timeout:?}"),
                });
            }
            What::Failed(error, begun) => {
                if let Some(step) = begun {
                    entry.memory = begin(*step, entry.memory);
                }
                entry.problem = Some(Problem {
                    reason: error.reason(),
                    message: format!("{reference}: {error}"),
                });
            }
            What::Interrupted(step) => entry.memory = begin(*step, entry.memory),
        }
    }

    /// As ClusterHealth lists it: enough to restore all of it when the policy is gone.
    pub fn status(&self) -> Vec<DependentStatus> {
        let entries = self.0.values();
        entries
            .map(|entry| DependentStatus {
                r#ref: entry.dependent.reference.clone(),
                recorded_replicas: entry.memory.replicas,
                owed: entry.memory.owed,
                level: i32::try_from(entry.dependent.up.level).unwrap_or(i32::MAX),
                initial_delay: written(entry.dependent.up.initial_delay),
                timeout: written(entry.dependent.up.timeout),
            })
            .collect()
    }
}

/// What is at zero and not restored, since somebody else has seen to it.
fn left_behind(
    settled: Settled,
    found: Option<&Observed>,
    memory: Memory,
    reference: &DependentRef,
) -> Option<Problem> {
    let recorded = match found.map(|found| &found.record) {
        Some(Record::Replicas(replicas)) => Some(*replicas),
        _ => memory.replicas,
    };
    let (reason, why) = match settled {
        Settled::NotOurs if memory.owed => ("MarkRemoved", "its mark was removed by somebody else"),
        Settled::Ignored { at_zero: true } if memory.owed || recorded.is_some() => {
            ("IgnoredAtZero", "it says ignore-scaling")
        }
        _ => return None,
    };
    let replicas = recorded.unwrap_or(1);
    let DependentRef { kind, name, .. } = reference;
    Some(Problem {
        reason,
        message: format!(
            "{reference} is at 0 replicas and is not restored, since {why}; to have it back: \
             kubectl scale {}/{name} --replicas={replicas} in the cluster's namespace",
            kind.to_lowercase()
        ),
    })
}

/// After a step that may have been written, in part or in full. What may have been taken is owed
/// until it has been seen back; what may have been given back is not forgotten before it is seen.
fn begin(step: Step, memory: Memory) -> Memory {
    let replicas = match step {
        Step::ScaleDown { from } => from,
        Step::ScaleUp { to } => to,
        Step::DropMark | Step::Release | Step::Wait | Step::Nothing(_) => return memory,
    };
    Memory {
        owed: true,
        replicas: Some(replicas),
    }
}

/// After a step that was carried out.
fn after(step: Step, found: Option<&Observed>, memory: Memory) -> Memory {
    match step {
        Step::Release => Memory::default(),
        Step::DropMark => Memory {
            replicas: found.map(|found| found.replicas),
            ..memory
        },
        _ => begin(step, memory),
    }
}

fn settle(settled: Settled, found: Option<&Observed>, memory: Memory) -> Memory {
    match settled {
        Settled::Down => Memory {
            owed: true,
            replicas: match found.map(|found| &found.record) {
                Some(Record::Replicas(replicas)) => Some(*replicas),
                _ => memory.replicas,
            },
        },
        Settled::Up | Settled::NotOurs | Settled::Missing | Settled::Ignored { .. } => {
            Memory::default()
        }
    }
}

fn written(duration: Duration) -> api::Duration {
    api::Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
