//! Knowledge of a candidate about a Lease, and what follows from it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// Next step of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Renew the Lease, which is its own.
    Renew,
    /// Take the Lease, which nobody holds, or whose holder has been silent for its duration.
    Take,
    /// Wait for this holder.
    Wait(String),
}

/// Last known spec of a Lease, and since when.
#[derive(Debug, Default)]
pub(super) struct View {
    seen: Option<(LeaseSpec, Instant)>,
    /// Duration of our own Leases.
    ours: Duration,
}

impl View {
    /// Returns a view that has seen nothing, of a candidate whose own Leases hold for so long.
    pub(super) fn new(ours: Duration) -> Self {
        Self { seen: None, ours }
    }

    /// Takes in what was read. A Lease that somebody has deleted tells nothing of its holder, who
    /// acts until it finds out: what was seen last counts on.
    pub(super) fn saw(&mut self, found: Option<LeaseSpec>, now: Instant) {
        let Some(found) = found else {
            return;
        };
        if self.seen.as_ref().is_none_or(|(known, _)| *known != found) {
            self.seen = Some((found, now));
        }
    }

    /// Takes in what was read, and tells what may be done.
    pub(super) fn claim(&mut self, who: &str, found: Option<LeaseSpec>, now: Instant) -> Claim {
        let there = found.is_some();
        self.saw(found, now);
        let Some((spec, since)) = &self.seen else {
            return Claim::Take;
        };
        match holder(spec) {
            "" => Claim::Take,
            holder if holder == who && there => Claim::Renew,
            holder if holder == who => Claim::Take,
            _ if now.duration_since(*since) >= duration(spec, self.ours) => Claim::Take,
            holder => Claim::Wait(holder.to_owned()),
        }
    }
}

/// Returns who holds a Lease; empty if nobody does.
pub(super) fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

/// Returns for how long a Lease holds. One that does not say so, or that says less, is treated as one that holds as
/// long as our own: to wait for longer is always safe.
fn duration(spec: &LeaseSpec, ours: Duration) -> Duration {
    let theirs = spec.lease_duration_seconds.unwrap_or_default();
    let theirs = u64::try_from(theirs).unwrap_or_default();
    Duration::from_secs(theirs).max(ours)
}

/// Returns how often the Lease will have changed hands when it is taken.
pub(super) fn transitions(spec: Option<&LeaseSpec>) -> i32 {
    let before = spec.and_then(|spec| spec.lease_transitions);
    before.map_or(0, |before| before.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn record(holder: &str, renewal: i64) -> Option<LeaseSpec> {
        let spec = serde_json::json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            // Whatever the holder's clock says.
            "renewTime": format!("2031-01-01T00:00:{renewal:02}.000000Z"),
        });
        serde_json::from_value(spec).unwrap()
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
    #[case(None, 15)]
    #[case(Some(-1), 15)]
    #[case(Some(0), 15)]
    #[case(Some(60), 60)]
    fn durations(#[case] lease_duration_seconds: Option<i32>, #[case] seconds: u64) {
        let spec = LeaseSpec {
            lease_duration_seconds,
            ..LeaseSpec::default()
        };
        let duration = duration(&spec, Duration::from_secs(15));
        assert_eq!(duration, Duration::from_secs(seconds));
    }
}
