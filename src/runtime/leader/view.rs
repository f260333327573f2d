//! What a candidate has seen of a Lease, and what follows from it.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use tokio::time::Instant;

/// What counts of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Who holds it; empty if nobody does.
    pub(super) holder: String,
    duration: Duration,
    renewed: Option<MicroTime>,
    transitions: Option<i32>,
}

impl Record {
    /// One that does not say for how long it holds, or for less, is taken to hold as long as our own:
    /// to wait for longer is always safe.
    pub(super) fn of(lease: &Lease, ours: Duration) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: seconds.map_or(ours, |theirs| Duration::from_secs(theirs).max(ours)),
            renewed: spec.renew_time,
            transitions: spec.lease_transitions,
        }
    }
}

/// What may be done with a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is ours.
    Renew,
    /// It is nobody's, or whoever held it has been silent for its duration.
    Take,
    /// This one holds it.
    Wait(String),
}

/// The last that was seen of a Lease.
#[derive(Debug, Default)]
pub(super) struct View {
    seen: Option<(Record, Instant)>,
}

impl View {
    /// Takes in what was read. A Lease that somebody has deleted tells nothing of its holder, who
    /// acts until it finds out: what was seen last counts on.
    pub(super) fn saw(&mut self, found: Option<Record>, now: Instant) {
        let Some(found) = found else {
            return;
        };
        if self.seen.as_ref().is_none_or(|(known, _)| *known != found) {
            self.seen = Some((found, now));
        }
    }

    /// Takes in what was read, and tells what may be done.
    pub(super) fn claim(&mut self, who: &str, found: Option<Record>, now: Instant) -> Claim {
        let there = found.is_some();
        self.saw(found, now);
        match &self.seen {
            None => Claim::Take,
            Some((record, _)) if record.holder == who && there => Claim::Renew,
            Some((record, _)) if record.holder == who => Claim::Take,
            Some((record, _)) if record.holder.is_empty() => Claim::Take,
            Some((record, since)) if now.duration_since(*since) >= record.duration => Claim::Take,
            Some((record, _)) => Claim::Wait(record.holder.clone()),
        }
    }
}

/// How often the Lease will have changed hands when it is taken.
pub(super) fn transitions(spec: Option<&LeaseSpec>) -> i32 {
    let before = spec.and_then(|spec| spec.lease_transitions);
    before.map_or(0, |before| before.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn record(holder: &str, renewal: i64) -> Option<Record> {
        let lease: Lease = serde_json::from_value(serde_json::json!({
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": 15,
                // Whatever the holder's clock says.
                "renewTime": format!("2031-01-01T00:00:{renewal:02}.000000Z"),
            },
        }))
        .unwrap();
        Some(Record::of(&lease, Duration::from_secs(15)))
    }

    #[test]
    fn a_lease_is_taken_when_it_was_seen_silent_for_its_duration() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut view = View::default();
        let wait = Claim::Wait("other".to_owned());
        // Seen for the first time: nobody knows for how long it has been silent.
        assert_eq!(view.claim("me", record("other", 0), at(0)), wait);
        assert_eq!(view.claim("me", record("other", 0), at(14)), wait);
        // Renewed meanwhile.
        assert_eq!(view.claim("me", record("other", 9), at(16)), wait);
        assert_eq!(view.claim("me", record("other", 9), at(30)), wait);
        assert_eq!(view.claim("me", record("other", 9), at(31)), Claim::Take);
        // Another was faster.
        let wait = Claim::Wait("third".to_owned());
        assert_eq!(view.claim("me", record("third", 9), at(31)), wait);
    }

    #[test]
    fn a_lease_that_is_deleted_is_not_free_before_its_holder_must_have_stopped() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let wait = Claim::Wait("other".to_owned());
        let mut view = View::default();
        assert_eq!(view.claim("me", record("other", 0), at(0)), wait);
        assert_eq!(view.claim("me", None, at(2)), wait);
        assert_eq!(view.claim("me", None, at(14)), wait);
        assert_eq!(view.claim("me", None, at(15)), Claim::Take);
        // Its holder has created it anew.
        assert_eq!(view.claim("me", record("other", 16), at(16)), wait);
        // Ours is taken up at once, and one that was given back too.
        for holder in ["me", ""] {
            let mut view = View::default();
            view.saw(record(holder, 0), at(0));
            assert_eq!(view.claim("me", None, at(1)), Claim::Take, "{holder}");
        }
    }

    #[rstest]
    #[case::none(None, Claim::Take)]
    #[case::given_back(record("", 0), Claim::Take)]
    #[case::ours(record("me", 0), Claim::Renew)]
    #[case::taken(record("other", 0), Claim::Wait("other".to_owned()))]
    fn first_sight(#[case] found: Option<Record>, #[case] expected: Claim) {
        assert_eq!(View::default().claim("me", found, Instant::now()), expected);
    }

    #[rstest]
    #[case(serde_json::json!({}), 15)]
    #[case(serde_json::json!({"spec": {"leaseDurationSeconds": -1}}), 15)]
    #[case(serde_json::json!({"spec": {"leaseDurationSeconds": 0}}), 15)]
    #[case(serde_json::json!({"spec": {"leaseDurationSeconds": 60}}), 60)]
    fn durations(#[case] lease: serde_json::Value, #[case] seconds: u64) {
        let lease: Lease = serde_json::from_value(lease).unwrap();
        let record = Record::of(&lease, Duration::from_secs(15));
        assert_eq!(record.duration, Duration::from_secs(seconds));
        assert_eq!(record.holder, "");
    }
}
