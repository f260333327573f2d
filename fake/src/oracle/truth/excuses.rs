//! What may keep the operator from meeting an outage, and for how long.

use super::Truth;
use crate::farm::{Micros, micros};
use std::{fmt, time::Duration};

/// From when it may judge until it may act: a read, a sign of writes, and one and a half renewal periods.
pub(super) const AFRESH: Duration = Duration::from_secs(12);
/// Until a client is connected to the seed again.
const CONNECTED: Duration = Duration::from_secs(5);
/// Until another leads: the duration of the Lease, a retry of who waits, and a start.
const TAKEOVER: Duration = Duration::from_secs(20);
/// Who has not renewed it for so long leads no more.
pub(super) const LEADERSHIP: Duration = Duration::from_secs(15);
/// A read of a shoot that was not suspect may hang for so long, whatever comes back meanwhile: the
/// policy's `probeTimeout`.
const HUNG: Duration = Duration::from_secs(30);

/// Why an outage need not be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    HeldBack,
    OtherGrace,
    NobodyLed,
    Frozen,
    SeedAway,
    Dead,
    OtherToken,
    LetGo,
    Disturbed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeldBack => "the policy was held back",
            Self::OtherGrace => "the policy got another grace",
            Self::NobodyLed => "nobody led",
            Self::Frozen => "the leader was frozen",
            Self::SeedAway => "the seed was away",
            Self::Dead => "the API server of the shoot was dead",
            Self::OtherToken => "the shoot got another token",
            Self::LetGo => "the shoot was let go",
            Self::Disturbed => "the clocks, the leases or the store of the shoot were changed",
        })
    }
}

/// A time in which a shoot need not be protected.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    pub reason: Reason,
    pub from: Micros,
    pub until: Micros,
}

impl Truth {
    /// All that excuses an outage of this shoot.
    pub fn excuses(&self, shoot: usize) -> Vec<Excuse> {
        let mut excuses: Vec<Excuse> = self
            .excused
            .iter()
            .filter(|(whose, _)| whose.is_none_or(|it| it == shoot))
            .map(|(_, excuse)| *excuse)
            .collect();
        for (at, change) in self.policies.iter().enumerate().skip(1) {
            let before = self.policies.get(at - 1).map_or(change.to, |it| it.to);
            let mut add = |reason, until| {
                let from = change.begun;
                excuses.push(Excuse {
                    reason,
                    from,
                    until,
                });
            };
            if !change.to.protects(shoot) {
                let next = self.policies.get(at + 1);
                add(Reason::HeldBack, next.map_or(Micros::MAX, |it| it.begun));
            } else if !before.protects(shoot) {
                add(Reason::HeldBack, change.done + micros(AFRESH));
            }
            if change.to.grace != before.grace {
                add(Reason::OtherGrace, change.done + micros(AFRESH));
            }
        }
        for (reason, changes, after) in [
            (Reason::Dead, &self.dead, HUNG + AFRESH),
            (Reason::LetGo, &self.let_go, super::SEEN + AFRESH),
            (Reason::Disturbed, &self.refused, AFRESH),
            (Reason::Disturbed, &self.unread, HUNG + AFRESH),
        ] {
            let changes = changes.get(&shoot).map(Vec::as_slice).unwrap_or_default();
            for (at, change) in changes.iter().enumerate().filter(|(_, it)| it.to) {
                let end = changes.get(at + 1).map(|it| it.done + micros(after));
                excuses.push(Excuse {
                    reason,
                    from: change.begun,
                    until: end.unwrap_or(Micros::MAX),
                });
            }
        }
        excuses
    }

    /// The one that led has ended, or is not heard, since then at the latest.
    pub fn nobody_led(&mut self, from: Micros, until: Micros) {
        let until = until + micros(TAKEOVER + AFRESH);
        self.excuse(None, Reason::NobodyLed, from, until);
    }

    /// The one that led noticed that it does not any more.
    pub fn deposed(&mut self, at: Micros) {
        self.nobody_led(at - micros(LEADERSHIP), at);
    }

    /// The one that leads was frozen, until somebody says so.
    pub(super) fn frozen(&mut self, from: Micros) {
        self.excuse(None, Reason::Frozen, from, Micros::MAX);
    }

    /// Whoever was frozen goes on.
    pub(super) fn thawed(&mut self, at: Micros) {
        let open = |it: &&mut Excuse| it.reason == Reason::Frozen && it.until == Micros::MAX;
        let all = self.excused.iter_mut().map(|(_, excuse)| excuse);
        for excuse in all.filter(open) {
            excuse.until = at + micros(AFRESH);
        }
    }

    /// The seed was away in between.
    pub(super) fn seed_away(&mut self, from: Micros, until: Micros) {
        self.excuse(None, Reason::SeedAway, from, until + micros(CONNECTED));
    }

    /// The token of a shoot was refused in between.
    pub(super) fn other_token(&mut self, shoot: usize, from: Micros, until: Micros) {
        let until = until + micros(super::SEEN + AFRESH);
        self.excuse(Some(shoot), Reason::OtherToken, from, until);
    }

    pub(super) fn excuse(
        &mut self,
        shoot: Option<usize>,
        reason: Reason,
        from: Micros,
        until: Micros,
    ) {
        let excuse = Excuse {
            reason,
            from,
            until,
        };
        self.excused.push((shoot, excuse));
    }
}
