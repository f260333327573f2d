//! Where kubeconfigs come from: Secrets that are rotated, broken, withdrawn and restored on a
//! scripted seed, and the watch that follows them.

use std::time::Duration;

use crate::support::{
    Failure, INTERVAL, Read, TOKEN, World, condition, put_kubeconfig, put_secret, refusing_url,
};
use serde_json::{Value, json};

/// Longer than any pause between two tries.
const LONG: Duration = Duration::from_secs(90);

/// The shoot accepts another token alone, and the Secret has it.
fn rotate(world: &World, cluster: &str, token: &str) {
    let shoot = world.shoot(cluster);
    shoot.accept(token);
    put_kubeconfig(&world.seed, cluster, &shoot.kubeconfig_with(token));
}

/// Waits until the cluster has been read and judged once more.
async fn is_read_on(world: &World, cluster: &str) {
    world.more_reads(cluster, Read::Cached, 1).await;
    world.clock.settle().await;
    let status = world.health(cluster);
    assert_eq!(status["reason"], "Healthy", "{status}");
}

fn secret_requests(world: &World) -> Vec<String> {
    let mut requests = world.seed.briefs();
    requests.retain(|it| it.contains("secrets"));
    requests
}

#[tokio::test]
async fn a_rotated_kubeconfig_is_used_from_the_next_read_on() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.seed.forget_calls();
    let before = world.shoot("a").tokens().len();
    rotate(&world, "a", "second");
    is_read_on(&world, "a").await;
    is_read_on(&world, "a").await;
    let tokens = world.shoot("a").tokens();
    assert!(tokens[..before].iter().all(|it| it == TOKEN));
    assert_eq!(tokens[before..], ["second", "second"]);
    assert_eq!(world.shoot("a").connections(), 2);
    assert_eq!(secret_requests(&world), [""; 0]);
}

#[tokio::test]
async fn a_kubeconfig_that_is_withdrawn_is_not_used_any_more() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.seed.delete("secrets", "a", "dwd");
    let before = world.shoot("a").reads().len();
    let status = world.reason("a", "SecretMissing").await;
    assert_eq!(condition(&status, "Degraded")["status"], "True");
    world.clock.pass(2 * INTERVAL).await;
    assert_eq!(world.shoot("a").reads().len(), before);
    rotate(&world, "a", "second");
    world.reason("a", "Healthy").await;
}

#[tokio::test]
async fn what_is_wrong_with_a_kubeconfig_is_said_until_it_is_mended() {
    let world = World::running(&["a"]).await;
    let good = world.shoot("a").kubeconfig();
    let mut refused: Value = serde_json::from_slice(&good).unwrap();
    refused["clusters"][0]["cluster"]["server"] = refusing_url().await.into();
    let mut plugin: Value = serde_json::from_slice(&good).unwrap();
    plugin["users"][0]["user"] = json!({"exec": {"command": "/bin/false"}});
    let too_large = vec![b' '; 256 * 1024 + 1];
    for (kubeconfig, reason, says) in [
        (b"{".as_slice(), "KubeconfigInvalid", "the Secret a/dwd"),
        (&too_large, "KubeconfigInvalid", "more than 262144 bytes"),
        (plugin.to_string().as_bytes(), "KubeconfigRefused", "exec"),
        (
            refused.to_string().as_bytes(),
            "Unreachable",
            "check that the API server runs",
        ),
    ] {
        world.reason("a", "Healthy").await;
        put_kubeconfig(&world.seed, "a", kubeconfig);
        let status = world.reason("a", reason).await;
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(says), "{message}");
        put_kubeconfig(&world.seed, "a", &good);
    }
    world.reason("a", "Healthy").await;
    for data in [json!({"config": "aHVzaA=="}), json!({}), Value::Null] {
        put_secret(&world.seed, "a", "dwd", &data);
        let status = world.reason("a", "SecretKeyMissing").await;
        let message = status["message"].as_str().unwrap();
        assert!(
            message.contains("the Secret a/dwd has no key \"kubeconfig\""),
            "{message}"
        );
        put_kubeconfig(&world.seed, "a", &good);
        world.reason("a", "Healthy").await;
    }
}

#[tokio::test]
async fn a_watch_that_is_forbidden_names_the_right() {
    let mut world = World::new(&["a"]).await;
    world
        .seed
        .fail(Failure::Status(403), (0, usize::MAX), |it| {
            it.resource == "secrets"
        });
    world.start();
    let status = world.reason("a", "SeedUnreadable").await;
    let message = status["message"].as_str().unwrap();
    let right = "grant it to the operator's ServiceAccount, as manifests/prober/rbac.yaml";
    assert!(message.contains(right), "{message}");
    assert!(message.contains("the Secret a/dwd"), "{message}");
    world.seed.heal();
    world.reason("a", "Healthy").await;
}

/// What is known goes on being used; what changes meanwhile is learnt later.
#[tokio::test]
async fn a_watch_that_breaks_costs_no_cluster_its_protection() {
    let world = World::running(&["a", "b"]).await;
    world.reason("a", "Healthy").await;
    world.reason("b", "Healthy").await;
    world
        .seed
        .fail(Failure::Status(503), (0, usize::MAX), |it| {
            it.resource == "secrets"
        });
    world.seed.end_watches("secrets");
    world.clock.pass(LONG).await;
    is_read_on(&world, "a").await;
    rotate(&world, "b", "second");
    world.reason("b", "Unauthorized").await;
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.seed.heal();
    world.reason("b", "Healthy").await;
}
