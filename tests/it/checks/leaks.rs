//! Runs that end by their timeout leave nothing.

use std::{fs, path::PathBuf, time::Duration};

use crate::support::{Activity, Case, Clock, Stalls, alone, not_taken, once, run};
use dependency_watchdog::checks::{CheckMetrics, Outcome, Run};
use futures::future::join_all;
use tokio::runtime::Handle;

const SECOND: Duration = Duration::from_secs(1);

/// Files that this process has open.
fn open_files() -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap);
    // A static binary opens this when it first needs it, and keeps it.
    let is_kept = |path: PathBuf| fs::read_link(path).is_ok_and(|it| it.ends_with("urandom"));
    open.filter(|it| !is_kept(it.path())).count()
}

/// Bytes that this process has in memory.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Ten thousand, however they stall: no connection, task or memory is left.
#[test]
fn runs_that_are_late_leave_nothing() {
    alone(leave_nothing);
}

fn leave_nothing() {
    const TOGETHER: usize = 200;
    const ROUNDS: [(Stalls, usize); 7] = [
        (Stalls::Silent, 12),
        (Stalls::Handshake, 6),
        (Stalls::Head, 8),
        (Stalls::Body, 8),
        (Stalls::Upgrade, 4),
        (Stalls::Command, 10),
        (Stalls::Output, 2),
    ];
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let at_rest = async || {
            let mut before = (usize::MAX, usize::MAX);
            loop {
                clock.pass(SECOND).await;
                let now = (tasks(), open_files());
                if now == before {
                    return now;
                }
                before = now;
            }
        };
        let mut late = 0;
        for (stalls, rounds) in ROUNDS {
            let nothing = at_rest().await;
            let mut case = Case::new(stalls, &activity, "", CheckMetrics::default()).await;
            case.check.timeout_seconds = 1;
            let together = async || {
                // As the checks of clusters are: none has to wait for another to be polled.
                let runs = (0..TOGETHER).map(|_| {
                    let (runner, check) = (case.runner.clone(), case.check.clone());
                    tokio::spawn(async move { once(&runner, &check).await })
                });
                let runs = clock.end_of("the runs end", join_all(runs)).await;
                let runs: Vec<Run> = runs.into_iter().map(Result::unwrap).collect();
                let expected = match stalls {
                    Stalls::Upgrade => not_taken(),
                    _ => Outcome::Timeout(SECOND),
                };
                for ran in &runs {
                    assert_eq!(ran.outcome, expected, "{stalls:?}");
                }
                runs.len()
            };
            let half = rounds / 2;
            for _ in 0..half {
                late += together().await;
            }
            let (before, memory) = (at_rest().await, resident());
            for _ in half..rounds {
                late += together().await;
            }
            let after = at_rest().await;
            let grown = resident().saturating_sub(memory);
            // How much of an endless output is on its way at once differs; all else is alike.
            let most = if stalls == Stalls::Output {
                64 << 20
            } else {
                4 << 20
            };
            assert!(grown < most, "{stalls:?}: {grown} bytes");
            // The API server's connections are kept for the next time, once there is one.
            let kept = match case.check.exec {
                Some(_) => TOGETHER,
                None => 0,
            };
            assert!(
                after.0 <= before.0 + kept,
                "{stalls:?}: {after:?}, before {before:?}"
            );
            drop(case);
            let left = at_rest().await;
            assert!(
                left <= nothing,
                "{stalls:?}: tasks and files {left:?}, before {nothing:?}"
            );
        }
        assert_eq!(late, 10_000);
    });
}
