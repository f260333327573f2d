//! The whole weeder against a scripted seed: which pods are deleted, and when.

use crate::support::{Garden, put_pod, put_slice, weed_policy};
use dependency_watchdog::weeder::service::CHANGED_ANNOTATION;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

/// A weeder that has just started beside a service that has just become ready.
async fn found_ready(change: impl FnOnce(&Garden)) -> Garden {
    let mut garden = Garden::new(&["a"]);
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    put_slice(&garden.seed, "a", "etcd", true);
    change(&garden);
    garden.start();
    garden
        .status_where("a window is open", |status| status["openWindows"] == 1)
        .await;
    garden
}

#[tokio::test]
async fn a_service_that_became_ready_just_before_the_start_opens_a_window() {
    let garden = found_ready(|it| put_pod(&it.seed, "a", "api-1", "api", true)).await;
    garden.gone("api-1").await;
    let [deletion] = &garden.deletions()[..] else {
        panic!("{:?}", garden.deletions());
    };
    let options = &deletion.body;
    assert_eq!(options["preconditions"]["uid"], "uid-a-api-1");
    assert!(options["preconditions"]["resourceVersion"].is_string());
    // It ends in its own time.
    assert_eq!(options.get("gracePeriodSeconds"), None);
    let status = garden
        .status_where("it is told", |status| status["weeded"] == 1)
        .await;
    let weed = &status["lastWeeds"][0];
    for (field, expected) in [
        ("namespace", "a"),
        ("pod", "api-1"),
        ("owner", "ReplicaSet/api-1"),
        ("service", "etcd"),
    ] {
        assert_eq!(weed[field], expected, "{weed}");
    }
    assert_eq!(weed["containers"], json!(["main"]));
    let [event] = &garden.told("PodWeeded")[..] else {
        panic!("{:?}", garden.told("PodWeeded"));
    };
    assert_eq!(event["regarding"]["kind"], "ReplicaSet");
}

/// The next leader opens none either. A slice that was changed for another reason tells no time.
#[rstest]
#[case::long_ago(json!({CHANGED_ANNOTATION: Timestamp::now() - SignedDuration::from_mins(10)}))]
#[case::nobody_says_when(json!({}))]
#[tokio::test]
async fn a_service_that_nothing_says_became_ready_just_before_the_start_opens_no_window(
    #[case] annotations: Value,
) {
    let mut garden = Garden::new(&["a"]);
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    put_slice(&garden.seed, "a", "etcd", true);
    garden
        .seed
        .change("endpointslices", "a", "etcd-1", |slice| {
            slice["metadata"]["annotations"] = annotations.clone();
        });
    put_pod(&garden.seed, "a", "api-1", "api", true);
    for _ in 0..2 {
        garden.start();
        let is_seen = |status: &Value| status["services"]["ready"] == 1;
        garden.status_where("the service is seen", is_seen).await;
        garden.pass(30).await;
        assert_eq!(garden.status()["openWindows"], 0);
        garden.stop().await;
    }
    assert_eq!((garden.pod_reads().len(), garden.deletions().len()), (0, 0));
    // It recovers.
    garden.start();
    garden.pass(5).await;
    put_slice(&garden.seed, "a", "etcd", false);
    garden.pass(5).await;
    put_slice(&garden.seed, "a", "etcd", true);
    garden.gone("api-1").await;
}

#[tokio::test]
async fn a_pod_that_nothing_would_bring_back_is_left_alone() {
    let garden = found_ready(|garden| {
        put_pod(&garden.seed, "a", "api-1", "api", true);
        garden.seed.change("pods", "a", "api-1", |pod| {
            pod["metadata"]["ownerReferences"] = json!([]);
        });
        put_pod(&garden.seed, "a", "api-2", "api", true);
        garden.seed.change("pods", "a", "api-2", |pod| {
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!("v1");
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("Node");
        });
    })
    .await;
    let status = garden
        .status_where("it is told", |status| {
            status["leftAlone"]
                .as_array()
                .is_some_and(|it| it.len() == 2)
        })
        .await;
    garden.pass(30).await;
    assert_eq!(garden.deletions().len(), 0);
    let reasons: Vec<&Value> = status["leftAlone"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["reason"])
        .collect();
    for reason in ["NoController", "StaticPod"] {
        assert!(reasons.contains(&&json!(reason)), "{reasons:?}");
    }
    // Once each.
    let told = garden.told("LeftAlone");
    let mut pods: Vec<&str> = told
        .iter()
        .map(|event| event["regarding"]["name"].as_str().unwrap())
        .collect();
    pods.sort_unstable();
    assert_eq!(pods, ["api-1", "api-2"]);
}

#[tokio::test]
async fn in_mode_dry_run_it_is_only_told() {
    let mut garden = Garden::new(&["a"]);
    let mut policy = weed_policy("p", "etcd", "api");
    policy["spec"]["mode"] = json!("DryRun");
    garden.seed.put(&policy);
    put_slice(&garden.seed, "a", "etcd", true);
    put_pod(&garden.seed, "a", "api-1", "api", true);
    garden.start();
    let status = garden
        .status_where("it is told", |status| {
            status["lastWeeds"][0]["pod"] == "api-1"
        })
        .await;
    assert_eq!(status["lastWeeds"][0]["dryRun"], true);
    assert_eq!(status["weeded"], 0);
    garden.pass(30).await;
    assert_eq!(garden.deletions().len(), 0);
    assert_eq!(garden.told("WouldWeed").len(), 1);
    // The window is still open when it is meant.
    garden.change_policy(|policy| policy["spec"]["mode"] = json!("Enforce"));
    garden.gone("api-1").await;
}
