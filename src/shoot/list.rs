//! Lists of objects in Kubernetes' protobuf, item by item as they come.
//!
//! Of the bytes of a list no more is in memory than the item that is coming, so that many large answers take little. The
//! envelope is strict: another kind, a page instead of the whole, or a list that cannot be ordered is an error, since a list taken
//! for another would be false evidence; so is one that is not whole. What was made of the items before an error is to be
//! dropped.

use std::mem;

use super::unread::Target;
use super::wire::{CUT_OFF, Fields, MAGIC, Malformed, kind_of, unknown};
use crate::util::text::clean;

/// The most items of a list: twice the 5,000 nodes that Kubernetes supports, for leases that outlive
/// their nodes while all of these are replaced. Something of each lease is kept for as long as its cluster
/// is probed.
pub const MAX_ITEMS: usize = 10_000;

/// The longest name of an object, in bytes: no API server takes a longer one.
pub const MAX_NAME_BYTES: usize = 253;

/// The longest item, in bytes: etcd takes 1.5 MiB.
pub const MAX_ITEM_BYTES: usize = 2 * 1024 * 1024;

/// Every list.
mod field {
    pub(super) const METADATA: u32 = 1;
    pub(super) const ITEMS: u32 = 2;
}
/// `meta/v1.ListMeta`.
mod list_meta {
    pub(super) const RESOURCE_VERSION: u32 = 2;
    pub(super) const CONTINUE: u32 = 3;
}

/// Why a body is not the list that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Larger than any list can be.
    #[error("{0}")]
    TooLarge(String),
    /// Not whole, of another kind, or in another encoding.
    #[error("{0}")]
    NoList(String),
}

impl DecodeError {
    fn long_item() -> Self {
        let problem = format!("an item of the answer is larger than {MAX_ITEM_BYTES} bytes");
        Self::TooLarge(problem)
    }
}

impl From<Malformed> for DecodeError {
    fn from(Malformed(problem): Malformed) -> Self {
        Self::NoList(format!("no whole protobuf ({problem})"))
    }
}

/// All objects of one kind at one resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    /// The list's own resourceVersion: etcd's revision if the read was consistent.
    pub resource_version: u64,
    /// The objects, in the server's order. One without a name is left out.
    pub items: Vec<T>,
}

impl<T: Item> List<T> {
    /// Decodes the body of a list in protobuf.
    ///
    /// # Errors
    ///
    /// If it is no whole, orderable list, or an object has a name that none can have.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut coming = Coming::new();
        coming.take(body)?;
        coming.end()
    }
}

/// An object of a list, read from its message.
pub trait Item: Sized {
    /// The kind of the list.
    const LIST: &'static str;
    /// The list, as messages name it.
    const TARGET: Target;
    /// The path of the list.
    const PATH: &'static str;
    /// The most bytes that the list may have.
    const MAX_BYTES: usize;

    /// Reads one; `None` if it has no name, so that it is no object's.
    fn read(message: &[u8]) -> Result<Option<Self>, DecodeError>;
}

/// The name of an item; `None` if it has none. Without an item whose name nobody could have given it, the others would
/// be a part taken for the whole: that list is refused.
pub(super) fn name_of(text: &str, expected: &'static str) -> Result<Option<Box<str>>, DecodeError> {
    match text.len() {
        0 => Ok(None),
        1..=MAX_NAME_BYTES => Ok(Some(text.into())),
        _ => Err(DecodeError::NoList(format!(
            "a {expected} with a name of more than {MAX_NAME_BYTES} bytes"
        ))),
    }
}

/// A list that is coming, in pieces of any length.
pub(super) struct Coming<T> {
    /// The beginning of what has not come whole.
    rest: Vec<u8>,
    place: Place,
    kind: String,
    version: String,
    is_part: bool,
    count: usize,
    items: Vec<T>,
}

/// Place of the next byte.
#[derive(Clone, Copy)]
enum Place {
    Magic,
    Envelope {
        /// The list has come.
        full: bool,
    },
    /// The list itself, of which so many bytes are left.
    List(usize),
}

impl<T: Item> Coming<T> {
    pub(super) fn new() -> Self {
        Self {
            rest: Vec::new(),
            place: Place::Magic,
            kind: String::new(),
            version: String::new(),
            is_part: false,
            count: 0,
            items: Vec::new(),
        }
    }

    /// Takes the next piece.
    pub(super) fn take(&mut self, piece: &[u8]) -> Result<(), DecodeError> {
        let mut rest = mem::take(&mut self.rest);
        rest.extend_from_slice(piece);
        let mut taken = 0;
        while let Some(length) = self.step(rest.get(taken..).unwrap_or_default())? {
            taken += length;
        }
        // Pieces may be of one byte: what has not come whole stays where it is.
        rest.drain(..taken);
        if rest.len() > MAX_ITEM_BYTES {
            return Err(DecodeError::long_item());
        }
        self.rest = rest;
        Ok(())
    }

    /// Ends the list.
    pub(super) fn end(self) -> Result<List<T>, DecodeError> {
        let is_whole = matches!(self.place, Place::Envelope { full: true }) && self.rest.is_empty();
        if !is_whole {
            return Err(CUT_OFF.into());
        }
        let refused = |problem: String| Err(DecodeError::NoList(problem));
        if self.is_part {
            return refused(format!("only a part of a {}", T::LIST));
        }
        match self.version.parse() {
            Ok(resource_version) => Ok(List {
                resource_version,
                items: self.items,
            }),
            Err(_) => refused(format!(
                "a {} whose resourceVersion is {:?}, not a number",
                T::LIST,
                clean(&self.version, 40)
            )),
        }
    }

    /// Takes what these bytes begin with, if all of it has come: how many bytes that is.
    fn step(&mut self, come: &[u8]) -> Result<Option<usize>, DecodeError> {
        match self.place {
            Place::Magic => {
                if !MAGIC.starts_with(come) && !come.starts_with(MAGIC) {
                    return Err(Malformed("another beginning").into());
                }
                let has_come = come.len() >= MAGIC.len();
                if has_come {
                    self.place = Place::Envelope { full: false };
                }
                Ok(has_come.then_some(MAGIC.len()))
            }
            Place::Envelope { full } => self.envelope(come, full),
            Place::List(0) => {
                self.place = Place::Envelope { full: true };
                Ok(Some(0))
            }
            Place::List(left) => {
                let Some((field, value, length)) = Fields::of(come).first()? else {
                    return Ok(None);
                };
                self.place = Place::List(left.checked_sub(length).ok_or(CUT_OFF)?);
                match field {
                    field::METADATA => self.metadata(value.bytes()?)?,
                    field::ITEMS => self.item(value.bytes()?)?,
                    _ => {}
                }
                Ok(Some(length))
            }
        }
    }

    fn envelope(&mut self, come: &[u8], full: bool) -> Result<Option<usize>, DecodeError> {
        if let Some((unknown::RAW, list, header)) = Fields::of(come).first_header()? {
            if full {
                return Err(Malformed("a second list").into());
            }
            if self.kind != T::LIST {
                let got = clean(&self.kind, 40);
                let problem = format!("kind {got:?} instead of {}", T::LIST);
                return Err(DecodeError::NoList(problem));
            }
            self.place = Place::List(list);
            return Ok(Some(header));
        }
        let Some((field, value, length)) = Fields::of(come).first()? else {
            return Ok(None);
        };
        match field {
            unknown::TYPE_META => self.kind = kind_of(value)?.to_owned(),
            unknown::CONTENT_ENCODING if !value.bytes()?.is_empty() => {
                return Err(Malformed("encoded once more").into());
            }
            _ => {}
        }
        Ok(Some(length))
    }

    fn metadata(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let mut fields = Fields::of(message);
        while let Some((field, value)) = fields.next()? {
            match field {
                list_meta::RESOURCE_VERSION => self.version = value.text()?.to_owned(),
                list_meta::CONTINUE => self.is_part |= !value.bytes()?.is_empty(),
                _ => {}
            }
        }
        Ok(())
    }

    fn item(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        self.count += 1;
        if self.count > MAX_ITEMS {
            return Err(DecodeError::TooLarge(format!(
                "the answer has more than {MAX_ITEMS} items, and Kubernetes takes 5000 nodes"
            )));
        }
        if message.len() > MAX_ITEM_BYTES {
            return Err(DecodeError::long_item());
        }
        self.items.extend(T::read(message)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fake::farm::{
        Kubelets, leases,
        wire::{Message, begun},
    };
    use proptest::prelude::*;

    use super::*;
    use crate::shoot::Lease;

    #[test]
    fn what_has_not_come_whole_stays_where_it_is() {
        let mut coming = Coming::<Lease>::new();
        coming
            .take(&begun("LeaseList", &[(2, Message::default())], 1 << 20))
            .unwrap();
        let mut places = std::collections::BTreeSet::new();
        for _ in 0..100_000 {
            coming.take(&[0]).unwrap();
            places.insert(coming.rest.as_ptr());
        }
        assert!(places.len() < 30, "{}", places.len());
    }

    proptest! {
        #[test]
        fn a_list_is_the_same_in_any_pieces(
            lengths in prop::collection::vec(1..700usize, 1..20),
            garbled in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let second = std::time::Duration::from_secs(1);
            let start = 1_800_000_000_000_000;
            let mut body = leases(0, &Kubelets::new(0, 7, 10 * second, start), 40, start);
            if let Some((at, byte)) = garbled {
                let at = at.index(body.len());
                body[at] = byte;
            }
            let mut coming = Coming::<Lease>::new();
            let mut left = &*body;
            let mut lengths = lengths.iter().cycle();
            let read = loop {
                let (piece, rest) = left.split_at((*lengths.next().unwrap()).min(left.len()));
                if let Err(error) = coming.take(piece) {
                    break Err(error);
                }
                left = rest;
                if left.is_empty() {
                    break coming.end();
                }
            };
            prop_assert_eq!(read, List::decode(&body));
        }
    }
}
