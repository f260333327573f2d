//! The slim view of the leases that kubelets renew in `kube-node-lease`.
//!
//! Only what tells a lease's age is decoded, straight from the bytes: at 100 nodes a shoot and
//! 1,000 shoots, building whole objects would cost more than everything else the operator does.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::list::{Item, NAME};
use super::unread::Target;
use super::wire::{Malformed, Value, fields};

/// `uid`, `resourceVersion` and `managedFields` of `meta/v1.ObjectMeta`.
const UID: (u32, u32) = (1, 5);
const VERSION: (u32, u32) = (1, 6);
const MANAGED_FIELDS: (u32, u32) = (1, 17);
/// `leaseDurationSeconds` and `renewTime` of `coordination/v1.LeaseSpec`.
const DURATION: (u32, u32) = (2, 2);
const RENEW_TIME: (u32, u32) = (2, 4);
/// `time` and `fieldsV1` of `meta/v1.ManagedFieldsEntry`.
const MANAGER: [u32; 2] = [4, 7];
/// `Raw` of `meta/v1.FieldsV1`.
const RAW: [u32; 1] = [1];
/// `seconds` and `nanos` of `meta/v1.Time` and `meta/v1.MicroTime`.
const TIME: [u32; 2] = [1, 2];

/// The stamp of a manager that may have owned the field at any time.
const EVER: i64 = i64::MIN;

/// A lease of a node, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// The name, which is the node's.
    pub name: Digest,
    /// Another UID is another lease: what was seen of the old one says nothing about it.
    pub uid: Digest,
    /// Orders two states of this lease.
    pub resource_version: u64,
    /// Time that the node wrote, by its own clock. `None` if absent or malformed, and also where the
    /// resourceVersion is, since such a lease cannot be compared with anything seen before.
    pub renew_time: Option<Timestamp>,
    /// When the API server saw `renewTime` change, by the server's clock in unix seconds: the
    /// earliest `time` among the managers that own the field. `None` if nobody owns it, or if the
    /// time of one that does cannot be read.
    pub stamp: Option<i64>,
    /// `spec.leaseDurationSeconds`, in seconds, if it is a number above zero.
    pub duration_seconds: Option<i32>,
}

/// Key of digests, drawn at random by each process.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Digest of an object's name or UID in this process, in little room: some of each node are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u64);

impl From<&str> for Digest {
    fn from(text: &str) -> Self {
        Self(KEY.hash_one(text))
    }
}

impl Item for Lease {
    const LIST: &'static str = "LeaseList";
    const TARGET: Target = Target("list the leases in kube-node-lease");
    const PATH: &'static str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    /// A lease takes about 860, so this is more than 19,000 nodes, several times what a cluster can have. A shoot's own
    /// administrator can make leases as large as etcd takes them.
    const MAX_BYTES: usize = 16 * 1024 * 1024;

    fn take(&mut self, field: (u32, u32), value: Value<'_>) -> Result<(), Malformed> {
        match field {
            NAME => self.name = value.text()?.into(),
            UID => self.uid = value.text()?.into(),
            VERSION => self.resource_version = value.text()?.parse().unwrap_or_default(),
            MANAGED_FIELDS => self.stamp = stamp(value)?.into_iter().chain(self.stamp).min(),
            DURATION => {
                let seconds = i32::try_from(value.number()?).ok();
                self.duration_seconds = seconds.filter(|seconds| *seconds > 0);
            }
            RENEW_TIME => self.renew_time = timestamp(value.bytes()?)?,
            _ => {}
        }
        Ok(())
    }

    fn whole(mut self) -> Self {
        self.renew_time = self.renew_time.filter(|_| self.resource_version > 0);
        self.stamp = self.stamp.filter(|stamp| *stamp != EVER);
        self
    }
}

/// The stamp of a manager of a lease, if it owns the renewTime. The earliest of them counts: a second manager that
/// applies the same value comes to own the field without renewing anything.
fn stamp(manager: Value<'_>) -> Result<Option<i64>, Malformed> {
    let [since, owned] = fields(manager.bytes()?, MANAGER)?;
    let [owned] = fields(owned.bytes()?, RAW)?;
    let owns = owns_renew_time(owned.bytes()?).filter(|_| manager != Value::Absent);
    Ok(match (owns, timestamp(since.bytes()?)?) {
        (Some(false), _) => None,
        (Some(true), Some(since)) => Some(since.as_second()),
        // It may own the field, and have done so first.
        _ => Some(EVER),
    })
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
