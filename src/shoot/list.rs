//! Decoding a list of Kubernetes objects from JSON in one pass, into borrowed fields; for protobuf, see
//! [`wire`](super::wire).
//!
//! The envelope is strict: another kind, a page instead of the whole, or a list that cannot be
//! ordered is an error, since a list taken for another would be false evidence. Inside an item a
//! value of the wrong type reads as absent, so that one malformed object never hides the others.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::util::text::clean;

/// The most items of a list: twice the 5,000 nodes that Kubernetes supports, for leases that outlive
/// their nodes while all of these are replaced. An item can be as short as three bytes, of which
/// something far larger is made; and something of each lease is kept for as long as its cluster is
/// probed.
pub const MAX_ITEMS: usize = 10_000;

/// The longest name of an object, in bytes: no API server takes a longer one.
pub const MAX_NAME_BYTES: usize = 253;

/// Why a body is not the list that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON at all, or cut off.
    #[error("not whole JSON ({problem})")]
    Json {
        /// What the parser met, and where; bounded and printable.
        problem: String,
    },
    /// Protobuf by its first bytes, but cut off or something else.
    #[error("not whole protobuf ({problem})")]
    Protobuf {
        /// What the reader met.
        problem: &'static str,
    },
    /// Something else.
    #[error("kind {got:?} instead of {expected}")]
    Kind {
        /// The kind that was asked for.
        expected: &'static str,
        /// The kind that came, bounded and printable; empty if there was none.
        got: String,
    },
    /// The list has no items, not even an empty array.
    #[error("a {expected} without items")]
    NoItems {
        /// The kind that was asked for.
        expected: &'static str,
    },
    /// The list's resourceVersion is absent or no number, so the list cannot be ordered.
    #[error("a {expected} whose resourceVersion is {got:?}, not a number")]
    ResourceVersion {
        /// The kind that was asked for.
        expected: &'static str,
        /// What stood there, bounded and printable.
        got: String,
    },
    /// More than [`MAX_ITEMS`].
    #[error("a {expected} of more than {MAX_ITEMS} items")]
    TooMany {
        /// The kind that was asked for.
        expected: &'static str,
    },
    /// An item whose name is longer than [`MAX_NAME_BYTES`].
    #[error("a {expected} with a name of more than {MAX_NAME_BYTES} bytes")]
    LongName {
        /// The kind that was asked for.
        expected: &'static str,
    },
    /// One page of a list, although none was asked for.
    #[error("only a part of a {expected}")]
    Partial {
        /// The kind that was asked for.
        expected: &'static str,
    },
}

/// Decodes the whole list of the given kind: its resourceVersion and its items.
pub(super) fn decode<'a, T>(
    body: &'a [u8],
    expected: &'static str,
) -> Result<(u64, Vec<T>), DecodeError>
where
    T: Deserialize<'a>,
{
    // Through `Object`, since a derived struct would also take an array, by position.
    let Object(envelope) =
        serde_json::from_slice::<Object<Envelope<'a, T>>>(body).map_err(|error| {
            DecodeError::Json {
                problem: clean(&error.to_string(), 80),
            }
        })?;
    let envelope = envelope.unwrap_or_default();
    let kind = envelope.kind.as_str().unwrap_or_default();
    if kind != expected {
        return Err(DecodeError::Kind {
            expected,
            got: clean(kind, 40),
        });
    }
    let meta = envelope.metadata.0.unwrap_or_default();
    // Whatever stands there but an empty text: more may follow.
    if meta.r#continue.is_some_and(|it| it.as_str() != Some("")) {
        return Err(DecodeError::Partial { expected });
    }
    let version = meta.resource_version.as_str().unwrap_or_default();
    let version = version.parse().map_err(|_| DecodeError::ResourceVersion {
        expected,
        got: clean(version, 40),
    })?;
    match envelope.items {
        List::Of(items) => Ok((version, items)),
        List::Absent => Err(DecodeError::NoItems { expected }),
        List::TooLong => Err(DecodeError::TooMany { expected }),
    }
}

/// The name of an item; `None` if it has none, so that it is no object's. Without an item whose name
/// nobody could have given it, the others would be a part taken for the whole: that list is refused.
pub(super) fn name_of(text: &str, expected: &'static str) -> Result<Option<Box<str>>, DecodeError> {
    match text.len() {
        0 => Ok(None),
        1..=MAX_NAME_BYTES => Ok(Some(text.into())),
        _ => Err(DecodeError::LongName { expected }),
    }
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Envelope<'a, T> {
    #[serde(borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    metadata: Object<ListMeta<'a>>,
    #[serde(default)]
    items: List<T>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta<'a> {
    #[serde(borrow, default)]
    resource_version: Text<'a>,
    #[serde(borrow, default)]
    r#continue: Option<Text<'a>>,
}

/// A string; `None` where anything else stands.
#[derive(Default)]
pub(super) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// A whole number; `None` where anything else stands.
#[derive(Default)]
pub(super) struct Number(pub(super) Option<i64>);

/// An object; `None` where anything else stands.
pub(super) struct Object<T>(pub(super) Option<T>);

/// The objects of an array (null is an empty one).
#[derive(Default)]
enum List<T> {
    Of(Vec<T>),
    /// Something else stands there.
    #[default]
    Absent,
    /// They are more than [`MAX_ITEMS`]. What comes behind these is passed over.
    TooLong,
}

/// What the objects of an array come to, each of which is dropped before the next is read: they can
/// be so many that to keep them takes many times what the body has.
pub(super) trait Fold<'de>: Default {
    /// What an item is read as.
    type Item: Deserialize<'de>;

    /// Takes the next one in.
    fn take(&mut self, item: Self::Item);
}

/// A [`Fold`] over an array; the default where anything else stands.
#[derive(Default)]
pub(super) struct Folded<T>(pub(super) T);

impl<T> Default for Envelope<'_, T> {
    fn default() -> Self {
        Self {
            kind: Text::default(),
            metadata: Object::default(),
            items: List::default(),
        }
    }
}

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// Values of the types that a visitor does not want read as absent.
macro_rules! absent {
    (scalar $($method:ident: $type:ty),*) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> {
            Ok(Default::default())
        })*
    };
    (unit) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Default::default())
        }
    };
    (map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Default::default())
        }
    };
    (seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Default::default())
        }
    };
}

fn any(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("any JSON value")
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                any(f)
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
            absent!(scalar visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64);
            absent!(unit);
            absent!(map);
            absent!(seq);
        }
        deserializer.deserialize_any(Visit)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                any(f)
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Number(Some(number)))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Number(i64::try_from(number).ok()))
            }
            absent!(scalar visit_bool: bool, visit_f64: f64, visit_str: &str);
            absent!(unit);
            absent!(map);
            absent!(seq);
        }
        deserializer.deserialize_any(Visit)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                any(f)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|object| Object(Some(object)))
            }
            absent!(scalar visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64,
                visit_str: &str);
            absent!(unit);
            absent!(seq);
        }
        deserializer.deserialize_any(Visit(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                any(f)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(Object(item)) = seq.next_element::<Object<T>>()? {
                    if item.is_some() && items.len() == MAX_ITEMS {
                        drop(items);
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        return Ok(List::TooLong);
                    }
                    items.extend(item);
                }
                Ok(List::Of(items))
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(List::Of(Vec::new()))
            }
            absent!(scalar visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64,
                visit_str: &str);
            absent!(map);
        }
        deserializer.deserialize_any(Visit(PhantomData))
    }
}

impl<'de, T: Fold<'de>> Deserialize<'de> for Folded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Fold<'de>> Visitor<'de> for Visit<T> {
            type Value = Folded<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                any(f)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut folded = T::default();
                while let Some(Object(item)) = seq.next_element::<Object<T::Item>>()? {
                    if let Some(item) = item {
                        folded.take(item);
                    }
                }
                Ok(Folded(folded))
            }
            absent!(scalar visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64,
                visit_str: &str);
            absent!(unit);
            absent!(map);
        }
        deserializer.deserialize_any(Visit(PhantomData))
    }
}
