//! The requests that carry out a step.
//!
//! Every step is written so that a crash between any two requests leaves a state which the next
//! decision completes.

use serde_json::{Value, json};

use super::{Family, IGNORE, MARK, Observed, RECORD, Record, Step};

/// One request that changes a dependent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A merge patch of the object.
    Object(Value),
    /// A merge patch of its `scale` subresource.
    ScaleMerge(Value),
}

impl Step {
    /// The requests that carry it out, in order. Each is refused if anything has changed since the
    /// decision. The second carries the resourceVersion that the first produced, since it may arrive after
    /// the step was undone.
    pub fn writes(&self, found: &Observed) -> Vec<Write> {
        let mark = |from: &i32| json!({MARK: "", RECORD: from.to_string()});
        let scale = |replicas: i32| {
            Write::ScaleMerge(json!({
                "metadata": {"resourceVersion": found.resource_version},
                "spec": {"replicas": replicas},
            }))
        };
        match (self, found.family) {
            (Step::ScaleDown { from }, Family::Apps) => vec![with_replicas(found, mark(from), 0)],
            (Step::ScaleDown { from }, _) => vec![annotate(found, mark(from)), scale(0)],
            (Step::ScaleUp { to }, Family::Apps) => vec![Write::Object(json!({
                "metadata": {"resourceVersion": found.resource_version},
                "spec": {"replicas": to},
            }))],
            (Step::ScaleUp { to }, _) => vec![scale(*to)],
            (Step::Record { replicas }, _) => {
                vec![annotate(found, json!({RECORD: replicas.to_string()}))]
            }
            (Step::DropMarkAndRecord, _) => {
                vec![annotate(found, json!({MARK: null, RECORD: null}))]
            }
            (Step::DropMark, _) => vec![annotate(found, json!({MARK: null}))],
            (Step::Wait | Step::Nothing(_), _) => Vec::new(),
        }
    }

    /// Whether the first `count` writes of the step, decided on `before`, result in `now`.
    pub fn is_written(&self, count: usize, before: &Observed, now: &Observed) -> bool {
        let in_full = count >= self.writes(before).len();
        let (replicas, marked, record) = match *self {
            Step::ScaleDown { from } if in_full => (0, true, Record::Replicas(from)),
            Step::ScaleDown { from } => (from, true, Record::Replicas(from)),
            Step::ScaleUp { to } => (to, before.marked, before.record.clone()),
            Step::Record { replicas } => (before.replicas, true, Record::Replicas(replicas)),
            Step::DropMarkAndRecord => (before.replicas, false, Record::Absent),
            Step::DropMark => (before.replicas, false, before.record.clone()),
            Step::Wait | Step::Nothing(_) => return false,
        };
        let left = Observed {
            replicas,
            marked,
            record,
            // Other differences say nothing about the writes.
            resource_version: now.resource_version.clone(),
            any_left: now.any_left,
            running: now.running,
            ..before.clone()
        };
        left == *now
    }

    /// Returns the request of a user who overrules the operator. A restore also has the operator ignore the
    /// dependent, which it would scale down again in an outage.
    pub fn overruling_write(&self, found: &Observed) -> Option<Write> {
        match (self, found.family) {
            (Step::ScaleUp { to }, Family::Apps) => Some(with_replicas(found, handed_over(), *to)),
            // First, so that at no moment it is up and not ignored. The mark stays meanwhile.
            (Step::ScaleUp { .. }, Family::Scalable) if !found.ignored => {
                Some(annotate(found, json!({IGNORE: "true"})))
            }
            (Step::DropMarkAndRecord, _) => Some(annotate(found, handed_over())),
            _ => self.writes(found).into_iter().next(),
        }
    }
}

/// Annotations that hand a dependent over to its user.
fn handed_over() -> Value {
    json!({MARK: null, RECORD: null, IGNORE: "true"})
}

/// Changes these annotations.
fn annotate(found: &Observed, annotations: Value) -> Write {
    Write::Object(json!({"metadata": metadata(found, annotations)}))
}

/// Changes these annotations and the number of replicas.
fn with_replicas(found: &Observed, annotations: Value, replicas: i32) -> Write {
    let metadata = metadata(found, annotations);
    Write::Object(json!({"metadata": metadata, "spec": {"replicas": replicas}}))
}

fn metadata(found: &Observed, annotations: Value) -> Value {
    json!({"resourceVersion": found.resource_version, "annotations": annotations})
}
