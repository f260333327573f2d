//! The status of one policy: what is there, as far as is known, and when it is written.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    request::{WriteError, complain},
    schedule::Schedule,
};

/// A status is written at most this often.
const PAUSE: Duration = Duration::from_secs(5);
/// Whether one says anything new is looked at most this often.
const LOOK: Duration = Duration::from_secs(1);

/// The status of a policy.
pub(crate) struct Kept<S> {
    /// The status that is there, as far as is known.
    pub(crate) status: S,
    /// When it is written.
    pub(crate) schedule: Schedule,
    /// A write of it failed, and may have been carried out all the same; or one meant for a
    /// predecessor of the same name may have been carried out on it.
    unsure: bool,
}

impl<S> Kept<S> {
    /// Of a policy of which the watch tells for the first time; this is what an earlier run has
    /// left.
    pub(crate) fn new(status: S) -> Self {
        let mut schedule = Schedule::refreshed();
        schedule.hurry(Instant::now());
        Self {
            status,
            schedule,
            unsure: false,
        }
    }

    /// Whether it is written even if it says nothing new: it is not known what is there, or it is
    /// time to show that somebody keeps it.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.unsure || self.schedule.is_stale()
    }

    /// There is nothing to say.
    pub(crate) fn settle(&mut self) {
        self.schedule.settle(LOOK);
    }

    /// A write of what is known now begins.
    pub(crate) fn begin(&mut self) {
        self.unsure = false;
        self.schedule.begin();
    }

    /// A write of this status ended; if it succeeded, tells what was there before. It was that of
    /// the object of this kind and name.
    pub(crate) fn ended(
        &mut self,
        (kind, name): (&str, &str),
        status: S,
        written: Result<(), WriteError>,
    ) -> Option<S> {
        match written {
            Err(error) if !error.is_not_found() => {
                complain("write the status of", kind, name, &self.schedule, &error);
                self.unsure = true;
                self.schedule.failed();
                None
            }
            // It was deleted, which the watch will tell.
            Err(_) => {
                self.wrote(status);
                None
            }
            Ok(()) => Some(self.wrote(status)),
        }
    }

    fn wrote(&mut self, status: S) -> S {
        let outdated = self.schedule.settle(PAUSE);
        self.schedule.refresh();
        if outdated {
            // Whether there is anything new is seen when its turn comes.
            self.schedule.hurry(Instant::now());
        }
        std::mem::replace(&mut self.status, status)
    }

    /// A status meant for a predecessor of the same name was on its way until now.
    pub(crate) fn predecessor_ended(&mut self) {
        self.unsure = true;
        self.schedule.hurry(Instant::now());
    }
}

/// Says in the log what is wrong with a policy.
pub(crate) fn log_problems(policy: &str, problems: &[String]) {
    if !problems.is_empty() {
        let problems = problems.join("; ");
        tracing::warn!(policy, "the policy is not obeyed: {problems}");
    }
}
