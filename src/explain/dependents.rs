//! What each dependent is at, what it is owed, and what is in the way: by the steps that the
//! operator would decide on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::{Asked, SetBy};
use crate::{
    api::{DependentRef, DependentStatus, Restore},
    cluster::Dependent,
    prober::{
        plan::{Aim, Memory, Observed, Purpose, Record, Settled, Step, step},
        scale::ScaleError,
    },
};

const KEEPS_MARK: &str =
    "it is back; its mark is taken off when all dependents have been back for a minute";

/// Where a dependent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DependentState {
    /// It has the replicas that its owner wants.
    Up,
    /// It is about to be scaled to zero, or would be but for what holds it back.
    ToScaleDown,
    /// Scaled to zero by the operator, with replicas that are not gone yet.
    GoingDown,
    /// Scaled to zero by the operator.
    Down,
    /// Scaled back, and not really there yet.
    ComingUp,
    /// It carries the mark, and somebody else scaled it up.
    ScaledUpByOthers,
    /// Scaled to zero by the operator; somebody else removed the mark.
    MarkRemoved,
    /// At zero without a mark: somebody else's decision.
    AtZero,
    /// It says `ignore-scaling`.
    Ignored,
    /// The record is no number above zero, so that it cannot be restored.
    RecordUnreadable,
    /// It does not exist.
    Missing,
    /// It could not be read, or has no scale to be read.
    Unread,
}

/// A dependent, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DependentAccount {
    /// The resource, in the cluster's namespace.
    pub r#ref: DependentRef,
    /// Where it is.
    pub state: DependentState,
    /// `spec.replicas`; absent if it was not read or does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The replicas that the operator owes it, as far as they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owed: Option<i32>,
    /// Whether it carries the mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marked: Option<bool>,
    /// The annotation with the recorded number, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_replicas: Option<i32>,
    /// Who set the replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_set_by: Option<SetBy>,
    /// Whether the policy that applies names it.
    pub named: bool,
    /// Its level when it is scaled back: the lowest comes first.
    pub level: u32,
    /// What is to be known of it, and what is in the way; empty if there is nothing.
    pub message: String,
}

/// What is wanted of the dependents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// What the operator aims at.
    pub(super) aim: Aim,
    /// What a scale-up touches.
    pub(super) restore: Restore,
    /// Those that the policy names.
    pub(super) named: &'a [Dependent],
    /// Those in the record.
    pub(super) recorded: &'a [DependentStatus],
    /// Something keeps the operator from writing.
    pub(super) held: bool,
}

impl Wanted<'_> {
    pub(super) fn account(&self, asked: &Asked) -> DependentAccount {
        let reference = &asked.reference;
        let named = self.named.iter().find(|it| it.reference == *reference);
        let recorded = self.recorded.iter().find(|it| it.r#ref == *reference);
        let memory = Memory {
            owed: recorded.is_some_and(|it| it.owed),
            keeps_mark: recorded.is_some_and(|it| it.keeps_mark),
            replicas: recorded.and_then(|it| it.recorded_replicas),
        };
        let account = DependentAccount {
            r#ref: reference.clone(),
            state: DependentState::Unread,
            replicas: None,
            owed: memory.replicas.filter(|_| memory.owed),
            marked: None,
            recorded_replicas: None,
            replicas_set_by: asked.set_by.clone(),
            named: named.is_some(),
            level: match (named, recorded) {
                (Some(named), _) => named.up.level,
                (None, recorded) => recorded.map_or(0, |it| u32::try_from(it.level).unwrap_or(0)),
            },
            message: String::new(),
        };
        let found = match &asked.found {
            Ok(found) => found.as_ref(),
            Err(why) => {
                return DependentAccount {
                    message: why.clone(),
                    ..account
                };
            }
        };
        // What is not named any more may be missing.
        let optional = named.is_none_or(|it| it.optional);
        let (state, message) = self.state(optional, found, memory);
        DependentAccount {
            state,
            replicas: found.and_then(Observed::known_replicas),
            owed: owed(found, memory),
            marked: found.map(|found| found.marked),
            recorded_replicas: found.and_then(record),
            message,
            ..account
        }
    }

    fn state(
        &self,
        optional: bool,
        found: Option<&Observed>,
        memory: Memory,
    ) -> (DependentState, String) {
        let purpose = Purpose {
            restore: self.restore,
            keep_marks: true,
            ..Purpose::of(self.aim)
        };
        let step = match step(purpose, optional, found, memory) {
            Ok(step) => step,
            Err(refusal) => return refused(&refusal),
        };
        let marked = found.is_some_and(|found| found.marked);
        let (state, message) = match step {
            Step::ScaleDown { .. } if marked && !memory.keeps_mark => (
                DependentState::ScaledUpByOthers,
                self.unless_held("somebody else scaled it up; it is scaled to zero again"),
            ),
            Step::ScaleDown { .. } => (
                DependentState::ToScaleDown,
                self.unless_held("it is to be scaled to zero"),
            ),
            Step::ScaleUp { to } if marked => return (DependentState::Down, self.goes_back(to)),
            Step::ScaleUp { to } => (
                DependentState::AtZero,
                format!("it carries no mark; the policy says `restore: Any`, so it is scaled to {to}"),
            ),
            Step::Record { .. } => (DependentState::Up, KEEPS_MARK.to_owned()),
            Step::DropMarkAndRecord => (
                DependentState::Up,
                "it carries the mark, which is taken off; the replicas stay".to_owned(),
            ),
            Step::DropMark if found.is_some_and(|found| found.ignored) => (
                DependentState::Ignored,
                "it says ignore-scaling: the mark is taken off, and the replicas stay as they are"
                    .to_owned(),
            ),
            Step::DropMark => (
                DependentState::Down,
                "the mark is taken off, and the replicas stay as they are: gardenlet decides about \
                 them"
                    .to_owned(),
            ),
            Step::Wait if self.aim == Aim::Protect => (
                DependentState::GoingDown,
                "its pods are not all gone yet".to_owned(),
            ),
            Step::Wait => (
                DependentState::ComingUp,
                "it has its replicas back, and none of them is ready yet".to_owned(),
            ),
            Step::Nothing(settled) => return self.settled(settled, found, memory),
        };
        (state, message)
    }

    fn settled(
        &self,
        settled: Settled,
        found: Option<&Observed>,
        memory: Memory,
    ) -> (DependentState, String) {
        let replicas = found.map_or(0, |found| found.replicas);
        let nothing = String::new();
        match settled {
            Settled::Missing => (
                DependentState::Missing,
                "it does not exist, and need not".to_owned(),
            ),
            Settled::Ignored { at_zero: true } => (
                DependentState::Ignored,
                "it says ignore-scaling, and is at 0: nothing scales it up".to_owned(),
            ),
            Settled::Ignored { at_zero: false } => (
                DependentState::Ignored,
                "it says ignore-scaling: it is left alone, also in an outage".to_owned(),
            ),
            Settled::Up if found.is_some_and(|found| found.marked) => {
                (DependentState::Up, KEEPS_MARK.to_owned())
            }
            Settled::Seen { marked: true } if memory.keeps_mark && replicas > 0 => {
                (DependentState::Up, KEEPS_MARK.to_owned())
            }
            Settled::ZeroedAgain => (
                DependentState::Down,
                self.unless_held(
                    "somebody scaled it to zero just after it was restored; it is restored again",
                ),
            ),
            Settled::Down | Settled::Seen { marked: true } if replicas == 0 => {
                (DependentState::Down, nothing)
            }
            Settled::Down | Settled::Seen { marked: true } => (
                DependentState::ScaledUpByOthers,
                "it carries the mark, and somebody else scaled it up".to_owned(),
            ),
            Settled::Released if !memory.owed && !found.is_none_or(Observed::has_scale) => {
                (DependentState::Unread, ScaleError::NotScalable.to_string())
            }
            Settled::Released if !found.is_none_or(Observed::has_scale) => (
                DependentState::MarkRemoved,
                "it was scaled to zero, and somebody else has seen to it since its kind has no scale"
                    .to_owned(),
            ),
            _ if replicas == 0 && memory.owed => (
                DependentState::MarkRemoved,
                "it was scaled to zero, and somebody else removed the mark: it is not restored"
                    .to_owned(),
            ),
            _ if replicas == 0 => (
                DependentState::AtZero,
                "somebody else scaled it to zero: it is left alone".to_owned(),
            ),
            Settled::NotOurs
            | Settled::Up
            | Settled::Released
            | Settled::Seen { marked: false } => (DependentState::Up, nothing),
        }
    }

    fn goes_back(&self, to: i32) -> String {
        self.unless_held(&format!("it goes back to {to}"))
    }

    fn unless_held(&self, what: &str) -> String {
        match self.held {
            true => format!("{what}, once nothing holds that back"),
            false => what.to_owned(),
        }
    }
}

fn refused(refusal: &ScaleError) -> (DependentState, String) {
    let state = match refusal {
        ScaleError::Missing => DependentState::Missing,
        ScaleError::UnreadableRecord(_) => DependentState::RecordUnreadable,
        ScaleError::Contended => DependentState::Down,
        _ => DependentState::Unread,
    };
    (state, refusal.to_string())
}

fn record(found: &Observed) -> Option<i32> {
    match found.record {
        Record::Replicas(replicas) => Some(replicas),
        Record::Absent | Record::Unreadable(_) => None,
    }
}

/// What a restore would give back.
fn owed(found: Option<&Observed>, memory: Memory) -> Option<i32> {
    match step(Purpose::of(Aim::Restore), true, found, memory) {
        Ok(Step::ScaleUp { to }) => Some(to),
        // Whatever is written in the annotation or missing, this is the last that is known.
        Ok(Step::Wait | Step::Nothing(Settled::NotOurs)) | Err(_) => {
            memory.replicas.filter(|_| memory.owed)
        }
        Ok(_) => None,
    }
}

impl DependentAccount {
    /// The name that kubectl takes.
    pub fn kubectl_name(&self) -> String {
        self.r#ref.kubectl_name()
    }

    /// Whether its replicas are owed, or taken by the operator and left.
    pub(super) fn is_taken(&self) -> bool {
        matches!(
            self.state,
            DependentState::Down
                | DependentState::GoingDown
                | DependentState::ComingUp
                | DependentState::RecordUnreadable
                | DependentState::MarkRemoved
        )
    }

    /// What is to be put back by hand: the recorded number, else the one that is owed, else 1.
    pub(super) fn by_hand(&self) -> i32 {
        self.recorded_replicas.or(self.owed).unwrap_or(1)
    }

    /// Since when the one who set the replicas has not changed it any more.
    pub(super) fn set_at(&self) -> Option<&Time> {
        self.replicas_set_by.as_ref()?.time.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::prober::plan::Family;

    #[rstest]
    #[case("apps/v1", "Deployment", "deployment/a")]
    #[case("v1", "ReplicationController", "replicationcontroller/a")]
    #[case(
        "druid.gardener.cloud/v1alpha1",
        "Etcd",
        "etcd.v1alpha1.druid.gardener.cloud/a"
    )]
    fn what_kubectl_takes(#[case] version: &str, #[case] kind: &str, #[case] expected: &str) {
        let wanted = Wanted {
            aim: Aim::Look,
            restore: Restore::Marked,
            named: &[],
            recorded: &[],
            held: false,
        };
        let account = wanted.account(&Asked {
            reference: DependentRef {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                name: "a".to_owned(),
            },
            found: Ok(None),
            set_by: None,
        });
        assert_eq!(account.kubectl_name(), expected);
        assert_eq!(account.state, DependentState::Missing);
    }

    /// Whoever looks at it knows more than the seed tells.
    #[rstest]
    #[case::taken(Aim::Restore, true, DependentState::MarkRemoved, "has seen to it")]
    #[case::never_taken(Aim::Release, false, DependentState::Unread, "has no scale")]
    fn replicas_of_what_has_no_scale_are_not_guessed(
        #[case] aim: Aim,
        #[case] owed: bool,
        #[case] state: DependentState,
        #[case] message: &str,
    ) {
        let reference = DependentRef {
            api_version: "druid.gardener.cloud/v1alpha1".to_owned(),
            kind: "Etcd".to_owned(),
            name: "a".to_owned(),
        };
        let taken = json!({
            "ref": reference, "owed": owed, "recordedReplicas": 3,
            "level": 0, "initialDelay": "0s", "timeout": "30s",
        });
        let taken: DependentStatus = serde_json::from_value(taken).unwrap();
        let wanted = Wanted {
            aim,
            restore: Restore::Marked,
            named: &[],
            recorded: &[taken],
            held: false,
        };
        let found = Observed {
            family: Family::Unscalable,
            uid: None,
            resource_version: "7".to_owned(),
            replicas: 0,
            marked: false,
            record: Record::Replicas(3),
            ignored: false,
            any_left: false,
            running: false,
        };
        let account = wanted.account(&Asked {
            reference,
            found: Ok(Some(found)),
            set_by: None,
        });
        assert_eq!(account.state, state);
        assert_eq!(account.replicas, None);
        assert!(account.message.contains(message), "{account:?}");
    }
}
