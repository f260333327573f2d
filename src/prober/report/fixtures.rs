//! Reports for tests.

use std::time::Duration;

use super::{ClusterReport, finding::Finding};
use crate::{
    api::{self, DependentRef, DependentStatus, Mode, Protection},
    prober::{dependents::Problem, verdict::Assessment},
};

/// A report that says this and nothing else.
pub(super) fn report(finding: Finding) -> ClusterReport {
    ClusterReport {
        uid: "uid".into(),
        policy: Some("shoots".into()),
        mode: Mode::Enforce,
        finding,
        observed: None,
        checks: vec![],
        protection: Protection::None,
        protected_since: None,
        silent_since: None,
        grace: None,
        max_protection_reached: None,
        overdue: false,
        looked_at: true,
        last_action: None,
        awaits: None,
        held_back: None,
        let_go: None,
        dependents: vec![],
        problems: vec![],
        probed: None,
    }
}

/// This Deployment is not where it should be.
pub(super) fn problem(reason: &'static str, message: &str) -> Problem {
    let message = message.to_owned();
    Problem { reason, message }
}

/// A Deployment that is owed two replicas.
pub(super) fn owed(name: &str) -> DependentStatus {
    DependentStatus {
        r#ref: DependentRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
        },
        recorded_replicas: Some(2),
        owed: true,
        keeps_mark: false,
        level: 0,
        initial_delay: api::Duration::from_secs(0),
        timeout: api::Duration::from_secs(30),
    }
}

/// So many leases that count, so many of them expired, of which 60 % are an outage.
pub(super) fn assessment(candidates: usize, expired: usize) -> Assessment {
    Assessment {
        candidates,
        expired,
        needed: candidates * 3 / 5,
        period: Duration::from_secs(10),
        lacks_machines: true,
        ..Assessment::default()
    }
}
