use std::collections::BTreeMap;

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

/// Lets these wait from these moments on, and tells when each gets its turn.
fn served(turns: &mut Turns, waits: &[(Place, Instant)]) -> Vec<(Place, Instant)> {
    let mut waits = waits.to_vec();
    waits.sort_by_key(|(_, since)| *since);
    let mut waits = waits.into_iter().peekable();
    let mut now = waits.peek().expect("some wait").1;
    let mut since = BTreeMap::new();
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

/// Of 12 clusters so many fall, one a second, and one may be restored ten seconds after the first fell. It is so many
/// seconds later.
#[rstest::rstest]
#[case::two_are_a_coincidence(2, 0)]
#[case::three_are_many(3, 7)]
#[case::the_last_one_counts(9, 13)]
#[case::for_a_minute_at_most(150, 60)]
fn none_is_restored_while_an_outage_grows(#[case] fall: u32, #[case] after: u32) {
    let (mut turns, places) = clusters(12);
    let now = Instant::now();
    let at = |second| now + Duration::from_secs(1) * second;
    let restored = (0..).find(|second| {
        if *second < fall {
            let falls = places[1 + *second as usize % 11];
            turns.falls(falls, at(*second));
        }
        *second >= 10 && turns.take(places[0], at(10), at(*second))
    });
    assert_eq!(restored, Some(10 + after));
}

proptest! {
    /// However many wait, and since when; the one that has waited for longest comes first.
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
        let healthy: BTreeMap<_, _> = waits.iter().copied().collect();
        for (place, at) in &served {
            prop_assert!(*at <= healthy[place] + LATEST + Duration::from_millis(2));
        }
        for ((before, at), (after, _)) in served.iter().zip(served.iter().skip(1)) {
            let (before, after) = (healthy[before], healthy[after]);
            prop_assert!(before <= after || after > *at, "it waits for longer");
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
