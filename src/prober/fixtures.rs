//! Dependents for tests.

use std::time::Duration;

use crate::{
    api::DependentRef,
    cluster::{Dependent, Scale},
};

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
