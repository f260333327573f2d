//! The slim view of the leases that kubelets renew in `kube-node-lease`.
//!
//! Only what tells a lease's age is decoded, straight from the bytes: at 100 nodes a shoot and
//! 1,000 shoots, building whole objects would cost more than everything else the operator does.

use std::hash::{DefaultHasher, Hasher as _};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::list::{Item, name_of};
use super::read::MAX_LEASES_BYTES;
use super::unread::Target;
use super::wire::{Malformed, fields, repeated};

/// `metadata` and `spec` of `coordination/v1.Lease`.
const LEASE: [u32; 2] = [1, 2];
/// `name`, `uid` and `resourceVersion` of `meta/v1.ObjectMeta`.
const METADATA: [u32; 3] = [1, 5, 6];
/// `managedFields` of it.
const MANAGED_FIELDS: u32 = 17;
/// `leaseDurationSeconds` and `renewTime` of `coordination/v1.LeaseSpec`.
const SPEC: [u32; 2] = [2, 4];
/// `time` and `fieldsV1` of `meta/v1.ManagedFieldsEntry`.
const MANAGER: [u32; 2] = [4, 7];
/// `Raw` of `meta/v1.FieldsV1`.
const RAW: [u32; 1] = [1];
/// `seconds` and `nanos` of `meta/v1.Time` and `meta/v1.MicroTime`.
const TIME: [u32; 2] = [1, 2];

/// A lease of a node, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name, which is the node's.
    pub name: Box<str>,
    /// Another UID is another lease: what was seen of the old one says nothing about it.
    pub uid: Uid,
    /// Orders two states of this lease.
    pub resource_version: u64,
    /// Time that the node wrote, by its own clock. `None` if absent or malformed, and also where UID or
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

/// Digest of an object's `metadata.uid`, in little room: one of each node is kept. Another object that had the same
/// name before has another digest.
///
/// Two texts have the same digest only if somebody chooses them so. That would be the API server, which could as well
/// give one UID twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uid(u64);

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        Self(hasher.finish())
    }
}

impl Item for Lease {
    const LIST: &'static str = "LeaseList";
    const TARGET: Target = Target::Leases;
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    const MAX_BYTES: usize = MAX_LEASES_BYTES;

    fn read(message: &[u8]) -> Result<Self, Malformed> {
        let [metadata, spec] = fields(message, LEASE)?;
        let metadata = metadata.bytes()?;
        let [name, uid, version] = fields(metadata, METADATA)?;
        let (uid, version) = (uid.text()?, version.text()?.parse().ok());
        let [duration, renewed] = fields(spec.bytes()?, SPEC)?;
        let renewed = timestamp(renewed.bytes()?)?.map(|time| RenewTime(time.as_microsecond()));
        let seconds = i32::try_from(duration.number()?).ok();
        Ok(Self {
            name: name_of(name)?,
            uid: uid.into(),
            resource_version: version.unwrap_or_default(),
            renew_time: renewed.filter(|_| version.is_some() && !uid.is_empty()),
            stamp: stamp(metadata)?,
            duration_seconds: seconds.filter(|seconds| *seconds > 0),
        })
    }
}

/// The stamp that the managers of a lease leave. The earliest owner counts: a second manager that
/// applies the same value comes to own the field without renewing anything.
fn stamp(metadata: &[u8]) -> Result<Option<i64>, Malformed> {
    let mut earliest = None;
    for manager in repeated(metadata, MANAGED_FIELDS) {
        let [since, owned] = fields(manager?, MANAGER)?;
        let [owned] = fields(owned.bytes()?, RAW)?;
        match (owns_renew_time(owned.bytes()?), timestamp(since.bytes()?)?) {
            (Some(false), _) => {}
            (Some(true), Some(since)) => {
                let since = since.as_second();
                earliest = Some(earliest.map_or(since, |earliest: i64| earliest.min(since)));
            }
            // It may own the field, and have done so first.
            _ => return Ok(None),
        }
    }
    Ok(earliest)
}

/// End of what a kubelet owns of its lease, as API servers write it: sorted, and without a blank.
///
/// In JSON, `f:spec` is a key of the outermost object then: three braces close the value of
/// `f:renewTime`, `f:spec` and that object, and behind a comma the first quote begins a text.
const OF_KUBELET: &[u8] =
    br#","f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}"#;

/// Fields that a manager owns, as far as they matter.
#[derive(Deserialize)]
struct Owned {
    #[serde(rename = "f:spec")]
    spec: Option<OwnedSpec>,
}

#[derive(Deserialize)]
struct OwnedSpec {
    #[serde(rename = "f:renewTime")]
    renew_time: Option<IgnoredAny>,
}

/// Returns whether a manager's fields, which are JSON in protobuf, too, have the renewTime; `None` if it cannot be
/// told.
fn owns_renew_time(owned: &[u8]) -> Option<bool> {
    // To parse these of each lease costs as much as all else that is done to decode it.
    if owned.ends_with(OF_KUBELET) {
        return Some(true);
    }
    if owned.is_empty() {
        return Some(false);
    }
    let owned: Owned = serde_json::from_slice(owned).ok()?;
    Some(owned.spec.is_some_and(|it| it.renew_time.is_some()))
}

/// A time; `None` if it is absent, which an empty message is too, or beyond the years that can be told.
fn timestamp(message: &[u8]) -> Result<Option<Timestamp>, Malformed> {
    let [seconds, nanos] = fields(message, TIME)?;
    let (seconds, nanos) = (seconds.number()?, i32::try_from(nanos.number()?).ok());
    let nanos = nanos.filter(|_| !message.is_empty());
    Ok(nanos.and_then(|nanos| Timestamp::new(seconds, nanos).ok()))
}
