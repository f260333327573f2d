//! Every kind of event. docs/events.md says of each when it comes and what to do.

use kube::runtime::events::EventType;

use super::{Kind, On};

/// Constants of these kinds, and a list of all.
macro_rules! kinds {
    ($($name:ident: $on:ident $type_:ident $reason:literal $action:literal,)*) => {
        $(pub(crate) static $name: Kind = Kind {
            on: On::$on,
            type_: EventType::$type_,
            reason: $reason,
            action: $action,
        };)*
        /// All of them.
        pub(crate) static ALL: &[&Kind] = &[$(&$name),*];
    };
}

kinds! {
    SCALED_DOWN: Dependent Warning "ScaledDown" "ScaleDown",
    SCALED_UP: Dependent Normal "ScaledUp" "ScaleUp",
    NODES_NOT_READY: Dependent Warning "NodesNotReady" "ScaleUp",
    RELEASED: Dependent Normal "Released" "RemoveMark",
    SCALING_LATE: Dependent Warning "ScalingLate" "Scale",
    DEPENDENT_MISSING: Dependent Warning "DependentMissing" "Scale",
    RECORD_UNREADABLE: Dependent Warning "RecordUnreadable" "Scale",
    KIND_UNKNOWN: Dependent Warning "KindUnknown" "Scale",
    NOT_SCALABLE: Dependent Warning "NotScalable" "Scale",
    SCALING_FORBIDDEN: Dependent Warning "ScalingForbidden" "Scale",
    SCALING_CONFLICTS: Dependent Warning "ScalingConflicts" "Scale",
    SCALING_FAILED: Dependent Warning "ScalingFailed" "Scale",
    MARK_REMOVED: Dependent Warning "MarkRemoved" "Leave",
    IGNORED_AT_ZERO: Dependent Warning "IgnoredAtZero" "Leave",

    PROTECTING: ClusterHealth Warning "Protecting" "ScaleDown",
    PROTECTED: ClusterHealth Normal "Protected" "ScaleDown",
    RESTORING: ClusterHealth Normal "Restoring" "ScaleUp",
    RESTORED: ClusterHealth Normal "Restored" "ScaleUp",
    LET_GO: ClusterHealth Normal "Released" "RemoveMark",
    PROTECTED_TOO_LONG: ClusterHealth Warning "ProtectedTooLong" "Wait",
    MAX_PROTECTION_REACHED: ClusterHealth Warning "MaxProtectionReached" "ScaleUp",
    HELD_BACK: ClusterHealth Warning "HeldBack" "Wait",
    WOULD_PROTECT: ClusterHealth Warning "WouldProtect" "Observe",
    UNDETERMINED: ClusterHealth Warning "Undetermined" "Probe",
    JUDGED: ClusterHealth Normal "Judged" "Probe",
    SKIPPED: ClusterHealth Normal "Skipped" "Skip",
    PROBED: ClusterHealth Normal "Probed" "Probe",
    OFFLINE: ClusterHealth Warning "Offline" "Observe",
    NOT_READY: ClusterHealth Warning "NotReady" "Observe",
    UNHEALTHY: ClusterHealth Warning "Unhealthy" "Observe",
    FAILING_METRICS: ClusterHealth Warning "FailingMetrics" "Observe",
    ONLINE: ClusterHealth Normal "Online" "Observe",
    EXEC_TIMEOUT_TOLERATED: ClusterHealth Warning "ExecTimeoutTolerated" "Tolerate",

    INVALID: ProbePolicy Warning "Invalid" "Validate",
    VALID: ProbePolicy Normal "Valid" "Validate",
    CONFLICTED: ProbePolicy Warning "Conflicted" "Select",
    NOT_CONFLICTED: ProbePolicy Normal "NoConflict" "Select",
    FIRST_PROTECTED: ProbePolicy Warning "Protecting" "ScaleDown",
    NONE_PROTECTED: ProbePolicy Normal "NoneProtected" "ScaleUp",
    RIGHTS_MISSING: ProbePolicy Warning "RightsMissing" "Review",
    RIGHTS_SUFFICE: ProbePolicy Normal "RightsSuffice" "Review",
    FINALIZER_ADDED: ProbePolicy Normal "FinalizerAdded" "AddFinalizer",
    FINALIZER_REMOVED: ProbePolicy Normal "FinalizerRemoved" "RemoveFinalizer",
    LETTING_GO: ProbePolicy Normal "LettingGo" "Wait",

    POD_WEEDED: PodOwner Normal "PodWeeded" "DeletePod",
    WOULD_WEED: PodOwner Normal "WouldWeed" "Observe",

    LEFT_ALONE: Pod Warning "LeftAlone" "Leave",
    DELETION_REFUSED: Pod Warning "DeletionRefused" "DeletePod",

    WEED_INVALID: WeedPolicy Warning "Invalid" "Validate",
    WEED_VALID: WeedPolicy Normal "Valid" "Validate",
    WEEDING: WeedPolicy Normal "Weeding" "DeletePods",
    WEEDING_OVER: WeedPolicy Normal "WeedingOver" "Wait",
    WEEDING_TROUBLE: WeedPolicy Warning "WeedingTrouble" "DeletePods",
    WEEDING_UNTROUBLED: WeedPolicy Normal "WeedingUntroubled" "DeletePods",
}

/// That a dependent is not where it should be, for the reason that its ClusterHealth gives.
pub(crate) fn trouble(reason: &str) -> &'static Kind {
    let mut all = ALL.iter();
    let known = all.find(|kind| kind.on == On::Dependent && kind.reason == reason);
    known.copied().unwrap_or(&SCALING_FAILED)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rstest::rstest;

    use super::*;
    use crate::prober::scale::ScaleError;

    /// The API server refuses what is longer, or empty.
    #[test]
    fn the_api_server_takes_each() {
        for kind in ALL {
            for word in [kind.reason, kind.action] {
                assert!((1..=128).contains(&word.len()), "{word}");
                assert!(word.starts_with(|first: char| first.is_ascii_uppercase()));
                assert!(word.chars().all(char::is_alphanumeric), "{word}");
            }
        }
    }

    #[rstest]
    #[case::missing(ScaleError::Missing)]
    #[case::unreadable(ScaleError::UnreadableRecord(String::new()))]
    #[case::unknown(ScaleError::UnknownKind(String::new()))]
    #[case::not_scalable(ScaleError::ClusterScoped)]
    #[case::forbidden(ScaleError::Forbidden { verb: "", message: String::new() })]
    #[case::conflicts(ScaleError::Conflicts)]
    #[case::failed(ScaleError::Request { verb: "", message: String::new() })]
    fn each_failure_has_a_kind(#[case] error: ScaleError) {
        assert_eq!(trouble(error.reason()).reason, error.reason());
    }

    /// Its tables list each kind, with its type, under the object that it is told on.
    #[test]
    fn the_documentation_is_complete() {
        let text = include_str!("../../../docs/events.md");
        let mut on = None;
        let mut documented = BTreeSet::new();
        for line in text.lines() {
            on = match line {
                "## Dependents" => Some(On::Dependent),
                "## ClusterHealth" => Some(On::ClusterHealth),
                "## ProbePolicy" => Some(On::ProbePolicy),
                "## Controllers of pods" => Some(On::PodOwner),
                "## Pods" => Some(On::Pod),
                "## WeedPolicy" => Some(On::WeedPolicy),
                heading if heading.starts_with("## ") => None,
                _ => on,
            };
            let mut cells = line.split('|').skip(1).map(str::trim);
            let (Some(reasons), Some(type_)) = (cells.next(), cells.next()) else {
                continue;
            };
            for reason in reasons.split(", ").filter(|it| it.starts_with('`')) {
                documented.insert(format!("{on:?} {} {type_}", reason.trim_matches('`')));
            }
        }
        let known = ALL.iter();
        let known = known.map(|it| format!("{:?} {} {:?}", Some(it.on), it.reason, it.type_));
        assert_eq!(documented, known.collect());
    }
}
