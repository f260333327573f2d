//! The services whose slices are watched.

use std::{collections::BTreeSet, sync::Arc};

use crate::weeder::slice::SERVICE_LABEL;

/// The longest label selector that is sent, in bytes: on its way a longer request line may be
/// refused.
const MAX_SELECTOR: usize = 8 * 1024;

/// The services whose slices are watched.
///
/// Two are equal only if the watch need not be started anew: names that were dropped and taken up
/// again have been forgotten meanwhile.
#[derive(Clone, Debug, Default)]
pub struct ServiceNames {
    pub(super) names: Arc<BTreeSet<Arc<str>>>,
    pub(super) revision: u64,
}

impl ServiceNames {
    /// Whether there are none, so that nothing is to be watched.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.names.iter()
    }

    /// The label selector to watch their slices by. Where it would be too long it selects the slices
    /// of all services; those of others are passed over.
    pub fn label_selector(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(|name| &**name).collect();
        let selector = format!("{SERVICE_LABEL} in ({})", names.join(","));
        if selector.len() > MAX_SELECTOR {
            return SERVICE_LABEL.to_owned();
        }
        selector
    }
}

impl PartialEq for ServiceNames {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision
    }
}

impl Eq for ServiceNames {}
