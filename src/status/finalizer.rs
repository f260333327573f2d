//! The finalizer of one policy: whether it is there, and whether it has to be put on or taken off.
//!
//! The policy carries it exactly as long as the policy protects something, so that what was taken
//! is given back before the policy goes.

use std::time::Duration;

use super::schedule::Schedule;

/// Whether a policy carries the finalizer.
#[derive(Debug)]
pub(crate) struct Finalizer {
    /// By the last that is known: the watch, or our own write, which the watch tells later.
    on: bool,
    /// What the watch told last.
    seen: bool,
    /// What was last told of it.
    told: bool,
    /// When it is written.
    pub(crate) schedule: Schedule,
}

impl Finalizer {
    /// As the watch first tells of the policy.
    pub(crate) fn new(seen: bool) -> Self {
        Self {
            on: seen,
            seen,
            told: seen,
            schedule: Schedule::idle(),
        }
    }

    /// What the watch tells now. It lags behind our own writes, so only what is new in it counts.
    pub(crate) fn seen(&mut self, seen: bool) {
        if self.seen != seen {
            self.seen = seen;
            self.on = seen;
            self.schedule.trust();
        }
    }

    /// Our own write of it succeeded.
    pub(crate) fn wrote(&mut self, on: bool) {
        self.on = on;
        self.schedule.trust();
        self.schedule.settle(Duration::ZERO);
    }

    /// Whether it is there.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Whether it has come or gone as it was needed, whoever knows it first: our own write, or the
    /// watch. What somebody else does to it, and is undone, is not told.
    pub(crate) fn news(&mut self, needed: bool) -> Option<bool> {
        let news = self.on == needed && self.told != self.on;
        news.then(|| {
            self.told = self.on;
            self.on
        })
    }

    /// What has to be written: whether it is to be there. Where it is not known whether it is, that
    /// is always written. The API server puts none on an object that is being deleted.
    pub(crate) fn change(&self, needed: bool, deleting: bool) -> Option<bool> {
        let possible = !(needed && deleting);
        ((needed != self.on || self.schedule.is_doubtful()) && possible).then_some(needed)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_to_protect(false, false, false, None)]
    #[case::protection_begins(false, true, false, Some(true))]
    #[case::protects(true, true, false, None)]
    #[case::protection_ends(true, false, false, Some(false))]
    #[case::deleted_meanwhile(true, true, true, None)]
    #[case::let_go(true, false, true, Some(false))]
    #[case::too_late(false, true, true, None)]
    fn what_is_written(
        #[case] on: bool,
        #[case] needed: bool,
        #[case] deleting: bool,
        #[case] expected: Option<bool>,
    ) {
        assert_eq!(Finalizer::new(on).change(needed, deleting), expected);
    }

    #[test]
    fn each_coming_and_going_is_told_once() {
        let mut finalizer = Finalizer::new(false);
        assert_eq!(finalizer.news(true), None, "it is not there yet");
        // The watch may be faster than the answer.
        finalizer.seen(true);
        assert_eq!(finalizer.news(true), Some(true));
        finalizer.wrote(true);
        assert_eq!(finalizer.news(true), None);
        finalizer.seen(false);
        assert_eq!(finalizer.news(true), None, "it is put on again");
        finalizer.wrote(true);
        assert_eq!(finalizer.news(true), None);
        finalizer.wrote(false);
        assert_eq!(finalizer.news(false), Some(false));
        assert_eq!(Finalizer::new(true).news(true), None, "a restart");
    }
}
