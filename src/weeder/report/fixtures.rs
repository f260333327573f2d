//! Reports for tests.

use super::WeedReport;
use crate::api::{Mode, WeedPolicyStatus};

/// A policy that watches two services, of which both are ready, and has nothing to do.
pub(super) fn weed_report() -> WeedReport {
    WeedReport {
        name: "etcd".into(),
        uid: "uid".into(),
        generation: 7,
        deleting: false,
        mode: Mode::Enforce,
        suspend: false,
        problems: vec![],
        listed: true,
        services: 2,
        ready: 2,
        not_ready: vec![],
        windows: 0,
        open: vec![],
        troubles: vec![],
        weeded: 0,
        last_weeds: vec![],
        left_alone: vec![],
        recorded: WeedPolicyStatus::default(),
    }
}
