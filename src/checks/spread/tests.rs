use std::collections::BTreeSet;

use futures::FutureExt as _;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(10);

fn key(policy: &str, check: &str) -> Key {
    (policy.into(), check.into())
}

/// What becomes of a Trigger, in short: `-` it is acted on.
fn short(hold: Option<TriggerHold>) -> &'static str {
    match hold {
        None => "-",
        Some(TriggerHold::Widespread { until: None, .. }) => "widespread",
        Some(TriggerHold::Widespread { until: Some(_), .. }) => "lingers",
        Some(TriggerHold::Early { .. }) => "early",
        Some(TriggerHold::Unanswered) => "unanswered",
    }
}

fn said(fails: bool) -> Said {
    if fails { Said::No } else { Said::Yes }
}

/// So many clusters, of which the first ones fail from this moment on.
fn fleet(clusters: usize, failing: usize, now: Instant) -> (Spread, Key, Vec<Place>) {
    let (mut spread, check) = (Spread::default(), key("p", "etcd"));
    let places: Vec<Place> = (0..clusters).map(|_| spread.join(&check, now).0).collect();
    // Those that pass first: else the first four to fail would be all that have said something.
    for (index, place) in places.iter().enumerate().rev() {
        spread.says(&check, *place, said(index < failing), now);
    }
    (spread, check, places)
}

/// As [`Spread::hold`] after the API server answered.
fn hold(spread: &Spread, check: &Key, place: Place, now: Instant) -> &'static str {
    short(spread.hold(check, place, PERIOD, Some(now), now))
}

#[rstest]
#[case(1, 1, false)]
#[case(3, 3, false)]
#[case(4, 3, false)]
#[case(4, 4, true)]
#[case(16, 4, true)]
#[case(17, 4, false)]
#[case(17, 5, true)]
#[case(1000, 249, false)]
#[case(1000, 250, true)]
fn how_many_are_many(#[case] clusters: usize, #[case] failing: usize, #[case] many: bool) {
    let now = Instant::now();
    let (spread, check, places) = fleet(clusters, failing, now);
    let expected = if many { "widespread" } else { "-" };
    assert_eq!(hold(&spread, &check, places[0], now + PERIOD), expected);
}

#[rstest]
#[case::others_have_a_period(9.9, Some(9.9), "early")]
#[case::then_it_is_acted_on(10.0, Some(10.0), "-")]
#[case::an_answer_once_is_enough(99.0, Some(0.0), "-")]
#[case::an_answer_before_is_none(99.0, Some(-0.1), "unanswered")]
#[case::no_answer(99.0, None, "unanswered")]
fn one_alone(#[case] after: f64, #[case] answered: Option<f64>, #[case] expected: &str) {
    let begins = Instant::now() + PERIOD;
    let at = |seconds: f64| match seconds < 0.0 {
        true => begins - Duration::from_secs_f64(-seconds),
        false => begins + Duration::from_secs_f64(seconds),
    };
    let (mut spread, check, places) = fleet(3, 1, begins);
    // Further failed runs change nothing.
    spread.says(&check, places[0], Said::No, at(after));
    let found = spread.hold(&check, places[0], PERIOD, answered.map(at), at(after));
    assert_eq!(short(found), expected);
}

#[test]
fn a_hold_ends_a_minute_after_the_share_fell_below() {
    let start = Instant::now();
    let (mut spread, check, places) = fleet(4, 4, start);
    let held = |spread: &Spread, at| hold(spread, &check, places[0], at);
    let fell = start + PERIOD;
    assert!(spread.says(&check, places[3], Said::Yes, fell));
    let end = fell + LINGERS;
    assert_eq!(held(&spread, end - SECOND), "lingers");
    assert_eq!(held(&spread, end), "-");
    // It rises again before, and falls later.
    assert!(spread.says(&check, places[3], Said::No, end - SECOND));
    assert_eq!(held(&spread, end), "widespread");
    assert!(spread.says(&check, places[3], Said::Yes, end + SECOND));
    assert_eq!(held(&spread, end + SECOND * 60), "lingers");
    assert_eq!(held(&spread, end + SECOND * 61), "-");
}

/// One that has another check, or another policy, is no evidence about this one.
#[test]
fn each_check_of_each_policy_counts_for_itself() {
    let now = Instant::now();
    let (mut spread, check, places) = fleet(3, 3, now);
    for other in [key("p", "vpn"), key("q", "etcd")] {
        let (place, _) = spread.join(&other, now);
        assert!(!spread.says(&other, place, Said::No, now));
    }
    assert_eq!(hold(&spread, &check, places[0], now + PERIOD), "-");
}

#[rstest]
#[case::one_that_fails_leaves(16, 4, 0, "lingers")]
#[case::one_that_does_not(17, 4, 16, "widespread")]
fn who_leaves_counts_no_more(
    #[case] clusters: usize,
    #[case] failing: usize,
    #[case] leaves: usize,
    #[case] expected: &str,
) {
    let now = Instant::now();
    let (mut spread, check, places) = fleet(clusters, failing, now);
    assert!(spread.leave(&check, places[leaves], now));
    assert_eq!(hold(&spread, &check, places[1], now), expected);
}

/// Of seventeen, four that fail are less than a quarter; of sixteen that say something they are not.
#[test]
fn who_says_nothing_is_no_part_of_the_share() {
    let now = Instant::now();
    let (mut spread, check, places) = fleet(17, 4, now);
    assert_eq!(hold(&spread, &check, places[0], now + PERIOD), "-");
    assert!(spread.says(&check, places[16], Said::Nothing, now));
    assert_eq!(hold(&spread, &check, places[0], now + PERIOD), "widespread");
    // Those that have not run yet are none, either.
    for _ in 0..50 {
        assert!(!spread.join(&check, now).1);
    }
    assert!(spread.says(&check, places[16], Said::Yes, now));
    assert_eq!(hold(&spread, &check, places[0], now + PERIOD), "lingers");
}

#[test]
fn what_no_cluster_runs_is_forgotten() {
    let now = Instant::now();
    let (mut spread, check, places) = fleet(4, 4, now);
    for place in places {
        spread.leave(&check, place, now);
    }
    assert!(spread.checks.is_empty());
}

#[test]
fn the_description_names_the_check_and_the_numbers() {
    let now = Instant::now();
    let (spread, check, places) = fleet(9, 5, now);
    let held = spread.hold(&check, places[0], PERIOD, None, now).unwrap();
    let text = held.describe("etcd", "shoots");
    for part in [
        "the check etcd fails in 5 of 9 clusters of the policy shoots",
        "see what they share",
        "leases prove is acted on",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// Only those that fail are woken, and only when a hold begins or gets an end: there may be a thousand.
#[tokio::test(start_paused = true)]
async fn those_that_wait_are_woken() {
    let shared = SharedSpread::default();
    let check = key("p", "etcd");
    let loops: Vec<Arc<Notify>> = (0..6).map(|_| Arc::default()).collect();
    let join = |news: &Arc<Notify>| shared.join(check.clone(), news.clone());
    let mut members: Vec<Member> = loops.iter().map(join).collect();
    let woken = || -> Vec<usize> {
        let woken = |place: &usize| loops[*place].notified().now_or_never().is_some();
        (0..loops.len()).filter(woken).collect()
    };
    for failing in &members[..3] {
        failing.says(Said::No);
    }
    assert_eq!(woken(), [0_usize; 0]);
    members[3].says(Said::No);
    assert_eq!(woken(), [0, 1, 2, 3]);
    members[4].says(Said::No);
    assert_eq!(woken(), [0_usize; 0]);
    drop(members.remove(0));
    assert_eq!(woken(), [0_usize; 0]);
    // Its loop ends.
    drop(members.remove(0));
    assert_eq!(woken(), [2, 3, 4]);
    let held = members[0].hold(PERIOD, Some(Instant::now())).unwrap();
    tokio::time::advance(held.until().unwrap() - Instant::now()).await;
    assert_eq!(members[0].hold(PERIOD, Some(Instant::now())), None);
}

#[derive(Clone, Debug)]
enum Event {
    Fails(usize),
    Passes(usize),
    Silent(usize),
    Joins,
    Leaves(usize),
    Time(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => any::<usize>().prop_map(Event::Fails),
        3 => any::<usize>().prop_map(Event::Passes),
        2 => any::<usize>().prop_map(Event::Silent),
        1 => Just(Event::Joins),
        1 => any::<usize>().prop_map(Event::Leaves),
        4 => (1_u64..40).prop_map(Event::Time),
    ]
}

proptest! {
    /// Whatever comes and goes: a Trigger is never acted on while its check fails in at least four clusters
    /// and a quarter of those in which it says something, nor in the minute after; and in time otherwise.
    #[test]
    fn a_fleet(clusters in 1_usize..24, events in prop::collection::vec(event(), 0..80)) {
        let mut now = Instant::now();
        let check = key("p", "etcd");
        let mut spread = Spread::default();
        let mut all: Vec<Place> = (0..clusters).map(|_| spread.join(&check, now).0).collect();
        let mut failing: BTreeMap<Place, Instant> = BTreeMap::new();
        let mut passing: BTreeSet<Place> = BTreeSet::new();
        let (mut many, mut fell) = (false, None);
        for event in events {
            let pick = |index: usize| all.get(index % all.len().max(1)).copied();
            let before = (many, fell);
            let changed = match event {
                Event::Fails(index) => pick(index).is_some_and(|place| {
                    failing.entry(place).or_insert(now);
                    passing.remove(&place);
                    spread.says(&check, place, Said::No, now)
                }),
                Event::Passes(index) => pick(index).is_some_and(|place| {
                    failing.remove(&place);
                    passing.insert(place);
                    spread.says(&check, place, Said::Yes, now)
                }),
                Event::Silent(index) => pick(index).is_some_and(|place| {
                    failing.remove(&place);
                    passing.remove(&place);
                    spread.says(&check, place, Said::Nothing, now)
                }),
                Event::Joins => {
                    let (place, changed) = spread.join(&check, now);
                    all.push(place);
                    changed
                }
                Event::Leaves(index) => pick(index).is_some_and(|place| {
                    all.retain(|it| *it != place);
                    failing.remove(&place);
                    passing.remove(&place);
                    spread.leave(&check, place, now)
                }),
                Event::Time(seconds) => {
                    now += SECOND * u32::try_from(seconds).unwrap();
                    false
                }
            };
            let were = std::mem::replace(
                &mut many,
                failing.len() >= 4 && failing.len() * 4 >= failing.len() + passing.len(),
            );
            if were != many {
                fell = were.then_some(now);
            }
            // They have to know when it begins, and when its end is known.
            prop_assert_eq!(changed, before != (many, fell));
            if all.is_empty() {
                // What no cluster runs is forgotten.
                fell = None;
            }
            let counted: BTreeSet<Place> = spread.failing(&check).collect();
            prop_assert_eq!(&counted, &failing.keys().copied().collect());
            for (place, since) in &failing {
                let answered = [None, Some(*since), Some(*since - SECOND)];
                let found = answered.map(|it| short(spread.hold(&check, *place, PERIOD, it, now)));
                let expected = match fell {
                    _ if many => ["widespread"; 3],
                    Some(fell) if now < fell + SECOND * 60 => ["lingers"; 3],
                    _ if now < *since + PERIOD => ["early"; 3],
                    _ => ["unanswered", "-", "unanswered"],
                };
                prop_assert_eq!(found, expected);
            }
        }
    }
}
