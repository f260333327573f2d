//! Nodes out of protobuf.

use super::super::wire::{Fields, Malformed, entry, meta};
use super::{MAX_CONDITIONS, NOT_MANAGED_BY_MCM, Node, WORKER_POOL, ZONE, is_in_place_update};

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
pub(super) fn node(message: &[u8]) -> Result<Option<Node>, Malformed> {
    let mut node = Node::default();
    let mut fields = Fields::of(message);
    while let Some((field, value)) = fields.next()? {
        match field {
            field::METADATA => node.take_metadata(value.bytes()?)?,
            field::STATUS => {
                let mut fields = Fields::of(value.bytes()?);
                while let Some((field, value)) = fields.next()? {
                    if field == CONDITIONS {
                        node.take_condition(value.bytes()?)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(Some(node).filter(|node| !node.name.is_empty()))
}

impl Node {
    fn take_metadata(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                meta::NAME => self.name = value.text()?.into(),
                meta::LABELS => match entry(value.bytes()?)? {
                    (_, "") => {}
                    (WORKER_POOL, pool) => self.worker_pool = Some(pool.into()),
                    (ZONE, zone) => self.zone = Some(zone.into()),
                    _ => {}
                },
                meta::ANNOTATIONS => {
                    let (key, _) = entry(value.bytes()?)?;
                    self.not_managed_by_mcm |= key == NOT_MANAGED_BY_MCM;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_condition(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let (mut kind, mut status, mut reason) = ("", "", "");
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                condition::TYPE => kind = value.text()?,
                condition::STATUS => status = value.text()?,
                condition::REASON => reason = value.text()?,
                _ => {}
            }
        }
        if status == "True" && !kind.is_empty() && self.true_conditions.len() < MAX_CONDITIONS {
            self.true_conditions.push(kind.into());
        }
        self.in_place_update |= is_in_place_update(kind, reason);
        Ok(())
    }
}
