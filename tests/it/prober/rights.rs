//! Rights that an outage or a check calls for, asked for ahead on a scripted seed: what is told, of what, and
//! when.

use std::time::Duration;

use crate::support::{Call, Failure, INTERVAL, LONG, Seed, World, change_policy, info, run};
use serde_json::{Value, json};

/// Longer than a right goes unnoticed that was granted, or is not any more.
const AGAIN: Duration = Duration::from_secs(6 * 60);

/// Reason and message of `Degraded` of the policy.
fn degraded(world: &World) -> (String, String) {
    let policy = world.seed.get("probepolicies", "", "p").unwrap();
    crate::support::degraded(&policy["status"])
}

/// How often a right was asked for.
fn asked(world: &World) -> usize {
    let briefs = world.seed.briefs().into_iter();
    let reviews = briefs.filter(|it| it == "POST selfsubjectaccessreviews");
    reviews.count()
}

/// No right can be asked for.
fn fail_reviews(seed: &Seed, failure: Failure) {
    let reviews = |call: &Call| call.resource == "selfsubjectaccessreviews";
    seed.fail(failure, (0, usize::MAX), reviews);
}

fn kcm(asked: &Value) -> bool {
    asked["name"] == "kcm"
}

struct Case {
    denied: fn(&Value) -> bool,
    /// Other dependents than those that the policy names by itself.
    dependents: Option<Vec<Value>>,
    /// A check runs a command in a pod.
    execs: bool,
    missing: Option<&'static str>,
}

fn case(denied: fn(&Value) -> bool, missing: Option<&'static str>) -> Case {
    Case {
        denied,
        dependents: None,
        execs: false,
        missing,
    }
}

#[test]
fn what_is_missing_is_told_on_the_policy() {
    let etcd = Some(vec![info("Etcd", "main", 0)]);
    let cases = [
        case(|_| false, None),
        // Granted where it is asked for: in the namespace of the first cluster, and not seen elsewhere.
        case(|it| it["group"] == "apps" && it["namespace"] != "a", None),
        case(kcm, Some("patch deployments.apps/kcm in a")),
        case(
            |it| it["group"] == "apps",
            Some(
                "patch deployments.apps/ca in a, patch deployments.apps/kcm in a, patch \
                 deployments.apps/mcm in a",
            ),
        ),
        case(
            |it| it["resource"] == "probepolicies",
            Some("patch probepolicies.dependency-watchdog.gardener.cloud/p"),
        ),
        Case {
            dependents: etcd.clone(),
            ..case(
                |it| it["subresource"] == "scale",
                Some("patch etcds.druid.gardener.cloud/main/scale in a"),
            )
        },
        Case {
            dependents: etcd,
            ..case(
                |it| it["resource"] == "etcds" && it["subresource"].is_null(),
                Some("patch etcds.druid.gardener.cloud/main in a"),
            )
        },
        // Of no concern without a command.
        case(|it| it["resource"] == "pods", None),
        Case {
            execs: true,
            ..case(
                |it| it["resource"] == "pods",
                Some("list pods in a, get pods/exec in a, create pods/exec in a"),
            )
        },
    ];
    for (index, case) in cases.into_iter().enumerate() {
        run(async {
            let mut world = World::new(&["a", "b"]).await;
            world.seed.deny(case.denied);
            if let Some(dependents) = &case.dependents {
                let change = |policy: &mut Value| {
                    policy["spec"]["dependentResourceInfos"] = json!(dependents);
                };
                change_policy(&world, "p", change);
                for name in ["a", "b"] {
                    crate::support::put_workload(&world.seed, "Etcd", name, "main", 1);
                }
            }
            if case.execs {
                let check = json!({
                    "name": "etcd",
                    "exec": {
                        "podSelector": {"matchLabels": {"role": "main"}}, "command": ["true"],
                    },
                    // Long after this test.
                    "initialDelaySeconds": 3600,
                });
                change_policy(&world, "p", |policy| {
                    policy["spec"]["checks"] = json!([check])
                });
            }
            world.start();
            world.reason("a", "Healthy").await;
            world.clock.pass(INTERVAL).await;
            let (_, message) = degraded(&world);
            let lacks = message.contains("the operator lacks rights");
            assert_eq!(lacks, case.missing.is_some(), "{index}: {message}");
            if let Some(missing) = case.missing {
                let missing = format!("exec-checks, do: {missing}");
                assert!(message.ends_with(&missing), "{index}: {message}");
                assert_eq!(told(&world), ["RightsMissing"], "{index}");
            }
        });
    }
}

/// The reasons of the events about policies that are degraded, or are not any more, in order.
fn told(world: &World) -> Vec<String> {
    let mut told: Vec<Value> = world.seed.events().into_iter().map(|it| it.body).collect();
    told.retain(|it| it["regarding"]["kind"] == "ProbePolicy" && it["action"] == "Degraded");
    let reasons = told.iter().filter_map(|it| it["reason"].as_str());
    reasons.map(str::to_owned).collect()
}

#[test]
fn what_cannot_be_asked_is_no_alarm_and_no_relief() {
    for failure in Failure::ALL {
        run(async {
            let mut world = World::new(&["a"]).await;
            let seed = world.seed.clone();
            seed.deny(kcm);
            fail_reviews(&seed, failure);
            world.start();
            world.reason("a", "Healthy").await;
            world.clock.pass(LONG).await;
            assert!(asked(&world) > 0, "{failure:?}");
            assert_eq!(degraded(&world).0, "AsExpected", "{failure:?}");

            seed.heal();
            world.clock.pass(AGAIN).await;
            assert_eq!(degraded(&world).0, "RightsMissing", "{failure:?}");

            seed.deny(|_| false);
            fail_reviews(&seed, failure);
            world.clock.pass(AGAIN).await;
            assert_eq!(degraded(&world).0, "RightsMissing", "{failure:?}");

            seed.heal();
            world.clock.pass(AGAIN).await;
            assert_eq!(degraded(&world).0, "AsExpected", "{failure:?}");
            assert_eq!(told(&world), ["RightsMissing", "AsExpected"], "{failure:?}");
        });
    }
}
