//! Whether a prober, or a weeder, is alive, by the Lease for which its replicas stand.
//!
//! One look: the seed dates each renewal by its own clock, and says what time it is. That is enough to
//! tell of it; who acts on it watches the Lease.

use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::{SignedDuration, Timestamp},
};
use serde::Serialize;

use super::{Refused, ask::last_owner, text::ago};
use crate::{prober, runtime::leader::MAX_HOLDER, util::text::clean, weeder};

/// How long a Lease holds that does not say so: the default of the operator.
const LEASE_SECONDS: i32 = 15;

/// Whether somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum OperatorState {
    /// The Lease is held and renewed.
    Alive,
    /// It is held, and was not renewed for as long as it holds.
    Silent,
    /// Nobody holds it: it was given back.
    Vacant,
    /// There is no such Lease.
    NoLease,
    /// It cannot be read.
    Unknown,
}

/// A component of the operator.
pub(super) struct Component {
    /// The name of its Lease.
    pub(super) lease: &'static str,
    /// What it is called.
    name: &'static str,
    /// What is not done without it.
    idle: &'static str,
}

pub(super) const PROBER: Component = Component {
    lease: prober::LEASE,
    name: "prober",
    idle: "nothing is probed or scaled",
};

pub(super) const WEEDER: Component = Component {
    lease: weeder::LEASE,
    name: "weeder",
    idle: "no pod is deleted",
};

/// What is known of a component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorAccount {
    /// Whether somebody acts.
    pub state: OperatorState,
    /// Who holds the Lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// When it was last renewed: by the seed's clock, or where that does not say so, the holder's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Time>,
    /// The same as a sentence.
    pub message: String,
}

impl OperatorAccount {
    pub(super) fn new(
        component: &Component,
        lease: &Result<Option<Lease>, Refused>,
        namespace: &str,
        now: Timestamp,
    ) -> Self {
        let Component {
            lease: lease_name,
            name,
            idle,
        } = component;
        let without = |state, message| Self {
            state,
            holder: None,
            renewed: None,
            message,
        };
        let lease = match lease {
            Ok(Some(lease)) => lease,
            Ok(None) => {
                return without(
                    OperatorState::NoLease,
                    format!(
                        "there is no Lease {namespace}/{lease_name}: no {name} was started with \
                         --enable-leader-election and this namespace, so nobody can tell whether \
                         one runs"
                    ),
                );
            }
            Err(refused) => {
                return without(
                    OperatorState::Unknown,
                    format!(
                        "whether one runs is not known: the Lease {namespace}/{lease_name}: \
                         {refused}"
                    ),
                );
            }
        };
        let renewed = renewed(lease);
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
        let Some(holder) = holder.map(|holder| clean(&holder, MAX_HOLDER)) else {
            return Self {
                renewed,
                ..without(
                    OperatorState::Vacant,
                    format!(
                        "no {name} leads: the last one gave its Lease back when it ended, so {idle}"
                    ),
                )
            };
        };
        let holds = spec.lease_duration_seconds.filter(|seconds| *seconds > 0);
        let holds = holds.unwrap_or(LEASE_SECONDS);
        let age = renewed
            .as_ref()
            .map(|renewed| now.duration_since(renewed.0));
        let alive = age.is_some_and(|age| age <= SignedDuration::from_secs(holds.into()));
        let when = renewed
            .as_ref()
            .map_or("never".to_owned(), |it| ago(it.0, now));
        let (state, message) = if alive {
            let message = format!("{holder} leads; it renewed its Lease {when}");
            (OperatorState::Alive, message)
        } else {
            let message = format!(
                "no {name} is alive: {holder} led, and renewed its Lease of {holds}s {when}, so {idle}"
            );
            (OperatorState::Silent, message)
        };
        Self {
            state,
            holder: Some(holder),
            renewed,
            message,
        }
    }

    /// Whether it is certain that nobody acts.
    pub(super) fn is_away(&self) -> bool {
        matches!(self.state, OperatorState::Silent | OperatorState::Vacant)
    }
}

/// When a Lease was last renewed.
fn renewed(lease: &Lease) -> Option<Time> {
    let entries = lease.metadata.managed_fields.as_deref();
    let stamped = last_owner(entries.unwrap_or_default(), "/f:spec/f:renewTime");
    let written = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.renew_time.as_ref());
    stamped
        .and_then(|entry| entry.time.clone())
        .or_else(|| written.map(|written| Time(written.0)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::renewed("prober-0", "2026-11-20T12:00:00.000000Z", OperatorState::Alive)]
    #[case::ahead("prober-0", "2026-11-20T12:00:09.000000Z", OperatorState::Alive)]
    #[case::at_the_end("prober-0", "2026-11-20T11:59:50.000000Z", OperatorState::Alive)]
    #[case::silent("prober-0", "2026-11-20T11:59:49.000000Z", OperatorState::Silent)]
    #[case::given_back("", "2026-11-20T12:00:00.000000Z", OperatorState::Vacant)]
    fn by_its_lease(#[case] holder: &str, #[case] renewed: &str, #[case] expected: OperatorState) {
        let lease = json!({"metadata": {}, "spec": {
            "holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15,
        }});
        let lease = Ok(Some(serde_json::from_value(lease).unwrap()));
        let now = "2026-11-20T12:00:05Z".parse().unwrap();
        let account = OperatorAccount::new(&PROBER, &lease, "garden", now);
        assert_eq!(account.state, expected, "{account:?}");
        assert_eq!(account.holder.is_some(), !holder.is_empty());
    }

    /// The clocks of holders may be wrong.
    #[rstest]
    #[case::behind(
        "2026-11-20T11:00:00.000000Z",
        "2026-11-20T12:00:00Z",
        OperatorState::Alive
    )]
    #[case::ahead(
        "2026-11-20T13:00:00.000000Z",
        "2026-11-20T11:59:00Z",
        OperatorState::Silent
    )]
    fn what_the_seed_says_counts(
        #[case] written: &str,
        #[case] stamped: &str,
        #[case] expected: OperatorState,
    ) {
        let lease = json!({
            "metadata": {"managedFields": [
                {"manager": "a", "time": stamped, "fieldsV1": {"f:spec": {"f:renewTime": {}}}},
                {"manager": "b", "time": "2026-11-20T12:00:00Z", "fieldsV1": {"f:metadata": {}}},
            ]},
            "spec": {"holderIdentity": "a", "renewTime": written, "leaseDurationSeconds": 15},
        });
        let lease = Ok(Some(serde_json::from_value(lease).unwrap()));
        let now = "2026-11-20T12:00:05Z".parse().unwrap();
        let account = OperatorAccount::new(&PROBER, &lease, "garden", now);
        assert_eq!(account.state, expected, "{account:?}");
        assert_eq!(account.renewed.unwrap().0, stamped.parse().unwrap());
    }

    #[rstest]
    #[case::none(Ok(None), OperatorState::NoLease, "garden/dwd-prober-leader-election")]
    #[case::forbidden(
        Err(Refused::Forbidden("leases is forbidden".to_owned())), OperatorState::Unknown,
        "leases is forbidden"
    )]
    #[case::never_renewed(Ok(Some(held())), OperatorState::Silent, "never")]
    fn without_one(
        #[case] lease: Result<Option<Lease>, Refused>,
        #[case] expected: OperatorState,
        #[case] says: &str,
    ) {
        let account = OperatorAccount::new(&PROBER, &lease, "garden", Timestamp::UNIX_EPOCH);
        assert_eq!(account.state, expected);
        assert!(account.message.contains(says), "{}", account.message);
    }

    fn held() -> Lease {
        serde_json::from_value(json!({"metadata": {}, "spec": {"holderIdentity": "a"}})).unwrap()
    }
}
