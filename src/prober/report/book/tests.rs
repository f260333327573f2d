use std::time::Duration;

use proptest::prelude::*;
use tokio::time::advance;

use super::{
    super::{
        ClusterReport,
        finding::{Finding, HeldBack},
        fixtures::{assessment, report, selecting, view},
    },
    *,
};
use crate::{
    api::{ClusterState, Protection},
    prober::verdict::Verdict,
};

fn seen(verdict: Verdict, protection: Protection) -> ClusterReport {
    let finding = Finding::Judged(verdict, Box::new(assessment(5, 0)));
    ClusterReport {
        observed: Some(view(ClusterState::Online)),
        protection,
        ..report(finding)
    }
}

fn state(state: ClusterState) -> ClusterReport {
    ClusterReport {
        observed: Some(view(state)),
        ..seen(Verdict::Healthy, Protection::None)
    }
}

/// Takes up a report of a cluster.
fn take(book: &mut Book, name: &str, report: ClusterReport) {
    book.take_cluster(&name.into(), report);
}

/// A book that has written of these clusters that they are healthy and ONLINE.
fn written(names: &[&str]) -> Book {
    let mut book = Book::new(Known::default());
    for name in names {
        take(&mut book, name, state(ClusterState::Online));
        let begin = |cluster: &mut Cluster| cluster.record.begin();
        let begun = book.edit(name, begin).flatten().unwrap();
        book.cluster_written(name, begun, Ok(None));
    }
    book.news.clear();
    book
}

/// The clusters in the order in which they are written, of those that are due.
fn order(book: &mut Book) -> Vec<String> {
    let mut order = vec![];
    while let Some(next) = book.next().filter(|it| it.due <= Instant::now()) {
        let (_, name) = next.object;
        book.edit(&name, |cluster| cluster.record.begin()).unwrap();
        order.push(name.to_string());
    }
    order
}

/// However many are only observed otherwise, and however long they have been due.
#[test]
fn what_is_only_observed_is_written_last() {
    let mut book = written(&["a", "b", "c", "d"]);
    let failing = state(ClusterState::FailingMetrics);
    take(&mut book, "a", failing);
    let unread = report(Finding::Unread {
        reason: "Timeout",
        message: "no answer".to_owned(),
    });
    take(&mut book, "b", unread);
    let held_back = ClusterReport {
        held_back: Some(HeldBack::By("why")),
        ..seen(Verdict::Healthy, Protection::None)
    };
    take(&mut book, "c", held_back);
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    take(&mut book, "d", outage);
    assert_eq!(order(&mut book), ["d", "c", "a", "b"]);
}

/// What is not due yet does not hide what is due before it.
#[tokio::test(start_paused = true)]
async fn a_protection_that_cannot_be_written_yet_keeps_nothing_waiting() {
    let mut book = written(&["a", "d"]);
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    take(&mut book, "d", outage);
    for _ in 0..4 {
        let fail = |cluster: &mut Cluster| {
            cluster.record.schedule.begin();
            cluster.record.schedule.failed();
        };
        book.edit("d", fail).unwrap();
    }
    let retried = book.next().unwrap().due;
    let soon = Instant::now() + Duration::from_secs(1);
    assert!(soon < retried);
    let hurry = |cluster: &mut Cluster| cluster.record.schedule.hurry(soon);
    book.edit("a", hurry).unwrap();
    let next = book.next().unwrap();
    assert_eq!((next.due, &*next.object.1), (soon, "a"));
}

#[test]
fn a_protection_is_written_first() {
    let mut book = Book::new(Known::default());
    for name in ["a", "b", "c"] {
        take(&mut book, name, seen(Verdict::Healthy, Protection::None));
    }
    take(
        &mut book,
        "d",
        seen(Verdict::Outage, Protection::ScalingDown),
    );
    let order = order(&mut book);
    assert_eq!(order.first().map(|it| &**it), Some("d"));
    assert_eq!(order.len(), 4);
}

/// A first read that hangs is not mistaken for a new cluster for long.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_new_for_a_minute() {
    let minute = Duration::from_secs(60);
    let mut book = written(&["a"]);
    book.take_policies(vec![selecting(&["a", "b"])]);
    let pending = || report(Finding::Pending);
    take(&mut book, "b", pending());
    let counts = |book: &Book| book.policy_status("shoots").unwrap().clusters;
    assert_eq!(counts(&book).undetermined, 0);
    // To report the same again makes it no newer.
    advance(minute / 2).await;
    take(&mut book, "b", pending());
    advance(minute / 2 - Duration::from_millis(1)).await;
    assert_eq!(counts(&book).undetermined, 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(counts(&book).undetermined, 1);
    // One that wakes up is as good as new.
    let skipped = Finding::Skipped {
        reason: "Hibernated",
        message: String::new(),
    };
    take(&mut book, "b", report(skipped));
    take(&mut book, "b", pending());
    assert_eq!(counts(&book).undetermined, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Report,
    Hurry(u64),
    Begin,
    Settle,
    Fail,
    Unselect,
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Report),
        3 => (0..20_u64).prop_map(Step::Hurry),
        2 => Just(Step::Begin),
        1 => Just(Step::Settle),
        1 => Just(Step::Fail),
        1 => Just(Step::Unselect),
        1 => Just(Step::Forget),
    ]
}

proptest! {
    #[test]
    fn those_that_are_due_are_found_without_a_look_at_each(
        steps in prop::collection::vec((0..4_usize, step()), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
        let _guard = runtime.enter();
        let start = Instant::now();
        let mut book = Book::new(Known::default());
        for (name, step) in steps {
            let name = ["a", "b", "c", "d"][name];
            let schedule = |cluster: &mut Cluster| match step {
                Step::Hurry(seconds) => cluster.record.schedule.hurry(start + Duration::from_secs(seconds)),
                Step::Begin => cluster.record.schedule.begin(),
                Step::Settle => { cluster.record.schedule.settle(Duration::ZERO); }
                Step::Fail => cluster.record.schedule.failed(),
                Step::Report | Step::Unselect | Step::Forget => {}
            };
            match step {
                Step::Report => take(&mut book, name, report(Finding::Pending)),
                Step::Unselect => book.take_gone(name, true),
                Step::Forget => book.forget(name),
                _ => { book.edit(name, schedule); }
            }
        }
        let due = book.clusters.iter();
        let due = due.filter_map(|(name, cluster)| Some((cluster.record.due()?, name.clone())));
        let due: BTreeSet<_> = due.collect();
        prop_assert_eq!(&book.due, &due);
        let next = book.next().map(|it| it.due);
        prop_assert_eq!(next, due.first().map(|(due, _)| *due));
    }
}
