//! The ways in which the API server of a shoot is dead.

use serde::{Deserialize, Serialize};

/// What a client meets. Connections that are open already stay open and silent, except where
/// connections are refused: there they end, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Death {
    /// Nobody listens.
    Refuses,
    /// Nobody answers the first packet of a connection.
    Swallows,
    /// Connections are accepted, and nothing is said, so that TLS does not begin.
    SaysNothing,
    /// Requests are read, and not answered.
    AnswersNothing,
    /// The body of an answer comes byte by byte.
    Drips,
}

impl Death {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Refuses,
        Self::Swallows,
        Self::SaysNothing,
        Self::AnswersNothing,
        Self::Drips,
    ];
}
