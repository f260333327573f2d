//! Dependents, rules and moments for tests.

use std::time::Duration;

use crate::{
    api::DependentRef,
    cluster::{Dependent, Scale},
    prober::{
        step::{Family, Observed, Record},
        verdict::LeaseRules,
    },
    util::mono_time::MonoTime,
};

/// A lease is renewed every 10 s and expires after 30 s; the proof takes 15 s.
pub(super) const RULES: LeaseRules = LeaseRules {
    grace: Duration::from_secs(40),
    fraction: 0.6,
    recovery: 0.6,
    minimum: 2,
    interval: Duration::from_secs(10),
    jitter_factor: 0.0,
    timeout: Duration::from_secs(5),
    failure_threshold: 1,
    success_threshold: 1,
};

/// The moment so many seconds after the clock's zero.
pub(super) fn at(seconds: f64) -> MonoTime {
    MonoTime::from_nanos((seconds * 1e9).round() as i128)
}

/// A workload without annotations, its replicas in place.
pub(super) fn observed(replicas: i32) -> Observed {
    Observed {
        family: Family::Apps,
        uid: None,
        resource_version: "7".to_owned(),
        replicas,
        marked: false,
        record: Record::Absent,
        ignored: false,
        any_left: replicas > 0,
        running: replicas > 0,
    }
}

/// A Deployment that is scaled up and down at these levels.
pub(super) fn dependent(name: &str, up: u32, down: u32) -> Dependent {
    let scale = |level| Scale {
        level,
        initial_delay: Duration::ZERO,
        timeout: Duration::from_secs(30),
        await_nodes: Duration::ZERO,
    };
    Dependent {
        reference: DependentRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            name: name.to_owned(),
        },
        optional: false,
        up: scale(up),
        down: scale(down),
    }
}
