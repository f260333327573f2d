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
    prober::verdict::{Doubt, Verdict},
    status::writer::Content as _,
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
fn take(objects: &mut Objects, name: &str, report: ClusterReport) {
    objects.take_cluster(&name.into(), report);
}

/// A objects that has written of these clusters that they are healthy and ONLINE.
fn written(names: &[&str]) -> Objects {
    let mut objects = Objects::new(vec![], BTreeMap::new(), HealthMetrics::default());
    for name in names {
        take(&mut objects, name, state(ClusterState::Online));
        let begin = |cluster: &mut Cluster| cluster.record.begin();
        let begun = objects.edit(name, begin).flatten().unwrap();
        objects.cluster_written(name, begun, Ok(None));
    }
    objects.news.clear();
    objects
}

/// The clusters in the order in which they are written, of those that are due.
fn order(objects: &mut Objects) -> Vec<String> {
    let mut order = vec![];
    while let Some(next) = objects.next().filter(|it| it.due <= Instant::now()) {
        let (_, name) = next.object;
        objects
            .edit(&name, |cluster| cluster.record.begin())
            .unwrap();
        order.push(name.to_string());
    }
    order
}

/// However many are only observed otherwise, and however long they have been due.
#[test]
fn what_is_only_observed_is_written_last() {
    let mut objects = written(&["a", "b", "c", "d"]);
    let failing = state(ClusterState::FailingMetrics);
    take(&mut objects, "a", failing);
    let unread = report(Finding::Unread {
        reason: "Timeout",
        message: "no answer".to_owned(),
    });
    take(&mut objects, "b", unread);
    let held_back = ClusterReport {
        held_back: Some(HeldBack::By("why")),
        ..seen(Verdict::Healthy, Protection::None)
    };
    take(&mut objects, "c", held_back);
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    take(&mut objects, "d", outage);
    assert_eq!(order(&mut objects), ["d", "c", "a", "b"]);
}

/// What is not due yet does not hide what is due before it.
#[tokio::test(start_paused = true)]
async fn a_protection_that_cannot_be_written_yet_keeps_nothing_waiting() {
    let mut objects = written(&["a", "d"]);
    let outage = seen(Verdict::Outage, Protection::ScalingDown);
    take(&mut objects, "d", outage);
    for _ in 0..4 {
        let fail = |cluster: &mut Cluster| {
            cluster.record.schedule.begin();
            cluster.record.schedule.failed();
        };
        objects.edit("d", fail).unwrap();
    }
    let retried = objects.next().unwrap().due;
    let soon = Instant::now() + Duration::from_secs(1);
    assert!(soon < retried);
    let hurry = |cluster: &mut Cluster| cluster.record.schedule.hurry(soon);
    objects.edit("a", hurry).unwrap();
    let next = objects.next().unwrap();
    assert_eq!((next.due, &*next.object.1), (soon, "a"));
}

#[test]
fn a_protection_is_written_first() {
    let mut objects = Objects::new(vec![], BTreeMap::new(), HealthMetrics::default());
    for name in ["a", "b", "c"] {
        take(&mut objects, name, seen(Verdict::Healthy, Protection::None));
    }
    take(
        &mut objects,
        "d",
        seen(Verdict::Outage, Protection::ScalingDown),
    );
    let order = order(&mut objects);
    assert_eq!(order.first().map(|it| &**it), Some("d"));
    assert_eq!(order.len(), 4);
}

/// A first read that hangs is not mistaken for a new cluster for long.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_new_for_a_minute() {
    let minute = Duration::from_secs(60);
    let mut objects = written(&["a"]);
    objects.take_policies(vec![selecting(&["a", "b"])]);
    let pending = || report(Finding::Pending);
    take(&mut objects, "b", pending());
    let counts = |objects: &Objects| objects.policy_status("shoots").unwrap().clusters;
    assert_eq!(counts(&objects).undetermined, 0);
    // To report the same again makes it no newer.
    advance(minute / 2).await;
    take(&mut objects, "b", pending());
    advance(minute / 2 - Duration::from_millis(1)).await;
    assert_eq!(counts(&objects).undetermined, 0);
    advance(Duration::from_millis(1)).await;
    assert_eq!(counts(&objects).undetermined, 1);
    // One that wakes up is as good as new.
    let skipped = Finding::Skipped {
        reason: "Hibernated",
        message: String::new(),
    };
    take(&mut objects, "b", report(skipped));
    take(&mut objects, "b", pending());
    assert_eq!(counts(&objects).undetermined, 0);
}

/// Its Machines may just be coming; one that was well, or was left so by an earlier run, is not new.
#[tokio::test(start_paused = true)]
async fn a_cluster_of_which_no_lease_counts_at_first_is_new_for_a_minute() {
    let doubt = || Verdict::Undetermined(Doubt::NoCandidates);
    let blind = || seen(doubt(), Protection::None);
    let mut objects = written(&["a"]);
    objects.take_policies(vec![selecting(&["a", "b"])]);
    let counts = |objects: &Objects| objects.policy_status("shoots").unwrap().clusters;
    take(&mut objects, "b", report(Finding::Pending));
    take(&mut objects, "b", blind());
    assert_eq!(counts(&objects).undetermined, 0);
    advance(Duration::from_secs(59)).await;
    take(&mut objects, "b", blind());
    assert_eq!(counts(&objects).undetermined, 0);
    advance(Duration::from_secs(1)).await;
    assert_eq!(counts(&objects).undetermined, 1);
    take(&mut objects, "a", blind());
    assert_eq!(counts(&objects).undetermined, 2);
    take(&mut objects, "b", seen(Verdict::Healthy, Protection::None));
    take(&mut objects, "b", blind());
    assert_eq!(counts(&objects).undetermined, 2);
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
        let mut objects = Objects::new(vec![], BTreeMap::new(), HealthMetrics::default());
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
                Step::Report => take(&mut objects, name, report(Finding::Pending)),
                Step::Unselect => objects.take_gone(name, true),
                Step::Forget => objects.forget(name),
                _ => { objects.edit(name, schedule); }
            }
        }
        let due = objects.clusters.iter();
        let due = due.filter_map(|(name, cluster)| Some((cluster.record.due()?, name.clone())));
        let due: BTreeSet<_> = due.collect();
        prop_assert_eq!(&objects.due, &due);
        let next = objects.next().map(|it| it.due);
        prop_assert_eq!(next, due.first().map(|(due, _)| *due));
    }
}
