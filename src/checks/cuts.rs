//! Pauses between the runs of a command that leaves processes behind.
//!
//! A command that is cut goes on in its container: no API ends it. One that hangs would leave a process in
//! each period, until the container has no memory or no process left. So it is run ever more rarely.

use std::time::Duration;

use tokio::time::Instant;

use crate::api::HealthCheck;

/// Longest time between two runs, unless the period is longer. Judgement: twelve processes an hour, and what waits
/// for the check is held up for five minutes at most.
const LONGEST: Duration = Duration::from_secs(300);

/// The runs of a command that were cut, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    count: u32,
    wait: Option<Wait>,
}

/// The next run comes later than a period after the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// So many runs in a row were cut.
    pub cuts: u32,
    /// The next one comes so long after the last one began.
    pub delay: Duration,
    /// The moment from which on it may begin.
    pub until: Instant,
}

impl Cuts {
    /// Counts a run that was cut and began at this moment.
    pub fn cut(&mut self, began: Instant, check: &HealthCheck) {
        self.count = self.count.saturating_add(1);
        let period = Duration::from_secs(check.period_seconds.unsigned_abs().into());
        let delay = delay(self.count, check.failure_threshold.unsigned_abs(), period);
        self.wait = (delay > period).then_some(Wait {
            cuts: self.count,
            delay,
            until: began + delay,
        });
    }

    /// A run has ended by itself.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Returns what the next run waits for.
    pub fn wait(&self) -> Option<Wait> {
        self.wait
    }
}

/// How long after a run the next one comes, when so many in a row were cut: what it takes to fail is not held
/// up, and each further run waits for twice as long as the one before.
fn delay(cuts: u32, failure_threshold: u32, period: Duration) -> Duration {
    let Some(further) = cuts.checked_sub(failure_threshold) else {
        return period;
    };
    let periods = 2_u32.saturating_pow(further.saturating_add(1));
    period.saturating_mul(periods).min(LONGEST).max(period)
}

impl Wait {
    /// The reason, for people: why the command is not run, and what to do about it.
    pub fn describe(self) -> String {
        let Self { cuts, delay, .. } = self;
        format!(
            "each of the last {cuts} runs was cut off and left a process in its container, so the next one begins \
             {delay:?} after the last: give the command a limit of its own, shorter than timeoutSeconds"
        )
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn check(period: u64, threshold: u32) -> HealthCheck {
        serde_json::from_value(json!({
            "name": "a",
            "exec": {"podSelector": {"matchLabels": {"app": "etcd"}}, "command": ["etcdctl"]},
            "periodSeconds": period,
            "failureThreshold": threshold,
        }))
        .unwrap()
    }

    #[rstest]
    #[case::of_a_threshold_of_one(10, 1, &[20, 40, 80, 160, 300, 300])]
    #[case::what_it_takes_to_fail_is_not_held_up(10, 3, &[10, 10, 20, 40, 80, 160, 300])]
    #[case::a_period_that_is_longer(600, 1, &[600, 600, 600])]
    #[case::one_that_is_nearly_as_long(200, 1, &[300, 300])]
    fn the_next_run_comes_ever_later(
        #[case] period: u64,
        #[case] threshold: u32,
        #[case] delays: &[u64],
    ) {
        let (check, mut now) = (check(period, threshold), Instant::now());
        let mut cuts = Cuts::default();
        for delay in delays {
            cuts.cut(now, &check);
            let due = now + Duration::from_secs(*delay);
            let is_later = *delay > period;
            let until = cuts.wait().map(|it| it.until);
            assert_eq!(until, is_later.then_some(due), "{cuts:?}");
            now = due;
        }
    }
}
