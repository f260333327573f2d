//! Every order in which crashes, lost answers, people and outages may meet the operator's decisions,
//! up to bounds, against the rules of docs/invariants.md.
//!
//! Explorations that take minutes or gigabytes are ignored here; `make model` includes them.

use std::time::{Duration, Instant};

use super::{
    bounds::{Bounds, Budget, Part},
    explorer::explore,
    flaws::Flaw,
};
use dependency_watchdog::prober::step::Family::{Apps, Scalable};
use rstest::rstest;

/// Each kind is scaled by requests of its own; what goes down first comes up last.
const TWO: [Part; 2] = [Part::new(Apps, 1, 0, 3), Part::new(Scalable, 0, 1, 1)];
/// Two of them share a level.
const THREE: [Part; 3] = [
    Part::new(Apps, 1, 0, 3),
    Part::new(Scalable, 1, 0, 1),
    Part {
        delayed: true,
        ..Part::new(Apps, 0, 1, 1)
    },
];
const ONE: [Part; 1] = [Part::new(Scalable, 0, 0, 3)];

/// Longer than a write that was given up may take.
const INITIAL_DELAY: Duration = Duration::from_secs(60);

const NONE: Budget = Budget {
    turns: 0,
    faults: 0,
    late: 0,
    ends: 0,
    freezes: 0,
    people: 0,
    deploys: 0,
    policies: 0,
    lives: 0,
    rollbacks: 0,
    outages: 0,
};

fn bounds(parts: &[Part], budget: Budget) -> Bounds {
    Bounds {
        parts: parts.to_vec(),
        budget,
        ..Bounds::default()
    }
}

/// Explores all of it.
fn holds(name: &str, bounds: Bounds) {
    let begun = Instant::now();
    match explore(bounds) {
        Ok(explored) => println!("{name}: {explored:?} in {:.1?}", begun.elapsed()),
        Err(found) => panic!("{name}: {}", found.join("\n")),
    }
}

/// The process ends, in each of its ways: before and after each request, and, in the deep ones, twice in a row.
#[rstest]
#[case::short(&ONE, Budget { turns: 1, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::twice(&TWO, Budget { turns: 1, ends: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 3, ends: 3, ..NONE })]
#[ignore = "deep: make model"]
#[case::three(&THREE, Budget { turns: 2, ends: 1, ..NONE })]
fn processes_end(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("processes end", bounds(parts, budget));
}

/// Requests fail, are carried out unanswered, or are refused.
#[rstest]
#[case::short(&ONE, Budget { turns: 1, faults: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, faults: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, faults: 2, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::three(&THREE, Budget { turns: 1, faults: 1, ..NONE })]
fn requests_fail(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("requests fail", bounds(parts, budget));
}

/// Writes arrive after their sender has given them up, has ended, or does not lead any more.
#[rstest]
#[case::short(&ONE, Budget { turns: 2, late: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::both(&ONE, Budget { turns: 2, late: 1, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::several(&ONE, Budget { turns: 2, late: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_people(&ONE, Budget { turns: 1, late: 1, people: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_policies(&ONE, Budget { turns: 1, late: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_lives(&ONE, Budget { turns: 1, late: 1, lives: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_both(&ONE, Budget { turns: 1, late: 1, policies: 1, lives: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_policies_and_ends(&ONE, Budget { late: 1, ends: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_lives_and_ends(&ONE, Budget { late: 1, ends: 1, lives: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::of_two_with_policies(&TWO, Budget { turns: 1, late: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::of_two_with_lives(&TWO, Budget { late: 1, lives: 1, ..NONE })]
fn writes_arrive_late(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("writes arrive late", bounds(parts, budget));
}

/// People and an HPA scale, people remove marks, set `ignore-scaling`, delete and create.
#[rstest]
#[case::short(&ONE, Budget { turns: 1, people: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, people: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, people: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::much(&ONE, Budget { turns: 2, people: 2, ..NONE })]
fn people_interfere(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("people interfere", bounds(parts, budget));
}

/// gardenlet reads a dependent's replicas, and writes them later. Where no policy is left, marks fall at once, and
/// such a zero stays.
#[rstest]
#[case::one(&ONE, Budget { turns: 1, deploys: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, deploys: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::crashed(&ONE, Budget { turns: 1, deploys: 1, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::turning(&TWO, Budget { turns: 3, deploys: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::failing(&ONE, Budget { turns: 1, deploys: 2, faults: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_late_writes(&ONE, Budget { turns: 1, deploys: 1, late: 1, ..NONE })]
fn gardenlet_deploys(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("gardenlet deploys", bounds(parts, budget));
}

/// Policies are suspended, put into DryRun, deleted, and applied again.
#[rstest]
#[case::short(&ONE, Budget { turns: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, policies: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::much(&ONE, Budget { turns: 1, policies: 2, ends: 1, people: 1, ..NONE })]
fn policies_change(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("policies change", bounds(parts, budget));
}

/// The Cluster is deleted, hibernated, loses its workers, is gone, and comes back.
#[rstest]
#[case::short(&ONE, Budget { lives: 2, ..NONE })]
#[case::crashed(&ONE, Budget { lives: 1, ends: 1, ..NONE })]
#[case::held(&ONE, Budget { lives: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::turning(&ONE, Budget { turns: 1, lives: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 1, lives: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::crashed_deep(&TWO, Budget { lives: 2, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::failing(&ONE, Budget { turns: 1, lives: 2, faults: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_people(&ONE, Budget { lives: 2, people: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::much(&ONE, Budget { turns: 1, lives: 2, policies: 1, ends: 1, ..NONE })]
fn clusters_live(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("clusters live", bounds(parts, budget));
}

/// The seed's API server is away, and its etcd is restored to an older state.
#[rstest]
#[case::away(&ONE, Budget { turns: 1, outages: 1, ..NONE })]
#[case::restored(&ONE, Budget { turns: 1, rollbacks: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two_away(&TWO, Budget { turns: 1, outages: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two_restored(&TWO, Budget { turns: 1, rollbacks: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, rollbacks: 1, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::with_people(&ONE, Budget { turns: 1, rollbacks: 1, people: 1, late: 1, ..NONE })]
fn the_seed_is_lost(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("the seed is lost", bounds(parts, budget));
}

/// The process is frozen until its evidence counts no more.
#[rstest]
#[case::short(&ONE, Budget { turns: 1, freezes: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, freezes: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, freezes: 2, ends: 1, ..NONE })]
fn evidence_ages(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("evidence ages", bounds(parts, budget));
}

/// Gates do not pass.
#[rstest]
#[case::short(&ONE, Budget { turns: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::ending(&ONE, Budget { turns: 2, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 3, ends: 1, ..NONE })]
fn checks_have_a_say(#[case] parts: &[Part], #[case] budget: Budget) {
    let bounds = Bounds {
        checks: true,
        ..bounds(parts, budget)
    };
    holds("checks have a say", bounds);
}

/// The policy has an `initialDelay`, before which nothing is scaled.
#[rstest]
#[case::short(&ONE, Budget { turns: 2, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, lives: 1, policies: 1, ..NONE })]
fn clusters_are_watched_at_first(#[case] parts: &[Part], #[case] budget: Budget) {
    let bounds = Bounds {
        initial_delay: INITIAL_DELAY,
        ..bounds(parts, budget)
    };
    holds("clusters are watched at first", bounds);
}

/// What is written comes about late, or not in time.
#[rstest]
#[case::short(&ONE, Budget { turns: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::three(&THREE, Budget { turns: 1, ..NONE })]
fn controllers_take_their_time(#[case] parts: &[Part], #[case] budget: Budget) {
    let bounds = Bounds {
        slow: true,
        ..bounds(parts, budget)
    };
    holds("controllers take their time", bounds);
}

/// Whatever happens between a write and the answer to it.
#[rstest]
#[case::turning(&ONE, Budget { turns: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&ONE, Budget { turns: 2, ends: 1, faults: 1, policies: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::living(&ONE, Budget { turns: 1, lives: 1, people: 1, ..NONE })]
fn answers_take_their_time(#[case] parts: &[Part], #[case] budget: Budget) {
    let bounds = Bounds {
        slow_answers: true,
        ..bounds(parts, budget)
    };
    holds("answers take their time", bounds);
}

/// Many clusters are restored at the same time, so that its turn comes later.
#[rstest]
#[case::short(&ONE, Budget { turns: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::two(&TWO, Budget { turns: 2, ..NONE })]
#[ignore = "deep: make model"]
#[case::held(&ONE, Budget { turns: 1, policies: 1, ends: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::deep(&TWO, Budget { turns: 2, ends: 1, people: 1, ..NONE })]
#[ignore = "deep: make model"]
#[case::living(&TWO, Budget { turns: 2, lives: 1, policies: 1, ..NONE })]
fn restores_wait_for_their_turn(#[case] parts: &[Part], #[case] budget: Budget) {
    let bounds = Bounds {
        paced: true,
        ..bounds(parts, budget)
    };
    holds("restores wait for their turn", bounds);
}

/// A crash, a request that fails and a person, in one outage.
#[rstest]
#[ignore = "deep: make model"]
#[case::deep(&ONE, Budget { turns: 1, faults: 1, ends: 1, people: 1, ..NONE })]
fn all_at_once(#[case] parts: &[Part], #[case] budget: Budget) {
    holds("all at once", bounds(parts, budget));
}

/// An operator that is broken on purpose is found out, by the rule that it breaks.
#[rstest]
#[case(Flaw::NoPrecondition, Budget { turns: 1, people: 1, ..NONE }, "recorded-exactly")]
#[case(Flaw::NoAnnotations, Budget { turns: 1, ..NONE }, "recorded-exactly")]
#[case(Flaw::WrongRecord, Budget { turns: 1, ..NONE }, "recorded-exactly")]
#[case(Flaw::NoOrder, Budget { turns: 1, ..NONE }, "level-order")]
#[case(Flaw::KeepsOn, Budget { turns: 1, ..NONE }, "no-evidence")]
#[case(Flaw::TakesDoubtForOutage, Budget { turns: 1, ..NONE }, "no-evidence")]
#[case(Flaw::DisregardsPolicy, Budget { turns: 1, policies: 1, ..NONE }, "policy-in-force")]
#[case(Flaw::BelievesTheWatch, Budget { policies: 1, ..NONE }, "confirmed-first")]
#[case(Flaw::OutlivesItsLease, Budget { turns: 1, ends: 1, ..NONE }, "one-leader")]
#[case(Flaw::RestoresUnmarked, Budget { turns: 1, people: 1, ..NONE }, "only-own-marks")]
#[case(Flaw::DisregardsIgnore, Budget { turns: 1, people: 1, ..NONE }, "hands-off")]
#[case(Flaw::DisregardsPeople, Budget { turns: 1, people: 1, ..NONE }, "newer-count-wins")]
#[case(Flaw::ForgetsTheRecord, Budget { turns: 1, ..NONE }, "no-count-lost")]
#[case(Flaw::RestoresOne, Budget { turns: 1, ..NONE }, "restored-exactly")]
#[case(Flaw::DropsMarksAtOnce, Budget { turns: 1, deploys: 1, ..NONE }, "all-restored")]
#[case(Flaw::TrustsItsRecord, Budget { turns: 1, ends: 1, ..NONE }, "all-restored")]
#[case(Flaw::KeepsMarks, Budget { lives: 1, ..NONE }, "let-go")]
#[case(Flaw::BuriesAtOnce, Budget { lives: 1, ..NONE }, "let-go")]
#[case(Flaw::ReleasesTheRecord, Budget { lives: 1, ..NONE }, "no-count-lost")]
#[case(Flaw::BelievesForEver, Budget { turns: 1, late: 1, ..NONE }, "all-restored")]
#[case(Flaw::ActsAtOnce, Budget { turns: 1, ..NONE }, "policy-in-force")]
#[case(Flaw::WaitsForNothing, Budget { turns: 1, late: 1, policies: 1, ..NONE }, "all-restored")]
fn a_flaw_is_found(#[case] flaw: Flaw, #[case] budget: Budget, #[case] rule: &str) {
    let mut bounds = bounds(&TWO, budget);
    bounds.flaw = flaw;
    if flaw == Flaw::ActsAtOnce {
        bounds.initial_delay = INITIAL_DELAY;
    }
    let found = explore(bounds);
    let found = found.expect_err("a flawed operator breaks a rule");
    let (broken, steps) = (found[0].split(':').next(), found.len() - 1);
    let found = found.join("\n");
    println!("{flaw:?}: {found}");
    assert_eq!(broken, Some(rule), "{found}");
    assert!(steps <= 20, "{found}");
}
