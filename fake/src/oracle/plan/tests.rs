use super::*;
use std::collections::BTreeSet;

const SIZE: Size = Size {
    shoots: 10,
    nodes: 20,
    legs: 6,
    rough: 2,
    leg: Duration::from_secs(180),
};

fn events(leg: &Leg) -> impl Iterator<Item = &Event> {
    leg.steps.iter().map(|step| &step.event)
}

#[test]
fn a_seed_tells_one_story() {
    assert_eq!(plan(7, SIZE), plan(7, SIZE));
    assert_ne!(plan(7, SIZE), plan(8, SIZE));
}

/// Also the last, in which some of what may happen must not.
#[test]
fn every_leg_is_full() {
    for seconds in [75, 180] {
        let leg = Duration::from_secs(seconds);
        for (legs, seed) in [(3, 7), (6, 1), (6, 2)] {
            for leg in plan(seed, Size { legs, leg, ..SIZE }) {
                let count = leg.steps.len();
                assert!(count > 40, "{seed}: {count} in {seconds} s");
            }
        }
    }
}

#[test]
fn every_kind_comes_and_processes_end_in_the_rough_legs_alone() {
    for seed in 0..20 {
        let legs = plan(seed, SIZE);
        let hurts = |leg: &Leg| {
            events(leg)
                .filter_map(|event| match event {
                    Event::Hurt(hurt, role) => Some((*hurt, *role)),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        let (rough, gentle) = legs.split_at(SIZE.rough);
        let rough: Vec<_> = rough.iter().flat_map(hurts).collect();
        for expected in ROUGH {
            assert!(rough.contains(&expected), "{seed}: {expected:?}, {rough:?}");
        }
        let gentle: Vec<_> = gentle.iter().flat_map(hurts).collect();
        assert!(gentle.iter().all(|(hurt, _)| *hurt == BLINK), "{gentle:?}");
        assert!(gentle.len() >= 2, "{gentle:?}");
        let mut last = legs[4..].iter().flat_map(events);
        assert!(!last.any(|it| *it == Event::RestartSeed));
        let kills = kills_in_cuts(&legs);
        assert!(kills >= 2, "{seed}: {kills}");
        let kinds: BTreeSet<String> = legs.iter().flat_map(events).map(Event::kind).collect();
        for kind in [
            "Cut",
            "Restore",
            "Hibernate",
            "Wake",
            "Remove",
            "Create",
            "Ignore",
        ] {
            assert!(kinds.contains(kind), "{seed}: {kind}, {kinds:?}");
        }
        for kind in [
            "Rotate",
            "Scale",
            "Annotate",
            "Replace",
            "RestartSeed",
            "Heed",
            "Thaw",
        ] {
            assert!(kinds.contains(kind), "{seed}: {kind}, {kinds:?}");
        }
        for hold in [Hold::DryRun, Hold::Suspended, Hold::Half] {
            assert!(kinds.contains(&format!("policy: {hold:?}")), "{kinds:?}");
        }
    }
}

/// How many API servers die while their kubelets are cut off, and are back before those are.
fn kills_in_cuts(legs: &[Leg]) -> usize {
    let mut count = 0;
    for leg in legs {
        let (mut cut, mut died) = (BTreeSet::new(), BTreeSet::new());
        for event in events(leg) {
            match event {
                Event::Cut { shoot, .. } => _ = cut.insert(shoot),
                Event::Restore { shoot } => _ = cut.remove(shoot),
                Event::Kill { shoot, .. } if cut.contains(shoot) => _ = died.insert(shoot),
                Event::Revive { shoot } => {
                    count += usize::from(died.remove(shoot) && cut.contains(shoot));
                }
                _ => {}
            }
        }
    }
    count
}

/// Cuts of one shoot would be told apart by nobody if they overlapped.
#[test]
fn a_shoot_has_one_trouble_at_a_time() {
    for leg in (0..20).flat_map(|seed| plan(seed, SIZE)) {
        let mut open: Vec<Event> = Vec::new();
        for event in events(&leg) {
            if let Some(place) = open.iter().position(|end| end == event) {
                open.remove(place);
            }
            if let Some(end) = event.end() {
                assert!(!open.contains(&end), "{event:?} again, {leg:?}");
                open.push(end);
            }
        }
    }
}

#[test]
fn what_the_operator_may_not_have_seen_is_kept_apart() {
    for leg in (0..20).flat_map(|seed| plan(seed, SIZE)) {
        let mut at = Duration::ZERO;
        let (mut edited, mut upset) = (None, None);
        for Step { after, event } in &leg.steps {
            at += *after;
            let since = |before: Option<Duration>| before.is_none_or(|it| at - it >= APART);
            match event {
                Event::Policy(Edit::Release) => {}
                Event::Policy(_) => {
                    assert!(since(upset), "{event:?} at {at:?}, {leg:?}");
                    edited = Some(at);
                }
                Event::RestartSeed | Event::Hurt(Hurt::Freeze(_), _) => {
                    assert!(since(edited), "{event:?} at {at:?}, {leg:?}");
                    upset = Some(at);
                }
                Event::Thaw => upset = Some(at),
                _ => {}
            }
        }
    }
}
