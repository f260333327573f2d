//! Operators that are broken on purpose: each has to be found out.

use super::*;

/// What is wrong with the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flaw {
    #[default]
    None,
    /// Writes lack their preconditions.
    NoPrecondition,
    /// A dependent is scaled down without mark and record.
    NoAnnotations,
    /// The number recorded is always 1.
    WrongRecord,
    /// All levels are worked on at once.
    NoOrder,
    /// A flow goes on when the evidence for it is gone.
    KeepsOn,
    /// A flow goes on when the policy is suspended, in DryRun or gone.
    DisregardsPolicy,
    /// What its watches show is taken to be so, whatever was read past every cache.
    BelievesTheWatch,
    /// Without a verdict the dependents are scaled down.
    TakesDoubtForOutage,
    /// An instance that does not lead any more goes on writing.
    OutlivesItsLease,
    /// Dependents without a mark are restored.
    RestoresUnmarked,
    /// `ignore-scaling` is not seen.
    DisregardsIgnore,
    /// A marked dependent is taken to be at 0, whoever has scaled it up.
    DisregardsPeople,
    /// A mark is removed together with its record before anything is restored.
    ForgetsTheRecord,
    /// One replica is restored, whatever was recorded.
    RestoresOne,
    /// What was once seen back is never looked at again.
    BelievesForEver,
    /// What was given up is taken to have come about, or never to do so, as soon as anything is seen.
    WaitsForNothing,
    /// The marks of what is let go stay.
    KeepsMarks,
    /// Marks are removed as soon as the Cluster is gone.
    BuriesAtOnce,
    /// A mark is removed with its record when its dependent is let go.
    ReleasesTheRecord,
    /// The policy's initialDelay is not waited for.
    ActsAtOnce,
    /// The mark of what is restored falls as soon as it is up.
    DropsMarksAtOnce,
    /// After a restart only what the record lists as owed is restored.
    TrustsItsRecord,
}

impl Flaw {
    /// Whether only what comes of it in the end tells if there is one.
    pub(crate) fn shows_in_the_end(self) -> bool {
        matches!(
            self,
            Self::None
                | Self::TrustsItsRecord
                | Self::BelievesForEver
                | Self::WaitsForNothing
                | Self::KeepsMarks
                | Self::DropsMarksAtOnce
        )
    }

    /// The dependent, as this operator sees it.
    pub(crate) fn blur(self, mut seen: Observed) -> Observed {
        seen.ignored &= self != Self::DisregardsIgnore;
        seen.marked |= self == Self::RestoresUnmarked && seen.replicas == 0;
        if self == Self::DisregardsPeople && seen.marked {
            seen.replicas = 0;
            seen.any_left = false;
        }
        seen
    }

    /// The write, as this operator sends it.
    pub(crate) fn spoil(self, mut write: Write) -> Write {
        let (Write::Object(patch) | Write::ScaleMerge(patch)) = &mut write;
        let replicas = patch["spec"]["replicas"].as_i64();
        let annotations = patch.pointer("/metadata/annotations");
        let marks = annotations.is_some_and(|it| it[MARK] == "");
        let unmarks = annotations.is_some_and(|it| it[MARK].is_null());
        let metadata = &mut patch["metadata"];
        match self {
            Self::NoPrecondition => metadata["resourceVersion"] = Value::Null,
            Self::NoAnnotations if replicas == Some(0) => metadata["annotations"] = Value::Null,
            Self::ReleasesTheRecord if unmarks => metadata["annotations"][RECORD] = Value::Null,
            Self::WrongRecord if marks => metadata["annotations"][RECORD] = json!("1"),
            Self::ForgetsTheRecord if replicas > Some(0) => {
                metadata["annotations"] = json!({MARK: null, RECORD: null});
                patch["spec"] = Value::Null;
            }
            Self::DropsMarksAtOnce if replicas > Some(0) => {
                metadata["annotations"] = json!({MARK: null, RECORD: null});
            }
            Self::RestoresOne if replicas > Some(1) => patch["spec"]["replicas"] = json!(1),
            _ => {}
        }
        write
    }
}
