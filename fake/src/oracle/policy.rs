//! The policy of a walk, and how people change it.

use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// What of a policy changes on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Seconds from probe to probe.
    pub interval: u64,
    /// Seconds of `kcmNodeMonitorGraceDuration`.
    pub grace: u64,
    /// Seconds for which a level waits for the one before.
    pub timeout: u64,
    /// What holds it back, if anything does.
    pub hold: Option<Hold>,
}

/// The ways in which people hold a policy back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Hold {
    /// `mode: DryRun`.
    DryRun,
    /// `suspend: true`.
    Suspended,
    /// It selects every other cluster alone.
    Half,
}

/// A change of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Edit {
    Interval(u64),
    Grace(u64),
    Timeout(u64),
    Hold(Hold),
    /// The hold is lifted.
    Release,
}

/// The label of Clusters by which half of them are selected, and its values.
pub const HALF: &str = "walk-half";

/// The half that a shoot is in; a policy with [`Hold::Half`] selects `even`.
pub fn half(shoot: usize) -> &'static str {
    if shoot.is_multiple_of(2) {
        "even"
    } else {
        "odd"
    }
}

impl Policy {
    /// The one that a walk begins with.
    pub const FIRST: Self = Self {
        interval: 5,
        grace: 20,
        timeout: 30,
        hold: None,
    };

    /// As it is after this change.
    pub fn edited(self, edit: Edit) -> Self {
        match edit {
            Edit::Interval(interval) => Self { interval, ..self },
            Edit::Grace(grace) => Self { grace, ..self },
            Edit::Timeout(timeout) => Self { timeout, ..self },
            Edit::Hold(hold) => Self {
                hold: Some(hold),
                ..self
            },
            Edit::Release => Self { hold: None, ..self },
        }
    }

    /// The fields of its spec that differ from the documented one.
    pub fn spec(self) -> Value {
        let selector = match self.hold {
            Some(Hold::Half) => json!({"matchLabels": {HALF: half(0)}}),
            _ => json!({"matchLabels": null}),
        };
        let level = |level: u32| json!({"level": level, "timeout": format!("{}s", self.timeout)});
        let dependent = |name: &str, down: u32, up: u32| {
            json!({
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "optional": false,
                "scaleDown": level(down),
                "scaleUp": level(up),
            })
        };
        json!({
            "clusterSelector": selector,
            "mode": if self.hold == Some(Hold::DryRun) { "DryRun" } else { "Enforce" },
            "suspend": self.hold == Some(Hold::Suspended),
            "probeInterval": format!("{}s", self.interval),
            "kcmNodeMonitorGraceDuration": format!("{}s", self.grace),
            "initialDelay": "0s",
            "observer": {"nodeInterval": "10s"},
            "dependentResourceInfos": [
                dependent("kube-controller-manager", 0, 0),
                dependent("machine-controller-manager", 0, 1),
                dependent("cluster-autoscaler", 1, 1),
            ],
        })
    }

    /// Whether it writes to dependents at all.
    pub fn acts(self) -> bool {
        !matches!(self.hold, Some(Hold::DryRun | Hold::Suspended))
    }

    /// Whether it scales this shoot down in an outage.
    pub fn protects(self, shoot: usize) -> bool {
        self.acts() && (self.hold != Some(Hold::Half) || half(shoot) == half(0))
    }

    /// The age at which a lease is expired whose kubelet renews so often: three quarters of the
    /// grace, and three renewals.
    pub fn expiry(self, period: Duration) -> Duration {
        Duration::from_secs(self.grace)
            .mul_f64(0.75)
            .max(period * 3)
    }
}
