//! The cluster of a run, and the states that the run comes to: it is selected, loses its network, gets it back, and is
//! let go.

use super::{
    rules::{Bystander, Dependent},
    snapshot,
};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// Three quarters of the grace of the policy. Leases of 4 s are renewed every second, so that a kubelet that is late
/// on a busy machine is not taken for silent.
pub const EXPIRY: SignedDuration = SignedDuration::from_secs(6);
/// How many nodes there are; both have to be silent.
pub const NODES: usize = 2;

/// The names of the dependents that are Deployments.
pub const KCM: &str = "kube-controller-manager";
/// As [`KCM`].
pub const MCM: &str = "machine-controller-manager";
/// As [`KCM`].
pub const CA: &str = "cluster-autoscaler";
/// The name of the dependent that is an Etcd.
pub const ETCD: &str = "etcd-main";

/// The dependents of the policy.
pub const DEPENDENTS: [Dependent; 4] = [
    dependent(KCM, 2, 0, 2),
    dependent(MCM, 3, 1, 1),
    dependent(ETCD, 5, 1, 0),
    dependent(CA, 1, 2, 0),
];

/// The Deployment that a human has put to zero, and that is in the policy.
const IDLE: Bystander = Bystander {
    name: "vpn-seed-server",
    replicas: 0,
};
/// The Deployments that must stay as they are; the last one is not in the policy.
pub const BYSTANDERS: [Bystander; 2] = [
    IDLE,
    Bystander {
        name: "kube-scheduler",
        replicas: 5,
    },
];

const fn dependent(name: &'static str, replicas: i64, down: u32, up: u32) -> Dependent {
    Dependent {
        name,
        replicas,
        down,
        up,
    }
}

/// The phases of a run, in this order.
pub const PHASES: [Phase; 4] = [
    Phase::Healthy,
    Phase::Protected,
    Phase::Restored,
    Phase::Gone,
];

/// A state that a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The policy selects the cluster, which is well.
    Healthy,
    /// All dependents are at zero.
    Protected,
    /// All dependents are back.
    Restored,
    /// The policy is gone, and so is all that was reported.
    Gone,
}

impl Phase {
    /// What is missing in a state at the end of this phase, by what is promised.
    pub fn lacks(self, state: &Value) -> Vec<String> {
        let protected = self == Self::Protected;
        let mut wanted: Vec<(String, Value)> = DEPENDENTS
            .iter()
            .map(|it| {
                let replicas = if protected { 0 } else { it.replicas };
                let record = protected.then(|| it.replicas.to_string());
                let object = json!({
                    "replicas": replicas, "actual": replicas, "marked": protected, "record": record,
                });
                (format!("/objects/{}", it.name), object)
            })
            .collect();
        let more = match self {
            Self::Gone => vec![("/health", Value::Null), ("/policy", Value::Null)],
            Self::Protected => vec![
                ("/health/protection", json!("Active")),
                // A machine that stood still leaves it suspect again for a moment.
                ("/health/reason", json!("Outage")),
                ("/policy/finalizer", json!(true)),
                ("/policy/clusters/protected", json!(1)),
                ("/policy/current", json!(true)),
            ],
            Self::Healthy | Self::Restored => vec![
                ("/health/state", json!("ONLINE")),
                ("/health/protection", json!("None")),
                ("/health/reason", json!("Healthy")),
                ("/policy/finalizer", json!(false)),
                ("/policy/clusters/protected", json!(0)),
                ("/policy/clusters/probing", json!(1)),
                ("/policy/current", json!(true)),
            ],
        };
        wanted.extend(
            more.into_iter()
                .map(|(path, value)| (path.to_owned(), value)),
        );
        let lacking = wanted.into_iter().flat_map(|(path, value)| {
            let found = state.pointer(&path).cloned().unwrap_or_default();
            let differences = snapshot::differences(&value, &found).into_iter();
            differences.map(move |it| format!("{path}{it}"))
        });
        lacking.collect()
    }
}

/// The fields of the policy's spec that name the dependents.
pub fn dependents() -> Value {
    let entry = |name: &str, down: u32, up: u32| {
        let (api_version, kind) = match name {
            ETCD => ("druid.gardener.cloud/v1alpha1", "Etcd"),
            _ => ("apps/v1", "Deployment"),
        };
        let level = |level: u32| json!({"level": level, "timeout": "1m"});
        json!({
            "ref": {"apiVersion": api_version, "kind": kind, "name": name},
            "optional": false,
            "scaleDown": level(down),
            "scaleUp": level(up),
        })
    };
    let dependents = DEPENDENTS.iter().map(|it| entry(it.name, it.down, it.up));
    let dependents: Vec<Value> = dependents.chain([entry(IDLE.name, 1, 1)]).collect();
    json!({"dependentResourceInfos": dependents})
}
