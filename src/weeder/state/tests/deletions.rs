//! What is deleted, when, how often, and what is said of it.

use super::*;

#[test]
fn what_is_refused_is_tried_again_ever_more_slowly_and_told_once() {
    let (mut bench, watch) = Bench::weeding(&[policy("a", "etcd", "api", |it| {
        it["spec"]["watchDuration"] = json!("1h");
    })]);
    bench.show(&watch, weed("p"));
    for wait in [1, 2, 4, 8, 16, 30, 30] {
        let deletion = bench.next().unwrap();
        bench.end(deletion, Err(DeletionError::Refused("no (403)".to_owned())));
        assert_eq!(bench.state.due(), Some(bench.now.mono + wait * SECOND));
        bench.pass(wait * SECOND - Duration::from_millis(1));
        assert_eq!(bench.next(), None);
        bench.pass(Duration::from_millis(1));
    }
    assert_eq!(bench.told(), ["p for a: delete pod ns/p: no (403)"]);
    let troubles = bench.report().troubles;
    assert_eq!(troubles.len(), 1);
    assert_eq!(troubles[0].reason, "DeletionRefused");
    let deletion = bench.next().unwrap();
    bench.end(deletion, Ok(()));
    assert_eq!(bench.report().troubles, []);
}

/// What becomes of a pod after a lost answer.
#[derive(Clone, Copy, Debug)]
enum Then {
    Gone,
    Terminates,
    NotFound,
    GoneBefore,
    TerminatesBefore,
}

#[rstest]
fn a_lost_answer_counts_if_the_pod_went(
    #[values(
        Then::Gone,
        Then::Terminates,
        Then::NotFound,
        Then::GoneBefore,
        Then::TerminatesBefore
    )]
    then: Then,
) {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    let gone = |bench: &mut Bench| {
        bench
            .state
            .pod_event(&watch, Event::Delete(weed("p")), bench.now);
    };
    match then {
        Then::GoneBefore => gone(&mut bench),
        Then::TerminatesBefore => bench.show(&watch, pod("ns", "p", 2, terminating)),
        _ => {}
    }
    bench.end(deletion, lost());
    bench.told();
    match then {
        Then::Gone => gone(&mut bench),
        Then::Terminates => bench.show(&watch, pod("ns", "p", 2, terminating)),
        Then::NotFound => {
            bench.pass(SECOND);
            let again = bench.next().unwrap();
            bench.end(again, Err(DeletionError::Gone));
        }
        Then::GoneBefore | Then::TerminatesBefore => {}
    }
    assert_eq!(bench.report().weeded, 1, "{then:?}");
    gone(&mut bench);
    bench.pass(MINUTE);
    assert_eq!((bench.next(), bench.report().weeded), (None, 1));
    assert_eq!(bench.state.sizes(), Sizes::default());
}

fn lost() -> Result<(), DeletionError> {
    Err(DeletionError::Unanswered("no answer".to_owned()))
}

/// What is deleted at once, and then the pods that were deleted, with the seconds that passed before.
fn weeded(bench: &mut Bench, seconds: u64) -> Vec<(u64, String)> {
    let mut weeded = Vec::new();
    for second in 0..=seconds {
        if second > 0 {
            bench.pass(SECOND);
        }
        while let Some(deletion) = bench.next() {
            // None was late.
            let delay = bench.now.mono - deletion.called_for;
            assert!(delay <= SECOND, "{delay:?}");
            weeded.push((second, deletion.pod.to_string()));
            bench.end(deletion, Ok(()));
        }
    }
    weeded
}

#[test]
fn successors_that_crash_as_well_wait_for_their_turn() {
    let long = policy("a", "etcd", "api", |it| {
        it["spec"]["watchDuration"] = json!("10m");
    });
    let (mut bench, watch) = Bench::weeding(&[long]);
    bench.show(&watch, weed("a1"));
    bench.show(&watch, weed("b1"));
    bench.pass(SECOND);
    let at_once = [(0, "a1".to_owned()), (0, "b1".to_owned())];
    assert_eq!(weeded(&mut bench, 0), at_once);
    bench.told();
    bench.pass(SECOND);
    bench.show(&watch, weed("a2"));
    bench.show(&watch, weed("b2"));
    bench.show(&watch, pod("ns", "other", 1, of_its_own));
    bench.show(&watch, pod("ns", "b2", 2, |_| ()));
    // Ten seconds after the first, and twenty after the second.
    let expected = [
        (0, "other".to_owned()),
        (9, "a2".to_owned()),
        (29, "b2".to_owned()),
    ];
    assert_eq!(weeded(&mut bench, 100), expected);
    assert_eq!(
        bench.told(),
        [
            "a2 for a: Repeated",
            "b2 for a: Repeated",
            "other for a: weeded",
            "a2 for a: weeded",
            "b2 for a: weeded"
        ]
    );
    // One that is well again meanwhile, or goes, is not deleted.
    bench.show(&watch, weed("a3"));
    bench
        .state
        .pod_event(&watch, Event::Delete(weed("a3")), bench.now);
    assert_eq!(weeded(&mut bench, 100), []);
}
