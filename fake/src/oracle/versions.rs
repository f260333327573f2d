//! Every version of the dependents, as an administrator's watch tells them.

use crate::{
    farm::{Micros, namespace},
    oracle::{DEPENDENTS, IGNORE, MARK, OPERATOR, RECORD},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// One version of a dependent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    pub shoot: usize,
    pub name: String,
    pub uid: String,
    /// Its resourceVersion, by which versions of all objects are in order.
    pub version: u64,
    /// The second in which the operator has scaled it last, by the seed's clock, which is this
    /// machine's; where it never did, when the version was seen. To remove an annotation alone is not
    /// dated.
    pub written: Micros,
    /// When the version was seen.
    pub seen: Micros,
    pub replicas: i64,
    pub marked: bool,
    pub record: Option<i64>,
    pub ignored: bool,
}

impl Version {
    /// Of a dependent of these shoots that was seen then; none of anything else.
    pub fn of(object: &Value, shoots: &BTreeMap<String, usize>, seen: Micros) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |key: &str| metadata.get(key)?.as_str();
        let name = text("name")?;
        let shoot = *shoots.get(text("namespace")?)?;
        if !DEPENDENTS.contains(&name) {
            return None;
        }
        let annotation = |key: &str| metadata.get("annotations")?.get(key)?.as_str();
        let managed = metadata.get("managedFields").and_then(Value::as_array);
        let written = managed
            .into_iter()
            .flatten()
            .filter(|it| it.get("manager").and_then(Value::as_str) == Some(OPERATOR))
            .filter_map(|it| it.get("time")?.as_str()?.parse::<Timestamp>().ok())
            .max();
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
        Some(Self {
            shoot,
            name: name.to_owned(),
            uid: text("uid")?.to_owned(),
            version: text("resourceVersion")?.parse().ok()?,
            written: written.map_or(seen, Timestamp::as_microsecond),
            seen,
            replicas: replicas.unwrap_or(1),
            marked: annotation(MARK).is_some(),
            record: annotation(RECORD).and_then(|it| it.parse().ok()),
            ignored: annotation(IGNORE) == Some("true"),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_microsecond(self.written).unwrap_or_default();
        write!(
            f,
            "version {} with {} replicas, marked: {}, record {:?}, ignored: {} (dated {at})",
            self.version, self.replicas, self.marked, self.record, self.ignored
        )
    }
}

/// The namespaces of so many shoots.
pub fn names(shoots: usize) -> BTreeMap<String, usize> {
    (0..shoots).map(|it| (namespace(it), it)).collect()
}
