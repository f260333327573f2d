//! Lists of objects in Kubernetes' protobuf, item by item as they come.
//!
//! Of the bytes of a list no more is in memory than the item that is coming, so that many large answers take little. The
//! envelope is strict: another kind, a page instead of the whole, or a list that cannot be ordered is an error, since a list taken
//! for another would be false evidence; so is one that is not whole. What was made of the items before an error is to be
//! dropped.

use bytes::{Buf as _, Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use tower::BoxError;

use super::unread::Target;
use super::wire::{
    CONTENT_ENCODING, CUT_OFF, Fields, KIND, MAGIC, Malformed, RAW, TYPE_META, Value, fields,
};
use crate::util::text::clean;

/// The most items of a list: twice the 5,000 nodes that Kubernetes supports, for leases that outlive
/// their nodes while all of these are replaced. Something of each lease is kept for as long as its cluster
/// is probed.
pub const MAX_ITEMS: usize = 10_000;

/// The longest name of an object, in bytes: no API server takes a longer one.
pub const MAX_NAME_BYTES: usize = 253;

/// The longest item, in bytes: etcd takes 1.5 MiB.
pub const MAX_ITEM_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of an answer that are shown if it is no list.
const START_BYTES: usize = 40;

/// `metadata` of every list.
const METADATA: u32 = 1;
/// `items` of every list.
const ITEMS: u32 = 2;
/// `resourceVersion` and `continue` of `meta/v1.ListMeta`.
const LIST_META: [u32; 2] = [2, 3];

/// All objects of one kind at one resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T> {
    /// The list's own resourceVersion: etcd's revision if the read was consistent.
    pub resource_version: u64,
    /// The objects, in the server's order.
    pub items: Vec<T>,
}

impl<T: Item> List<T> {
    /// Decodes the body of a list in protobuf.
    ///
    /// # Errors
    ///
    /// If it is no whole, orderable list, or an object has a name that none can have.
    pub fn decode(body: &[u8]) -> Result<Self, BoxError> {
        let body = Full::new(Bytes::copy_from_slice(body));
        let mut coming = Coming::of(body, T::MAX_BYTES);
        let list = coming.list().now_or_never();
        list.unwrap_or_else(|| Err(CUT_OFF.into()))
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

    /// Reads one.
    ///
    /// # Errors
    ///
    /// If it is not whole, or has a name that none can have. Without it the others would be a part taken for the whole:
    /// that list is refused.
    fn read(message: &[u8]) -> Result<Self, Malformed>;
}

/// Returns the name of an item.
pub(super) fn name_of(name: Value<'_>) -> Result<Box<str>, Malformed> {
    let name = name.text()?;
    match name.len() {
        1..=MAX_NAME_BYTES => Ok(name.into()),
        _ => Err(Malformed("an object without a name of 1 to 253 bytes")),
    }
}

/// A body that is coming, in pieces of any length.
pub(super) struct Coming<B> {
    body: B,
    /// The most bytes that it may have.
    limit: usize,
    /// Bytes that have come and are not read.
    come: BytesMut,
    /// All bytes that have come.
    pub(super) bytes: usize,
    /// The first of them.
    pub(super) start: Vec<u8>,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Coming<B> {
    pub(super) fn of(body: B, limit: usize) -> Self {
        Self {
            body,
            limit,
            come: BytesMut::new(),
            bytes: 0,
            start: Vec::new(),
        }
    }

    /// Reads the list of which the body consists.
    pub(super) async fn list<T: Item>(&mut self) -> Result<List<T>, BoxError> {
        if self.content(MAGIC.len()).await? != MAGIC {
            return Err(Malformed("another beginning").into());
        }
        let (mut kind, mut list) = (String::new(), None);
        while let Some((field, length)) = self.header().await? {
            match field {
                TYPE_META => {
                    let message = self.content(length).await?;
                    let [named] = fields(&message, KIND)?;
                    kind = named.text()?.to_owned();
                }
                RAW if list.is_some() => return Err(Malformed("a second list").into()),
                RAW if kind != T::LIST => {
                    let got = clean(&kind, 20);
                    return Err(format!("kind {got:?} instead of {}", T::LIST).into());
                }
                RAW => list = Some(self.items(length).await?),
                CONTENT_ENCODING if length > 0 => {
                    return Err(Malformed("encoded once more").into());
                }
                _ => drop(self.content(length).await?),
            }
        }
        list.ok_or(CUT_OFF.into())
    }

    /// Reads the list itself, which takes so many bytes.
    async fn items<T: Item>(&mut self, length: usize) -> Result<List<T>, BoxError> {
        let (mut items, mut version, mut is_part) = (Vec::new(), String::new(), false);
        let end = self.place().saturating_add(length);
        while self.place() < end {
            let (field, length) = self.header().await?.ok_or(CUT_OFF)?;
            let message = self.content(length).await?;
            match field {
                METADATA => {
                    let [resource_version, more] = fields(&message, LIST_META)?;
                    version = resource_version.text()?.to_owned();
                    is_part |= !more.bytes()?.is_empty();
                }
                ITEMS if items.len() == MAX_ITEMS => {
                    return Err(format!("more than {MAX_ITEMS} items").into());
                }
                ITEMS => items.push(T::read(&message)?),
                _ => {}
            }
        }
        if self.place() > end {
            return Err(CUT_OFF.into());
        }
        if is_part {
            return Err(format!("only a part of a {}", T::LIST).into());
        }
        match version.parse() {
            Ok(resource_version) => Ok(List {
                resource_version,
                items,
            }),
            Err(_) => {
                let got = clean(&version, 20);
                Err(format!("a list with resourceVersion {got:?} instead of a number").into())
            }
        }
    }

    /// Place of the next byte that is read.
    fn place(&self) -> usize {
        self.bytes - self.come.len()
    }

    /// Waits for the beginning of a field: its number, and how many bytes it has; `None` at the end.
    async fn header(&mut self) -> Result<Option<(u32, usize)>, BoxError> {
        loop {
            let mut fields = Fields(&self.come);
            match fields.header() {
                Err(CUT_OFF) => {}
                header => {
                    let header = header?;
                    let length = self.come.len() - fields.0.len();
                    self.come.advance(length);
                    return Ok(Some(header));
                }
            }
            match self.more().await? {
                true => {}
                false if self.come.is_empty() => return Ok(None),
                false => return Err(CUT_OFF.into()),
            }
        }
    }

    /// Waits for so many bytes.
    async fn content(&mut self, length: usize) -> Result<BytesMut, BoxError> {
        if length > MAX_ITEM_BYTES {
            return Err(format!("an item larger than {MAX_ITEM_BYTES} bytes").into());
        }
        while self.come.len() < length {
            if !self.more().await? {
                return Err(CUT_OFF.into());
            }
        }
        Ok(self.come.split_to(length))
    }

    /// Waits for the next piece; `false` if there is none.
    async fn more(&mut self) -> Result<bool, BoxError> {
        let Some(frame) = self.body.frame().await else {
            return Ok(false);
        };
        // Trailers are of no use.
        let data = frame.map_err(Into::into)?.into_data().unwrap_or_default();
        self.bytes += data.len();
        if self.bytes > self.limit {
            return Err(format!("an answer larger than {} bytes", self.limit).into());
        }
        let missing = START_BYTES - self.start.len();
        self.start.extend(data.iter().take(missing));
        self.come.extend_from_slice(&data);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use fake::farm::{
        Kubelets, leases,
        wire::{Message, begun},
    };
    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use proptest::prelude::*;

    use super::*;
    use crate::shoot::Lease;

    fn in_pieces(pieces: Vec<Bytes>) -> Coming<impl Body<Data = Bytes, Error = BoxError> + Unpin> {
        let frames = stream::iter(pieces).map(|piece| Ok(Frame::data(piece)));
        Coming::of(StreamBody::new(frames), Lease::MAX_BYTES)
    }

    #[test]
    fn what_has_not_come_whole_stays_where_it_is() {
        let begun = begun("LeaseList", &[(2, Message::default())], 1 << 20);
        let mut pieces = vec![Bytes::from_static(&[0]); 100_000];
        pieces.insert(0, begun.into());
        let mut coming = in_pieces(pieces);
        let mut places = std::collections::BTreeSet::new();
        while coming.more().now_or_never().unwrap().unwrap() {
            places.insert(coming.come.as_ptr());
        }
        assert!(places.len() < 30, "{}", places.len());
        let list = coming.list::<Lease>().now_or_never().unwrap();
        assert!(list.unwrap_err().to_string().contains("cut off"));
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
            let (mut left, mut pieces) = (Bytes::from(body.clone()), Vec::new());
            for length in lengths.iter().cycle() {
                if left.is_empty() {
                    break;
                }
                pieces.push(left.split_to((*length).min(left.len())));
            }
            let list = in_pieces(pieces).list::<Lease>().now_or_never().unwrap();
            let told = |list: Result<List<Lease>, BoxError>| list.map_err(|it| it.to_string());
            prop_assert_eq!(told(list), told(List::decode(&body)));
        }
    }
}
