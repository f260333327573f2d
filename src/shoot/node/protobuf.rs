//! Nodes out of protobuf.
//!
//! A kubelet may write what it likes into annotations and conditions of its own Node, and the API server
//! takes and sends it although it is no UTF-8. One Node must not make the list unreadable by that, so it
//! reads as it would in JSON.

use super::super::list::DecodeError;
use super::super::wire::{Fields, Malformed, entry, meta};
use super::{Conditions, EXCLUDE_DISRUPTION, NOT_MANAGED_BY_MCM, Node, Said, WORKER_POOL, ZONE};

/// `core/v1.Node`.
mod field {
    pub(super) const METADATA: u32 = 1;
    pub(super) const STATUS: u32 = 3;
}
/// `conditions` of `core/v1.NodeStatus`.
const CONDITIONS: u32 = 4;
/// `core/v1.NodeCondition`.
mod condition {
    pub(super) const TYPE: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const REASON: u32 = 5;
}

/// One node; `None` if it has no name.
pub(super) fn node(message: &[u8]) -> Result<Option<Node>, DecodeError> {
    let mut said = Said::default();
    let mut fields = Fields::of(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            field::METADATA => said.take_metadata(value.bytes()?)?,
            field::STATUS => {
                let mut fields = Fields::of(value.bytes()?);
                while let Some((field, value)) = fields.next()? {
                    if field == CONDITIONS {
                        said.conditions.take_message(value.bytes()?)?;
                    }
                }
            }
            _ => {}
        }
    }
    said.node()
}

impl<'a> Said<'a> {
    fn take_metadata(&mut self, message: &'a [u8]) -> Result<(), Malformed> {
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                meta::NAME => self.name = value.text()?,
                meta::LABELS => {
                    let (key, value) = entry(value.bytes()?)?;
                    if key == WORKER_POOL.as_bytes() {
                        self.worker_pool = String::from_utf8_lossy(value);
                    } else if key == ZONE.as_bytes() {
                        self.zone = String::from_utf8_lossy(value);
                    }
                    self.exclude_disruption |= key == EXCLUDE_DISRUPTION.as_bytes();
                }
                meta::ANNOTATIONS => {
                    let (key, _) = entry(value.bytes()?)?;
                    self.not_managed_by_mcm |= key == NOT_MANAGED_BY_MCM.as_bytes();
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Conditions {
    fn take_message(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut kind, mut status, mut reason) = Default::default();
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                condition::TYPE => kind = value.bytes()?,
                condition::STATUS => status = value.bytes()?,
                condition::REASON => reason = value.bytes()?,
                _ => {}
            }
        }
        let [kind, status, reason] = [kind, status, reason].map(String::from_utf8_lossy);
        self.add(&kind, &status, &reason);
        Ok(())
    }
}
