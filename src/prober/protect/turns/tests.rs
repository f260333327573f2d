use proptest::prelude::*;

use super::*;

/// So many clusters, of which none waits.
fn clusters(count: usize) -> (Turns, Vec<Place>) {
    let mut turns = Turns::default();
    let places: Vec<Place> = (0..count).map(|_| turns.join()).collect();
    for place in &places {
        turns.guard(*place, true);
    }
    (turns, places)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lets these wait from these moments on, and tells when each gets its turn.
fn served(turns: &mut Turns, waits: &[(Place, Instant)]) -> Vec<(Place, Instant)> {
    let mut waits = waits.to_vec();
    waits.sort_by_key(|(_, since)| *since);
    let mut waits = waits.into_iter().peekable();
    let mut now = waits.peek().expect("some wait").1;
    let mut since = std::collections::BTreeMap::new();
    let mut served = vec![];
    loop {
        while let Some((place, at)) = waits.next_if(|(_, at)| *at <= now) {
            since.insert(place, at);
            if turns.take(place, at, now) {
                served.push((place, now));
            }
        }
        while let Some(first) = turns.first()
            && turns.take(first, since[&first], now)
        {
            served.push((first, now));
        }
        let due = turns.first().and_then(|first| turns.due(first, now));
        let next = due.into_iter().chain(waits.peek().map(|(_, at)| *at));
        match next.min() {
            Some(next) => now = next.max(now + Duration::from_millis(1)),
            None => return served,
        }
    }
}

#[test]
fn few_are_not_paced() {
    let (mut turns, places) = clusters(20);
    let now = Instant::now();
    for place in places {
        assert!(turns.take(place, now, now));
    }
}

#[test]
fn what_is_beyond_twenty_follows_one_by_one() {
    let (mut turns, places) = clusters(30);
    let now = Instant::now();
    let waits: Vec<_> = places.iter().map(|place| (*place, now)).collect();
    let after: Vec<_> = served(&mut turns, &waits)
        .into_iter()
        .map(|(_, at)| at - now)
        .collect();
    let paced = (1..=10).map(|turn| turn * PAUSE);
    let at_once = std::iter::repeat_n(Duration::ZERO, 20);
    assert_eq!(after, at_once.chain(paced).collect::<Vec<_>>());
    // Four seconds later there is as much room as at first.
    let later = now + 10 * PAUSE + 20 * PAUSE;
    let (again, others) = places.split_at(20);
    assert!(again.iter().all(|place| turns.take(*place, later, later)));
    assert!(others.iter().all(|place| !turns.take(*place, later, later)));
}

#[test]
fn the_one_that_has_waited_for_longest_comes_first() {
    let (mut turns, places) = clusters(23);
    let now = Instant::now();
    let (first, rest) = places.split_at(20);
    assert!(first.iter().all(|place| turns.take(*place, now, now)));
    let since = |index: u64| now - seconds(index);
    assert!(!turns.take(rest[0], since(1), now));
    assert!(!turns.take(rest[1], since(3), now));
    assert!(!turns.take(rest[2], since(2), now));
    assert_eq!(turns.due(rest[0], now), None, "another comes first");
    let due = turns.due(rest[1], now).expect("it is the first");
    assert!(!turns.take(rest[0], since(1), due));
    turns.give_up(rest[1], since(3));
    assert!(turns.take(rest[2], since(2), due));
    assert!(turns.take(rest[0], since(1), due + PAUSE));
}

/// Of 12 clusters so many fall, one a second, and one may be restored ten seconds after the first fell. It is so many seconds
/// later.
#[rstest::rstest]
#[case::two_are_a_coincidence(2, 0)]
#[case::three_are_many(3, 7)]
#[case::the_last_one_counts(9, 13)]
fn none_is_restored_while_an_outage_grows(#[case] fall: u64, #[case] after: u64) {
    let (mut turns, places) = clusters(12);
    let now = Instant::now();
    for (place, second) in places.iter().skip(1).zip(0..fall) {
        turns.falls(*place, now + seconds(second));
    }
    let healthy = now + seconds(10);
    let [(_, at)] = served(&mut turns, &[(places[0], healthy)])[..] else {
        panic!("it gets one turn");
    };
    assert_eq!(at - healthy, seconds(after));
}

#[test]
fn an_outage_that_goes_on_growing_is_waited_for_for_a_minute() {
    let (mut turns, places) = clusters(200);
    let now = Instant::now();
    let (first, others) = places.split_first().expect("some");
    let (fallen, others) = others.split_at(60);
    for place in fallen {
        turns.falls(*place, now);
    }
    let (mut at, mut others) = (now, others.iter());
    while !turns.take(*first, now, at) {
        at += seconds(1);
        turns.falls(*others.next().expect("one more"), at);
    }
    assert_eq!(at - now, HELD);
}

/// What kept them from being restored before counts for their order alone.
#[test]
fn none_is_hurried_that_begins_to_wait_late() {
    let (mut turns, places) = clusters(100);
    let now = Instant::now() + LATEST;
    let taken = places
        .iter()
        .filter(|place| turns.take(**place, now - LATEST, now));
    assert_eq!(taken.count(), 20);
    let first = turns.first().expect("some wait");
    assert_eq!(turns.due(first, now), Some(now + PAUSE));
}

/// One that is scaled down again and again is one, and those that are never scaled down do not count.
#[test]
fn each_cluster_counts_once() {
    let (mut turns, places) = clusters(8);
    let now = Instant::now();
    for second in 0..6 {
        turns.falls(places[1], now + seconds(10 * second));
    }
    let at = now + seconds(50);
    assert!(turns.take(places[0], at, at));
    for place in &places[2..4] {
        turns.falls(*place, at);
    }
    assert!(!turns.take(places[0], at, at));
    let unguarded: Vec<Place> = (0..100).map(|_| turns.join()).collect();
    assert!(!turns.take(places[0], at, at));
    for place in unguarded {
        turns.guard(place, true);
    }
    assert!(turns.take(places[0], at, at));
}

proptest! {
    /// However many wait, and since when.
    #[test]
    fn each_gets_its_turn_in_time_and_none_is_hurried(
        since in prop::collection::vec(0_u64..30_000, 1..1_600),
        falls in prop::collection::vec(0_u64..30_000, 0..60),
    ) {
        let (mut turns, places) = clusters(since.len());
        let start = Instant::now();
        let mut falls = falls;
        falls.sort_unstable();
        for (place, at) in places.iter().zip(falls) {
            turns.falls(*place, start + Duration::from_millis(at));
        }
        let waits: Vec<_> = places
            .iter()
            .zip(&since)
            .map(|(place, since)| (*place, start + Duration::from_millis(*since)))
            .collect();
        let served = served(&mut turns, &waits);
        prop_assert_eq!(served.len(), waits.len());
        let healthy: std::collections::BTreeMap<_, _> = waits.iter().copied().collect();
        for (place, at) in &served {
            prop_assert!(*at <= healthy[place] + LATEST + Duration::from_millis(2));
        }
        if since.len() <= 1_000 {
            for (index, (_, at)) in served.iter().enumerate() {
                let Some((_, later)) = served.get(index + 20) else {
                    break;
                };
                prop_assert!(*later - *at >= PAUSE - Duration::from_millis(1), "more than 20 at once, {index}");
            }
        }
    }
}
