use jiff::Timestamp;
use proptest::prelude::*;
use rstest::rstest;

use super::{Leases as Beats, *};
use crate::{
    gardener::Machine,
    prober::nodes::Facts,
    shoot::{Consistency, Lease, LeaseRead, List, Node},
};

/// When the leases are read, and the server's clock then.
const NOW: i64 = 1_000;
/// Far beyond any expiry, and far below.
const SILENT: i64 = NOW - 500;
const FRESH: i64 = NOW - 1;
/// Kubelets with such a lease renew every 60 s.
const SLOW: i32 = 240;

fn at(seconds: i64) -> MonoTime {
    MonoTime::from_nanos(i128::from(seconds) * 1_000_000_000)
}

fn thresholds(fraction: f64) -> LeaseRules {
    LeaseRules {
        grace: Duration::from_secs(40),
        fraction,
        recovery: fraction,
        minimum: 1,
        interval: Duration::from_secs(10),
        jitter_factor: 0.0,
        timeout: Duration::from_secs(5),
        failure_threshold: 1,
        success_threshold: 1,
    }
}

/// Leases of a cluster at one read.
#[derive(Clone, Copy, Debug, Default)]
struct Leases {
    expired: usize,
    /// Without a renewTime.
    unknown: usize,
    fresh: usize,
    slow: usize,
}

impl Leases {
    fn read(self) -> (Beats, Vec<Node>) {
        let kinds = [
            (self.expired, Some(SILENT), 40),
            (self.unknown, None, 40),
            (self.fresh, Some(FRESH), 40),
            (self.slow, Some(FRESH), SLOW),
        ];
        let kinds = kinds.iter().flat_map(|(count, renewed, duration)| {
            std::iter::repeat_n((*renewed, *duration), *count)
        });
        read(kinds)
    }

    fn assess(self, thresholds: &LeaseRules, protected: bool) -> Assessment {
        let (mut beats, nodes) = self.read();
        learn(&mut beats, &nodes, None);
        Assessment::new(&beats, thresholds, protected, None, at(NOW))
    }
}

/// Leases that were last renewed then, if that is known, and last for so many seconds.
fn read(leases: impl Iterator<Item = (Option<i64>, i32)>) -> (Beats, Vec<Node>) {
    let leases: Vec<Lease> = leases
        .enumerate()
        .map(|(index, (renewed, duration))| Lease {
            name: (&*format!("n{index}")).into(),
            uid: "u".into(),
            resource_version: 7,
            renew_time: renewed.map(|seconds| Timestamp::from_second(seconds).unwrap()),
            stamp: renewed,
            duration_seconds: Some(duration),
        })
        .collect();
    let mut beats = Beats::default();
    beats.take(&LeaseRead {
        started: at(NOW),
        finished: at(NOW),
        date: Some(NOW),
        consistency: Consistency::Consistent,
        bytes: 0,
        list: List {
            resource_version: 9,
            items: leases,
        },
    });
    let nodes = (0..beats.iter().count()).map(|index| Node {
        name: format!("n{index}").into(),
        ..Node::default()
    });
    (beats, nodes.collect())
}

fn learn(beats: &mut Beats, nodes: &[Node], machines: Option<&[Machine]>) {
    let mut facts = Facts::new(at(NOW));
    let pools = BTreeMap::new();
    nodes.iter().for_each(|it| facts.take_node(it, &pools));
    machines.iter().for_each(|it| facts.take_machines(it));
    beats.learn(&facts);
}

fn machine(node: &str, phase: &str) -> Machine {
    Machine {
        node: Some(node.to_owned()),
        phase: Some(phase.to_owned()),
        deleted: false,
    }
}

#[derive(Clone, Copy, Debug)]
enum Watched {
    Long,
    NotAtAll,
    WithoutWrites,
}

impl Watched {
    fn proof(self) -> Proof {
        let mut proof = Proof::default();
        for (index, second) in (NOW - 40..=NOW).step_by(2).enumerate() {
            let number = match self {
                Self::NotAtAll => continue,
                Self::Long => index as u64,
                Self::WithoutWrites => 5,
            };
            proof.read(at(second), true, number, Duration::from_secs(10));
        }
        proof
    }
}

const OUTAGE: Verdict = Verdict::Outage;
const HEALTHY: Verdict = Verdict::Healthy;

const fn doubt(doubt: Doubt) -> Verdict {
    Verdict::Undetermined(doubt)
}

fn unproven() -> Verdict {
    doubt(Doubt::Unproven(at(NOW + 15)))
}

#[rstest]
// Expired, unknown, fresh, renewed too slowly.
#[case::all([3, 0, 0, 0], 0.6, Watched::Long, OUTAGE)]
#[case::exactly_the_fraction([3, 0, 2, 0], 0.6, Watched::Long, OUTAGE)]
#[case::less_than_the_fraction([2, 0, 3, 0], 0.6, Watched::Long, HEALTHY)]
#[case::tiny_fraction([1, 0, 19, 0], 0.05, Watched::Long, OUTAGE)]
#[case::all_wanted([4, 0, 1, 0], 1.0, Watched::Long, HEALTHY)]
#[case::all_wanted_and_all_expired([5, 0, 0, 0], 1.0, Watched::Long, OUTAGE)]
#[case::not_watched([3, 0, 0, 0], 0.6, Watched::NotAtAll, unproven())]
#[case::nobody_writes([3, 0, 0, 0], 0.6, Watched::WithoutWrites, doubt(Doubt::NoWrites))]
#[case::health_needs_no_proof([0, 0, 3, 0], 0.6, Watched::WithoutWrites, HEALTHY)]
#[case::unknown_could_make_it([2, 1, 2, 0], 0.6, Watched::Long, doubt(Doubt::UnknownLeases))]
#[case::unknown_cannot_make_it([1, 1, 3, 0], 0.6, Watched::Long, HEALTHY)]
#[case::unknown_are_not_needed([3, 2, 0, 0], 0.6, Watched::Long, OUTAGE)]
#[case::only_unknown([0, 3, 0, 0], 0.6, Watched::Long, doubt(Doubt::UnknownLeases))]
#[case::too_slow([0, 0, 2, 3], 0.6, Watched::Long, doubt(Doubt::UnknownLeases))]
#[case::some_too_slow([2, 0, 2, 1], 0.6, Watched::Long, doubt(Doubt::UnknownLeases))]
#[case::few_too_slow([0, 0, 3, 2], 0.6, Watched::Long, HEALTHY)]
#[case::single_silent([1, 0, 0, 0], 0.6, Watched::Long, OUTAGE)]
#[case::single_fresh([0, 0, 1, 0], 0.6, Watched::Long, HEALTHY)]
#[case::single_unknown([0, 1, 0, 0], 0.6, Watched::Long, doubt(Doubt::UnknownLeases))]
#[case::single_too_slow([0, 0, 0, 1], 0.6, Watched::Long, doubt(Doubt::UnknownLeases))]
fn verdicts(
    #[case] counts: [usize; 4],
    #[case] fraction: f64,
    #[case] watched: Watched,
    #[case] expected: Verdict,
    #[values(false, true)] protected: bool,
) {
    let [expired, unknown, fresh, slow] = counts;
    let leases = Leases {
        expired,
        unknown,
        fresh,
        slow,
    };
    let thresholds = thresholds(fraction);
    let seen = leases.assess(&thresholds, protected);
    assert_eq!(
        (seen.candidates, seen.expired, seen.unknown),
        (expired + unknown + fresh + slow, expired, unknown + slow),
    );
    assert_eq!(seen.verdict(&thresholds, &watched.proof()), expected);
}

#[rstest]
#[case::no_lease(&[], false, [1, 0], HEALTHY)]
#[case::orphans(&[Exclusion::NoNode], false, [1, 0], HEALTHY)]
#[case::all_failed(&[Exclusion::MachineFailed], false, [1, 0], HEALTHY)]
#[case::all_unmanaged(&[Exclusion::NotManaged], false, [1, 0], HEALTHY)]
#[case::all_updated(&[Exclusion::InPlaceUpdate], false, [1, 0], HEALTHY)]
// A list that lacks the Machines looks like this, and so does a cluster whose network is down.
#[case::without_machines(&[Exclusion::NoMachine], false, [1, 0], doubt(Doubt::NoCandidates))]
#[case::all_with_a_condition(&[Exclusion::PoolCondition], false, [1, 0], doubt(Doubt::NoCandidates))]
#[case::some_with_a_condition(&[Exclusion::PoolCondition, Exclusion::MachineTerminating], false, [1, 0], doubt(Doubt::NoCandidates))]
// The dead of an ended protection hide nothing.
#[case::cut_beside_those_without_machines(&[Exclusion::Disregarded, Exclusion::NoMachine], false, [1, 0], doubt(Doubt::NoCandidates))]
#[case::all_cut(&[Exclusion::Disregarded], false, [1, 0], HEALTHY)]
#[case::protected_and_cut_before(&[Exclusion::Disregarded], true, [1, 0], doubt(Doubt::NoCandidates))]
#[case::protected_and_abandoned(&[Exclusion::NoMachine], true, [0, 0], HEALTHY)]
#[case::protected_and_one_alive(&[], true, [1, 0], doubt(Doubt::NoCandidates))]
#[case::all_are_going(&[Exclusion::NodeDeleted, Exclusion::OutOfService, Exclusion::PoolRemoved], false, [0, 0], HEALTHY)]
// Never green when blind.
#[case::leases_are_missing(&[], false, [3, 3], doubt(Doubt::NoCandidates))]
#[case::leases_are_missing_beside_orphans(&[Exclusion::NoNode], false, [3, 3], doubt(Doubt::NoCandidates))]
#[case::some_are_missing_and_all_are_cut(&[Exclusion::Disregarded], false, [4, 1], doubt(Doubt::NoCandidates))]
fn without_candidates(
    #[case] excluded: &[Exclusion],
    #[case] protected: bool,
    // Nodes that are meant to be alive, and those that have no lease; that there is none of the first is certain.
    #[case] nodes: [usize; 2],
    #[case] expected: Verdict,
    // Whether or not those that do not count are fresh.
    #[values(0, 3)] counter_evidence: usize,
) {
    let [alive, missing] = nodes;
    let seen = Assessment {
        at: at(NOW),
        excluded: excluded.iter().map(|why| (*why, 3)).collect(),
        counter_evidence,
        missing,
        alive,
        abandoned: alive == 0,
        protected,
        ..Assessment::default()
    };
    let proof = Watched::Long.proof();
    assert_eq!(seen.verdict(&thresholds(0.6), &proof), expected);
    assert!(!seen.suspect());
}

/// Three candidates, two of them silent, are an outage, unless enough others are fresh.
#[rstest]
#[case::terminating("Terminating", 7, HEALTHY)]
#[case::failed("Failed", 7, HEALTHY)]
#[case::with_a_condition("condition", 7, HEALTHY)]
#[case::updated("update", 7, HEALTHY)]
#[case::one_is_enough("Terminating", 1, HEALTHY)]
#[case::none("Terminating", 0, OUTAGE)]
// They may have another network.
#[case::without_a_machine("no Machine", 7, OUTAGE)]
#[case::unmanaged("unmanaged", 7, OUTAGE)]
#[case::labelled("label", 7, OUTAGE)]
#[case::orphans("no Node", 7, OUTAGE)]
fn fresh_leases_that_do_not_count_are_evidence(
    #[case] which: &str,
    #[case] others: usize,
    #[case] expected: Verdict,
    #[values(false, true)] protected: bool,
) {
    let leases = Leases {
        expired: 2,
        fresh: 1 + others,
        ..Leases::default()
    };
    let (mut beats, mut nodes) = leases.read();
    let mut machines = vec![];
    for (index, node) in nodes.iter_mut().enumerate() {
        let mut phase = "Running";
        if index >= 3 {
            match which {
                "condition" => node.true_conditions = vec!["DiskPressure".into()],
                "update" => node.in_place_update = true,
                "unmanaged" => node.not_managed_by_mcm = true,
                "label" => node.exclude_disruption = true,
                "no Machine" => continue,
                other => phase = other,
            }
        }
        machines.push(machine(&node.name, phase));
    }
    if which == "no Node" {
        nodes.truncate(3);
    }
    learn(&mut beats, &nodes, Some(&machines));
    let thresholds = thresholds(0.6);
    let seen = Assessment::new(&beats, &thresholds, protected, None, at(NOW));
    let expected = match (protected, which) {
        // Then those of Machines in these phases count, and no other is considered.
        (true, "Terminating" | "Failed") | (false, _) => expected,
        (true, _) => OUTAGE,
    };
    let verdict = seen.verdict(&thresholds, &Watched::Long.proof());
    assert_eq!(verdict, expected, "{seen:?}");
}

/// A whole cluster that falls silent is looked at in time, however many of its nodes do not count.
#[test]
fn fresh_leases_that_do_not_count_delay_no_suspicion() {
    let leases = Leases {
        expired: 0,
        fresh: 10,
        ..Leases::default()
    };
    let (mut beats, nodes) = leases.read();
    let machines: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| machine(&node.name, ["Running", "Terminating"][index % 2]))
        .collect();
    let thresholds = thresholds(0.6);
    let mut assess = |machines, at| {
        learn(&mut beats, &nodes, machines);
        Assessment::new(&beats, &thresholds, false, None, at)
    };
    let all_count = assess(None, at(NOW));
    let half_count = assess(Some(&*machines), at(NOW));
    assert_eq!(all_count.suspect_at, half_count.suspect_at);
    assert_eq!(all_count.expires_at, half_count.expires_at);
    let late = at(NOW + 60);
    let proof = {
        let mut proof = Proof::default();
        for second in (NOW + 20)..=(NOW + 60) {
            let started = at(second);
            proof.read(started, true, second as u64, Duration::from_secs(10));
        }
        proof
    };
    let seen = assess(Some(&*machines), late);
    assert_eq!((seen.candidates, seen.counter_evidence), (5, 0));
    assert_eq!(seen.verdict(&thresholds, &proof), OUTAGE);
}

/// Reads of a suspect are a third of its renewal period apart and take no longer, so there must be one.
#[test]
fn nothing_is_suspect_while_the_age_of_no_candidate_is_known() {
    let leases = Leases {
        unknown: 3,
        fresh: 7,
        ..Leases::default()
    };
    let (mut beats, nodes) = leases.read();
    let machines: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| machine(&node.name, ["Running", "Failed"][usize::from(index >= 3)]))
        .collect();
    learn(&mut beats, &nodes, Some(&machines));
    let thresholds = thresholds(0.6);
    for second in 0..120 {
        let at = at(NOW + second);
        let seen = Assessment::new(&beats, &thresholds, false, None, at);
        assert_eq!((seen.candidates, seen.period), (3, Duration::ZERO));
        assert!(!seen.suspect(), "{second}: {seen:?}");
    }
}

#[rstest]
#[case::three_quarters_of_the_grace(60, 10, Some(45))]
#[case::three_renewals(40, 11, Some(33))]
#[case::both(40, 10, Some(30))]
#[case::at_the_grace(30, 10, None)]
#[case::beyond_the_grace(40, 60, None)]
#[case::no_grace(0, 1, None)]
fn expiries(#[case] grace: u64, #[case] period: u64, #[case] expected: Option<u64>) {
    let thresholds = LeaseRules {
        grace: Duration::from_secs(grace),
        ..thresholds(0.6)
    };
    assert_eq!(
        thresholds.expiry(Duration::from_secs(period)),
        expected.map(Duration::from_secs)
    );
}

/// Fewer silent nodes are no outage, but do not end one.
#[rstest]
#[case::single([1, 0, 0], 2, doubt(Doubt::TooFewSilent))]
#[case::single_of_few([1, 0, 1], 2, HEALTHY)]
#[case::two_of_three([2, 0, 1], 2, OUTAGE)]
#[case::fewer_than_wanted([2, 0, 1], 3, doubt(Doubt::TooFewSilent))]
#[case::with_one_of_which_it_cannot_be_said([2, 1, 1], 3, doubt(Doubt::UnknownLeases))]
#[case::as_many_as_wanted([3, 0, 1], 3, OUTAGE)]
#[case::more_than_there_are([3, 0, 0], 4, doubt(Doubt::TooFewSilent))]
fn an_outage_begins_with_a_minimum(
    #[case] counts: [usize; 3],
    #[case] minimum: u32,
    #[case] expected: Verdict,
) {
    let [expired, unknown, fresh] = counts;
    let leases = Leases {
        expired,
        unknown,
        fresh,
        slow: 0,
    };
    let thresholds = LeaseRules {
        minimum,
        ..thresholds(0.6)
    };
    let verdict = |protected| {
        let seen = leases.assess(&thresholds, protected);
        seen.verdict(&thresholds, &Watched::Long.proof())
    };
    assert_eq!(verdict(false), expected);
    let by_fraction = expired >= share(expired + unknown + fresh, thresholds.fraction);
    assert_eq!(verdict(true) == Verdict::Outage, by_fraction);
}

/// What is protected is restored once the silent are few enough; before an outage that makes no difference.
#[rstest]
#[case::still_an_outage([6, 0, 4], OUTAGE, OUTAGE)]
#[case::no_outage_any_more([5, 0, 5], doubt(Doubt::Recovering), HEALTHY)]
#[case::as_many_as_the_share([3, 0, 7], doubt(Doubt::Recovering), HEALTHY)]
#[case::one_of_which_it_cannot_be_said([2, 1, 7], doubt(Doubt::Recovering), HEALTHY)]
#[case::fewer([2, 0, 8], HEALTHY, HEALTHY)]
#[case::perhaps_an_outage([5, 1, 4], doubt(Doubt::UnknownLeases), doubt(Doubt::UnknownLeases))]
fn what_is_protected_recovers_at_a_share_of_its_own(
    #[case] counts: [usize; 3],
    #[case] protected: Verdict,
    #[case] unprotected: Verdict,
) {
    let [expired, unknown, fresh] = counts;
    let leases = Leases {
        expired,
        unknown,
        fresh,
        slow: 0,
    };
    let thresholds = LeaseRules {
        recovery: 0.3,
        ..thresholds(0.6)
    };
    for (is_protected, expected) in [(true, protected), (false, unprotected)] {
        let seen = leases.assess(&thresholds, is_protected);
        assert_eq!(seen.unrecovered, 3);
        let verdict = seen.verdict(&thresholds, &Watched::Long.proof());
        assert_eq!(verdict, expected, "protected: {is_protected}");
    }
}

/// Leases that were last renewed so many seconds ago.
fn renewed(ages: impl IntoIterator<Item = i64>) -> Beats {
    leases_of(ages.into_iter().map(Some))
}

/// As that; of some it is not known.
fn leases_of(ages: impl IntoIterator<Item = Option<i64>>) -> Beats {
    let (mut beats, nodes) = read(ages.into_iter().map(|age| (age.map(|age| NOW - age), 40)));
    learn(&mut beats, &nodes, None);
    beats
}

const HOUR: i64 = 3_600;

/// Which leases fell silent together: with the number of those that did so long before, and the age of the
/// outage.
#[rstest]
#[case::together(vec![100; 6], 4, 0, OUTAGE, Some(100))]
#[case::before_the_operator_started([vec![2 * HOUR; 99], vec![2 * HOUR - 300]].concat(), 0, 0, OUTAGE, Some(2 * HOUR))]
#[case::one_more_than_died_long_ago([vec![HOUR; 5], vec![60]].concat(), 4, 5, HEALTHY, None)]
#[case::the_rest_of_a_cluster_of_which_some_died([vec![HOUR; 3], vec![60; 7]].concat(), 0, 3, OUTAGE, Some(60))]
#[case::most_of_the_rest([vec![HOUR; 3], vec![60; 5]].concat(), 2, 3, OUTAGE, Some(60))]
#[case::too_few_of_the_rest([vec![HOUR; 3], vec![60; 4]].concat(), 3, 3, HEALTHY, None)]
#[case::one_each_ten_seconds((0..60).map(|n| 40 + 10 * n).collect(), 40, 0, OUTAGE, Some(630))]
#[case::one_each_thirty_seconds((0..60).map(|n| 40 + 30 * n).collect(), 40, 29, HEALTHY, None)]
#[case::until_few_are_left((0..81).map(|n| 40 + 30 * n).collect(), 19, 50, OUTAGE, Some(940))]
#[case::the_last_of_those_that_died_one_by_one([vec![2 * HOUR, HOUR], vec![60]].concat(), 0, 2, doubt(Doubt::TooFewSilent), None)]
#[case::all_died_one_by_one(vec![3 * HOUR, 2 * HOUR, HOUR], 0, 2, doubt(Doubt::TooFewSilent), None)]
#[case::within_fifteen_minutes([vec![930, 40]].concat(), 0, 0, OUTAGE, Some(930))]
#[case::not_within_fifteen_minutes([vec![941, 40]].concat(), 0, 1, doubt(Doubt::TooFewSilent), None)]
fn what_died_long_before_is_no_part_of_an_outage(
    #[case] silent: Vec<i64>,
    #[case] fresh: usize,
    #[case] before: usize,
    #[case] expected: Verdict,
    #[case] age: Option<i64>,
) {
    let ages = silent.into_iter().chain(std::iter::repeat_n(1, fresh));
    let beats = renewed(ages);
    let thresholds = LeaseRules {
        minimum: 2,
        ..thresholds(0.6)
    };
    let seen = Assessment::new(&beats, &thresholds, false, None, at(NOW));
    let verdict = seen.verdict(&thresholds, &Watched::Long.proof());
    let long = seen.excluded.get(&Exclusion::LongSilent).copied();
    assert_eq!((verdict, long.unwrap_or(0)), (expected, before), "{seen:?}");
    if verdict == Verdict::Outage {
        // A stamp is rounded to a second.
        let onset = seen.silent_since;
        let since = at(NOW).since(onset.unwrap()).as_secs_f64();
        assert!((since / age.unwrap() as f64 - 1.0).abs() < 0.02, "{since}");
        assert!(seen.suspect());
        // What has begun goes on while those are silent that fell silent in it.
        let again = Assessment::new(&beats, &thresholds, true, onset, at(NOW));
        assert_eq!(again.verdict(&thresholds, &Watched::Long.proof()), verdict);
        assert_eq!(
            (again.silent_since, &again.excluded),
            (seen.silent_since, &seen.excluded)
        );
        // Also for a leader that has only the record of the protection.
        let taken_over = Assessment::new(&beats, &thresholds, true, None, at(NOW));
        let proof = Watched::Long.proof();
        assert_eq!(taken_over.verdict(&thresholds, &proof), verdict);
    }
}

/// A leader that has not seen the outage begin restores nothing while so many are silent.
#[rstest]
#[case::fewer_than_began_it([vec![2 * HOUR; 55], vec![1; 45]].concat(), 0.2, doubt(Doubt::Recovering))]
#[case::others_than_began_it([vec![3 * HOUR; 40], vec![HOUR; 30], vec![1; 30]].concat(), 0.6, OUTAGE)]
#[case::few([vec![2 * HOUR; 19], vec![1; 81]].concat(), 0.2, HEALTHY)]
fn an_outage_whose_beginning_nobody_knows_lasts(
    #[case] ages: Vec<i64>,
    #[case] recovery: f64,
    #[case] expected: Verdict,
) {
    let beats = renewed(ages);
    let thresholds = LeaseRules {
        recovery,
        ..thresholds(0.6)
    };
    let seen = Assessment::new(&beats, &thresholds, true, None, at(NOW));
    let verdict = seen.verdict(&thresholds, &Watched::Long.proof());
    assert_eq!(verdict, expected, "{seen:?}");
}

proptest! {
    /// The smallest number that reaches the fraction, as the quotient tells it.
    #[test]
    fn needed_is_the_smallest_that_reaches(fraction in 1e-9..=1.0_f64, all in 1_usize..3_000) {
        let needed = thresholds(fraction).needed(all);
        let is_share = |some: usize| some as f64 / all as f64 >= fraction;
        prop_assert!(is_share(needed));
        prop_assert!(!is_share(needed - 1));
    }
}

#[test]
fn silent_leases_are_counted_by_zone() {
    let count = |name: Option<&str>, candidates, expired| ZoneCount {
        name: name.map(Arc::from),
        candidates,
        expired,
    };
    let leases = Leases {
        expired: 3,
        fresh: 4,
        ..Leases::default()
    };
    let zones = [
        Some("b"),
        Some("b"),
        None,
        None,
        Some("a"),
        Some("b"),
        Some("c"),
    ];
    let (mut beats, mut nodes) = leases.read();
    for (node, zone) in nodes.iter_mut().zip(zones) {
        node.zone = zone.map(str::to_owned);
    }
    // A zone of which no lease counts is not told.
    nodes[6].not_managed_by_mcm = true;
    learn(&mut beats, &nodes, None);
    let seen = Assessment::new(&beats, &thresholds(0.6), false, None, at(NOW));
    let expected = [
        count(Some("a"), 1, 0),
        count(Some("b"), 3, 2),
        count(None, 2, 1),
    ];
    assert_eq!(seen.zones, expected);
}
