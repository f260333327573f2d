//! Leases out of protobuf.

use jiff::Timestamp;

use super::super::list::Object;
use super::super::wire::{Fields, Malformed, meta};
use super::{Lease, OwnedFields, RenewTime, Stamp};

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
pub(super) fn lease(message: &[u8]) -> Result<Option<Lease>, Malformed> {
    let (mut name, mut uid, mut version) = ("", "", "");
    let (mut renewed, mut duration, mut stamp) = (None, None, Stamp::default());
    let mut fields = Fields::of(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            lease::METADATA => {
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
            lease::SPEC => {
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
    if name.is_empty() {
        return Ok(None);
    }
    let version: Option<u64> = version.parse().ok();
    let renew_time = renewed.map(|time| RenewTime(time.as_microsecond()));
    Ok(Some(Lease {
        name: name.into(),
        uid: uid.into(),
        resource_version: version.unwrap_or_default(),
        renew_time: renew_time.filter(|_| version.is_some() && !uid.is_empty()),
        stamp: stamp.told(),
        duration_seconds: duration
            .and_then(|seconds| i32::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0),
    }))
}

impl Stamp {
    fn take_manager(&mut self, manager: &[u8]) -> Result<(), Malformed> {
        let (mut since, mut owns) = (None, false);
        let mut fields = Fields::of(manager);
        while let Some((field, value)) = fields.next()? {
            match field {
                manager::TIME => since = timestamp(value.bytes()?)?,
                manager::FIELDS_V1 => {
                    let mut fields = Fields::of(value.bytes()?);
                    while let Some((field, value)) = fields.next()? {
                        if field == RAW {
                            owns = owns_renew_time(value.bytes()?)?;
                        }
                    }
                }
                _ => {}
            }
        }
        if owns {
            self.owned_since(since.map(Timestamp::as_second));
        }
        Ok(())
    }
}

/// The fields of a manager are JSON in protobuf, too.
fn owns_renew_time(fields: &[u8]) -> Result<bool, Malformed> {
    let fields: Object<OwnedFields> = serde_json::from_slice(fields)
        .map_err(|_| Malformed("a manager whose fields are not JSON"))?;
    Ok(fields.0.is_some_and(|fields| fields.has_renew_time()))
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
