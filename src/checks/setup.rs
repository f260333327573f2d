//! Whether a check is the same as one before: all that it is set up by but its role.
//!
//! Of the one before a restart there is a hash, in the ClusterHealth. It must be the same for every
//! version and every process: that of the check's JSON, as the policy has it, with its defaults.

use crate::api::{CheckRole, HealthCheck};

/// The parameters of FNV-1a for 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Whether a check goes on as another, with what it has come to.
pub(super) fn is_same(one: &HealthCheck, other: &HealthCheck) -> bool {
    plain(one) == plain(other)
}

/// Sixteen hexadecimal digits that tell a check from others. Nobody has to be kept from making two that
/// have the same: who can, can set up the check.
pub(super) fn hash(check: &HealthCheck) -> String {
    // It has no keys but text, so there is nothing to fail.
    let json = serde_json::to_vec(&plain(check)).unwrap_or_default();
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    format!("{:016x}", json.into_iter().fold(BASIS, step))
}

fn plain(check: &HealthCheck) -> HealthCheck {
    HealthCheck {
        role: CheckRole::Observe,
        ..check.clone()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn check(more: Value) -> HealthCheck {
        let mut check = json!({
            "name": "a",
            "exec": {
                "podSelector": {"matchLabels": {"z": "1", "app": "etcd"}},
                "command": ["etcdctl", "endpoint", "health"],
            },
        });
        let Value::Object(more) = more else { panic!() };
        for (key, value) in more {
            check[key] = value;
        }
        serde_json::from_value(check).unwrap()
    }

    /// What a version writes, the next one has to understand.
    #[test]
    fn it_is_the_same_in_every_process_and_version() {
        assert_eq!(hash(&check(json!({}))), "8d4d8b2b189041ea");
    }

    #[rstest]
    #[case::role(json!({"role": "Trigger"}), true)]
    #[case::a_default(json!({"periodSeconds": 10}), true)]
    #[case::name(json!({"name": "b"}), false)]
    #[case::period(json!({"periodSeconds": 11}), false)]
    #[case::command(
        json!({"exec": {
            "podSelector": {"matchLabels": {"z": "1", "app": "etcd"}}, "command": ["etcdctl"],
        }}),
        false
    )]
    #[case::type_of_it(json!({"exec": null, "tcpSocket": {"host": "a", "port": 1}}), false)]
    fn what_makes_another(#[case] more: Value, #[case] same: bool) {
        let (one, other) = (check(json!({})), check(more));
        assert_eq!(hash(&one) == hash(&other), same);
        assert_eq!(is_same(&one, &other), same);
    }
}
