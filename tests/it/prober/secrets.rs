//! Where kubeconfigs come from: Secrets that are rotated, broken, withdrawn and restored on a
//! scripted seed, and the watch that follows them.

use std::time::Duration;

use crate::support::{
    Failure, INTERVAL, Read, TOKEN, World, condition, policy, put_kubeconfig, put_secret,
    refusing_url,
};
use serde_json::{Value, json};

/// Time passes in steps of this length.
const STEP: Duration = Duration::from_millis(250);
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
async fn all_clusters_share_one_list_and_one_watch() {
    let world = World::running(&["a", "b", "c"]).await;
    for cluster in ["a", "b", "c"] {
        world.reason(cluster, "Healthy").await;
    }
    assert_eq!(
        secret_requests(&world),
        ["GET secrets", "GET secrets (watch)"]
    );
    for call in world.seed.calls() {
        if call.resource == "secrets" {
            assert_eq!(call.selected_name().as_deref(), Some("dwd"));
            assert_eq!(call.namespace, "");
        }
    }
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

/// Whatever else of the Secret changes, the connection is kept.
#[tokio::test]
async fn a_secret_that_is_touched_costs_no_connection() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.seed.change("secrets", "a", "dwd", |secret| {
        secret["metadata"]["labels"] = json!({"a": "b"});
        secret["data"]["other"] = json!("aHVzaA==");
    });
    is_read_on(&world, "a").await;
    assert_eq!(world.shoot("a").connections(), 1);
}

/// One of two outages has its kubeconfig rotated in the middle of the proof, and loses no time.
#[tokio::test]
async fn a_rotation_interrupts_no_proof() {
    let mut world = World::new(&["a", "b"]).await;
    for cluster in ["a", "b"] {
        world.shoot(cluster).silence(20);
    }
    world.start();
    world.more_reads("a", Read::Consistent, 2).await;
    rotate(&world, "a", "second");
    for cluster in ["a", "b"] {
        world.protection(cluster, "Active").await;
    }
    let writes = world.seed.writes();
    let first = |namespace: &str| {
        writes
            .iter()
            .find(|it| it.namespace == namespace)
            .unwrap()
            .at
    };
    assert!(first("a") <= first("b") + STEP);
    assert_eq!(world.shoot("a").tokens().last().unwrap(), "second");
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

/// Nobody says that the connection of the watch is lost.
#[tokio::test]
async fn a_kubeconfig_that_is_rotated_unseen_is_used_within_65_seconds() {
    let world = World::running(&["a"]).await;
    world.reason("a", "Healthy").await;
    world.seed.silence_watches("secrets");
    rotate(&world, "a", "another");
    world.clock.pass(INTERVAL * 2).await;
    assert_ne!(world.health("a")["reason"], "Healthy", "nothing was heard");
    world.clock.pass(Duration::from_secs(65)).await;
    assert_eq!(world.health("a")["reason"], "Healthy");
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
        (
            &too_large,
            "KubeconfigInvalid",
            "262145 bytes, more than 262144",
        ),
        (plugin.to_string().as_bytes(), "KubeconfigRefused", "exec"),
        (
            refused.to_string().as_bytes(),
            "ConnectionRefused",
            "the port in the kubeconfig",
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
    let right = "grant the operator the verbs list and watch on secrets, with dwd in resourceNames";
    assert!(message.contains(right), "{message}");
    assert!(message.contains("the Secret a/dwd"), "{message}");
    world.seed.heal();
    world.reason("a", "Healthy").await;
}

/// A list that gets no answer at all is not waited for for ever.
#[tokio::test]
async fn a_list_that_hangs_is_made_anew() {
    let mut world = World::new(&["a"]).await;
    world
        .seed
        .fail(Failure::Hang, (0, 2), |it| it.resource == "secrets");
    world.start();
    let status = world.reason("a", "SeedUnreadable").await;
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("not answered within 30s"), "{message}");
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
    let status = world.reason("b", "Unauthorized").await;
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(
            "the watch of the Secret broke, and has told nothing since (scripted failure (503))"
        ),
        "{message}"
    );
    world.shoot("a").silence(100);
    world.protection("a", "Active").await;
    world.seed.heal();
    world.reason("b", "Healthy").await;
}

/// A watch that cannot be resumed is begun anew: what vanished is dropped, and all takes effect at
/// once when the list is complete.
#[tokio::test]
async fn a_new_list_takes_the_place_of_what_was_known() {
    let world = World::running(&["a", "b"]).await;
    world.reason("a", "Healthy").await;
    world.reason("b", "Healthy").await;
    world.seed.end_watches("secrets");
    rotate(&world, "a", "second");
    world.shoot("a").accept(TOKEN);
    world.seed.delete("secrets", "b", "dwd");
    world.seed.compact();
    let list = world
        .seed
        .hold(|call| call.resource == "secrets" && !call.is_watch());
    is_read_on(&world, "a").await;
    is_read_on(&world, "b").await;
    world.shoot("a").accept("second");
    list.send(()).unwrap();
    world.reason("b", "SecretMissing").await;
    is_read_on(&world, "a").await;
    assert_eq!(world.shoot("a").tokens().last().unwrap(), "second");
}

#[tokio::test]
async fn each_name_is_watched_for_as_long_as_it_is_used() {
    let mut world = World::new(&["a", "b"]).await;
    let mut other = policy("other");
    other["spec"]["priority"] = json!(1);
    other["spec"]["clusterSelector"] = json!({"matchLabels": {"name": "b"}});
    other["spec"]["kubeConfigSecretName"] = json!("other");
    world.seed.put(&other);
    world.start();
    world.reason("a", "Healthy").await;
    let status = world.reason("b", "SecretMissing").await;
    assert!(
        status["message"].as_str().unwrap().contains("b/other"),
        "{status}"
    );
    assert_eq!(world.seed.watches("secrets"), 2);

    let kubeconfig = world.shoot("b").kubeconfig();
    let data = world.seed.get("secrets", "b", "dwd").unwrap()["data"].clone();
    put_secret(&world.seed, "b", "other", &data);
    world.reason("b", "Healthy").await;
    // The Secret of the other name does not matter.
    put_kubeconfig(&world.seed, "b", b"{");
    is_read_on(&world, "b").await;
    put_kubeconfig(&world.seed, "b", &kubeconfig);

    // Now b falls to the policy p.
    world.seed.delete("probepolicies", "", "other");
    let names_are = |watched| {
        let seed = world.seed.clone();
        move || (seed.watches("secrets") == watched).then_some(())
    };
    world.clock.until("one watch", names_are(1)).await;
    is_read_on(&world, "b").await;
    world.seed.delete("probepolicies", "", "p");
    world.clock.until("no watch", names_are(0)).await;
    world.seed.put(&policy("p"));
    world.reason("a", "Healthy").await;
    assert_eq!(world.seed.watches("secrets"), 1);
}
