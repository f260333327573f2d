//! Events on dependents: what was done to one, or is amiss with it.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::{
    prober::{
        dependents::{Event as Met, What},
        step::Step,
    },
    report::events::{
        Event,
        kinds::{NODES_NOT_READY, RELEASED, SCALED_DOWN, SCALED_UP, trouble},
    },
};

/// The object in the cluster's namespace.
pub(super) fn regarding(namespace: &str, met: &Met) -> ObjectReference {
    let reference = &met.dependent;
    ObjectReference {
        api_version: Some(reference.api_version.clone()),
        kind: Some(reference.kind.clone()),
        name: Some(reference.name.clone()),
        namespace: Some(namespace.to_owned()),
        uid: met.uid.as_deref().map(str::to_owned),
        ..ObjectReference::default()
    }
}

/// Returns the event of what was done or met, if there is one.
pub(super) fn event(met: &Met, policy: Option<&str>) -> Option<Event> {
    let by = policy.map_or_else(String::new, |policy| format!(" for policy {policy}"));
    let why = match &*met.why {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let (kind, note) = match &met.what {
        What::Troubled(problem) => {
            return Some(Event::new(trouble(problem.reason), &*problem.message));
        }
        What::Did(Step::ScaleDown { from }, _) => (
            &SCALED_DOWN,
            format!("scaled from {from} to 0 replicas{by}{why}"),
        ),
        What::Did(Step::ScaleUp { to }, _) => (
            &SCALED_UP,
            format!("scaled from 0 to {to} replicas{by}{why}"),
        ),
        What::Unready(after) => (
            &NODES_NOT_READY,
            format!(
                "scaled up{by}, although not all nodes that count are ready after \
                 {after:?} (awaitNodes)"
            ),
        ),
        What::Did(_, found) if met.is_release() => {
            let cause = match found.ignored {
                true => ": it says ignore-scaling",
                false => &why,
            };
            let replicas = found.replicas;
            let note = format!("mark removed{by}, replicas left at {replicas}{cause}");
            (&RELEASED, note)
        }
        _ => return None,
    };
    Some(Event::new(kind, note))
}
