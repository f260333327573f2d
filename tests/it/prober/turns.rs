//! Many clusters are restored by turns.

use std::time::Duration;

use crate::support::{DOWN, LONG, World, change_policy, condition, deselect, put_cluster};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How many of them are back, or down.
fn count(world: &World, names: &[String], back: bool) -> usize {
    let is_back = |name: &&String| (world.replicas(name) != DOWN) == back;
    names.iter().filter(is_back).count()
}

/// As many clusters with the Shoot of this one, probed and healthy.
async fn clusters_like(world: &World, cluster: &str, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|it| format!("{cluster}{it}")).collect();
    for name in &names {
        put_cluster(&world.seed, name, &world.shoot(cluster).kubeconfig());
    }
    for name in &names {
        world.reason(name, "Healthy").await;
    }
    names
}

/// Waits until each of them says that it waits for its turn; none is restored.
async fn all_wait(world: &World, names: &[String]) {
    for name in names {
        let waits = |status: &Value| condition(status, "Protecting")["reason"] == "Paced";
        world.health_where(name, "it waits", waits).await;
    }
    assert_eq!(count(world, names, true), 0);
}

/// Ninety-nine clusters whose nodes are silent, all down.
async fn many_down() -> (World, Vec<String>) {
    let world = World::running(&["a"]).await;
    let names = clusters_like(&world, "a", 99).await;
    world.shoot("a").silence(100);
    world.clock.pass(LONG).await;
    assert_eq!(count(&world, &names, false), 99);
    (world, names)
}

/// Their control planes share the nodes of the seed.
#[tokio::test]
async fn many_clusters_are_restored_by_turns() {
    let (world, names) = many_down().await;
    world.shoot("a").renew();
    world
        .clock
        .until("one is back", || {
            (count(&world, &names, true) > 0).then_some(())
        })
        .await;
    let begun = Instant::now();
    let mut most = 0;
    while count(&world, &names, false) > 0 {
        let passed = begun.elapsed().as_secs_f64();
        let allowed = 20.0 + 5.0 * (passed + 1.0);
        let back = count(&world, &names, true);
        assert!(back as f64 <= allowed, "{back} after {passed:.1} s");
        most = most.max(
            names
                .iter()
                .filter(|name| condition(&world.health(name), "Protecting")["reason"] == "Paced")
                .count(),
        );
        world.clock.pass(Duration::from_millis(500)).await;
    }
    assert!(
        begun.elapsed() <= Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert!(most > 0, "those that wait say so");
}

/// What is let go does not wait for others.
#[tokio::test]
async fn clusters_without_a_policy_are_not_restored_by_turns() {
    let (world, names) = many_down().await;
    change_policy(&world, "p", deselect);
    world.clock.pass(Duration::from_secs(5)).await;
    world.shoot("a").renew();
    let healthy = Instant::now();
    while count(&world, &names, false) > 0 {
        assert!(
            healthy.elapsed() <= Duration::from_secs(14),
            "{}",
            count(&world, &names, false)
        );
        world.clock.pass(Duration::from_millis(500)).await;
    }
}

/// What breaks the one may break the other again.
#[tokio::test]
async fn nothing_is_restored_while_an_outage_grows() {
    let world = World::running(&["a", "b"]).await;
    let first = clusters_like(&world, "a", 3).await;
    let second = clusters_like(&world, "b", 3).await;
    world.shoot("a").silence(100);
    world.clock.pass(LONG).await;
    assert_eq!(count(&world, &first, false), 3);
    world.shoot("b").silence(100);
    let fell = || (count(&world, &second, false) == 3).then_some(());
    world.clock.until("the others are down", fell).await;
    let fell = Instant::now();
    world.shoot("a").renew();
    all_wait(&world, &first).await;
    world
        .clock
        .until("one is back", || {
            (count(&world, &first, true) > 0).then_some(())
        })
        .await;
    let waited = fell.elapsed();
    assert!((14..=16).contains(&waited.as_secs()), "{waited:?}");
    world.clock.pass(Duration::from_secs(1)).await;
    assert_eq!(count(&world, &first, true), 3);
}

/// Those that fall silent again while they are being restored are what is waited for.
#[tokio::test]
async fn nothing_is_restored_while_those_that_were_restored_fall_again() {
    let world = World::running(&["a", "b"]).await;
    let first = clusters_like(&world, "a", 3).await;
    let second = clusters_like(&world, "b", 3).await;
    change_policy(&world, "p", |policy| {
        policy["spec"]["dependentResourceInfos"][1]["scaleUp"]["initialDelay"] = json!("2m");
    });
    world.shoot("a").silence(100);
    world.shoot("b").silence(100);
    world.clock.pass(LONG).await;
    assert_eq!(count(&world, &first, false), 3);
    assert_eq!(count(&world, &second, false), 3);
    world.shoot("b").renew();
    for name in &second {
        world.protection(name, "Restoring").await;
    }
    world.clock.pass(LONG).await;
    world.shoot("b").silence(100);
    for name in &second {
        world.protection(name, "Active").await;
    }
    world.shoot("a").renew();
    all_wait(&world, &first).await;
}
