//! A dependent on the seed, and what its API server makes of a write.

use std::fmt::{self, Display};

use dependency_watchdog::{
    prober::plan::{Family, IGNORE, MARK, Observed, RECORD, Record, Write},
    util::text::parse_bool,
};
use serde_json::Value;

/// A dependent as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) marked: bool,
    pub(crate) record: Option<i32>,
    pub(crate) ignored: bool,
    pub(crate) replicas: i32,
    /// What its controller has brought about.
    pub(crate) present: i32,
    /// How often it was created anew.
    pub(crate) created: u8,
    /// How often it was scaled up from zero.
    returns: u8,
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

impl Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replicas", self.replicas)?;
        if self.present != self.replicas {
            write!(f, " ({} present)", self.present)?;
        }
        if self.marked {
            write!(f, ", marked")?;
        }
        if let Some(record) = self.record {
            write!(f, ", record {record}")?;
        }
        if self.ignored {
            write!(f, ", ignored")?;
        }
        if self.created > 0 {
            write!(f, ", created anew")?;
        }
        Ok(())
    }
}

impl Object {
    pub(crate) fn new(replicas: i32) -> Self {
        Self {
            marked: false,
            record: None,
            ignored: false,
            replicas,
            present: replicas,
            created: 0,
            returns: 0,
        }
    }

    /// It stands for the content, and for how often that was given back: a write is accepted if the object
    /// is as it was read. A real server also refuses what was decided before any other change there and
    /// back, after which the same would be decided again.
    pub(crate) fn version(&self) -> String {
        format!("{self}, returned {} times", self.returns)
    }

    pub(crate) fn observed(&self, family: Family) -> Observed {
        Observed {
            family,
            uid: None,
            resource_version: self.version(),
            replicas: self.replicas,
            marked: self.marked,
            record: Record::parse(self.record.map(|record| record.to_string()).as_deref()),
            ignored: self.ignored,
            any_left: self.present > 0,
            running: self.present > 0,
        }
    }

    /// The object after a write.
    pub(crate) fn after(&self, write: &Write) -> Result<Self, Refused> {
        let mut after = self.clone();
        match write {
            Write::Object(patch) | Write::ScaleMerge(patch) => {
                if let Some(version) = patch["metadata"]["resourceVersion"].as_str()
                    && version != self.version()
                {
                    return Err(Refused);
                }
                if let Some(annotations) = patch["metadata"]["annotations"].as_object() {
                    for (key, value) in annotations {
                        after.annotate(key, value.as_str());
                    }
                }
                after.set_replicas(patch);
            }
            Write::ScaleJson(_) => panic!("only who overrules the operator sends it"),
        }
        Ok(after)
    }

    fn annotate(&mut self, key: &str, value: Option<&str>) {
        match key {
            MARK => self.marked = value.is_some(),
            RECORD => self.record = value.map(|text| text.parse().expect("a number")),
            IGNORE => self.ignored = value.and_then(parse_bool).unwrap_or(false),
            other => panic!("{other} is not modelled"),
        }
    }

    fn set_replicas(&mut self, patch: &Value) {
        if let Some(replicas) = patch["spec"]["replicas"].as_i64() {
            self.returns += u8::from(self.replicas == 0 && replicas > 0);
            self.replicas = i32::try_from(replicas).expect("a number of replicas");
        }
    }
}
