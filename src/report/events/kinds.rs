//! Kinds of events on dependents and pods. docs/events.md says of each when it comes and what to do.

use kube::runtime::events::EventType;

use super::Kind;

/// Constants of these kinds, and a list of all.
macro_rules! kinds {
    ($($name:ident: $type_:ident $reason:literal $action:literal,)*) => {
        $(pub(crate) static $name: Kind = Kind {
            type_: EventType::$type_,
            reason: $reason,
            action: $action,
        };)*
        /// All of them.
        static ALL: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    SCALED_DOWN: Warning "ScaledDown" "ScaleDown",
    SCALED_UP: Normal "ScaledUp" "ScaleUp",
    NODES_NOT_READY: Warning "NodesNotReady" "ScaleUp",
    RELEASED: Normal "Released" "RemoveMark",
    SCALING_LATE: Warning "ScalingLate" "Scale",
    DEPENDENT_MISSING: Warning "DependentMissing" "Scale",
    RECORD_UNREADABLE: Warning "RecordUnreadable" "Scale",
    KIND_UNKNOWN: Warning "KindUnknown" "Scale",
    NOT_SCALABLE: Warning "NotScalable" "Scale",
    SCALING_FORBIDDEN: Warning "ScalingForbidden" "Scale",
    SCALING_CONFLICTS: Warning "ScalingConflicts" "Scale",
    SCALING_FAILED: Warning "ScalingFailed" "Scale",
    MARK_REMOVED: Warning "MarkRemoved" "Leave",
    IGNORED_AT_ZERO: Warning "IgnoredAtZero" "Leave",
    EXEC_TIMEOUT_TOLERATED: Warning "ExecTimeoutTolerated" "Tolerate",
    POD_WEEDED: Normal "PodWeeded" "DeletePod",
    WOULD_WEED: Normal "WouldWeed" "Observe",
    LEFT_ALONE: Warning "LeftAlone" "Leave",
    DELETION_REFUSED: Warning "DeletionRefused" "DeletePod",
}

/// Returns the kind of a dependent that is not where it should be, for the reason that its ClusterHealth gives.
pub(crate) fn trouble(reason: &str) -> &'static Kind {
    let known = ALL.iter().find(|kind| kind.reason == reason);
    known.copied().unwrap_or(&SCALING_FAILED)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;
    use crate::prober::scale::ScaleError;

    #[rstest]
    #[case::missing(ScaleError::Missing)]
    #[case::unreadable(ScaleError::UnreadableRecord(String::new()))]
    #[case::unknown(ScaleError::UnknownKind(String::new()))]
    #[case::not_scalable(ScaleError::NotScalable)]
    #[case::forbidden(ScaleError::Forbidden { verb: "", message: String::new() })]
    #[case::conflicts(ScaleError::Conflicts)]
    #[case::failed(ScaleError::Request { verb: "", message: String::new() })]
    fn each_failure_has_a_kind(#[case] error: ScaleError) {
        assert_eq!(trouble(error.reason()).reason, error.reason());
    }

    /// Its tables list each kind, with its type.
    #[test]
    fn the_documentation_is_complete() {
        let text = include_str!("../../../docs/events.md");
        let mut documented = BTreeSet::new();
        for line in text.lines() {
            let mut cells = line.split('|').skip(1).map(str::trim);
            let (Some(reasons), Some(type_)) = (cells.next(), cells.next()) else {
                continue;
            };
            for reason in reasons.split(", ").filter(|it| it.starts_with('`')) {
                documented.insert(format!("{} {type_}", reason.trim_matches('`')));
            }
        }
        let known = ALL.iter();
        let known = known.map(|it| format!("{} {:?}", it.reason, it.type_));
        assert_eq!(documented, known.collect());
    }
}
