//! Which pods are watched.

use std::sync::Arc;

use super::selector::Selector;

/// A watch of pods. Two with the same scope and selector are not the same if one was wanted anew
/// after it had not been: what it told is forgotten, so it has to list again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodWatch {
    /// Counts the watches.
    serial: u64,
    /// The namespace; all, if `None`.
    pub namespace: Option<Arc<str>>,
    /// The pods.
    pub selector: Arc<Selector>,
}
