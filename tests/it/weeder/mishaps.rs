//! What goes wrong around a window, against a scripted seed: a pod that changes, watches that break,
//! and deletions that are refused.

use std::time::Duration;

use crate::support::{
    Call, Failure, Garden, condition, looping, put_namespace, put_pod, put_slice, run,
};
use serde_json::{Value, json};

const ALWAYS: (usize, usize) = (0, usize::MAX);

fn is_deletion(call: &Call) -> bool {
    call.method == "DELETE" && call.resource == "pods"
}

fn reads_pods(call: &Call) -> bool {
    call.method == "GET" && call.resource == "pods"
}

/// Each of these is told and tried again, while the pod still loops.
#[test]
fn a_refused_deletion_is_told_and_tried_again() {
    for failure in [
        Failure::Status(403),
        Failure::Status(500),
        Failure::Hang,
        Failure::Reset,
        Failure::Truncated,
    ] {
        run(async move {
            let garden = Garden::recovered().await;
            garden.seed.fail(failure, ALWAYS, is_deletion);
            put_pod(&garden.seed, "a", "api-1", "api", true);
            put_pod(&garden.seed, "a", "api-2", "api", false);
            let refused = || (garden.degraded().0 == "DeletionRefused").then_some(());
            garden.clock.until("it is told", refused).await;
            let message = garden.degraded().1;
            assert!(message.contains("api-1"), "{failure:?}: {message}");
            garden.pass(5).await;
            let mut told = garden.told("DeletionRefused");
            told.retain(|event| event["regarding"]["kind"] == "Pod");
            assert_eq!(told.len(), 1, "{failure:?}");
            assert!(garden.deletions().len() < 20, "{failure:?}");
            garden.seed.heal();
            // Others do not wait for it.
            garden.seed.change("pods", "a", "api-2", looping);
            garden.gone("api-2").await;
            garden.gone("api-1").await;
            let healed = || (garden.degraded().0 == "AsExpected").then_some(());
            garden.clock.until("it is well again", healed).await;
        });
    }
}

#[tokio::test]
async fn a_seed_that_asks_for_less_load_is_obeyed() {
    let garden = Garden::recovered().await;
    garden
        .seed
        .fail(Failure::RetryAfter(7), (0, 1), is_deletion);
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.gone("api-1").await;
    let [first, second] = &garden.deletions()[..] else {
        panic!("{:?}", garden.deletions());
    };
    let pause = second.at - first.at;
    assert!(pause >= Duration::from_secs(7), "{pause:?}");
    assert!(pause < Duration::from_secs(8), "{pause:?}");
}

/// Nobody ends it, but nothing comes of it any more, as when a load balancer has forgotten the
/// connection: a window must not pass before that is noticed.
#[test]
fn a_watch_that_falls_silent_is_given_up_in_time() {
    for resource in ["endpointslices", "pods"] {
        run(async move {
            let garden = Garden::unready().await;
            garden.change_policy(|policy| policy["spec"]["watchDuration"] = json!("5m"));
            put_pod(&garden.seed, "a", "api-1", "api", false);
            if resource == "pods" {
                put_slice(&garden.seed, "a", "etcd", true);
            }
            garden.clock.settle().await;
            garden.seed.silence_watches(resource);
            put_slice(&garden.seed, "a", "etcd", true);
            garden.seed.change("pods", "a", "api-1", looping);
            garden.pass(75).await;
            assert!(!garden.has("api-1"), "{resource}");
        });
    }
}

/// The window ends on time; until then it is told that nothing can be seen.
#[test]
fn pods_that_cannot_be_watched_are_told() {
    for failure in [Failure::Status(403), Failure::Hang, Failure::WrongKind] {
        run(async move {
            let garden = Garden::unready().await;
            garden.seed.fail(failure, ALWAYS, reads_pods);
            put_slice(&garden.seed, "a", "etcd", true);
            let told = || (garden.degraded().0 == "PodsUnwatched").then_some(());
            garden.clock.until("it is told", told).await;
            assert!(garden.pod_reads().len() < 20, "{failure:?}");
            let checks = garden.instruments.common.health().results();
            assert!(checks.iter().all(|(_, check)| check.is_ok()), "{checks:?}");
            let over = |status: &serde_json::Value| {
                status["openWindows"] == 0 && condition(status, "Degraded")["status"] == "False"
            };
            garden.status_where("it is over", over).await;
            assert!(garden.clock.elapsed() < Duration::from_secs(75));
            garden.pass(5).await;
            let asked = garden.pod_reads().len();
            garden.pass(300).await;
            assert_eq!(garden.pod_reads().len(), asked, "{failure:?}");
        });
    }
}

/// Four hang; another namespace has its turn all the same.
#[tokio::test]
async fn deletions_that_hang_in_one_namespace_hold_up_no_other() {
    let garden = Garden::recovered().await;
    put_namespace(&garden.seed, "b");
    garden.seed.fail(Failure::Hang, ALWAYS, |call| {
        is_deletion(call) && call.namespace == "a"
    });
    for index in 0..50 {
        put_pod(&garden.seed, "a", &format!("api-{index}"), "api", true);
    }
    garden.clock.settle().await;
    assert_eq!(garden.deletions().len(), 4);
    put_pod(&garden.seed, "b", "api-b", "api", true);
    put_slice(&garden.seed, "b", "etcd", true);
    garden.clock.settle().await;
    assert!(garden.seed.get("pods", "b", "api-b").is_none());
}

/// Else what an earlier run has said would stand for good.
#[test]
fn a_weeder_that_is_blind_from_its_start_says_so() {
    for resource in ["endpointslices", "namespaces"] {
        for failure in [Failure::Status(403), Failure::Status(503), Failure::Hang] {
            run(async move {
                let mut garden = Garden::recovered().await;
                garden.stop().await;
                let ready = |status: &Value, reason: &str, is: &str| {
                    let ready = condition(status, "Ready");
                    ready["reason"] == reason && ready["status"] == is
                };
                assert!(ready(&garden.status(), "Watching", "True"));
                garden.seed.fail(failure, ALWAYS, move |call: &Call| {
                    call.resource == resource
                });
                garden.start();
                let what = format!("that it is blind: {resource}, {failure:?}");
                garden
                    .status_where(&what, |it| ready(it, "Listing", "False"))
                    .await;
                if matches!(failure, Failure::Hang) {
                    return;
                }
                garden.seed.heal();
                let status = garden
                    .status_where("that it sees", |it| ready(it, "Watching", "True"))
                    .await;
                assert_eq!(status["services"], json!({"watched": 1, "ready": 1}));
            });
        }
    }
}

/// What is known of services stands, and is out of date.
#[tokio::test]
async fn a_watch_of_services_that_stays_broken_is_told() {
    let garden = Garden::recovered().await;
    for (resource, kind) in [
        ("endpointslices", "EndpointSlices"),
        ("namespaces", "Namespaces"),
    ] {
        garden
            .seed
            .fail(Failure::Status(403), ALWAYS, move |call: &Call| {
                call.resource == resource
            });
        garden.seed.end_watches(resource);
        garden.seed.compact();
        let told = |status: &Value| {
            let degraded = condition(status, "Degraded");
            let message = degraded["message"].as_str().unwrap_or_default();
            degraded["reason"] == "ServicesUnwatched" && message.contains(kind)
        };
        garden.status_where("it is told", told).await;
        garden.seed.heal();
        let well = |status: &Value| condition(status, "Degraded")["reason"] == "AsExpected";
        garden.status_where("it is well again", well).await;
    }
}
