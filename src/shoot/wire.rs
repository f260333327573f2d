//! Kubernetes' protobuf, as far as lists of leases and nodes need it.
//!
//! A reader of its own rather than generated messages: it borrows from the body and steps over what is
//! not asked for, which is nearly all of it. Nothing recurses, so that no nesting is too deep; and a body
//! that is not whole is refused as a whole. Field numbers are those of the `generated.proto` of
//! `k8s.io/api` and `k8s.io/apimachinery`, which never change.

/// Beginning of each body; no JSON begins so.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// `runtime.Unknown`, in which everything is wrapped.
pub(super) mod unknown {
    pub(in super::super) const TYPE_META: u32 = 1;
    pub(in super::super) const RAW: u32 = 2;
    pub(in super::super) const CONTENT_ENCODING: u32 = 3;
}
/// `kind` of `runtime.TypeMeta`.
const KIND: u32 = 2;
/// `message` of `meta/v1.Status`.
const STATUS_MESSAGE: u32 = 3;

/// `meta/v1.ObjectMeta`.
pub(super) mod meta {
    pub(in super::super) const NAME: u32 = 1;
    pub(in super::super) const UID: u32 = 5;
    pub(in super::super) const RESOURCE_VERSION: u32 = 6;
    pub(in super::super) const DELETION_TIMESTAMP: u32 = 9;
    pub(in super::super) const LABELS: u32 = 11;
    pub(in super::super) const ANNOTATIONS: u32 = 12;
    pub(in super::super) const MANAGED_FIELDS: u32 = 17;
}

/// Error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// A message that ends too early.
pub(super) const CUT_OFF: Malformed = Malformed("cut off");

/// Content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A whole number.
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
    /// Eight or four bytes, which nothing here is made of.
    Fixed,
}

impl<'a> Value<'a> {
    /// The bytes, or the message.
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(Malformed("a field of another type")),
        }
    }

    /// A text by which objects are told apart, of which the API server has seen to it that it is one.
    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    /// An `int32` or `int64`, of which a negative one is sent as its two's complement.
    pub(super) fn number(self) -> Result<i64, Malformed> {
        match self {
            Self::Number(number) => Ok(number.cast_signed()),
            Self::Bytes(_) | Self::Fixed => Err(Malformed("a field of another type")),
        }
    }
}

/// The fields of a message, as they come.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next one: its number, and what it holds.
    // Half a million of them are read each second: what is made of one stays in registers so.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (field, kind) = self.tag()?;
        let value = match kind {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.number()?;
                Value::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed("a field of no known type")),
        };
        Ok(Some((field, value)))
    }

    /// The first field, if all of it has come, and its length in bytes.
    pub(super) fn first(mut self) -> Result<Option<(u32, Value<'a>, usize)>, Malformed> {
        let come = self.0.len();
        match self.next() {
            Ok(Some((field, value))) => Ok(Some((field, value, come - self.0.len()))),
            Ok(None) | Err(CUT_OFF) => Ok(None),
            Err(malformed) => Err(malformed),
        }
    }

    /// The first field, if it is bytes whose length has come: its number, that length, and after how many bytes
    /// they begin.
    pub(super) fn first_header(mut self) -> Result<Option<(u32, usize, usize)>, Malformed> {
        let come = self.0.len();
        match self.tag().and_then(|tag| Ok((tag, self.number()?))) {
            Ok(((field, 2), length)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                Ok(Some((field, length, come - self.0.len())))
            }
            Ok(_) | Err(CUT_OFF) => Ok(None),
            Err(malformed) => Err(malformed),
        }
    }

    /// The number and the type of a field.
    #[inline(always)]
    fn tag(&mut self) -> Result<(u32, u64), Malformed> {
        let tag = self.number()?;
        let field = u32::try_from(tag >> 3).map_err(|_| Malformed("a field without a number"))?;
        Ok((field, tag & 7))
    }

    #[inline(always)]
    fn number(&mut self) -> Result<u64, Malformed> {
        // As nearly all do.
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(CUT_OFF)?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("a number of more than 64 bits"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(taken)
    }
}

/// An entry of a map of texts, which need not be UTF-8.
pub(super) fn entry(message: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value) = Default::default();
    let mut fields = Fields::of(message);
    while let Some((field, it)) = fields.next()? {
        match field {
            1 => key = it.bytes()?,
            2 => value = it.bytes()?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// The field with this number; of several the last, which counts.
pub(super) fn field(message: &[u8], number: u32) -> Result<Option<Value<'_>>, Malformed> {
    let (mut fields, mut found) = (Fields::of(message), None);
    while let Some((field, value)) = fields.next()? {
        if field == number {
            found = Some(value);
        }
    }
    Ok(found)
}

/// The kind that a `TypeMeta` names.
pub(super) fn kind_of<'a>(type_meta: Value<'a>) -> Result<&'a str, Malformed> {
    field(type_meta.bytes()?, KIND)?.map_or(Ok(""), Value::text)
}

/// Returns the message of a `Status`, if this is one.
pub(super) fn status_message(body: &[u8]) -> Option<&str> {
    let body = body.strip_prefix(MAGIC)?;
    let kind = kind_of(field(body, unknown::TYPE_META).ok()??).ok()?;
    let status = field(body, unknown::RAW).ok()??.bytes().ok()?;
    let message = field(status, STATUS_MESSAGE).ok()??.text().ok()?;
    (kind == "Status").then_some(message)
}
