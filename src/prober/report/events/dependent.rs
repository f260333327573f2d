//! Events on dependents: what was done to one, or is amiss with it.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use crate::{
    api::ClusterHealthStatus,
    prober::{
        dependents::{Event as Met, Problem, What},
        step::Step,
    },
    status::{
        conditions::DEGRADED,
        events::{
            Event, holding,
            kinds::{NODES_NOT_READY, RELEASED, SCALED_DOWN, SCALED_UP, trouble},
        },
    },
};

/// What an earlier run may have told counts for so long: by then each dependent has been looked at.
const RECALL: Duration = Duration::from_secs(10 * 60);

/// The object in the cluster's namespace.
pub(in crate::prober::report) fn regarding(namespace: &str, met: &Met) -> ObjectReference {
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

/// The troubles that an earlier run has told.
#[derive(Debug)]
pub(in crate::prober::report) struct Troubles {
    messages: String,
    until: Instant,
}

impl Troubles {
    /// By the status that it has left.
    pub(in crate::prober::report) fn recorded(status: &ClusterHealthStatus) -> Option<Self> {
        let degraded = holding(&status.conditions, DEGRADED)?;
        Some(Self {
            messages: degraded.message.clone(),
            until: Instant::now() + RECALL,
        })
    }

    /// Whether this one is among them; when it comes again it is another.
    fn forget(&mut self, problem: &Problem) -> bool {
        let known = self.messages.find(&problem.message);
        let Some(from) = known.filter(|_| Instant::now() < self.until) else {
            return false;
        };
        let to = from + problem.message.len();
        self.messages.replace_range(from..to, "");
        true
    }
}

/// What to tell of it, unless an earlier run has.
pub(in crate::prober::report) fn event(
    met: &Met,
    policy: Option<&str>,
    told: Option<&mut Troubles>,
) -> Option<Event> {
    let by = policy.map_or_else(String::new, |policy| format!(" for policy {policy}"));
    let why = match &*met.why {
        "" => String::new(),
        why => format!(": {why}"),
    };
    let (kind, note) = match &met.what {
        What::Troubled(problem) => {
            let known = told.is_some_and(|told| told.forget(problem));
            return (!known).then(|| Event::new(trouble(problem.reason), &*problem.message));
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
