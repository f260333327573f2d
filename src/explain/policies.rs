//! The policies: the one that applies, and why the others do not.

use super::Answers;
use crate::{cluster::Policy, util::text::clean};

/// Characters of a cluster's labels that are shown.
const MAX_LABELS: usize = 300;

/// Describes what each policy has to do with the cluster; nothing if the Cluster was not read.
pub(super) fn lines(answers: &Answers) -> Vec<String> {
    let assignment = answers.index.assignment(&answers.cluster);
    let Some((cluster, assignment)) = answers.object.as_ref().zip(assignment) else {
        return Vec::new();
    };
    let selected = assignment.selected.as_ref();
    let describe = |policy: &Policy| {
        let (name, problems) = (&policy.name, policy.problems.join("; "));
        let applies = selected.is_some_and(|it| it.policy == *name);
        let what = match &policy.rules {
            None if applies => format!("applied last, and is waited for: {problems}"),
            None => format!("is not valid, and selects nothing: {problems}"),
            Some(rules) if applies => format!("applies (priority {})", rules.priority),
            Some(rules) if selected.is_some_and(|it| it.outranked.contains(name)) => format!(
                "selects the cluster as well, and comes after (priority {}): the highest priority \
                 counts, then the oldest; one that cannot be read any more is waited for",
                rules.priority
            ),
            _ if assignment
                .responsible()
                .is_some_and(|it| it.policy == *name) =>
            {
                "does not select the cluster any more, and has yet to let go of it".to_owned()
            }
            _ if policy.deleting => "is being deleted, and selects nothing".to_owned(),
            Some(rules) => {
                let labels = cluster.labels(rules.labels).into_iter();
                let labels: Vec<_> = labels.map(|(key, it)| format!("{key}={it}")).collect();
                let labels = clean(&labels.join(","), MAX_LABELS);
                let asked = rules.selector.brief();
                format!("does not select the cluster: it asks for {asked}, and finds {labels}")
            }
        };
        let hold = policy.hold;
        let holds = [
            (hold.dry_run, "; its mode is DryRun, so nothing is scaled"),
            (hold.suspended, "; it is suspended, so nothing is done"),
        ];
        let holds = holds.iter().filter(|it| it.0).map(|it| it.1);
        format!("{name} {what}{}", holds.collect::<String>())
    };
    answers.index.policies().map(describe).collect()
}
