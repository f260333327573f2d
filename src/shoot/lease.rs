//! The slim view of the leases that kubelets renew in `kube-node-lease`.
//!
//! Only what tells a lease's age is decoded, straight from the bytes: at 100 nodes a shoot and
//! 1,000 shoots, building whole objects would cost more than everything else the operator does.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::list::{self, DecodeError, Fold, Folded, Number, Object, Text};
use super::uid::Uid;
use super::wire;

mod protobuf;

const KIND: &str = "LeaseList";

/// All leases of one namespace at one resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseList {
    /// The list's own resourceVersion: etcd's revision if the read was consistent.
    pub resource_version: u64,
    /// The leases, in the server's order. One without a name belongs to no node and is left out.
    pub leases: Vec<Lease>,
}

/// What one lease says about the node of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name, which is the node's.
    pub name: Box<str>,
    /// Another UID is another lease: what was seen of the old one says nothing about it.
    pub uid: Uid,
    /// Orders two states of this lease.
    pub resource_version: u64,
    /// What the node wrote, by its own clock. `None` if absent or malformed, and also where UID or
    /// resourceVersion are, since such a lease cannot be compared with anything seen before.
    pub renew_time: Option<RenewTime>,
    /// When the API server saw `renewTime` change, by the server's clock in unix seconds: the
    /// earliest `time` among the managers that own the field. `None` if nobody owns it, or if the
    /// time of one that does cannot be read.
    pub stamp: Option<i64>,
    /// `spec.leaseDurationSeconds`, in seconds, if it is a number above zero.
    pub duration_seconds: Option<i32>,
}

/// A `renewTime`: microseconds since the unix epoch, by the clock of the node that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RenewTime(i64);

impl RenewTime {
    /// The renewTime so many microseconds after the unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }
}

impl LeaseList {
    /// Decodes the body of a list of leases, in JSON or in protobuf.
    ///
    /// A lease in JSON whose fields have other types never fails the list; a body that is no whole,
    /// orderable LeaseList does, and so does a name that no object can have.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let (resource_version, leases) = if wire::is_protobuf(body) {
            wire::decode(body, KIND, protobuf::lease)?
        } else {
            let (version, items) = list::decode::<RawLease<'_>>(body, KIND)?;
            let leases = items.into_iter().filter_map(|it| it.lease().transpose());
            (version, leases.collect::<Result<_, _>>()?)
        };
        Ok(Self {
            resource_version,
            leases,
        })
    }
}

#[derive(Deserialize)]
struct RawLease<'a> {
    #[serde(borrow, default)]
    metadata: Object<RawMeta<'a>>,
    #[serde(borrow, default)]
    spec: Object<RawSpec<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMeta<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
    #[serde(borrow, default)]
    resource_version: Text<'a>,
    #[serde(default)]
    managed_fields: Folded<Stamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(borrow, default)]
    renew_time: Text<'a>,
    #[serde(default)]
    lease_duration_seconds: Number,
}

#[derive(Deserialize)]
struct RawManager<'a> {
    #[serde(borrow, default)]
    time: Text<'a>,
    #[serde(rename = "fieldsV1", default)]
    fields: Object<OwnedFields>,
}

#[derive(Deserialize)]
struct OwnedFields {
    #[serde(rename = "f:spec", default)]
    spec: Object<OwnedSpecFields>,
}

#[derive(Deserialize)]
struct OwnedSpecFields {
    #[serde(rename = "f:renewTime")]
    renew_time: Option<IgnoredAny>,
}

impl RawLease<'_> {
    fn lease(self) -> Result<Option<Lease>, DecodeError> {
        let meta = self.metadata.0.unwrap_or_default();
        let spec = self.spec.0.unwrap_or_default();
        let said = Said {
            name: meta.name.as_str().unwrap_or_default(),
            uid: meta.uid.as_str().unwrap_or_default(),
            version: meta.resource_version.as_str().unwrap_or_default(),
            renewed: spec.renew_time.as_str().and_then(parse_time),
            stamp: meta.managed_fields.0,
            duration: spec.lease_duration_seconds.0,
        };
        said.lease()
    }
}

/// What a lease says, in either encoding; texts are empty where it says nothing.
#[derive(Default)]
struct Said<'a> {
    name: &'a str,
    uid: &'a str,
    version: &'a str,
    renewed: Option<Timestamp>,
    stamp: Stamp,
    duration: Option<i64>,
}

impl Said<'_> {
    /// The lease; `None` if it has no name.
    fn lease(self) -> Result<Option<Lease>, DecodeError> {
        let Some(name) = list::name_of(self.name, KIND)? else {
            return Ok(None);
        };
        let version: Option<u64> = self.version.parse().ok();
        let renewed = self.renewed.map(|time| RenewTime(time.as_microsecond()));
        let seconds = self
            .duration
            .and_then(|seconds| i32::try_from(seconds).ok());
        Ok(Some(Lease {
            name,
            uid: self.uid.into(),
            resource_version: version.unwrap_or_default(),
            renew_time: renewed.filter(|_| version.is_some() && !self.uid.is_empty()),
            stamp: self.stamp.told(),
            duration_seconds: seconds.filter(|seconds| *seconds > 0),
        }))
    }
}

impl RawManager<'_> {
    fn owns_renew_time(&self) -> bool {
        let fields = self.fields.0.as_ref();
        fields.is_some_and(OwnedFields::has_renew_time)
    }
}

impl OwnedFields {
    fn has_renew_time(&self) -> bool {
        let spec = self.spec.0.as_ref();
        spec.is_some_and(|spec| spec.renew_time.is_some())
    }
}

/// The stamp that the managers of a lease leave. The earliest owner counts: a second manager that
/// applies the same value comes to own the field without renewing anything. One owner without a
/// readable time might be the earliest.
#[derive(Default)]
enum Stamp {
    #[default]
    NoOwner,
    At(i64),
    Unreadable,
}

impl Stamp {
    /// With one more owner, since this time in Unix seconds if it can be read.
    fn owned_since(&mut self, since: Option<i64>) {
        *self = match (since, &*self) {
            (None, _) | (_, Self::Unreadable) => Self::Unreadable,
            (Some(time), Self::NoOwner) => Self::At(time),
            (Some(time), Self::At(earliest)) => Self::At(time.min(*earliest)),
        };
    }

    fn told(self) -> Option<i64> {
        match self {
            Self::At(second) => Some(second),
            Self::NoOwner | Self::Unreadable => None,
        }
    }
}

impl<'de> Fold<'de> for Stamp {
    type Item = RawManager<'de>;

    fn take(&mut self, manager: RawManager<'de>) {
        if manager.owns_renew_time() {
            let since = manager.time.as_str().and_then(parse_time);
            self.owned_since(since.map(Timestamp::as_second));
        }
    }
}

fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests;
