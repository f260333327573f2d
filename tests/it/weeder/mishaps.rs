//! What goes wrong around a window, against a scripted seed: pods that change, watches that break,
//! deletions that are refused, a leader that is one no more.

use std::time::Duration;

use crate::support::{
    Call, Failure, Garden, condition, looping, put_namespace, put_pod, put_slice, run, weed_policy,
};
use dependency_watchdog::runtime::leader::{Elected, Elector, Times};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const ALWAYS: (usize, usize) = (0, usize::MAX);

fn is_deletion(call: &Call) -> bool {
    call.method == "DELETE" && call.resource == "pods"
}

fn reads_pods(call: &Call) -> bool {
    call.method == "GET" && call.resource == "pods"
}

/// The condition `Degraded` of the policy.
fn degraded(garden: &Garden) -> (String, String) {
    let status = garden.status();
    let degraded = condition(&status, "Degraded");
    let text = |field: &str| degraded[field].as_str().unwrap().to_owned();
    (text("reason"), text("message"))
}

/// A pod that is not the one any more, or not as it was, is judged anew.
#[tokio::test]
async fn a_pod_that_changes_before_its_deletion_is_kept() {
    let garden = Garden::recovered().await;
    garden.seed.interfere(1, is_deletion, |pod| {
        pod["status"] = json!({});
    });
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.pass(30).await;
    assert!(garden.has("api-1"));
    assert_eq!(garden.deletions().len(), 1);
    assert_eq!(degraded(&garden).0, "AsExpected");
    // It loops again.
    garden.seed.change("pods", "a", "api-1", looping);
    garden.gone("api-1").await;
}

#[tokio::test]
async fn a_successor_of_the_same_name_is_kept() {
    let garden = Garden::recovered().await;
    garden.seed.interfere(1, is_deletion, |pod| {
        pod["metadata"]["uid"] = json!("uid-new");
        pod["status"] = json!({});
    });
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.pass(30).await;
    let pod = garden.seed.get("pods", "a", "api-1").unwrap();
    assert_eq!(pod["metadata"]["uid"], "uid-new");
    assert_eq!(garden.deletions().len(), 1);
}

#[tokio::test]
async fn a_pod_that_changes_and_still_loops_is_deleted() {
    let garden = Garden::recovered().await;
    garden.seed.interfere(1, is_deletion, |pod| {
        pod["metadata"]["annotations"] = json!({"changed": "meanwhile"});
    });
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.gone("api-1").await;
    assert_eq!(garden.deletions().len(), 2);
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
            let refused = || (degraded(&garden).0 == "DeletionRefused").then_some(());
            garden.clock.until("it is told", refused).await;
            let message = degraded(&garden).1;
            assert!(message.contains("api-1"), "{failure:?}: {message}");
            garden.pass(5).await;
            assert_eq!(garden.told("DeletionRefused").len(), 1, "{failure:?}");
            assert!(garden.deletions().len() < 20, "{failure:?}");
            garden.seed.heal();
            // Others do not wait for it.
            garden.seed.change("pods", "a", "api-2", looping);
            garden.gone("api-2").await;
            garden.gone("api-1").await;
            let healed = || (degraded(&garden).0 == "AsExpected").then_some(());
            garden.clock.until("it is well again", healed).await;
        });
    }
}

/// Nobody can tell at first; then the pod is seen gone, or is asked for again.
#[test]
fn a_deletion_whose_answer_is_lost_counts() {
    for failure in [Failure::Hang, Failure::Reset] {
        run(async move {
            let garden = Garden::recovered().await;
            garden.seed.fail_committed(failure, (0, 1), is_deletion);
            put_pod(&garden.seed, "a", "api-1", "api", true);
            garden
                .status_where("it counts", |status| status["weeded"] == 1)
                .await;
            garden.pass(30).await;
            assert_eq!(garden.told("PodWeeded").len(), 1, "{failure:?}");
            assert_eq!(degraded(&garden).0, "AsExpected", "{failure:?}");
        });
    }
}

/// It went before it was deleted, which the watch is about to tell.
#[tokio::test]
async fn a_pod_that_is_gone_is_no_trouble() {
    let garden = Garden::recovered().await;
    garden.seed.fail(Failure::Status(404), ALWAYS, is_deletion);
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.pass(2).await;
    garden.seed.delete("pods", "a", "api-1");
    garden.pass(10).await;
    assert_eq!(garden.deletions().len(), 1);
    assert_eq!(degraded(&garden).0, "AsExpected");
    assert!(garden.told("DeletionRefused").is_empty() && garden.told("PodWeeded").is_empty());
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

/// What is refused when the window ends is not tried any more.
#[tokio::test]
async fn no_deletion_is_tried_after_the_window() {
    let garden = Garden::recovered().await;
    garden.seed.fail(Failure::Status(403), ALWAYS, is_deletion);
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden
        .status_where("it is over", |status| status["openWindows"] == 0)
        .await;
    let asked = garden.deletions().len();
    assert!(asked > 1, "{asked}");
    garden.seed.heal();
    garden.pass(300).await;
    assert_eq!(garden.deletions().len(), asked);
    assert_eq!(degraded(&garden).0, "AsExpected");
}

#[test]
fn a_watch_of_pods_that_ends_is_taken_up_again() {
    for compacted in [false, true] {
        run(async move {
            let garden = Garden::recovered().await;
            put_pod(&garden.seed, "a", "api-1", "api", false);
            garden.clock.settle().await;
            if compacted {
                garden.seed.compact();
            }
            garden.seed.end_watches("pods");
            garden.seed.change("pods", "a", "api-1", looping);
            garden.gone("api-1").await;
            assert_eq!(degraded(&garden).0, "AsExpected");
        });
    }
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

/// The same: a suspension counts.
#[test]
fn a_suspension_is_heard_soon_whatever_became_of_the_watch() {
    for resource in ["weedpolicies", "namespaces"] {
        run(async move {
            let garden = Garden::recovered().await;
            garden.change_policy(|policy| policy["spec"]["watchDuration"] = json!("5m"));
            garden.clock.settle().await;
            garden.seed.silence_watches(resource);
            match resource {
                "namespaces" => garden.seed.change("namespaces", "", "a", |namespace| {
                    namespace["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:02:33Z");
                }),
                _ => garden.change_policy(|policy| policy["spec"]["suspend"] = json!(true)),
            }
            garden.pass(75).await;
            assert_eq!(garden.status()["openWindows"], 0, "{resource}");
        });
    }
}

/// All watches break, and what happens meanwhile is found when the API server is back.
#[tokio::test]
async fn an_api_server_that_is_away_in_the_window_changes_nothing() {
    let garden = Garden::recovered().await;
    put_pod(&garden.seed, "a", "api-1", "api", false);
    garden.clock.settle().await;
    garden.seed.fail(Failure::Refused, ALWAYS, |_| true);
    for resource in ["pods", "endpointslices", "namespaces", "weedpolicies"] {
        garden.seed.end_watches(resource);
    }
    garden.seed.change("pods", "a", "api-1", looping);
    garden.pass(15).await;
    assert!(garden.has("api-1"));
    garden.seed.heal();
    garden.gone("api-1").await;
    // The window is the one that was open.
    assert_eq!(garden.deletions().len(), 1);
    garden
        .status_where("it ends in time", |status| status["openWindows"] == 0)
        .await;
    assert!(garden.clock.elapsed() < Duration::from_secs(75));
}

/// The service was away while nobody could see it.
#[tokio::test]
async fn a_recovery_that_nobody_saw_opens_a_window() {
    let garden = Garden::recovered().await;
    garden.pass(90).await;
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.pass(5).await;
    assert!(garden.has("api-1"));
    garden.seed.fail(Failure::Refused, ALWAYS, |_| true);
    garden.seed.end_watches("endpointslices");
    put_slice(&garden.seed, "a", "etcd", false);
    put_slice(&garden.seed, "a", "etcd", true);
    garden.seed.compact();
    garden.pass(10).await;
    garden.seed.heal();
    garden.gone("api-1").await;
}

/// The window ends on time; until then it is told that nothing can be seen.
#[test]
fn pods_that_cannot_be_watched_are_told() {
    for failure in [Failure::Status(403), Failure::Hang, Failure::WrongKind] {
        run(async move {
            let garden = Garden::unready().await;
            garden.seed.fail(failure, ALWAYS, reads_pods);
            put_slice(&garden.seed, "a", "etcd", true);
            let told = || (degraded(&garden).0 == "PodsUnwatched").then_some(());
            garden.clock.until("it is told", told).await;
            assert!(garden.pod_reads().len() < 20, "{failure:?}");
            let checks = garden.instruments.common.checks.results();
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

#[tokio::test]
async fn a_watch_of_pods_that_can_be_had_again_is_well() {
    let garden = Garden::unready().await;
    garden.change_policy(|policy| policy["spec"]["watchDuration"] = json!("10m"));
    garden.seed.fail(Failure::Status(503), ALWAYS, reads_pods);
    put_slice(&garden.seed, "a", "etcd", true);
    let told = || (degraded(&garden).0 == "PodsUnwatched").then_some(());
    garden.clock.until("it is told", told).await;
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.seed.heal();
    garden.gone("api-1").await;
    let well = || (degraded(&garden).0 == "AsExpected").then_some(());
    garden.clock.until("it is well again", well).await;
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

/// What is under way when the weeder is stopped is told all the same.
#[tokio::test]
async fn the_last_deletion_counts() {
    let mut garden = Garden::recovered().await;
    let release = garden.seed.hold(is_deletion);
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.gone("api-1").await;
    assert_eq!(garden.status()["weeded"], 0);
    release.send(()).unwrap();
    garden.stop().await;
    assert_eq!(garden.status()["weeded"], 1);
    assert_eq!(garden.told("PodWeeded").len(), 1);
}

#[tokio::test]
async fn who_leads_no_more_writes_nothing() {
    let mut garden = Garden::new(&["a"]);
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    put_slice(&garden.seed, "a", "etcd", true);
    let times = Times::new(
        Duration::from_secs(15),
        Duration::from_secs(10),
        Duration::from_secs(2),
    );
    let client = garden.seed.unlimited().client().clone();
    let mut elector = Elector::new(
        client,
        "garden",
        "dwd-weeder-leader-election",
        times.unwrap(),
    );
    let (gives, given) = tokio::sync::oneshot::channel();
    let leading = tokio::spawn(async move {
        let never = CancellationToken::new();
        let work = |elected: Elected| async move {
            gives.send(elected.term().await.leadership).unwrap();
            std::future::pending::<()>().await;
        };
        elector.stand(&never, work).await
    });
    let leadership = garden.clock.end_of("it leads", given).await.unwrap();
    // It goes on when it should have ended.
    garden.start_on(garden.seed.unlimited().led_by(leadership.clone()));
    garden
        .status_where("a window is open", |status| status["openWindows"] == 1)
        .await;
    let renews = |call: &Call| call.resource == "leases";
    garden.seed.fail(Failure::Refused, ALWAYS, renews);
    garden.pass(12).await;
    assert!(!leadership.is_held());
    garden.seed.forget_calls();
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.change_policy(|policy| policy["spec"]["suspend"] = json!(false));
    garden.pass(60).await;
    garden.stop().await;
    assert!(leading.is_finished());
    assert!(garden.has("api-1"));
    let written: Vec<_> = garden
        .seed
        .calls()
        .into_iter()
        .filter(|it| it.method != "GET")
        .collect();
    assert!(written.is_empty(), "{written:?}");
    assert!(garden.seed.events().is_empty());
}

/// Else a policy would be called ready, and its services missing, by a weeder that is blind.
#[tokio::test]
async fn a_policy_is_not_ready_before_its_services_are_listed() {
    let mut garden = Garden::new(&["a"]);
    put_slice(&garden.seed, "a", "etcd", true);
    garden.start();
    garden.pass(10).await;
    let lists = |call: &Call| call.resource == "endpointslices";
    garden.seed.fail(Failure::Status(403), ALWAYS, lists);
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    let ready = |status: &Value, reason: &str| {
        status["conditions"].is_array() && condition(status, "Ready")["reason"] == reason
    };
    let status = garden
        .status_where("that it is blind", |it| ready(it, "Listing"))
        .await;
    assert_eq!(condition(&status, "Ready")["status"], "False");
    garden.seed.heal();
    let status = garden
        .status_where("that it sees", |it| ready(it, "Watching"))
        .await;
    assert_eq!(status["services"], json!({"watched": 1, "ready": 1}));
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
                garden.seed.deny(|asked| asked["verb"] == "delete");
                garden.start();
                let what = format!("that it is blind: {resource}, {failure:?}");
                garden
                    .status_where(&what, |it| ready(it, "Listing", "False"))
                    .await;
                // What it lacks besides is told as well.
                let lacks = || (degraded(&garden).0 == "RightsMissing").then_some(());
                garden.clock.until(&what, lacks).await;
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

/// What an earlier run has said stands until there is something else to say.
#[tokio::test]
async fn a_start_that_takes_a_while_is_no_news() {
    let lists = |call: &Call| call.resource == "endpointslices";
    let mut garden = Garden::unready().await;
    garden.pass(10).await;
    garden.stop().await;
    garden.seed.forget_calls();
    // It ends before it has seen anything.
    garden.seed.fail(Failure::Status(503), ALWAYS, lists);
    garden.start();
    garden.pass(5).await;
    garden.stop().await;
    garden.seed.heal();
    garden.seed.fail(Failure::Status(503), (0, 3), lists);
    garden.start();
    garden.pass(30).await;
    let refused = garden.seed.calls().into_iter().filter(lists).count();
    assert!(refused > 4, "{refused}");
    let briefs = garden.seed.briefs();
    assert!(
        !briefs.iter().any(|it| it.starts_with("PATCH")),
        "{briefs:?}"
    );
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
        let status = garden.status_where("it is told", told).await;
        let ready = condition(&status, "Ready");
        assert_eq!(
            (ready["status"].as_str(), &ready["reason"]),
            (Some("False"), &json!("ServicesUnwatched"))
        );
        garden.seed.heal();
        let well = |status: &Value| condition(status, "Degraded")["reason"] == "AsExpected";
        garden.status_where("it is well again", well).await;
    }
}

/// What the first status says stands for seconds.
#[tokio::test]
async fn the_first_status_of_a_policy_knows_its_services() {
    let mut garden = Garden::new(&["a"]);
    put_slice(&garden.seed, "a", "etcd", true);
    garden.start();
    garden.pass(10).await;
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    let status = garden
        .status_where("the first", |status| status["conditions"].is_array())
        .await;
    assert_eq!(status["services"], json!({"watched": 1, "ready": 1}));
}
