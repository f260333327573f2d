//! What the index says of a cluster, by what has become of it and its policy.

use dependency_watchdog::{
    api::Mode,
    cluster::{Assignment, Deletion, Eligibility, PolicyHold, Selected, Skip},
    prober::treatment::ClusterObject,
};

use super::{
    action::{Life, Policy},
    bounds::Bounds,
};

pub(crate) fn presence((policy, life): (Policy, Life), bounds: &Bounds) -> ClusterObject {
    let with = |mode, suspended| Selected {
        policy: "shoots".into(),
        hold: PolicyHold {
            suspended,
            dry_run: mode == Mode::DryRun,
            ..PolicyHold::default()
        },
        settings: Ok(bounds.settings(mode)),
        outranked: vec![],
    };
    let (selected, former) = match policy {
        Policy::Enforce => (Some(with(Mode::Enforce, false)), None),
        Policy::DryRun => (Some(with(Mode::DryRun, false)), None),
        Policy::Suspended => (Some(with(Mode::Enforce, true)), None),
        Policy::Deleted => (None, Some(with(Mode::Enforce, false))),
    };
    let eligibility = match life {
        Life::Gone => {
            let responsible = selected.or(former);
            return ClusterObject::Gone(responsible.map(|it| it.hold).unwrap_or_default());
        }
        Life::Probed => Eligibility::Probed,
        Life::NoWorkers => Eligibility::Skipped(Skip::NoWorkers),
        Life::FallingAsleep => Eligibility::Skipped(Skip::Hibernated { asleep: false }),
        Life::Deleting => Eligibility::Skipped(Skip::Deleting(Deletion::Cluster)),
    };
    ClusterObject::There(Box::new(Assignment {
        uid: "uid".into(),
        eligibility,
        reconciled: true,
        selected,
        former,
    }))
}
