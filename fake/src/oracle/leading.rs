//! That a process writes only while it holds the Lease.

use crate::{
    farm::Micros,
    store::{Call, Change},
};
use jiff::Timestamp;
use serde_json::Value;

/// Two readings of one clock may differ by so much, whichever came first.
const READINGS: Micros = 1_000;

/// A write as a process has sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at: Micros,
    /// As the Lease would name the process.
    pub by: String,
    /// The request, for people.
    pub what: String,
}

/// A time in which the Lease named a holder, and was not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub holder: String,
    pub from: Micros,
    pub until: Micros,
}

/// Whether a request is one that only a leader may send: to stand for election is no act, and neither is a
/// question for rights.
pub fn is_act(call: &Call) -> bool {
    let free = ["leases", "selfsubjectaccessreviews"];
    call.verb.is_write() && !free.contains(&&*call.plural)
}

/// The terms by all versions of a Lease, in their order.
pub fn terms<'a>(versions: impl IntoIterator<Item = &'a Change>) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for change in versions {
        let at = change.at.as_microsecond();
        if let Some(before) = terms.last_mut() {
            before.until = before.until.min(at);
        }
        let spec = change.after.as_ref().and_then(|it| it.get("spec"));
        let of = |field| spec.and_then(|it| it.get(field));
        let holder = of("holderIdentity").and_then(Value::as_str);
        let seconds = of("leaseDurationSeconds").and_then(Value::as_i64);
        if let Some(holder) = holder.filter(|it| !it.is_empty()) {
            terms.push(Term {
                holder: holder.to_owned(),
                from: at,
                until: at + seconds.unwrap_or_default() * 1_000_000,
            });
        }
    }
    terms
}

/// The writes that were sent by who did not hold the Lease, or not any more.
pub fn usurped(sent: &[Sent], terms: &[Term]) -> Vec<String> {
    let is_held = |it: &Sent| {
        let mut own = terms.iter().filter(|term| term.holder == it.by);
        own.any(|term| (term.from - READINGS..=term.until + READINGS).contains(&it.at))
    };
    let usurped = sent.iter().filter(|it| !is_held(it));
    let told = usurped.map(|Sent { at, by, what }| {
        let at = Timestamp::from_microsecond(*at).unwrap_or_default();
        format!("one-leader: {by} did not hold the Lease at {at}, and sent {what}")
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Key, Store};
    use serde_json::json;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn who_writes_holds_the_lease() {
        let lease = |holder: &str, at: i64| {
            json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "dwd", "namespace": "garden"},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": second(at).to_string()},
            })
        };
        let mut store = Store::default();
        for (at, holder) in [(0, "a"), (10, "a"), (40, "b"), (50, ""), (60, "b")] {
            store.put(second(at), lease(holder, at));
        }
        store.remove(&Key::new("leases", "garden", "dwd"), second(70));
        let terms = terms(store.versions("leases"));
        for (at, by, is_fine) in [
            (0, "a", true),
            (12, "a", true),
            (25, "a", true),
            (26, "a", false),
            (12, "b", false),
            (40, "b", true),
            (45, "a", false),
            (51, "b", false),
            (65, "b", true),
            (71, "b", false),
        ] {
            let sent = Sent {
                at: second(at).as_microsecond(),
                by: by.to_owned(),
                what: "a patch".to_owned(),
            };
            let found = usurped(&[sent], &terms);
            assert_eq!(found.is_empty(), is_fine, "{by} at {at}: {found:?}");
        }
    }
}
