//! Whether an operator is alive, by the Lease of its leader.
//!
//! As candidates do it: what another machine's clock has written into the Lease says nothing, a
//! renewal that is seen does. So the Lease is watched for as long as it may hold without one.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use tokio::time::{Instant, sleep};

use super::messages;
use crate::{
    prober::LEASE,
    runtime::{leader::MAX_HOLDER, seed::Seed},
    util::text::clean,
};

/// From one look at the Lease to the next.
const PAUSE: Duration = Duration::from_secs(1);
/// A Lease that does not say for how long it holds is taken for one of this length.
const DEFAULT_SECONDS: u64 = 15;
/// A Lease that nobody holds may be given back by a replica that ends, and is then taken by the next
/// one at once: it tries each 2 seconds by default.
const VACANT_SECONDS: u64 = 5;
/// Nobody is kept waiting for longer.
const MOST_SECONDS: u64 = 60;

/// What was seen of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorPresence {
    /// None holds the Lease, or none has renewed it while it was watched.
    Gone(String),
    /// One does.
    Alive(String),
    /// It cannot be told.
    Unknown(String),
}

impl OperatorPresence {
    /// Whether no operator acts, as far as can be seen.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// What was seen, for people.
    pub fn words(&self) -> &str {
        match self {
            Self::Gone(words) | Self::Alive(words) | Self::Unknown(words) => words,
        }
    }
}

/// Watches the Lease in this namespace until it is renewed, or could be anybody's.
pub async fn observe(seed: &Seed, namespace: &str) -> OperatorPresence {
    let leases: Api<Lease> = Api::namespaced(seed.client().clone(), namespace);
    let read = async || match seed.call(leases.get_opt(LEASE)).await {
        Ok(found) => Ok(found.and_then(|lease| lease.spec)),
        Err(error) => {
            let tried = format!("get the Lease {LEASE} in the namespace {namespace}");
            let why = messages::call(&tried, &error);
            Err(OperatorPresence::Unknown(format!(
                "whether an operator is alive cannot be told: {why}"
            )))
        }
    };
    let first = match read().await {
        Ok(Some(first)) => first,
        Ok(None) => {
            return OperatorPresence::Gone(format!(
                "no operator is seen: there is no Lease {LEASE} in the namespace {namespace}"
            ));
        }
        Err(unknown) => return unknown,
    };
    let mut start = Instant::now();
    let mut now = first.clone();
    let length = seconds(&first);
    loop {
        let waited = start.elapsed();
        let holder = now.holder_identity.as_deref().unwrap_or_default();
        let vacant = holder.is_empty();
        let holder = clean(holder, MAX_HOLDER);
        if vacant && waited >= Duration::from_secs(VACANT_SECONDS) {
            return OperatorPresence::Gone(
                "no operator is seen: nobody holds its Lease".to_owned(),
            );
        }
        if !vacant && now != first {
            return OperatorPresence::Alive(format!("the operator {holder} is alive"));
        }
        if !vacant && waited >= Duration::from_secs(length.min(MOST_SECONDS)) {
            let silent = format!(
                "{holder} has not renewed its Lease for {}s",
                length.min(MOST_SECONDS)
            );
            return match length > MOST_SECONDS {
                true => OperatorPresence::Unknown(format!(
                    "whether an operator is alive cannot be told: {silent}, and it holds for {length}s"
                )),
                false => OperatorPresence::Gone(format!("no operator is alive: {silent}")),
            };
        }
        sleep(PAUSE).await;
        match read().await {
            // A Lease that somebody deletes tells nothing of its holder.
            Ok(found) => now = found.unwrap_or(now),
            Err(unknown) => return unknown,
        }
        // Given back meanwhile.
        if !vacant && now.holder_identity.as_ref().is_none_or(String::is_empty) {
            start = Instant::now();
        }
    }
}

/// For how long it holds without a renewal.
fn seconds(lease: &LeaseSpec) -> u64 {
    let seconds = lease.lease_duration_seconds.unwrap_or_default();
    u64::try_from(seconds)
        .ok()
        .filter(|it| *it > 0)
        .unwrap_or(DEFAULT_SECONDS)
}
