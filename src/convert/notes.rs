//! What does not mean quite the same as in the tool, in a few words each.

use std::{rc::Rc, time::Duration};

use super::{Part, Remark, duration, source::Configuration};
use crate::{api, yaml::Node};

/// Before machine-controller-manager comes back: gardenlet's NewDependencyWatchdogProberConfiguration.
const RESTART_DELAY: Duration = Duration::from_secs(30);

const PROBER: [&str; 6] = [
    "what is at 0 without having been scaled down by this operator is left there; the tool scaled up \
     everything at 0: docs/migration.md#prober",
    "a lease ages by the clock of the API server, whatever those of nodes say, and nothing is \
     scaled without proof that it is silent: docs/concepts.md#the-age-of-a-lease",
    "one node that is silent in a cluster of one is no outage, and one that is fresh has what was \
     taken given back: docs/migration.md#prober",
    "initialDelay of the policy delays what is done, not what is seen: \
     docs/policy.md#how-they-are-read",
    "what is not scaled within its timeout is reported, and the next level goes ahead: \
     docs/policy.md#what-is-scaled",
    "the kubeconfig in the Secret may name neither files nor plugins, and other names than those of \
     the first policy need rights: docs/policy.md#the-kubeconfig",
];

const DELAYS: &str = "initialDelay of scaleUp and scaleDown is waited only when there is something \
                      to scale; the tool waited at every probe: docs/policy.md#what-is-scaled";
const HASTY: &str = "machine-controller-manager has no scaleUp.initialDelay of at least 30s: when it \
                     starts it replaces machines whose nodes are not Ready yet, so Gardener gives \
                     kubelets this time: docs/policy.md#what-is-scaled";
const AWAITS: &str = "scaleUp.awaitNodes: 2m is added to machine-controller-manager and cluster-autoscaler, \
                      unless other dependents come back after them: docs/policy.md#what-is-scaled";
const THRESHOLDS: &str = "successThreshold and failureThreshold count verdicts about the leases, and \
                          a probe that fails counts as neither: docs/policy.md#how-they-are-judged";

const WEEDER: [&str; 3] = [
    "watchDuration ends early when the service is down again, and begins anew when it is back: \
     docs/migration.md#weeder",
    "a pod of a Job, of a static pod, or without a controller is left alone: docs/migration.md#weeder",
    "a selector that names no label is refused, since it would match every pod: \
     docs/migration.md#weeder",
];

const SEVERAL: &str = "there are several, and each selects every cluster: the oldest applies, the \
                       others are Conflicted. Keep the one that the tool was started with, or give \
                       them a clusterSelector: docs/policy.md#which-clusters";

/// What to know about the policies of one part of the tool, given what their configurations say.
pub(super) fn of(part: Part, configurations: &[&Configuration]) -> Vec<Remark> {
    let any = |says: fn(&Node) -> bool| configurations.iter().any(|it| says(&it.root));
    let mut notes: Vec<&str> = Vec::new();
    match part {
        _ if configurations.is_empty() => {}
        Part::Prober => {
            notes.extend((configurations.len() > 1).then_some(SEVERAL));
            notes.extend(PROBER);
            notes.extend(any(delays).then_some(DELAYS));
            notes.extend(any(hasty).then_some(HASTY));
            notes.push(AWAITS);
            notes.extend(any(thresholds).then_some(THRESHOLDS));
        }
        Part::Weeder => notes.extend(WEEDER),
    }
    notes
        .into_iter()
        .map(|note| Remark {
            place: None,
            message: format!("{part}: {note}"),
        })
        .collect()
}

/// The value of a field, whatever the case of its name.
fn field<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    let entry = node
        .entries()
        .iter()
        .find(|it| it.key.eq_ignore_ascii_case(name));
    entry.map(|entry| &*entry.value)
}

fn dependents(root: &Node) -> &[Rc<Node>] {
    field(root, "dependentResourceInfos")
        .map(Node::items)
        .unwrap_or_default()
}

fn delays(root: &Node) -> bool {
    dependents(root).iter().any(|dependent| {
        let scales = ["scaleUp", "scaleDown"].map(|name| field(dependent, name));
        scales
            .into_iter()
            .flatten()
            .any(|it| field(it, "initialDelay").is_some())
    })
}

/// Whether machine-controller-manager comes back sooner than Gardener has it.
fn hasty(root: &Node) -> bool {
    dependents(root).iter().any(|dependent| {
        let name = field(dependent, "ref").and_then(|it| field(it, "name"));
        let delay = field(dependent, "scaleUp").and_then(|it| field(it, "initialDelay"));
        let delay = delay.and_then(Node::text).unwrap_or("0s");
        let delay = duration::convert(delay).ok();
        let delay = delay.and_then(|it| it.parse::<api::Duration>().ok());
        name.and_then(Node::text) == Some("machine-controller-manager")
            && delay.is_some_and(|it| it.get() < RESTART_DELAY)
    })
}

fn thresholds(root: &Node) -> bool {
    ["successThreshold", "failureThreshold"]
        .iter()
        .any(|name| field(root, name).is_some())
}
