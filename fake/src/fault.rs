//! How requests go wrong.

use crate::store::Call;
use std::{fmt, time::Duration};

/// A fate of the requests that match.
pub struct Rule {
    /// Whether it is about a request.
    pub when: Box<dyn FnMut(&Call) -> bool + Send>,
    /// How many that match are spared first.
    pub skip: usize,
    /// How many it hits then.
    pub times: usize,
    /// What becomes of them.
    pub fate: Fate,
}

impl Rule {
    /// The fate of every request that matches.
    pub fn always(fate: Fate, when: impl FnMut(&Call) -> bool + Send + 'static) -> Self {
        Self {
            when: Box::new(when),
            skip: 0,
            times: usize::MAX,
            fate,
        }
    }

    /// The fate of the next request that matches.
    pub fn once(fate: Fate, when: impl FnMut(&Call) -> bool + Send + 'static) -> Self {
        Self {
            times: 1,
            ..Self::always(fate, when)
        }
    }

    /// The fate of a request, if this rule is about it.
    pub(crate) fn hit(&mut self, call: &Call) -> Option<Fate> {
        if self.times == 0 || !(self.when)(call) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.fate)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            skip, times, fate, ..
        } = self;
        write!(f, "{fate:?} for {times} after {skip}")
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// A status with this code instead of being carried out, and the seconds of `Retry-After`.
    Refuse(u16, Option<u32>),
    /// 403, as an API server says it of a right that is missing.
    Deny,
    /// A reset of the connection before it arrives.
    LostBefore,
    /// A reset of the connection once it is carried out.
    LostAfter,
    /// No answer ever.
    Hang {
        /// Whether it is carried out.
        committed: bool,
    },
    /// An answer so much later than it is carried out.
    Late(Duration),
    /// The loss of all connections of now, of which nobody is told; it does not arrive.
    DeadConnections,
    /// An answer that ends in the middle, once it is carried out.
    Truncated,
    /// 200 with a page for people instead of being carried out.
    Html,
    /// 200 with an object of another kind instead of being carried out.
    WrongKind,
    /// 404, as of a path that is not served.
    Unserved,
}

impl Fate {
    /// Whether the request is carried out.
    pub fn commits(self) -> bool {
        matches!(
            self,
            Self::LostAfter | Self::Hang { committed: true } | Self::Late(_) | Self::Truncated
        )
    }
}
