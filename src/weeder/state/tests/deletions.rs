//! What is deleted, when, how often, and what is said of it.

use super::*;

#[test]
fn a_looping_pod_is_deleted_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.pass(5 * SECOND);
    bench.show(&watch, weed("p"));
    bench.pass(2 * SECOND);
    assert!(bench.state.may_delete());
    let deletion = bench.next().unwrap();
    assert_eq!((&*deletion.pod, &*deletion.resource_version), ("p", "1"));
    assert_eq!((&*deletion.policy, &*deletion.service), ("a", "etcd"));
    bench.end(deletion, Ok(()));
    // The watch lags.
    bench.show(&watch, pod("ns", "p", 1, |_| ()));
    assert_eq!(bench.next(), None);
    let news = bench.state.take_news();
    let [News::Pod { news, looped_for }] = &news[..] else {
        panic!("{news:?}");
    };
    assert_eq!(*looped_for, 2 * SECOND);
    let expected = PodDeed::Weeded {
        containers: vec!["c".into()],
        ready_for: 7 * SECOND,
    };
    assert_eq!(news.deed, expected);
    let report = bench.report();
    assert_eq!((report.weeded, report.last_weeds.len()), (1, 1));
    assert_eq!(report.last_weeds[0].owner, "ReplicaSet/api-1");
    bench
        .state
        .pod_event(&watch, Event::Delete(weed("p")), bench.now);
    assert_eq!(
        (bench.state.sizes().pods, bench.state.sizes().tried),
        (0, 0)
    );
}

#[test]
fn a_pod_loops_since_it_was_first_seen_to() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    let first = bench.now.mono;
    bench.show(&watch, weed("p"));
    bench.pass(2 * SECOND);
    bench.show(&watch, pod("ns", "p", 2, |_| ()));
    assert_eq!(bench.next().unwrap().looping_since, first);
}

#[test]
fn a_dry_run_tells_once_of_each_pod() {
    let (mut bench, watch) = Bench::weeding(&[dry_run("a")]);
    bench.show(&watch, weed("p"));
    bench.show(&watch, pod("ns", "p", 2, |it| it["status"] = json!({})));
    bench.show(&watch, pod("ns", "p", 3, |_| ()));
    assert_eq!(bench.told(), ["p for a: would weed"]);
    assert_eq!(bench.next(), None);
    let report = bench.report();
    assert_eq!(report.weeded, 0);
    assert!(report.last_weeds[0].dry_run);
    // It is deleted when it may be.
    bench.policy(plain("a"));
    assert_eq!(&*bench.next().unwrap().resource_version, "3");
}

#[test]
fn what_nothing_would_replace_is_left_alone_and_told_once() {
    let (mut bench, watch) = Bench::weeding(&[plain("a"), plain("b")]);
    bench.show(&watch, pod("ns", "p", 1, orphan));
    bench.show(&watch, pod("ns", "p", 2, orphan));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.told(), ["p for a: NoController"]);
    // Windows that are opened again come across it again, and each policy shows it once.
    bench.ready("ns", "etcd", false);
    bench.ready("ns", "etcd", true);
    let watch = bench.watch();
    bench.pass(SECOND);
    bench.list(&watch, vec![pod("ns", "p", 2, orphan)]);
    let came = bench.now.wall;
    bench.pass(SECOND);
    bench.show(&watch, pod("ns", "p", 3, orphan));
    let reports = bench.state.reports();
    assert_eq!(reports.len(), 2);
    for report in reports {
        let left = report.left_alone;
        assert_eq!(left.len(), 1);
        assert_eq!((&*left[0].pod, &*left[0].reason), ("p", "NoController"));
        assert_eq!(left[0].time.0, came);
    }
}

#[test]
fn what_has_changed_is_decided_by_its_next_version() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Changed));
    // A watch that lags tells the same version again.
    bench.show(&watch, weed("p"));
    bench.pass(30 * SECOND);
    assert_eq!(bench.next(), None);
    bench.show(&watch, pod("ns", "p", 2, |_| ()));
    let deletion = bench.next().unwrap();
    assert_eq!(&*deletion.resource_version, "2");
    // The next one is known before the answer.
    bench.show(&watch, pod("ns", "p", 3, |_| ()));
    bench.end(deletion, Err(DeletionError::Changed));
    assert_eq!(&*bench.next().unwrap().resource_version, "3");
    assert_eq!(bench.told(), [""; 0]);
}

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

#[rstest]
#[case::as_asked(Some(7), 7)]
#[case::no_longer_than_that(Some(900), 30)]
#[case::not_at_once(Some(0), 1)]
#[case::not_said(None, 1)]
fn what_is_throttled_waits(#[case] asked: Option<u64>, #[case] seconds: u32) {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    let asked = asked.map(Duration::from_secs);
    bench.end(deletion, Err(DeletionError::Throttled(asked)));
    assert_eq!(bench.state.due(), Some(bench.now.mono + seconds * SECOND));
}

#[test]
fn what_does_not_loop_any_more_is_not_tried_again() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Refused("no".to_owned())));
    bench.show(&watch, pod("ns", "p", 2, |it| it["status"] = json!({})));
    bench.pass(10 * SECOND);
    assert_eq!(bench.next(), None);
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

/// A pod was to be deleted, and nobody knows if it was.
fn after_a_lost_answer() -> (Bench, PodWatch) {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, lost());
    (bench, watch)
}

#[test]
fn a_pod_whose_second_deletion_is_answered_counts_once() {
    let (mut bench, watch) = after_a_lost_answer();
    bench.pass(SECOND);
    let again = bench.next().unwrap();
    bench.end(again, Ok(()));
    bench.show(&watch, pod("ns", "p", 2, terminating));
    assert_eq!(bench.report().weeded, 1);
}

#[test]
fn a_pod_that_goes_while_it_is_asked_for_again_counts_once() {
    let (mut bench, watch) = after_a_lost_answer();
    bench.pass(SECOND);
    let again = bench.next().unwrap();
    bench.show(&watch, pod("ns", "p", 2, terminating));
    assert_eq!(bench.report().weeded, 1);
    bench.end(again, Ok(()));
    assert_eq!(bench.report().weeded, 1);
}

#[test]
fn a_pod_that_a_new_list_shows_well_is_not_taken_for_gone() {
    let (mut bench, watch) = after_a_lost_answer();
    bench.list(
        &watch,
        vec![pod("ns", "p", 2, |it| it["status"] = json!({}))],
    );
    assert_eq!(bench.report().weeded, 0);
    assert_eq!(bench.state.sizes().pods, 1);
}

#[test]
fn what_is_gone_without_us_is_not_counted() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("p"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Gone));
    assert_eq!((bench.next(), bench.report().weeded), (None, 0));
    assert_eq!(bench.told(), [""; 0]);
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

#[test]
fn a_service_that_was_away_again_excuses_its_dependants() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("a1"));
    assert_eq!(weeded(&mut bench, 0).len(), 1);
    bench.pass(SECOND);
    bench.show(&watch, weed("a2"));
    assert_eq!(bench.next(), None);
    assert_eq!(bench.state.sizes().backing_off, 1);
    bench.ready("ns", "etcd", false);
    assert_eq!(
        (bench.state.due(), bench.state.sizes().backing_off),
        (None, 0)
    );
    bench.ready("ns", "etcd", true);
    let watch = bench.watch();
    bench.list(&watch, vec![weed("a2")]);
    assert_eq!(weeded(&mut bench, 0), [(0, "a2".to_owned())]);
}

/// Only while it is on its way.
#[rstest]
#[case::refused(DeletionError::Refused("no (403)".to_owned()), true)]
#[case::changed(DeletionError::Changed, true)]
#[case::throttled(DeletionError::Throttled(None), true)]
#[case::perhaps_deleted(DeletionError::Unanswered("no answer".to_owned()), false)]
#[case::gone(DeletionError::Gone, false)]
fn a_pod_does_not_wait_for_one_that_was_not_deleted(
    #[case] error: DeletionError,
    #[case] at_once: bool,
) {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("a1"));
    let deletion = bench.next().unwrap();
    bench.pass(SECOND);
    bench.show(&watch, weed("b1"));
    assert_eq!(bench.next(), None);
    bench.end(deletion, Err(error));
    let next = bench.next();
    assert_eq!(next.is_some(), at_once);
    assert!(next.is_none_or(|it| &*it.pod == "b1"));
}

#[test]
fn a_deletion_that_is_refused_makes_no_successor() {
    let (mut bench, watch) = Bench::weeding(&[plain("a")]);
    bench.show(&watch, weed("a1"));
    let deletion = bench.next().unwrap();
    bench.end(deletion, Err(DeletionError::Refused("no".to_owned())));
    assert_eq!(weeded(&mut bench, 1), [(1, "a1".to_owned())]);
}
