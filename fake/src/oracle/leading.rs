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
