//! Kubernetes' protobuf, as far as lists of leases and nodes need it.
//!
//! A reader of its own rather than generated messages: it borrows from the body and steps over what is
//! not asked for, which is nearly all of it. Nothing recurses, so that no nesting is too deep; and a body
//! that is not whole is refused as a whole. Field numbers are those of the `generated.proto` of
//! `k8s.io/api` and `k8s.io/apimachinery`, which never change.

/// Beginning of each body; no JSON begins so.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// `typeMeta` of `runtime.Unknown`, in which everything is wrapped.
pub(super) const TYPE_META: u32 = 1;
/// `raw` of it: the object.
pub(super) const RAW: u32 = 2;
/// `kind` of `runtime.TypeMeta`.
pub(super) const KIND: u32 = 2;
/// `message` of `meta/v1.Status`.
const STATUS_MESSAGE: [u32; 1] = [3];

/// Error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no whole protobuf ({0})")]
pub struct Malformed(pub(super) &'static str);

/// A message that ends too early.
pub(super) const CUT_OFF: Malformed = Malformed("cut off");
/// A field that holds something else than it should.
const ANOTHER_TYPE: Malformed = Malformed("a field of another type");

/// Content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// The field is absent, which means the same as zero or nothing; or it is too long to be read.
    Absent,
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
            Self::Absent => Ok(&[]),
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) | Self::Fixed => Err(ANOTHER_TYPE),
        }
    }

    /// A text by which objects are told apart, of which the API server has seen to it that it is one.
    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.bytes()?).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    /// An `int32` or `int64`, of which a negative one is sent as its two's complement.
    pub(super) fn number(self) -> Result<i64, Malformed> {
        match self {
            Self::Absent => Ok(0),
            Self::Number(number) => Ok(number.cast_signed()),
            Self::Bytes(_) | Self::Fixed => Err(ANOTHER_TYPE),
        }
    }
}

/// The fields of a message, as they come. Nothing of what follows an error counts.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    // Half a million of them are read each second: what is made of one stays in registers so.
    #[inline(always)]
    pub(super) fn field(&mut self) -> Result<(u32, Value<'a>), Malformed> {
        let (field, value, length) = self.header()?;
        let content = self.take(length)?;
        match value {
            Value::Bytes(_) => Ok((field, Value::Bytes(content))),
            value => Ok((field, value)),
        }
    }

    /// Takes the beginning of a field: its number, its value but for the content, and the length of that.
    #[inline(always)]
    pub(super) fn header(&mut self) -> Result<(u32, Value<'static>, usize), Malformed> {
        let tag = self.number()?;
        let field = u32::try_from(tag >> 3).map_err(|_| Malformed("a field without a number"))?;
        let (value, length) = match tag & 7 {
            0 => (Value::Number(self.number()?), 0),
            1 => (Value::Fixed, 8),
            2 => (Value::Bytes(&[]), self.number()?),
            5 => (Value::Fixed, 4),
            _ => return Err(Malformed("a field of no known type")),
        };
        Ok((field, value, usize::try_from(length).unwrap_or(usize::MAX)))
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

/// The fields of a message with these numbers; of several with one number the last, which counts.
#[inline(always)]
pub(super) fn fields<const N: usize>(
    message: &[u8],
    numbers: [u32; N],
) -> Result<[Value<'_>; N], Malformed> {
    let mut found = [Value::Absent; N];
    let mut rest = Fields(message);
    while !rest.0.is_empty() {
        let (number, value) = rest.field()?;
        for (found, wanted) in found.iter_mut().zip(numbers) {
            if wanted == number {
                *found = value;
            }
        }
    }
    Ok(found)
}

/// Returns the message of a `Status`, if this is one.
pub(super) fn status_message(body: &[u8]) -> Option<&str> {
    let wrapped = body.strip_prefix(MAGIC)?;
    let [kind, status] = fields(wrapped, [TYPE_META, RAW]).ok()?;
    let [kind] = fields(kind.bytes().ok()?, [KIND]).ok()?;
    let [message] = fields(status.bytes().ok()?, STATUS_MESSAGE).ok()?;
    message
        .text()
        .ok()
        .filter(|_| kind == Value::Bytes(b"Status"))
}
