//! Lists of objects in Kubernetes' protobuf, item by item as they come.
//!
//! Only the field that is coming is in memory, so that many large answers take little. A field that nobody asks for is
//! not kept at all. The envelope is strict, since a list taken for another would be false evidence: another kind, a page,
//! a list that is cut off, or one that cannot be ordered is an error. Items that came before an error are to be dropped.

use bytes::{Buf as _, Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use tower::BoxError;

use super::unread::Target;
use super::wire::{CUT_OFF, Fields, KIND, MAGIC, Malformed, RAW, TYPE_META, Value};
use crate::util::text::clean;

/// The most items of a list: twice the 5,000 nodes that Kubernetes supports, for leases that outlive
/// their nodes while all of these are replaced. Something of each lease is kept for as long as its cluster
/// is probed.
pub const MAX_ITEMS: usize = 10_000;

/// The longest name of an object, in bytes: no API server takes a longer one.
pub const MAX_NAME_BYTES: usize = 253;

/// The longest field that is read, in bytes, with its number and length. All that are asked for have some hundred, but a
/// message for people.
pub const MAX_FIELD_BYTES: usize = 64 * 1024;

/// `metadata` of every list.
const METADATA: u32 = 1;
/// `items` of every list.
const ITEMS: u32 = 2;
/// `resourceVersion` and `continue` of `meta/v1.ListMeta`.
const RESOURCE_VERSION: u32 = 2;
const CONTINUE: u32 = 3;
/// `metadata.name` of every object.
pub(super) const NAME: (u32, u32) = (1, 1);

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
        let mut items = Vec::new();
        let version = coming.list(|item| items.push(item)).now_or_never();
        Ok(Self {
            resource_version: version.ok_or(CUT_OFF)??,
            items,
        })
    }
}

/// An object of a list, made of the fields of its parts: `metadata`, `spec` and `status`.
pub trait Item: Default {
    /// The kind of the list.
    const LIST: &'static str;
    /// The list, as messages name it.
    const TARGET: Target;
    /// The path of the list.
    const PATH: &'static str;
    /// The most bytes that the list may have.
    const MAX_BYTES: usize;

    /// Takes in a field, known by the numbers of its part and of itself. The value of one that is too long to be
    /// read is absent.
    ///
    /// # Errors
    ///
    /// If it is not whole. Without the item the others would be a part taken for the whole: that list is refused.
    fn take(&mut self, field: (u32, u32), value: Value<'_>) -> Result<(), Malformed>;

    /// Returns the object, of which all has come.
    #[must_use]
    fn whole(self) -> Self {
        self
    }
}

/// A body that is coming, in pieces of any length.
pub(super) struct Coming<B> {
    body: B,
    /// The most bytes that it may have.
    limit: usize,
    /// Bytes that have come and are not read.
    pub(super) come: BytesMut,
    /// All bytes that have come.
    pub(super) bytes: usize,
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Coming<B> {
    pub(super) fn of(body: B, limit: usize) -> Self {
        Self {
            body,
            limit,
            come: BytesMut::new(),
            bytes: 0,
        }
    }

    /// Reads the list of which the body consists: hands its items over, and returns its resourceVersion.
    pub(super) async fn list<T: Item>(&mut self, mut keep: impl FnMut(T)) -> Result<u64, BoxError> {
        self.wait(MAGIC.len()).await?;
        if !self.come.starts_with(MAGIC) {
            return Err(Malformed("another beginning").into());
        }
        self.come.advance(MAGIC.len());
        let (mut kind, mut version) = (String::new(), None);
        while let Some((field, end)) = self.header(usize::MAX).await? {
            match field {
                TYPE_META => {
                    let take = |field, value: Value<'_>| {
                        if field == KIND {
                            kind = value.text()?.to_owned();
                        }
                        Ok(())
                    };
                    self.fields(end, take).await?;
                }
                RAW if version.is_some() => return Err(Malformed("a second list").into()),
                RAW if kind != T::LIST => {
                    let got = clean(&kind, 20);
                    return Err(format!("kind {got:?} instead of {}", T::LIST).into());
                }
                RAW => version = Some(self.items(end, &mut keep).await?),
                _ => self.skip(end).await?,
            }
        }
        version.ok_or(CUT_OFF.into())
    }

    /// Reads the list itself, which ends there.
    async fn items<T: Item>(
        &mut self,
        end: usize,
        keep: &mut impl FnMut(T),
    ) -> Result<u64, BoxError> {
        let (mut items, mut version) = (0, None);
        while let Some((field, end)) = self.header(end).await? {
            match field {
                METADATA => {
                    let take = |field, value: Value<'_>| {
                        match field {
                            RESOURCE_VERSION => version = value.text()?.parse().ok(),
                            CONTINUE if value == Value::Bytes(b"") => {}
                            CONTINUE => return Err(Malformed("only a part of a list")),
                            _ => {}
                        }
                        Ok(())
                    };
                    self.fields(end, take).await?;
                }
                ITEMS if items == MAX_ITEMS => {
                    return Err(format!("more than {MAX_ITEMS} items").into());
                }
                ITEMS => {
                    keep(self.item(end).await?);
                    items += 1;
                }
                _ => self.skip(end).await?,
            }
        }
        version.ok_or("a list without a resourceVersion that is a number".into())
    }

    /// Reads an item, which ends there.
    async fn item<T: Item>(&mut self, end: usize) -> Result<T, BoxError> {
        let (mut item, mut is_named) = (T::default(), false);
        while let Some((part, end)) = self.header(end).await? {
            let take = |field, value: Value<'_>| {
                if (part, field) == NAME {
                    is_named = (1..=MAX_NAME_BYTES).contains(&value.bytes()?.len());
                }
                item.take((part, field), value)
            };
            // Its metadata, spec and status.
            match part {
                1..=3 => self.fields(end, take).await?,
                _ => self.skip(end).await?,
            }
        }
        let whole = is_named.then(|| item.whole());
        whole.ok_or(Malformed("an object without a name of 1 to 253 bytes").into())
    }

    /// Place of the next byte that is read.
    fn place(&self) -> usize {
        self.bytes - self.come.len()
    }

    /// Waits for the beginning of a field of what ends there: its number, and its own end; `None` if there is no more. A
    /// body may end anywhere.
    async fn header(&mut self, end: usize) -> Result<Option<(u32, usize)>, BoxError> {
        while self.place() < end {
            let mut fields = Fields(&self.come);
            match fields.header() {
                Err(CUT_OFF) => {}
                header => {
                    let (field, _, length) = header?;
                    self.come.advance(self.come.len() - fields.0.len());
                    let its_end = self.place().checked_add(length);
                    let its_end = its_end.filter(|it| *it <= end && *it < usize::MAX);
                    let its_end = its_end.ok_or(CUT_OFF)?;
                    return Ok(Some((field, its_end)));
                }
            }
            if !self.more().await? {
                let is_whole = end == usize::MAX && self.come.is_empty();
                return is_whole.then_some(None).ok_or(CUT_OFF.into());
            }
        }
        Ok(None)
    }

    /// Hands over the fields of a message, which ends there, as they come.
    async fn fields(
        &mut self,
        end: usize,
        mut take: impl FnMut(u32, Value<'_>) -> Result<(), Malformed>,
    ) -> Result<(), BoxError> {
        while self.place() < end {
            let come = self.come.len().min(end - self.place()).min(MAX_FIELD_BYTES);
            let mut fields = Fields(self.come.get(..come).unwrap_or_default());
            let mut left = come;
            while let Ok((field, value)) = fields.field() {
                take(field, value)?;
                left = fields.0.len();
            }
            self.come.advance(come - left);
            if left < come {
                continue;
            }
            // The next has not come whole, or is malformed.
            if self.come.len() < MAX_FIELD_BYTES {
                self.wait(self.come.len() + 1).await?;
            } else if let Some((field, its_end)) = self.header(end).await? {
                self.skip(its_end).await?;
                take(field, Value::Absent)?;
            }
        }
        Ok(())
    }

    /// Passes over what ends there.
    async fn skip(&mut self, end: usize) -> Result<(), BoxError> {
        while self.place() < end {
            self.wait(1).await?;
            let come = self.come.len().min(end - self.place());
            self.come.advance(come);
        }
        Ok(())
    }

    /// Waits until so many bytes are there.
    async fn wait(&mut self, length: usize) -> Result<(), BoxError> {
        while self.come.len() < length {
            if !self.more().await? {
                return Err(CUT_OFF.into());
            }
        }
        Ok(())
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
        self.come.extend_from_slice(&data);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use fake::farm::wire::{Message, begun};
    use fake::farm::{Kubelets, leases};
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
        let path = [2, 1, 17].map(|field| (field, Message::default()));
        let mut pieces = vec![Bytes::from_static(&[0]); 50_000];
        pieces.insert(0, begun("LeaseList", &path, 1 << 20).into());
        let mut coming = in_pieces(pieces);
        let mut places = std::collections::BTreeSet::new();
        while coming.more().now_or_never().unwrap().unwrap() {
            places.insert(coming.come.as_ptr());
        }
        assert!(places.len() < 30, "{}", places.len());
        let list = coming.list(|_: Lease| {}).now_or_never().unwrap();
        assert!(list.unwrap_err().to_string().contains("cut off"));
        // Nor if its length leads to the last number that there is.
        for short in 20..200 {
            let body = begun("LeaseList", &[], u64::MAX - short);
            assert!(List::<Lease>::decode(&body).is_err(), "{short}");
        }
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
            let mut lengths = lengths.into_iter().cycle();
            while let (false, Some(length)) = (left.is_empty(), lengths.next()) {
                pieces.push(left.split_to(length.min(left.len())));
            }
            let mut items = Vec::new();
            let version = in_pieces(pieces).list(|it| items.push(it)).now_or_never().unwrap();
            let list = version.map(|resource_version| List { resource_version, items });
            let told = |list: Result<List<Lease>, BoxError>| list.map_err(|it| it.to_string());
            prop_assert_eq!(told(list), told(List::decode(&body)));
        }
    }
}
