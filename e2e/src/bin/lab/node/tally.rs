//! How each scenario went.

use anyhow::Result;
use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// What has been run so far.
#[derive(Debug)]
pub(crate) struct Tally {
    started: Instant,
    ended: Mutex<Vec<(&'static str, End)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    Skipped,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            ended: Mutex::default(),
        }
    }

    /// Runs one, which says what it has found, and returns whether it passed.
    pub(crate) async fn attempt(
        &self,
        name: &'static str,
        run: impl Future<Output = Result<String>>,
    ) -> bool {
        self.say(name, "begins");
        let begun = Instant::now();
        let ended = run.await;
        let seconds = begun.elapsed().as_secs();
        match &ended {
            Ok(found) => self.say(name, &format!("passed after {seconds} s: {found}")),
            Err(error) => self.say(name, &format!("FAILED after {seconds} s: {error:#}")),
        }
        self.note(
            name,
            if ended.is_ok() {
                End::Passed
            } else {
                End::Failed
            },
        );
        ended.is_ok()
    }

    /// Notes that one was not run.
    pub(crate) fn skip(&self, name: &'static str, why: &str) {
        self.say(name, &format!("skipped: {why}"));
        self.note(name, End::Skipped);
    }

    /// Says something of the time that has passed.
    pub(crate) fn say(&self, name: &str, what: &str) {
        println!(
            "{:>5.0} s  {name:<11} {what}",
            self.started.elapsed().as_secs_f64()
        );
    }

    /// Whether all that was selected has passed.
    pub(crate) fn is_well(&self) -> bool {
        self.count(End::Passed) > 0 && self.count(End::Failed) + self.count(End::Skipped) == 0
    }

    fn note(&self, name: &'static str, end: End) {
        self.ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((name, end));
    }

    fn count(&self, end: End) -> usize {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().filter(|(_, it)| *it == end).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [passed, failed, skipped] =
            [End::Passed, End::Failed, End::Skipped].map(|it| self.count(it));
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}
