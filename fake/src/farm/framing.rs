//! A body in the pieces in which kube-apiserver sends it.

/// What is written is gathered until there is so much, and sent as a chunk then.
const BUFFER: usize = 2048;

/// A body that kube-apiserver has composed by several writes.
pub struct Body {
    /// As in the header `Content-Type`.
    pub content_type: &'static str,
    /// All of it, before it is cut into pieces.
    pub bytes: Vec<u8>,
    /// Where each write but the last ends.
    pub(super) writes: Vec<usize>,
}

impl Body {
    /// One that was written at once.
    pub(super) fn new(content_type: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            content_type,
            bytes,
            writes: Vec::new(),
        }
    }

    /// The chunks of a body that is sent in chunks; none of one that fits into the buffer.
    pub(super) fn chunks(&self) -> Vec<&[u8]> {
        let mut chunks = Vec::new();
        if self.bytes.len() <= BUFFER {
            return chunks;
        }
        let (mut sent, mut written) = (0, 0);
        for end in self.writes.iter().copied().chain([self.bytes.len()]) {
            while end - sent > BUFFER {
                // What meets an empty buffer and does not fit is not copied into it.
                let to = if written == sent { end } else { sent + BUFFER };
                chunks.extend(self.bytes.get(sent..to));
                sent = to;
                written = written.max(sent);
            }
            written = end;
        }
        chunks.extend(self.bytes.get(sent..).filter(|rest| !rest.is_empty()));
        chunks
    }
}
