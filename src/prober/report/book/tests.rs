use std::time::Duration;

use tokio::time::advance;

use super::{
    super::{
        ClusterReport,
        finding::{Finding, HeldBack},
        fixtures::{assessment, report, view},
        status,
    },
    *,
};
use crate::{
    api::{ClusterState, Protection},
    cluster::Brake,
    prober::verdict::Verdict,
};

fn seen(verdict: Verdict, protection: Protection) -> Box<ClusterReport> {
    let finding = Finding::Judged(verdict, Box::new(assessment(5, 0)));
    Box::new(ClusterReport {
        observed: Some(view(ClusterState::Online)),
        protection,
        ..report(finding)
    })
}

fn state(state: ClusterState) -> Box<ClusterReport> {
    Box::new(ClusterReport {
        observed: Some(view(state)),
        ..*seen(Verdict::Healthy, Protection::None)
    })
}

/// A book that has written of these clusters that they are healthy and ONLINE.
fn written(names: &[&str]) -> Book {
    let mut book = Book::new(Known::default());
    for name in names {
        let name: Arc<str> = (*name).into();
        book.take(Update::Cluster(name.clone(), state(ClusterState::Online)));
        let mut record = book.clusters.get_mut(&name).unwrap();
        record.begin();
        let report = record.report.clone().unwrap();
        let status = status::status(&report, &record.status, Timestamp::now());
        record.wrote(report, status, None);
    }
    book
}

/// The clusters in the order in which they are written, of those that are due.
fn order(book: &mut Book) -> Vec<Arc<str>> {
    let mut order = vec![];
    while let Some((due, Object::Cluster(name))) = book.next() {
        if due > Instant::now() {
            break;
        }
        book.clusters.get_mut(&name).unwrap().begin();
        order.push(name);
    }
    order
}

/// However many are only observed otherwise, and however long they have been due.
#[test]
fn what_is_only_observed_is_written_last() {
    let mut book = written(&["a", "b", "c", "d"]);
    let failing = state(ClusterState::FailingMetrics);
    book.take(Update::Cluster("a".into(), failing));
    let unread = report(Finding::Unread {
        reason: "Timeout",
        message: "no answer".to_owned(),
    });
    book.take(Update::Cluster("b".into(), Box::new(unread)));
    let held_back = ClusterReport {
        held_back: Some(HeldBack::By("why")),
        ..*seen(Verdict::Healthy, Protection::None)
    };
    book.take(Update::Cluster("c".into(), Box::new(held_back)));
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    book.take(Update::Cluster("d".into(), outage));
    let order = order(&mut book);
    assert_eq!(
        order.iter().map(|it| &**it).collect::<Vec<_>>(),
        ["d", "c", "a", "b"]
    );
}

/// What is not due yet does not hide what is due before it.
#[tokio::test(start_paused = true)]
async fn a_protection_that_cannot_be_written_yet_keeps_nothing_waiting() {
    let mut book = written(&["a", "d"]);
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    book.take(Update::Cluster("d".into(), outage));
    for _ in 0..4 {
        let mut protected = book.clusters.get_mut("d").unwrap();
        protected.schedule.begin();
        protected.schedule.failed();
    }
    let (retried, _) = book.next().unwrap();
    let soon = Instant::now() + Duration::from_secs(1);
    assert!(soon < retried);
    book.clusters.get_mut("a").unwrap().schedule.hurry(soon);
    let (due, object) = book.next().unwrap();
    assert_eq!(due, soon);
    assert!(matches!(object, Object::Cluster(name) if *name == *"a"));
}

#[test]
fn a_protection_is_written_first() {
    let mut book = Book::new(Known::default());
    for name in ["a", "b", "c"] {
        let healthy = seen(Verdict::Healthy, Protection::None);
        book.take(Update::Cluster(name.into(), healthy));
    }
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    book.take(Update::Cluster("d".into(), outage));
    let mut order = vec![];
    while let Some((_, Object::Cluster(name))) = book.next() {
        book.clusters.get_mut(&name).unwrap().schedule.begin();
        order.push(name);
    }
    assert_eq!(order.first().map(|it| &**it), Some("d"));
    assert_eq!(order.len(), 4);
}

/// A policy that selects these clusters.
fn selecting(names: &[&str]) -> PolicyReport {
    PolicyReport {
        name: "shoots".into(),
        uid: "uid".into(),
        deleting: false,
        brake: Brake::default(),
        held: false,
        generation: 1,
        problems: vec![],
        selected: names.iter().copied().map(Arc::from).collect(),
        kept: vec![],
        lost: BTreeMap::new(),
    }
}

/// A first read that hangs is not mistaken for a new cluster for long.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_new_for_a_minute() {
    let minute = Duration::from_secs(60);
    let mut book = written(&["a"]);
    book.take(Update::Policies(vec![selecting(&["a", "b"])]));
    let pending = || Box::new(report(Finding::Pending));
    book.take(Update::Cluster("b".into(), pending()));
    let counts = |book: &Book| book.policy_status("shoots").unwrap().clusters;
    assert_eq!(counts(&book).undetermined, 0);
    // To report the same again makes it no newer.
    advance(minute / 2).await;
    book.take(Update::Cluster("b".into(), pending()));
    advance(minute / 2 - Duration::from_millis(1)).await;
    assert_eq!(counts(&book).undetermined, 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(counts(&book).undetermined, 1);
    // One that wakes up is as good as new.
    let skipped = Finding::Skipped {
        reason: "Hibernated",
        message: String::new(),
    };
    book.take(Update::Cluster("b".into(), Box::new(report(skipped))));
    book.take(Update::Cluster("b".into(), pending()));
    assert_eq!(counts(&book).undetermined, 0);
}
