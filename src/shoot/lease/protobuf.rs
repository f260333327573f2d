//! Leases out of protobuf.

use jiff::Timestamp;

use super::super::list::{DecodeError, Object};
use super::super::wire::{Fields, Malformed, meta};
use super::{Lease, OwnedFields, Said, Stamp};

/// `coordination/v1.Lease`.
mod lease {
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

/// One lease; `None` if it has no name.
pub(super) fn lease(message: &[u8]) -> Result<Option<Lease>, DecodeError> {
    let mut said = Said::default();
    let mut fields = Fields::of(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            lease::METADATA => {
                let mut fields = Fields::of(value.bytes()?);
                while let Some((field, value)) = fields.next()? {
                    match field {
                        meta::NAME => said.name = value.text()?,
                        meta::UID => said.uid = value.text()?,
                        meta::RESOURCE_VERSION => said.version = value.text()?,
                        meta::MANAGED_FIELDS => said.stamp.take_manager(value.bytes()?)?,
                        _ => {}
                    }
                }
            }
            lease::SPEC => {
                let mut fields = Fields::of(value.bytes()?);
                while let Some((field, value)) = fields.next()? {
                    match field {
                        spec::LEASE_DURATION_SECONDS => said.duration = Some(value.number()?),
                        spec::RENEW_TIME => said.renewed = timestamp(value.bytes()?)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    said.lease()
}

impl Stamp {
    fn take_manager(&mut self, manager: &[u8]) -> Result<(), Malformed> {
        let (mut since, mut owns) = (None, Some(false));
        let mut fields = Fields::of(manager);
        while let Some((field, value)) = fields.next()? {
            match field {
                manager::TIME => since = timestamp(value.bytes()?)?,
                manager::FIELDS_V1 => {
                    let mut fields = Fields::of(value.bytes()?);
                    while let Some((field, value)) = fields.next()? {
                        if field == RAW {
                            owns = owns_renew_time(value.bytes()?);
                        }
                    }
                }
                _ => {}
            }
        }
        match owns {
            Some(true) => self.owned_since(since.map(Timestamp::as_second)),
            Some(false) => {}
            // It may own the field, and have done so first.
            None => self.owned_since(None),
        }
        Ok(())
    }
}

/// How what a kubelet owns of its lease ends, as API servers write it: sorted, and without a blank.
///
/// In JSON, `f:spec` is a key of the outermost object then: three braces close the value of
/// `f:renewTime`, `f:spec` and that object, and behind a comma the first quote begins a text.
const OF_KUBELET: &[u8] =
    br#","f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}"#;

/// Whether what a manager owns, which is JSON in protobuf, too, has the renewTime; `None` if it cannot be
/// told.
fn owns_renew_time(fields: &[u8]) -> Option<bool> {
    // To parse these of each lease costs as much as all else that is done to decode it.
    if fields.ends_with(OF_KUBELET) {
        return Some(true);
    }
    let fields: Object<OwnedFields> = serde_json::from_slice(fields).ok()?;
    Some(fields.0.is_some_and(|fields| fields.has_renew_time()))
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
