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
    /// A JSON patch of its `scale` subresource.
    ScaleJson(Value),
}

impl Step {
    /// The requests that carry it out, in order. Each is refused if anything has changed since it was
    /// decided on: a second one, too, which is sent with the resourceVersion that the first has
    /// made. It may arrive late, when the step has been undone again.
    pub fn writes(&self, found: &Observed) -> Vec<Write> {
        let version = &found.resource_version;
        let annotate = |mark: Value, record: Value| {
            json!({
                "resourceVersion": version,
                "annotations": {MARK: mark, RECORD: record},
            })
        };
        let scale = |replicas: i32| {
            Write::ScaleMerge(json!({
                "metadata": {"resourceVersion": version},
                "spec": {"replicas": replicas},
            }))
        };
        match (self, found.family) {
            (Step::ScaleDown { from }, Family::Apps) => vec![Write::Object(json!({
                "metadata": annotate(json!(""), json!(from.to_string())),
                "spec": {"replicas": 0},
            }))],
            (Step::ScaleDown { from }, Family::Scalable | Family::Unscalable) => vec![
                Write::Object(json!({
                    "metadata": annotate(json!(""), json!(from.to_string())),
                })),
                scale(0),
            ],
            (Step::ScaleUp { to }, Family::Apps) => vec![Write::Object(json!({
                "metadata": {"resourceVersion": version},
                "spec": {"replicas": to},
            }))],
            (Step::ScaleUp { to }, Family::Scalable | Family::Unscalable) => vec![scale(*to)],
            (Step::Record { replicas }, _) => vec![Write::Object(json!({
                "metadata": {
                    "resourceVersion": version,
                    "annotations": {RECORD: replicas.to_string()},
                },
            }))],
            (Step::DropMarkAndRecord, _) => vec![Write::Object(json!({
                "metadata": annotate(Value::Null, Value::Null),
            }))],
            (Step::DropMark, _) => vec![Write::Object(json!({
                "metadata": {"resourceVersion": version, "annotations": {MARK: null}},
            }))],
            (Step::Wait | Step::Nothing(_), _) => Vec::new(),
        }
    }

    /// Whether a dependent, of which the step was decided when it was `before`, is `now` as its first
    /// `count` writes leave it.
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
            // What else may be other than before says nothing of the writes.
            resource_version: now.resource_version.clone(),
            any_left: now.any_left,
            running: now.running,
            ..before.clone()
        };
        left == *now
    }

    /// The requests of one who overrules the operator: what restores the dependent has the operator
    /// ignore it from then on, which scales down whatever is marked or up in an outage.
    pub fn overruling_writes(&self, found: &Observed) -> Vec<Write> {
        match (self, found.family) {
            (Step::ScaleUp { to }, Family::Scalable) => vec![
                // First, so that at no moment it is up and not ignored. The mark stays meanwhile.
                Write::Object(json!({
                    "metadata": {
                        "resourceVersion": found.resource_version,
                        "annotations": {IGNORE: "true"},
                    },
                })),
                // A Scale of zero replicas lacks the field.
                Write::ScaleJson(json!([
                    {"op": "test", "path": "/spec", "value": {}},
                    {"op": "add", "path": "/spec/replicas", "value": to},
                ])),
                Write::Object(json!({
                    "metadata": {
                        "resourceVersion": found.resource_version,
                        "annotations": {MARK: null, RECORD: null},
                    },
                })),
            ],
            (Step::ScaleUp { .. } | Step::DropMarkAndRecord, _) => {
                let mut patch = json!({
                    "metadata": {
                        "resourceVersion": found.resource_version,
                        "annotations": {MARK: null, RECORD: null, IGNORE: "true"},
                    },
                });
                if let (Step::ScaleUp { to }, Value::Object(patch)) = (self, &mut patch) {
                    patch.insert("spec".to_owned(), json!({"replicas": to}));
                }
                vec![Write::Object(patch)]
            }
            _ => self.writes(found),
        }
    }
}
