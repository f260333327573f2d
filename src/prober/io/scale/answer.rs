//! Turns answers of the seed into observed dependents.

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    prober::step::{Family, IGNORE, MARK, Observed, RECORD, Record},
    util::text::parse_bool,
};

/// Observes a workload of apps/v1.
pub(super) fn workload(object: &DynamicObject) -> Observed {
    let status = |path| number(object, path).unwrap_or(0);
    let current = status("/status/observedGeneration") >= object.metadata.generation.unwrap_or(0);
    Observed {
        // The API server's default is 1.
        replicas: replicas(object).unwrap_or(1),
        any_left: !current || status("/status/replicas") > 0,
        running: current && status("/status/readyReplicas") > 0,
        ..observed(object, Family::Apps)
    }
}

/// Observes an object of any other kind by its metadata and its Scale.
pub(super) fn scalable(object: &DynamicObject, scale: &DynamicObject) -> Observed {
    let present = number(scale, "/status/replicas").unwrap_or(0) > 0;
    Observed {
        // A Scale of zero replicas lacks the field.
        replicas: replicas(scale).unwrap_or(0),
        any_left: present,
        running: present,
        ..observed(object, Family::Scalable)
    }
}

fn observed(object: &DynamicObject, family: Family) -> Observed {
    let annotation = |name| object.annotations().get(name).map(String::as_str);
    Observed {
        family,
        uid: object.uid().map(Into::into),
        replicas: 0,
        marked: annotation(MARK).is_some(),
        record: Record::parse(annotation(RECORD)),
        ignored: annotation(IGNORE).and_then(parse_bool) == Some(true),
        any_left: false,
        running: false,
        resource_version: object.resource_version().unwrap_or_default(),
    }
}

fn replicas(object: &DynamicObject) -> Option<i32> {
    i32::try_from(number(object, "/spec/replicas")?).ok()
}

fn number(object: &DynamicObject, path: &str) -> Option<i64> {
    object.data.pointer(path).and_then(Value::as_i64)
}
