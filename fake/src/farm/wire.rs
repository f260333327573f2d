//! Messages of protobuf. The numbers of the fields are those of `generated.proto` in k8s.io/api and
//! k8s.io/apimachinery v0.36.
//!
//! kube-apiserver writes a field that is no pointer in Go even when it is empty; so does this, so that a body is
//! as long as a real one.

use super::clock::Micros;

/// How this encoding is asked for, and told.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What a body in this encoding begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A message, field by field.
#[derive(Clone, Default)]
pub struct Message(Vec<u8>);

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Message {
    /// Adds a number.
    pub fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    /// Adds a text, or a message.
    pub fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds a map of texts.
    pub fn map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        field: u64,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let entry = |(key, value)| Self::default().bytes(1, key).bytes(2, value);
        self.all(field, entries.into_iter().map(entry))
    }

    /// Adds a repeated field.
    pub fn all<T: AsRef<[u8]>>(self, field: u64, values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter();
        values
            .by_ref()
            .fold(self, |it, value| it.bytes(field, value))
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // Its lowest seven bits.
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A list in its envelope.
pub(super) fn list(version: &str, kind: &str, revision: u64, items: Vec<Message>) -> Vec<u8> {
    let metadata = Message::default();
    let metadata = metadata
        .bytes(1, "")
        .bytes(2, revision.to_string())
        .bytes(3, "");
    let list = Message::default().bytes(1, metadata).all(2, items);
    wrapped(version, kind, list)
}

/// A message of a kind in its envelope.
pub fn wrapped(version: &str, kind: &str, message: impl AsRef<[u8]>) -> Vec<u8> {
    let of = Message::default().bytes(1, version).bytes(2, kind);
    let envelope = Message(MAGIC.to_vec()).bytes(1, of).bytes(2, message);
    envelope.bytes(3, "").bytes(4, "").0
}

/// The beginning of a list of this kind of which so many bytes are still to come: in the list itself, or in the last of
/// these fields, each of which is within the one before and begins with this message.
pub fn begun(kind: &str, path: &[(u64, Message)], more: u64) -> Vec<u8> {
    let meta = Message::default().bytes(1, Message::default().bytes(2, "7"));
    let mut within = Message::default();
    // From the inside out, since each has the length of all that is within it.
    for (field, begin) in path.iter().rev().chain([&(2, meta)]) {
        let mut outer = Message::default();
        outer.varint(field << 3 | 2);
        outer.varint((begin.0.len() + within.0.len()) as u64 + more);
        outer.0.extend([&begin.0[..], &within.0].concat());
        within = outer;
    }
    let of = Message::default().bytes(1, "v1").bytes(2, kind);
    let envelope = Message(MAGIC.to_vec()).bytes(1, of);
    [envelope.0, within.0].concat()
}

/// `Time` and `MicroTime` alike.
pub(super) fn time(moment: Micros) -> Message {
    let seconds = moment.div_euclid(1_000_000);
    let nanos = moment.rem_euclid(1_000_000) * 1000;
    Message::default()
        .number(1, seconds as u64)
        .number(2, nanos as u64)
}

/// Metadata without labels, annotations, owners and managers.
pub(super) fn metadata(name: &str, namespace: &str, uid: &str, revision: u64) -> Message {
    /// The `creationTimestamp` of everything.
    const CREATED: Micros = 1_767_225_600_000_000;
    let named = Message::default().bytes(1, name).bytes(2, "");
    let identified = named.bytes(3, namespace).bytes(4, "").bytes(5, uid);
    let versioned = identified.bytes(6, revision.to_string()).number(7, 0);
    versioned.bytes(8, time(CREATED))
}

/// An entry of `managedFields`, by the fields that the manager owns as JSON.
pub(super) fn manager(name: &str, version: &str, at: Micros, owned: &str, sub: &str) -> Message {
    // In whole seconds, as all times but renewTime.
    let at = at - at.rem_euclid(1_000_000);
    let written = Message::default().bytes(1, name).bytes(2, "Update");
    let written = written.bytes(3, version).bytes(4, time(at));
    let owned = Message::default().bytes(1, owned);
    written.bytes(6, "FieldsV1").bytes(7, owned).bytes(8, sub)
}
