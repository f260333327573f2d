//! What can go wrong.

use clap::ValueEnum;
use serde::Serialize;
use std::{fmt, time::Duration};

/// For how long what is away stays away.
const AWAY: Duration = Duration::from_secs(4);
/// For how long every watch is refused as too old.
const GONE: Duration = Duration::from_secs(2);
/// A moment, in which whatever is open is cut.
const CUT: Duration = Duration::from_millis(100);
/// The operator waits for a consistent list of leases no longer than this and expires them after
/// three of their periods; a list that is older than that would be no stale read but a lie.
const STALE_LEASES: Duration = Duration::from_secs(2);

/// One kind of fault. Each happens at a write of the operator to the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The operator is killed before the write is sent
    CrashBefore,
    /// The operator is killed after the write is committed, before it hears of it
    CrashAfter,
    /// The write is refused with 409
    Conflict,
    /// The write is refused with 500
    ServerError,
    /// The write is refused with 503
    Unavailable,
    /// The write is refused with 429 and Retry-After: 1
    TooMany,
    /// The connection ends before the write is sent
    Reset,
    /// The write is committed, and the connection ends without an answer
    Lost,
    /// The write is committed, and the answer never comes
    Hang,
    /// From the write on, reads of objects of the seed show what was read before it, for 4 s
    StaleReads,
    /// The operator is killed after the write is committed, and for 4 s its successor reads and
    /// lists what was there before it
    StaleStart,
    /// From the write on, lists of leases show what was read before it, for 2 s
    StaleLeases,
    /// Every watch of the seed is cut in the middle of an event
    WatchesCut,
    /// Every watch of the seed ends with 410 Gone, and so does each new one for 2 s
    WatchesGone,
    /// Watches of the seed tell nothing for 4 s
    WatchesLate,
    /// From the write on, every connection to the seed is cut, for 4 s
    SeedAway,
    /// From the write on, the seed answers nothing, for 4 s
    SeedSilent,
    /// The write is not sent, and nothing comes over any connection to the seed that is open then any
    /// more, which nobody says; new ones are served
    SeedConnectionsDead,
    /// From the write on, every connection to the shoot is cut, for 4 s
    ShootAway,
    /// From the write on, the shoot answers nothing, for 4 s
    ShootSilent,
    /// The operator is frozen for 4 s, and goes on where it was
    Frozen,
    /// The operator is asked to end, and started again
    Terminated,
    /// A second operator is started beside the first, without leader election
    SecondOperator,
    /// Another takes the Lease for 4 s; the operator, which lost it, stands for election again
    LeaderLost,
    /// The API server of the seed crashes and is started again
    SeedRestart,
    /// The etcd of the seed crashes and is started again
    EtcdRestart,
    /// The write is answered and lost, since the etcd of the seed is restored to what it was before it
    EtcdRestored,
}

/// When a fault does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// In the answer to the write itself.
    Answer,
    /// From the write on, for so long.
    While(Duration),
    /// By something that is done beside the write, which goes through.
    Beside,
}

impl Fault {
    /// Every kind.
    pub fn all() -> &'static [Self] {
        Self::value_variants()
    }

    /// When it does its work.
    pub fn course(self) -> Course {
        match self {
            Self::CrashBefore
            | Self::CrashAfter
            | Self::Conflict
            | Self::ServerError
            | Self::Unavailable
            | Self::TooMany
            | Self::Reset
            | Self::Lost
            | Self::Hang
            | Self::SeedConnectionsDead => Course::Answer,
            Self::StaleReads
            | Self::StaleStart
            | Self::WatchesLate
            | Self::SeedAway
            | Self::SeedSilent
            | Self::ShootAway
            | Self::ShootSilent => Course::While(AWAY),
            Self::StaleLeases => Course::While(STALE_LEASES),
            Self::WatchesCut => Course::While(CUT),
            Self::WatchesGone => Course::While(GONE),
            Self::Frozen
            | Self::Terminated
            | Self::SecondOperator
            | Self::LeaderLost
            | Self::SeedRestart
            | Self::EtcdRestart
            | Self::EtcdRestored => Course::Beside,
        }
    }

    /// Whether the operator may be sent an answer of this status to the write.
    pub fn allows(self, code: u16) -> bool {
        match self {
            Self::CrashBefore
            | Self::CrashAfter
            | Self::StaleStart
            | Self::Reset
            | Self::Lost
            | Self::Hang
            | Self::SeedConnectionsDead => false,
            Self::Conflict => code == 409,
            Self::ServerError => code == 500,
            Self::Unavailable => code == 503,
            Self::TooMany => code == 429,
            _ => true,
        }
    }

    /// Whether it is there to withhold the answer of a write that was committed.
    pub fn wants_a_commit(self) -> bool {
        matches!(
            self,
            Self::CrashAfter | Self::StaleStart | Self::Lost | Self::Hang
        )
    }

    /// Whether the operator takes part in an election.
    pub fn needs_election(self) -> bool {
        self == Self::LeaderLost
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_described() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/faults.md");
        let page = std::fs::read_to_string(path).unwrap();
        for fault in Fault::all() {
            assert!(page.contains(&format!("`{fault}`")), "{fault} is not there");
        }
    }
}
