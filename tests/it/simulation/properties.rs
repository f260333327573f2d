//! Properties of the decision core over simulated servers, kubelets, clocks and faults.

use super::{
    Fault, FaultKind, Findings, HORIZON, Joins, MOST_LATENCY, MOST_READ, MOST_STRETCH,
    OPERATOR_STARTS, Scenario, run,
};
use proptest::{prelude::*, test_runner::FileFailurePersistence};

/// The most that a stamp and a `Date`, each rounded down to a second, leave open.
const ROUNDING: f64 = 2.0;
/// What drift and the length of a simulated read may add.
const SLACK: f64 = 0.5;
/// Suspicion comes by so many seconds at the most before the proof must begin.
const SUSPICION_MARGIN: f64 = 3.0;

/// A step that cannot be taken for the rounding of stamps; a smaller one costs no more than that.
fn step(most: f64) -> impl Strategy<Value = f64> {
    let least = 2.0 * ROUNDING + SLACK;
    prop_oneof![least..most, -most..-least]
}

fn kubelet_faults() -> impl Strategy<Value = Vec<Fault>> {
    let kind = prop_oneof![
        (0_u8..8).prop_map(FaultKind::Cut),
        (0_u8..8, step(90.0)).prop_map(|(node, by)| FaultKind::NodeStep(node, by)),
        (0_u8..8).prop_map(FaultKind::NewUid),
        (0_u8..8).prop_map(FaultKind::Gone),
    ];
    faults(kind, 0..8)
}

fn server_faults() -> impl Strategy<Value = Vec<Fault>> {
    let kind = prop_oneof![
        Just(FaultKind::ServerDown),
        Just(FaultKind::WritesRefused),
        Just(FaultKind::ReadsLost),
        Just(FaultKind::Restart),
        Just(FaultKind::Rollback),
        step(3600.0).prop_map(FaultKind::ServerStep),
    ];
    faults(kind, 0..4)
}

fn faults(
    kind: impl Strategy<Value = FaultKind>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<Fault>> {
    let fault = (kind, 30.0..220.0_f64, 0.5..90.0_f64).prop_map(|(kind, from, length)| Fault {
        kind,
        from,
        until: from + length,
    });
    prop::collection::vec(fault, count)
}

prop_compose! {
    fn shoots()(
        seed in any::<u64>(),
        nodes in 1_usize..8,
        lease_seconds in prop_oneof![Just(4), Just(8), Just(20), Just(40), Just(48)],
        grace in 8.0..60.0_f64,
        fraction in prop_oneof![Just(0.6), 0.05..1.0_f64],
        interval in 1.0..20.0_f64,
        skews in prop::collection::vec(-120.0..120.0_f64, 8),
        stamps in prop::bool::weighted(0.85),
        cache_ages in prop::collection::vec(0.0..12.0_f64, 1..4),
        server_skews in prop_oneof![
            2 => Just(vec![0.0; 3]),
            1 => prop::collection::vec(0.0..1.0_f64, 3),
            1 => prop::collection::vec(-30.0..30.0_f64, 3),
        ],
        pinned in any::<bool>(),
        failure_threshold in prop_oneof![Just(1), 2_u32..4],
        facts_take in prop_oneof![Just(0.0), 0.0..25.0_f64],
    ) -> Scenario {
        Scenario {
            seed, nodes, lease_seconds, grace, fraction, interval, skews, stamps, cache_ages,
            server_skews, pinned, failure_threshold, facts_take,
            joins: None,
            facts_refused: None,
            faults: Vec::new(),
        }
    }
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    (shoots(), kubelet_faults(), server_faults()).prop_map(|(mut scenario, kubelets, servers)| {
        scenario.faults = kubelets;
        scenario.faults.extend(servers);
        scenario
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        ..ProptestConfig::with_failure_persistence(FileFailurePersistence::WithSource("regressions"))
    })]

    /// Silence is only ever claimed of leases that are silent.
    #[test]
    fn no_outage_while_the_fraction_renews_within_the_expiry(scenario in scenarios()) {
        for outage in run(&scenario).outages {
            prop_assert!(
                outage.truly_silent_for + outage.unwatched_steps
                    >= outage.expiry - SLACK - scenario.skew(),
                "outage declared at {:.1}s, yet the fraction was silent for {:.2}s only, expiry {:.2}s",
                outage.at, outage.truly_silent_for, outage.expiry,
            );
            // Whatever the clocks of several servers say, what was watched is true.
            prop_assert!(
                outage.truly_silent_for >= 1.5 * outage.period - SLACK,
                "outage declared at {:.1}s, yet the fraction was silent for {:.2}s only, period {:.2}s",
                outage.at, outage.truly_silent_for, outage.period,
            );
        }
    }

    /// Whoever was away, the server, its writes or this operator, is given time to be heard again, less
    /// what the read took that was the first to find it back.
    #[test]
    fn no_outage_within_one_and_a_half_periods_of_a_disturbance(scenario in scenarios()) {
        for outage in run(&scenario).outages {
            let quiet = outage.at - outage.last_disturbance;
            prop_assert!(
                quiet >= 1.5 * outage.period - MOST_READ,
                "outage declared at {:.1}s, {:.2}s after a disturbance, period {:.2}s",
                outage.at, quiet, outage.period,
            );
        }
    }

    /// What the operator believes of a renewal is true, and as exact as the stamp.
    #[test]
    fn a_renewal_lies_within_its_bounds(mut scenario in scenarios()) {
        // With a clock that steps, or a rolled back etcd, a stamp is not the truth itself.
        scenario.faults.retain(|fault| {
            !matches!(fault.kind, FaultKind::ServerStep(_) | FaultKind::Rollback)
        });
        for estimate in run(&scenario).estimates {
            let off = scenario.skew() + 1e-3;
            prop_assert!(
                estimate.earliest.is_none_or(|earliest| earliest <= estimate.truth + off)
                    && estimate.latest >= estimate.truth - off,
                "{estimate:?} does not contain the truth",
            );
            // What the clocks of two servers say can contradict what was seen, and then yields.
            if scenario.stamps && scenario.skew() == 0.0 {
                prop_assert!(
                    estimate.latest - estimate.truth <= ROUNDING + SLACK,
                    "{estimate:?} is not as exact as the stamp",
                );
            }
        }
    }

    /// An outage that lasts is acted on at its deadline, or 1.5 periods after the last failed read,
    /// and a second later for each further verdict that the policy asks for. Nodes and Machines are
    /// read in the meantime; those that were read shortly before a failed read are read again within a
    /// period after it. Leases that come meanwhile, or are created anew, delay nothing, unless they are enough to
    /// end the outage; nor do Nodes that are refused, once they are not.
    #[test]
    fn every_lasting_outage_is_acted_on_in_time(scenario in shoots(), cut_at in 60.0..120.0_f64,
        joins in prop::option::of(prop_oneof![Just(Joins::Name), Just(Joins::Uid)]),
        refused in prop::option::of((0.0..60.0_f64, 1.0..20.0_f64, 1.0..30.0_f64)),
        hiccup in prop::option::of((0.0..80.0_f64, 0.5..20.0_f64)))
    {
        let mut scenario = scenario;
        scenario.nodes = scenario.nodes.max(2);
        let all = scenario.nodes as f64;
        scenario.joins = joins.filter(|_| all / (all + 1.0) >= scenario.fraction);
        scenario.facts_refused = refused.map(|(after, length, wait)| {
            let from = cut_at + after;
            (from..from + length, wait)
        });
        scenario.faults = (0..8)
            .map(|node| Fault { kind: FaultKind::Cut(node), from: cut_at, until: f64::MAX })
            .collect();
        // Without stamps a read that is missing costs knowledge, not only time; also where stamps yield.
        let mut unseen = 0.0;
        if let Some((after, length)) = hiccup.filter(|_| scenario.stamps) {
            let from = cut_at + after;
            unseen = length;
            scenario.faults.push(Fault { kind: FaultKind::ReadsLost, from, until: from + length });
        }
        let findings = run(&scenario);
        let Findings { deadline: Some(deadline), .. } = findings else {
            // Leases that are renewed too slowly for the grace are never judged.
            prop_assert!(findings.outages.is_empty());
            return Ok(());
        };
        let acted = findings.acted;
        // Without stamps, or where those of several servers contradict what was seen, a renewal is
        // only known to lie before the first read that shows it.
        let exact = scenario.stamps && scenario.skew() == 0.0;
        let cache = scenario.cache_ages.iter().copied().fold(0.0, f64::max);
        let unknown = if exact { ROUNDING } else { 1.2 * scenario.interval + cache + unseen };
        let counting = f64::from(scenario.failure_threshold - 1) * (1.0 + MOST_READ);
        let period = f64::from(scenario.lease_seconds) / 4.0;
        // Nodes that are under way when the silence begins to be watched are read once more.
        let facts = (2.0 * scenario.facts_take - 0.5 * period).max(0.0);
        // Those that are refused are asked for again with the first probe after the pause, which takes its time, and
        // nothing else is put off.
        let refused = scenario.facts_refused.as_ref();
        let probe = period / 3.0 + MOST_READ;
        let again =
            refused.map_or(0.0, |(time, wait)| time.end + wait + probe + scenario.facts_take);
        let deadline = deadline.max(again);
        let slack = unknown + counting + facts + SLACK;
        prop_assert!(
            acted.is_some_and(|acted| acted <= deadline + slack),
            "deadline {deadline:.2}s, acted {acted:?}",
        );
    }

    /// A shoot whose kubelets all renew costs one cached list in each interval, or whenever silence
    /// would have to be looked at if that is sooner, and nothing else.
    #[test]
    fn a_healthy_shoot_is_only_glanced_at(mut scenario in shoots(), spare in 0.5..30.0_f64) {
        let period = f64::from(scenario.lease_seconds) / 4.0;
        let cache = scenario.cache_ages.iter().copied().fold(0.0, f64::max);
        let oldest = period * (1.0 + MOST_STRETCH) + MOST_LATENCY + MOST_READ + cache + ROUNDING;
        // The grace leaves `spare` between the oldest that a healthy lease looks and suspicion.
        let expiry = (oldest + spare + 1.5 * period + SUSPICION_MARGIN).max(3.0 * period);
        scenario.grace = expiry / 0.75;
        scenario.stamps = true;
        scenario.server_skews = vec![0.0; 3];
        scenario.nodes = scenario.nodes.max(2);
        let findings = run(&scenario);
        // Which leases count is read once, since all are fresh.
        prop_assert!(findings.facts_read <= 1, "{}", findings.facts_read);
        prop_assert!(findings.reads.len() as f64 >= (HORIZON - OPERATOR_STARTS)
            / (1.2 * scenario.interval + MOST_READ) - 1.0);
        for read in &findings.reads {
            prop_assert!(!read.suspect && !read.consistent, "{read:?}");
        }
        for pair in findings.reads.windows(2) {
            let (before, read) = (&pair[0], &pair[1]);
            let gap = read.at - before.at + 1e-6;
            prop_assert!(gap >= scenario.interval.min(spare), "{before:?} {read:?}");
        }
    }
}
