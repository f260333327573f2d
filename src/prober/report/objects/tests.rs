use super::{
    super::{
        ClusterReport,
        finding::{Finding, HeldBack},
        fixtures::{assessment, report, view},
    },
    *,
};
use crate::{
    api::{ClusterState, Protection},
    prober::verdict::Verdict,
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

/// One that has written of these clusters that they are healthy and ONLINE.
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
