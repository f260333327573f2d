//! The WeedPolicies that cover the namespace of the cluster, and their last pods there.

use super::{Answers, text::ago};
use crate::weeder::policy::Stored;

/// Describes each policy that covers the namespace or acted there, with its last pods in it.
pub(super) fn lines(answers: &Answers) -> Vec<String> {
    let here = |namespace: &str| namespace == answers.cluster;
    let namespace = answers.control_plane.as_ref();
    let namespace = namespace.filter(|it| it.deletion_timestamp.is_none());
    let labels = namespace.map(|it| it.labels.clone().unwrap_or_default());
    let mut lines = Vec::new();
    for Stored { policy, status } in &answers.weed_policies {
        let weeds = status.last_weeds.iter();
        let weeds = weeds.filter(|it| here(&it.namespace)).map(|it| {
            let when = ago(it.time.0, answers.now);
            let done = if it.dry_run { "spared" } else { "deleted" };
            format!(
                "- {done} {} of {} {when}, for {}",
                it.pod, it.owner, it.service
            )
        });
        let left = status.left_alone.iter();
        let left = left.filter(|it| here(&it.namespace)).map(|it| {
            let when = ago(it.time.0, answers.now);
            format!(
                "- left alone {} {when} ({}): {}",
                it.pod, it.reason, it.message
            )
        });
        let mut pods: Vec<String> = weeds.chain(left).collect();
        if labels.as_ref().is_some_and(|labels| policy.selects(labels)) {
            let services: Vec<&str> = policy.services().map(String::as_str).collect();
            let (name, mode, services) = (&policy.name, policy.mode(), services.join(", "));
            lines.push(format!(
                "{name} covers the namespace (mode {mode:?}): {services}"
            ));
        } else if !pods.is_empty() {
            lines.push(format!("{} does not cover the namespace now", policy.name));
        }
        lines.append(&mut pods);
    }
    lines
}
