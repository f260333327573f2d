//! What a run with a fault is like: which faults there are, what its writes are called, and what must hold of it.

mod fault;
pub mod rules;
pub mod run;
pub mod snapshot;
mod write;

pub use self::{
    fault::{Course, Fault},
    write::says,
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::oracle::{MARK, RECORD};

/// A write of the operator.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// When it arrived.
    pub at: Timestamp,
    /// What it changes, and the how manieth of its like it is: `deployments/NAME:down#1`.
    pub write: String,
    /// The status of the answer, if the operator was sent one.
    pub code: Option<u16>,
    /// What went wrong at it.
    pub fault: Option<Fault>,
}

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// The name of the object.
    pub name: String,
    /// Its resourceVersion, by which versions of different objects are in order too.
    pub version: u64,
    /// The replicas that it should have.
    pub replicas: i64,
    /// Those that it has.
    pub actual: i64,
    /// Whether it has the mark.
    pub marked: bool,
    /// What is recorded.
    pub record: Option<String>,
}

impl Seen {
    /// A version of this object.
    pub fn of(object: &Value) -> Self {
        let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let annotation = |key: &str| {
            object
                .get("metadata")?
                .get("annotations")?
                .get(key)?
                .as_str()
        };
        let version = text("/metadata/resourceVersion");
        Self {
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            version: version.and_then(|it| it.parse().ok()).unwrap_or_default(),
            replicas: number("/spec/replicas").unwrap_or(1),
            actual: number("/status/replicas").unwrap_or_default(),
            marked: annotation(MARK).is_some(),
            record: annotation(RECORD).map(str::to_owned),
        }
    }
}
