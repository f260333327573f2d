//! The UID of an object, in as little room as it takes: one of each node is kept.

use std::hash::{DefaultHasher, Hasher as _};

/// Digest of an object's `metadata.uid`. Another object that had the same name before has another digest.
///
/// That two texts have the same digest takes somebody who chooses them, who is the API server, and
/// could as well give one UID twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uid(u64);

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        Self(hasher.finish())
    }
}
