//! When dependents are given back and taken, told of the whole operator in virtual time: delays, levels, what is refused
//! and what somebody sets meanwhile.

use std::time::Duration;

use fake::{
    farm::{Answer, Read, namespace},
    fault::{Fate, Rule},
    store::{Call, Key, Verb},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    stories::{DOWN, MINUTE, UP, comes_to, is_write, tell},
    world::{REPLICAS, World},
};

/// Has an outage, of which nothing follows but for the dependent at this place, and lets the nodes be heard again.
async fn be_restored(world: &World, delay: &str) {
    let first = json!({
        "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": REPLICAS[0].0},
        "scaleUp": {"initialDelay": delay},
    });
    world.put_policy(&json!({"mode": "Enforce", "dependentResourceInfos": [first]}));
    world.pass(MINUTE).await;
    world.shoot(0).cut(2);
    comes_to(world, [0, UP[1], UP[2]]).await;
    world.shoot(0).restore();
}

#[test]
fn doubt_does_not_begin_the_delay_of_a_restore_anew() {
    let refuse = |world: &World, is_refused: bool| {
        let answers = [Read::Cached, Read::Consistent].map(|it| (it, Answer::Refused(500, None)));
        world.shoot(0).behave(|it| match is_refused {
            true => it.answers.extend(answers),
            false => it.answers.clear(),
        });
    };
    for (is_silent, seconds) in [(false, 60..90), (true, 140..180)] {
        tell(2, async |world, _| {
            be_restored(world, "60s").await;
            let begun = Instant::now();
            world.pass(Duration::from_secs(20)).await;
            match is_silent {
                true => world.shoot(0).cut(2),
                false => refuse(world, true),
            }
            world
                .pass(Duration::from_secs(if is_silent { 60 } else { 20 }))
                .await;
            world.shoot(0).restore();
            refuse(world, false);
            comes_to(world, UP).await;
            let waited = begun.elapsed().as_secs();
            assert!(seconds.contains(&waited), "{is_silent}: {waited}");
        });
    }
}

/// On the way down for a third of what the expiry leaves of the grace, on the way up for its timeout.
#[test]
fn a_level_that_does_not_end_is_waited_for_and_passed() {
    tell(2, async |world, _| {
        let levels = [0, 1].map(|place: usize| {
            json!({
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": REPLICAS[place].0},
                "scaleDown": {"level": place}, "scaleUp": {"level": place, "timeout": "30s"},
            })
        });
        world.put_policy(&json!({"mode": "Enforce", "dependentResourceInfos": levels}));
        world.pass(MINUTE).await;
        world
            .seed
            .store(|store, now| store.follow(REPLICAS[0].0, false, now));
        for (wanted, patience) in [([0, 0, UP[2]], 3_333), (UP, 30_000)] {
            world.seed.forget_calls();
            match wanted {
                UP => world.shoot(0).restore(),
                _ => world.shoot(0).cut(2),
            }
            comes_to(world, wanted).await;
            let calls = world.seed.calls();
            let [first, second] = [0, 1].map(|place: usize| {
                let mut writes = calls.iter().filter(|it| is_write(&it.call));
                writes
                    .find(|it| it.call.name == REPLICAS[place].0)
                    .unwrap()
                    .at
            });
            let waited = second.duration_since(first).as_millis();
            assert!((patience..patience + 500).contains(&waited), "{waited}");
            let is_late = || {
                let health = world.get("clusterhealths", "", &namespace(0));
                let conditions = health["status"]["conditions"].as_array().unwrap();
                let is_late = conditions.iter().any(|it| it["reason"] == "ScalingLate");
                is_late.then_some(()).ok_or(health.to_string())
            };
            world.until(MINUTE, is_late).await.unwrap();
        }
    });
}

/// The verdicts of an outage come every few seconds, for hours perhaps, and of a thousand clusters.
#[test]
fn what_is_refused_is_asked_for_less_often_than_what_fails() {
    for (fate, expected) in [(Fate::Deny, 4..9), (Fate::Refuse(503, None), 10..40)] {
        tell(2, async |world, _| {
            let is_read = |call: &Call| call.verb == Verb::Get && call.name == REPLICAS[1].0;
            world.seed.rule(Rule::always(fate, is_read));
            world.shoot(0).cut(2);
            comes_to(world, [0, UP[1], 0]).await;
            world.seed.forget_calls();
            world.pass(MINUTE).await;
            let calls = world.seed.calls();
            let reads = calls.iter().filter(|it| is_read(&it.call)).count();
            assert!(expected.contains(&reads), "{fate:?}: {reads}");
            world.seed.heal();
            comes_to(world, DOWN).await;
        });
    }
}

/// A kind with `scale` is marked by one request, and scaled by another.
#[test]
fn what_somebody_sets_between_a_mark_and_a_zero_is_given_back() {
    tell(2, async |world, _| {
        let name = "etcd-main";
        let reference =
            json!({"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "name": name});
        world.put_workload(0, "Etcd", name, 3);
        let infos = json!([{"ref": reference}]);
        world.put_policy(&json!({"mode": "Enforce", "dependentResourceInfos": infos}));
        world.pass(MINUTE).await;
        let is_scaled = |call: &Call| call.resource() == "etcds/scale" && call.verb.is_write();
        let key = Key::new("etcds", &namespace(0), name);
        world.seed.interfere(1, is_scaled, move |store, now| {
            store.edit(&key, now, |it| it["spec"]["replicas"] = json!(5));
        });
        let has = |replicas: i64| {
            let found = world.get("etcds", &namespace(0), name)["spec"]["replicas"].clone();
            (found == replicas).then_some(()).ok_or(found.to_string())
        };
        world.shoot(0).cut(2);
        world.until(2 * MINUTE, || has(0)).await.unwrap();
        world.shoot(0).restore();
        world.until(2 * MINUTE, || has(5)).await.unwrap();
        // The server lets go of a write whose answer nobody waits for any more.
        let writes = world.seed.calls();
        let mut writes = writes.iter().filter(|it| is_scaled(&it.call));
        assert!(writes.all(|it| it.call.parameter("timeout") == Some("10s")));
    });
}
