//! A run of a check ends when its timeout says so, whatever the other side does, and leaves nothing.

use std::{pin::pin, time::Duration};

use crate::support::{Activity, Case, Clock, Exposition, Stalls, not_taken, once, run};
use dependency_watchdog::{
    checks::{CheckMetrics, Outcome, Run, outcome::Said},
    runtime::metrics::{ProbeMetrics, Registry},
};
use futures::future::join_all;
use rstest::rstest;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(3);

#[rstest]
fn a_run_that_does_not_end_fails_at_its_timeout(
    #[values(Stalls::Backlog, Stalls::Body, Stalls::Command)] stalls: Stalls,
) {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(stalls, &activity, "", CheckMetrics::default()).await;
        let mut ran = pin!(once(&case.runner, &case.check));
        // Timers have a resolution of a millisecond.
        tokio::select! {
            biased;
            ran = &mut ran => panic!("too early: {ran:?}"),
            () = clock.pass(LIMIT - MILLISECOND) => {}
        }
        let ran = tokio::select! {
            biased;
            ran = &mut ran => ran,
            () = clock.pass(2 * MILLISECOND) => panic!("too late"),
        };
        assert_eq!(ran.outcome, Outcome::Timeout(LIMIT));
    });
}

/// That the API server of the seed does not take a command says nothing of the container.
#[test]
fn a_command_that_does_not_begin_tells_nothing() {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(Stalls::Upgrade, &activity, "", CheckMetrics::default()).await;
        let begun = Instant::now();
        let ran = once(&case.runner, &case.check);
        let outcome = clock.end_of("the run ends", ran).await.outcome;
        assert_eq!(outcome, not_taken());
        let took = begun.elapsed();
        assert!((10 * SECOND..11 * SECOND).contains(&took), "{took:?}");
    });
}

/// What is late since nobody was there to see its end says nothing of the other side.
#[rstest]
fn a_prober_that_stood_still_tells_nothing(#[values(1, 2)] late: u32) {
    run(async move {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(Stalls::Command, &activity, "", CheckMetrics::default()).await;
        let mut ran = pin!(once(&case.runner, &case.check));
        tokio::select! {
            biased;
            ran = &mut ran => panic!("too early: {ran:?}"),
            () = clock.pass(LIMIT - SECOND) => {}
        }
        // Nothing is done meanwhile, as in a process that is frozen.
        tokio::time::advance((1 + late) * SECOND).await;
        let outcome = ran.await.outcome;
        // A tenth and a second are allowed for.
        assert_eq!(outcome.said() == Said::Nothing, late > 1, "{outcome}");
    });
}

/// Commands alone, and what is tolerated is counted.
#[rstest]
#[case::on("", Outcome::Timeout(LIMIT), 0.0)]
#[case::off("ExecProbeTimeout=false", Outcome::Tolerated(LIMIT), 1.0)]
fn the_gate_is_about_commands(
    #[case] gates: &'static str,
    #[case] expected: Outcome,
    #[case] counted: f64,
) {
    run(async move {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let probes = ProbeMetrics::default();
        let metrics = CheckMetrics::new(probes.clone());
        let mut registry = Registry::default();
        probes.register(&mut registry);
        metrics.register(&mut registry);
        for (stalls, expected) in [
            (Stalls::Command, expected),
            (Stalls::Silent, Outcome::Timeout(LIMIT)),
        ] {
            let case = Case::new(stalls, &activity, gates, metrics.clone()).await;
            let ran = once(&case.runner, &case.check);
            let outcome = clock.end_of("the run ends", ran).await.outcome;
            assert_eq!(outcome, expected, "{stalls:?}");
        }
        let shown = Exposition::of(&registry);
        let value = |name: &str, labels: &[(&str, &str)]| shown.value(name, labels);
        assert_eq!(value("exec_timeouts_tolerated_total", &[]), counted);
        for kind in ["exec", "httpGet"] {
            let labels = [("type", kind), ("result", "timeout")];
            assert_eq!(value("probe_duration_seconds_count", &labels), 1.0);
            let took = value("probe_duration_seconds_sum", &labels);
            assert!((3.0..3.5).contains(&took), "{took}");
            assert_eq!(value("probes_past_timeout_total", &[("type", kind)]), 0.0);
        }
        assert_eq!(value("checks_in_flight", &[]), 0.0);
        assert_eq!(value("checks_waiting", &[]), 0.0);
    });
}

/// Those that wait for their turn are not timed, and come to it.
#[test]
fn more_than_can_run_at_once_wait() {
    run(async {
        let activity = Activity::default();
        let clock = Clock::stop(activity.clone());
        let case = Case::new(Stalls::Command, &activity, "", CheckMetrics::default()).await;
        let begun = Instant::now();
        let runs = (0..300).map(|_| once(&case.runner, &case.check));
        let runs = clock.end_of("the runs end", join_all(runs)).await;
        let waited = |ran: &Run| ran.began - begun;
        for ran in &runs {
            assert_eq!(ran.outcome, Outcome::Timeout(LIMIT));
        }
        let at_once = runs
            .iter()
            .filter(|ran| waited(ran) == Duration::ZERO)
            .count();
        assert_eq!(at_once, 128);
        let longest = runs.iter().map(waited).max().unwrap();
        assert!(longest >= 2 * LIMIT && longest < 3 * LIMIT, "{longest:?}");
    });
}
