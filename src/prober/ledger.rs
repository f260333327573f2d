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
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::prober::{plan::Family, scale::ScaleError};

    fn dependent(name: &str, level: u32) -> Dependent {
        let scale = |level| Scale {
            level,
            initial_delay: Duration::from_millis(1_500),
            timeout: Duration::from_secs(30),
        };
        Dependent {
            reference: DependentRef {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: name.to_owned(),
            },
            optional: false,
            up: scale(level),
            down: scale(9),
        }
    }

    fn found(replicas: i32, record: Record) -> Option<Observed> {
        Some(Observed {
            family: Family::Apps,
            resource_version: "7".to_owned(),
            replicas,
            marked: false,
            record,
            ignored: false,
            any_left: false,
            running: false,
        })
    }

    const fn memory(owed: bool, replicas: Option<i32>) -> Memory {
        Memory { owed, replicas }
    }

    /// Of dependents "a" and "b", "a" scaled down from 4.
    fn owing() -> Ledger {
        let mut ledger = Ledger::default();
        let (a, b) = (dependent("a", 1), dependent("b", 0));
        ledger.adopt(&[a.clone(), b]);
        ledger.note(&a, &What::Did(Step::ScaleDown { from: 4 }, None));
        ledger
    }

    fn names(ledger: &Ledger) -> Vec<String> {
        let dependents = ledger.dependents();
        dependents
            .iter()
            .map(|d| d.reference.name.clone())
            .collect()
    }

    #[rstest]
    #[case::scaled_down(What::Did(Step::ScaleDown { from: 3 }, found(3, Record::Absent)), memory(true, Some(3)))]
    #[case::scaled_up(What::Did(Step::ScaleUp { to: 3 }, found(0, Record::Replicas(3))), memory(true, Some(3)))]
    #[case::mark_dropped(
        What::Did(Step::DropMark, found(2, Record::Replicas(3))),
        memory(true, Some(2))
    )]
    #[case::released(
        What::Did(Step::Release, found(0, Record::Replicas(3))),
        memory(false, None)
    )]
    #[case::waited(
        What::Did(Step::Wait, found(0, Record::Replicas(3))),
        memory(true, Some(4))
    )]
    #[case::down(
        What::Settled(Settled::Down, found(0, Record::Replicas(3))),
        memory(true, Some(3))
    )]
    #[case::down_without_record(
        What::Settled(Settled::Down, found(0, Record::Absent)),
        memory(true, Some(4))
    )]
    #[case::up(
        What::Settled(Settled::Up, found(3, Record::Absent)),
        memory(false, None)
    )]
    #[case::not_ours(
        What::Settled(Settled::NotOurs, found(0, Record::Absent)),
        memory(false, None)
    )]
    #[case::missing(What::Settled(Settled::Missing, None), memory(false, None))]
    #[case::ignored(What::Settled(Settled::Ignored { at_zero: true }, found(0, Record::Absent)), memory(false, None))]
    fn what_was_done_is_remembered(#[case] what: What, #[case] expected: Memory) {
        let mut ledger = owing();
        let a = dependent("a", 1);
        ledger.note(&a, &What::Late(Duration::from_secs(30)));
        ledger.note(&a, &what);
        assert_eq!(ledger.memory()[&a.reference], expected);
        assert_eq!(ledger.owes(), expected.owed);
        // What was late has come about, or somebody else has seen to it.
        assert!(
            ledger
                .problems()
                .all(|problem| problem.reason != "ScalingLate")
        );
    }

    /// Owed before it is known whether it was taken, and known to be owed again when it was not.
    #[rstest]
    #[case::answer_lost(What::Failed(ScaleError::Conflicts, Some(Step::ScaleDown { from: 3 })), memory(true, Some(3)))]
    #[case::stopped(What::Interrupted(Step::ScaleDown { from: 3 }), memory(true, Some(3)))]
    #[case::restored(What::Interrupted(Step::ScaleUp { to: 3 }), memory(true, Some(3)))]
    #[case::mark_dropped(What::Interrupted(Step::DropMark), memory(false, None))]
    #[case::refused(What::Failed(ScaleError::Conflicts, None), memory(false, None))]
    fn what_may_have_been_taken_is_owed(#[case] what: What, #[case] expected: Memory) {
        let mut ledger = Ledger::default();
        let a = dependent("a", 1);
        ledger.note(&a, &what);
        assert_eq!(ledger.memory()[&a.reference], expected);
    }

    #[rstest]
    #[case::mark_removed(Settled::NotOurs, Record::Absent, Some(("MarkRemoved", 4)))]
    #[case::ignored(Settled::Ignored { at_zero: true }, Record::Replicas(3), Some(("IgnoredAtZero", 3)))]
    #[case::ignored_and_up(Settled::Ignored { at_zero: false }, Record::Absent, None)]
    #[case::up(Settled::Up, Record::Absent, None)]
    fn what_is_left_at_zero_is_told_with_the_command_that_restores_it(
        #[case] settled: Settled,
        #[case] record: Record,
        #[case] expected: Option<(&str, i32)>,
    ) {
        let mut ledger = owing();
        ledger.note(
            &dependent("a", 1),
            &What::Settled(settled, found(0, record)),
        );
        let problem = ledger.problems().next();
        assert_eq!(
            problem.map(|problem| problem.reason),
            expected.map(|(reason, _)| reason)
        );
        if let (Some(problem), Some((_, replicas))) = (problem, expected) {
            let command = format!("kubectl scale deployment/a --replicas={replicas}");
            assert!(problem.message.contains(&command), "{}", problem.message);
        }
        // Nothing was ever taken from it.
        ledger.note(
            &dependent("b", 0),
            &What::Settled(Settled::NotOurs, found(0, Record::Absent)),
        );
        assert!(ledger.problems().count() <= 1);
    }

    #[rstest]
    #[case::late(What::Late(Duration::from_secs(30)), "ScalingLate", "within 30s")]
    #[case::failed(
        What::Failed(ScaleError::Conflicts, None),
        "ScalingConflicts",
        "somebody else"
    )]
    fn problems_name_the_dependent_and_change_no_debt(
        #[case] what: What,
        #[case] reason: &str,
        #[case] says: &str,
    ) {
        let mut ledger = owing();
        let before = ledger.memory();
        ledger.note(&dependent("a", 1), &what);
        assert_eq!(ledger.memory(), before);
        let problems: Vec<_> = ledger.problems().collect();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].reason, reason);
        assert!(problems[0].message.starts_with("apps/v1 Deployment/a"));
        assert!(
            problems[0].message.contains(says),
            "{}",
            problems[0].message
        );
    }

    #[test]
    fn what_a_flow_did_before_the_policy_changed_is_owed() {
        let mut ledger = owing();
        let c = dependent("c", 0);
        ledger.note(&c, &What::Did(Step::ScaleDown { from: 3 }, None));
        assert_eq!(ledger.memory()[&c.reference], memory(true, Some(3)));
    }

    #[test]
    fn another_policy_inherits_what_is_owed() {
        let mut ledger = owing();
        let before = ledger.memory();
        ledger.adopt(&[dependent("b", 3), dependent("c", 0)]);
        assert_eq!(names(&ledger), ["a", "b", "c"]);
        assert_eq!(ledger.dependents()[1].up.level, 3);
        let a = dependent("a", 1);
        assert_eq!(ledger.memory()[&a.reference], before[&a.reference]);
        // It leaves with its debt.
        ledger.note(&a, &What::Settled(Settled::Up, None));
        ledger.adopt(&[dependent("b", 3)]);
        assert_eq!(names(&ledger), ["b"]);
    }

    #[test]
    fn what_a_policy_says_of_an_owed_dependent_wins() {
        let mut ledger = Ledger::recall(&ClusterHealthStatus {
            dependents: owing().status(),
            ..ClusterHealthStatus::default()
        });
        assert!(
            ledger
                .dependents()
                .iter()
                .all(|dependent| dependent.optional)
        );
        ledger.adopt(&[dependent("a", 5)]);
        assert_eq!(*ledger.dependents(), [dependent("a", 5)]);
        assert!(ledger.owes());
    }

    #[test]
    fn a_restart_forgets_nothing() {
        let ledger = owing();
        let recalled = Ledger::recall(&ClusterHealthStatus {
            dependents: ledger.status(),
            ..ClusterHealthStatus::default()
        });
        assert_eq!(recalled.status(), ledger.status());
        assert_eq!(recalled.memory(), ledger.memory());
        for (known, original) in recalled.dependents().iter().zip(&*ledger.dependents()) {
            assert_eq!(
                (&known.reference, known.up),
                (&original.reference, original.up)
            );
        }
    }
}
