//! What is worth telling: windows that open and close, and what is done to pods.

use std::{fmt, sync::Arc, time::Duration};

use crate::weeder::report::PodNews;

/// Something that has just happened.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// A window opened, or its time begins anew.
    Opened {
        /// The service in its namespace.
        pair: Pair,
        /// The policy.
        policy: Arc<str>,
        /// Why.
        why: Opening,
        /// For how long it is open from now on.
        lasts: Duration,
    },
    /// No window opened although the service was found ready: its slices do not say that it became so within
    /// the time that a window lasts.
    NoWindow {
        /// The service in its namespace.
        pair: Pair,
        /// The policy.
        policy: Arc<str>,
    },
    /// A window closed.
    Closed {
        /// The service in its namespace.
        pair: Pair,
        /// The policy.
        policy: Arc<str>,
        /// Why.
        why: Closing,
    },
    /// Something was done to a pod, or deliberately not.
    Pod {
        /// What, to which, and for whom.
        news: PodNews,
        /// For how long it has been seen looping.
        looped_for: Duration,
    },
}

/// A service in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name of the Service.
    pub service: Arc<str>,
}

/// Why a window opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Opening {
    /// The service has become ready.
    Recovered,
    /// The service was found ready when it was first looked at, for this policy, and became so recently.
    FoundReady,
    /// The service is ready as before, but its slices changed in a break of their watch, and say that it became
    /// ready recently.
    ChangedUnseen,
}

/// Why a window closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Closing {
    /// Its time is over.
    Elapsed,
    /// The service is not ready any more: what needs it would only fail again.
    NotReady,
    /// The policy does not ask for it any more: it is suspended, invalid, being deleted or gone, or
    /// does not cover the service in this namespace.
    Withdrawn,
    /// The namespace is being deleted, or gone.
    NamespaceGone,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.service)
    }
}

impl Opening {
    /// The reason in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Recovered => "Recovered",
            Self::FoundReady => "FoundReady",
            Self::ChangedUnseen => "ChangedUnseen",
        }
    }
}

impl Closing {
    /// The reason in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elapsed => "Elapsed",
            Self::NotReady => "NotReady",
            Self::Withdrawn => "Withdrawn",
            Self::NamespaceGone => "NamespaceGone",
        }
    }
}
