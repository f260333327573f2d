//! A dependent on the seed, and what its API server makes of a write.

use super::*;

/// A dependent as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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

/// The patch that the operator sends by a write.
pub(crate) fn patch(write: &Write) -> &Value {
    match write {
        Write::Object(patch) | Write::ScaleMerge(patch) => patch,
    }
}

impl Object {
    pub(crate) fn new(replicas: i32) -> Self {
        Self {
            replicas,
            present: replicas,
            ..Self::default()
        }
    }

    /// It stands for the content, and for how often that was given back: a write is accepted if the object
    /// is as it was read. A real server also refuses what was decided before any other change there and
    /// back, after which the same would be decided again.
    pub(crate) fn version(&self) -> String {
        format!("{:x}", fingerprint(self))
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

    /// The object after a write; none if that is refused. Its controller is `slow`, or has followed by then.
    pub(crate) fn after(&self, write: &Write, slow: bool) -> Option<Self> {
        let patch = patch(write);
        let version = patch["metadata"]["resourceVersion"].as_str();
        if version.is_some_and(|version| version != self.version()) {
            return None;
        }
        let mut after = self.clone();
        let annotations = patch["metadata"]["annotations"].as_object();
        for (key, value) in annotations.into_iter().flatten() {
            let value = value.as_str();
            match key.as_str() {
                MARK => after.marked = value.is_some(),
                RECORD => after.record = value.map(|text| text.parse().expect("a number")),
                other => panic!("{other} is not modelled"),
            }
        }
        if let Some(replicas) = patch["spec"]["replicas"].as_i64() {
            after.returns += u8::from(self.replicas == 0 && replicas > 0);
            after.scale(i32::try_from(replicas).expect("a number of replicas"), slow);
        }
        Some(after)
    }

    /// Somebody sets the replicas.
    pub(crate) fn scale(&mut self, replicas: i32, slow: bool) {
        self.replicas = replicas;
        if !slow {
            self.present = replicas;
        }
    }
}
