//! The slim view of the leases that kubelets renew in `kube-node-lease`.
//!
//! Only what tells a lease's age is decoded, straight from the bytes: at 100 nodes a shoot and
//! 1,000 shoots, building whole objects would cost more than everything else the operator does.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::list::{self, DecodeError, Item};
use super::read::MAX_LEASES_BYTES;
use super::uid::Uid;
use super::unread::Target;
use super::wire::{self, Fields, Malformed, meta};

/// `coordination/v1.Lease`.
mod field {
    pub(super) const METADATA: u32 = 1;
    pub(super) const SPEC: u32 = 2;
}
/// `coordination/v1.LeaseSpec`.
mod spec {
    pub(super) const LEASE_DURATION_SECONDS: u32 = 2;
    pub(super) const RENEW_TIME: u32 = 4;
}
/// `meta/v1.ManagedFieldsEntry`.
mod manager {
    pub(super) const TIME: u32 = 4;
    pub(super) const FIELDS_V1: u32 = 7;
}
/// `Raw` of `meta/v1.FieldsV1`.
const RAW: u32 = 1;
/// `meta/v1.Time` and `meta/v1.MicroTime`.
mod time {
    pub(super) const SECONDS: u32 = 1;
    pub(super) const NANOS: u32 = 2;
}

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

impl Item for Lease {
    const LIST: &'static str = "LeaseList";
    const TARGET: Target = Target::Leases;
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    const MAX_BYTES: usize = MAX_LEASES_BYTES;

    fn read(message: &[u8]) -> Result<Option<Self>, DecodeError> {
        let (mut name, mut uid, mut version) = ("", "", "");
        let (mut renewed, mut duration, mut stamp) = (None, None, Stamp::default());
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                field::METADATA => {
                    let mut fields = Fields::of(value.bytes()?);
                    while let Some((field, value)) = fields.next()? {
                        match field {
                            meta::NAME => name = value.text()?,
                            meta::UID => uid = value.text()?,
                            meta::RESOURCE_VERSION => version = value.text()?,
                            meta::MANAGED_FIELDS => stamp.take_manager(value.bytes()?)?,
                            _ => {}
                        }
                    }
                }
                field::SPEC => {
                    let mut fields = Fields::of(value.bytes()?);
                    while let Some((field, value)) = fields.next()? {
                        match field {
                            spec::LEASE_DURATION_SECONDS => duration = Some(value.number()?),
                            spec::RENEW_TIME => renewed = timestamp(value.bytes()?)?,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let Some(name) = list::name_of(name, Self::LIST)? else {
            return Ok(None);
        };
        let version: Option<u64> = version.parse().ok();
        let renewed = renewed.map(|time| RenewTime(time.as_microsecond()));
        let seconds = duration.and_then(|seconds| i32::try_from(seconds).ok());
        Ok(Some(Self {
            name,
            uid: uid.into(),
            resource_version: version.unwrap_or_default(),
            renew_time: renewed.filter(|_| version.is_some() && !uid.is_empty()),
            stamp: stamp.told(),
            duration_seconds: seconds.filter(|seconds| *seconds > 0),
        }))
    }
}

/// The stamp that the managers of a lease leave. The earliest owner counts: a second manager that
/// applies the same value comes to own the field without renewing anything.
#[derive(Default)]
struct Stamp {
    earliest: Option<i64>,
    /// An owner has no time that can be read, and might be the earliest.
    is_unreadable: bool,
}

impl Stamp {
    fn take_manager(&mut self, manager: &[u8]) -> Result<(), Malformed> {
        let (mut since, mut owns) = (None, Some(false));
        let mut fields = Fields::of(manager);
        while let Some((field, value)) = fields.next()? {
            match field {
                manager::TIME => since = timestamp(value.bytes()?)?,
                manager::FIELDS_V1 => {
                    if let Some(fields) = wire::field(value.bytes()?, RAW)? {
                        owns = owns_renew_time(fields.bytes()?);
                    }
                }
                _ => {}
            }
        }
        match (owns, since.map(Timestamp::as_second)) {
            (Some(false), _) => {}
            (Some(true), Some(since)) => {
                self.earliest = Some(self.earliest.map_or(since, |earliest| earliest.min(since)));
            }
            // It may own the field, and have done so first.
            _ => self.is_unreadable = true,
        }
        Ok(())
    }

    fn told(self) -> Option<i64> {
        self.earliest.filter(|_| !self.is_unreadable)
    }
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
fn owns_renew_time(fields: &[u8]) -> Option<bool> {
    // To parse these of each lease costs as much as all else that is done to decode it.
    if fields.ends_with(OF_KUBELET) {
        return Some(true);
    }
    let owned: Owned = serde_json::from_slice(fields).ok()?;
    Some(owned.spec.is_some_and(|it| it.renew_time.is_some()))
}

/// A time; `None` if it is absent, which an empty message is too, or beyond the years that can be told.
fn timestamp(message: &[u8]) -> Result<Option<Timestamp>, Malformed> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut fields = Fields::of(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            time::SECONDS => seconds = value.number()?,
            time::NANOS => nanos = value.number()?,
            _ => {}
        }
    }
    let nanos = i32::try_from(nanos).ok().filter(|_| !message.is_empty());
    Ok(nanos.and_then(|nanos| Timestamp::new(seconds, nanos).ok()))
}
