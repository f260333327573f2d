//! Stories of one cluster: promises of the README that chance seldom tries, or that take a certain moment.

use std::time::Duration;

use fake::{
    farm::{Answer, Death, Read, Special, namespace, node_name},
    fault::{Fate, Rule},
    oracle::{IGNORE, MARK, RECORD},
    store::{Call, Key, Verb},
};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use crate::world::{Election, Operator, REPLICAS, Role, World, in_virtual_time, micros, now};

const LEASE: Duration = Duration::from_secs(40);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
const SECOND: i64 = 1_000_000;
pub(crate) const UP: [i64; 3] = [REPLICAS[0].1, REPLICAS[1].1, REPLICAS[2].1];
pub(crate) const DOWN: [i64; 3] = [0; 3];

/// Tells a story of a healthy cluster with so many nodes, which an operator protects.
pub(crate) fn tell(nodes: usize, story: impl AsyncFnOnce(&World, Operator)) {
    in_virtual_time(async {
        let world = World::new(1, nodes, LEASE);
        world.put_policy(&json!({"mode": "Enforce"}));
        let operator = world.start(Role::Prober, Election::None);
        world.pass(2 * MINUTE).await;
        story(&world, operator).await;
    });
}

/// The replicas of the dependents.
fn replicas(world: &World) -> [i64; 3] {
    REPLICAS.map(|(name, _)| {
        let found = world.get("deployments", &namespace(0), name);
        found["spec"]["replicas"].as_i64().unwrap()
    })
}

pub(crate) async fn comes_to(world: &World, wanted: [i64; 3]) {
    let look = || match replicas(world) {
        found if found == wanted => Ok(()),
        found => Err(format!("{found:?}, not {wanted:?}")),
    };
    world.until(5 * MINUTE, look).await.unwrap();
}

pub(crate) fn is_write(call: &Call) -> bool {
    call.plural == "deployments" && call.verb.is_write()
}

/// Has the machine of a node be replaced, so that the node does not count.
fn replace_machine(world: &World, node: usize) {
    world.edit("machines", &namespace(0), &node_name(0, node), |machine| {
        machine["status"]["currentStatus"]["phase"] = json!("Terminating");
    });
}

/// Has something be special about the first so many nodes.
fn mark_nodes(world: &World, nodes: usize, special: Special) {
    let special = (0..nodes).map(|node| (node, special));
    world.shoot(0).behave(|it| it.nodes.extend(special));
}

/// Has the machines of the first so many nodes be deleted, while nothing runs that would say so in their phase.
fn delete_machines(world: &World, nodes: usize) {
    for node in 0..nodes {
        world.edit("machines", &namespace(0), &node_name(0, node), |machine| {
            machine["metadata"]["finalizers"] = json!(["machine.sapcloud.io/machine-controller"]);
            machine["metadata"]["deletionTimestamp"] = json!(now().to_string());
        });
    }
}

/// Changes the spec of the policy.
fn change_policy(world: &World, spec: &Value) {
    world.edit("probepolicies", "", "shoots", |policy| {
        json_patch::merge(&mut policy["spec"], spec);
    });
}

/// Changes the Shoot in the Cluster.
fn change_shoot(world: &World, shoot: &Value) {
    world.edit("clusters", "", &namespace(0), |cluster| {
        json_patch::merge(&mut cluster["spec"]["shoot"], shoot);
    });
}

/// Has another worker pool take the place of the one that all nodes are of.
fn replace_pool(world: &World) {
    let workers = json!([{"name": "other"}]);
    change_shoot(world, &json!({"spec": {"provider": {"workers": workers}}}));
}

/// What may look like an outage.
type Trouble = fn(&World);

#[test]
fn what_only_looks_like_an_outage_is_none() {
    let troubles: [(&str, usize, Trouble); 12] = [
        ("fewer nodes than the minimum", 1, |world| {
            world.shoot(0).cut(1)
        }),
        ("machines that are being replaced", 3, |world| {
            for node in 0..2 {
                replace_machine(world, node);
            }
            world.shoot(0).cut(2);
        }),
        ("nodes that are being deleted", 3, |world| {
            mark_nodes(world, 2, Special::Deleted);
            world.shoot(0).cut(2);
        }),
        ("machines that are being deleted", 3, |world| {
            delete_machines(world, 2);
            world.shoot(0).cut(2);
        }),
        ("nodes that are known to be lost", 3, |world| {
            mark_nodes(world, 2, Special::OutOfService);
            world.shoot(0).cut(2);
        }),
        ("nodes of a worker pool that is removed", 3, |world| {
            mark_nodes(world, 1, Special::NoPool);
            replace_pool(world);
            world.shoot(0).cut(3);
        }),
        ("nobody can write", 2, |world| {
            world.shoot(0).kubelets().refuse_writes(micros());
        }),
        ("an old cache, and no other answer", 2, |world| {
            world.shoot(0).behave(|it| {
                it.cache_age = 60 * SECOND;
                it.answers
                    .insert(Read::Consistent, Answer::Refused(500, None));
            });
        }),
        ("clocks of nodes that step back", 2, |world| {
            let mut kubelets = world.shoot(0).kubelets();
            (0..2).for_each(|node| kubelets.step_node(node, -90 * SECOND, micros()));
        }),
        ("a server's clock that steps", 2, |world| {
            let mut kubelets = world.shoot(0).kubelets();
            kubelets.step_server(600 * SECOND, micros());
        }),
        ("a policy that is suspended", 2, |world| {
            change_policy(world, &json!({"suspend": true}));
            world.shoot(0).cut(2);
        }),
        ("a policy in DryRun", 2, |world| {
            world.put_policy(&json!({"mode": "DryRun"}));
            world.shoot(0).cut(2);
        }),
    ];
    for (what, nodes, trouble) in troubles {
        tell(nodes, async |world, _| {
            trouble(world);
            world.pass(3 * MINUTE).await;
            assert_eq!(replicas(world), UP, "{what}");
        });
    }
}

/// A network that breaks silences all that is not given up.
#[test]
fn nodes_that_do_not_say_of_which_pool_they_are_count() {
    tell(3, async |world, _| {
        mark_nodes(world, 3, Special::NoPool);
        replace_pool(world);
        world.pass(2 * MINUTE).await;
        world.shoot(0).cut(3);
        comes_to(world, DOWN).await;
    });
}

/// Its silence shows nothing then, and nothing but what is at zero can end that.
#[test]
fn a_protection_is_over_when_no_node_is_left_that_is_meant_to_be_alive() {
    let ends: [(&str, Trouble); 6] = [
        ("all nodes are being deleted", |world| {
            mark_nodes(world, 3, Special::Deleted)
        }),
        ("all nodes are gone", |world| {
            mark_nodes(world, 3, Special::Gone)
        }),
        ("all nodes are lost", |world| {
            mark_nodes(world, 3, Special::OutOfService)
        }),
        ("all machines are being deleted", |world| {
            delete_machines(world, 3)
        }),
        ("their worker pool is removed", replace_pool),
        ("one after the other", |world| {
            mark_nodes(world, 1, Special::Gone);
            (1..3).for_each(|node| replace_machine(world, node));
        }),
    ];
    for (what, end) in ends {
        tell(3, async |world, _| {
            world.shoot(0).cut(3);
            comes_to(world, DOWN).await;
            world.pass(2 * MINUTE).await;
            end(world);
            world.pass(LEASE / 4).await;
            assert_eq!(replicas(world), DOWN, "{what}, by one read");
            let first = || match replicas(world)[0] {
                0 => Err(what.to_owned()),
                _ => Ok(()),
            };
            world.until(2 * MINUTE, first).await.unwrap();
            comes_to(world, UP).await;
            world.pass(3 * MINUTE).await;
            assert_eq!(replicas(world), UP, "{what}");
        });
    }
}

#[test]
fn a_protection_is_not_over_while_a_node_may_be_meant_to_be_alive() {
    let troubles: [(&str, Trouble); 5] = [
        ("a condition of all nodes", |world| {
            mark_nodes(world, 3, Special::Condition("NetworkUnavailable"));
        }),
        ("leases that are deleted", |world| {
            let mut kubelets = world.shoot(0).kubelets();
            (0..3).for_each(|node| kubelets.delete_lease(node, micros()));
        }),
        (
            "a machine that names no node yet, and a node that no machine names",
            |world| {
                mark_nodes(world, 2, Special::Gone);
                world.edit("machines", &namespace(0), &node_name(0, 2), |machine| {
                    machine["metadata"]["labels"] = json!({});
                    machine["status"]["currentStatus"]["phase"] = json!("Pending");
                });
            },
        ),
        ("a node that is left", |world| {
            mark_nodes(world, 2, Special::Deleted)
        }),
        ("nodes that cannot be read any more", |world| {
            mark_nodes(world, 3, Special::Gone);
            let refused = Answer::Refused(500, None);
            world
                .shoot(0)
                .behave(|it| _ = it.answers.insert(Read::Nodes, refused));
        }),
    ];
    for (what, trouble) in troubles {
        tell(3, async |world, _| {
            world.shoot(0).cut(3);
            comes_to(world, DOWN).await;
            trouble(world);
            world.pass(10 * MINUTE).await;
            assert_eq!(replicas(world), DOWN, "{what}");
        });
    }
}

/// A node that has been dead since an earlier protection was ended says nothing of those that fell silent since.
#[test]
fn a_protection_is_not_over_because_an_earlier_one_lasted_too_long() {
    tell(3, async |world, _| {
        world.put_policy(&json!({"mode": "Enforce", "maxProtection": "5m"}));
        world.pass(MINUTE).await;
        world.shoot(0).cut(3);
        comes_to(world, DOWN).await;
        world.pass(5 * MINUTE).await;
        comes_to(world, UP).await;
        for silent in [1, 3] {
            world.shoot(0).restore();
            world.shoot(0).cut(silent);
            world.pass(2 * MINUTE).await;
        }
        assert_eq!(replicas(world), DOWN);
        let condition = Special::Condition("NetworkUnavailable");
        world
            .shoot(0)
            .behave(|it| it.nodes.extend([(1, condition), (2, condition)]));
        world.pass(3 * MINUTE).await;
        assert_eq!(replicas(world), DOWN);
        // It lasts no longer than any other.
        comes_to(world, UP).await;
    });
}

#[test]
fn a_cluster_whose_nodes_have_no_leases_is_not_called_healthy() {
    tell(3, async |world, _| {
        let said = |what: &str| {
            let health = world.get("clusterhealths", "", &namespace(0));
            let status = &health["status"];
            match status["reason"] == what {
                true => Ok(status["message"].as_str().unwrap().to_owned()),
                false => Err(status.to_string()),
            }
        };
        let delete = |nodes: std::ops::Range<usize>| {
            let mut kubelets = world.shoot(0).kubelets();
            nodes.for_each(|node| kubelets.delete_lease(node, micros()));
        };
        delete(0..1);
        world.pass(3 * MINUTE).await;
        said("Healthy").unwrap();
        delete(1..3);
        let message = world.until(MINUTE, || said("NoCandidates")).await.unwrap();
        assert!(message.contains("3 nodes have none"), "{message}");
        world.pass(10 * MINUTE).await;
        said("NoCandidates").unwrap();
        // They are gone as well: there is nothing to protect.
        mark_nodes(world, 3, Special::Gone);
        world.until(6 * MINUTE, || said("Healthy")).await.unwrap();
        assert_eq!(replicas(world), UP);
    });
}

#[test]
fn nothing_is_taken_from_what_a_watch_shows_too_late() {
    let changes: [(_, fn(&mut Value)); 6] = [
        ("clusters", |it| {
            it["spec"]["shoot"]["spec"]["hibernation"] = json!({"enabled": true})
        }),
        ("clusters", |it| {
            it["spec"]["shoot"]["metadata"]["deletionTimestamp"] = json!(now().to_string())
        }),
        ("clusters", |it| {
            it["spec"]["shoot"]["spec"]["provider"]["workers"] = json!([])
        }),
        ("probepolicies", |it| it["spec"]["suspend"] = json!(true)),
        ("probepolicies", |it| it["spec"]["mode"] = json!("DryRun")),
        ("probepolicies", |it| {
            it["spec"]["clusterSelector"] = json!({"matchLabels": {"a": "b"}});
        }),
    ];
    for (plural, change) in changes {
        tell(2, async |world, _| {
            world.seed.switch(|it| it.late_watches = true);
            world.seed.store(|store, now| {
                let key = store.objects(plural).next().unwrap().0.clone();
                store.edit(&key, now, change);
            });
            world.shoot(0).cut(2);
            world.pass(3 * MINUTE).await;
            assert_eq!(replicas(world), UP);
        });
    }
}

/// Neither the Cluster nor the policy can be read past the watches: that delays nothing while these work, whatever they
/// do not show yet, and all while one is broken.
#[test]
fn what_cannot_be_read_is_known_by_its_watch() {
    let troubles = [
        (Fate::Deny, None),
        (Fate::Refuse(429, None), None),
        (Fate::Refuse(503, None), None),
        (Fate::Hang { committed: false }, None),
        (Fate::Deny, Some("clusters")),
        (Fate::Refuse(503, None), Some("probepolicies")),
    ];
    for (answer, broken) in troubles {
        tell(2, async |world, _| {
            let is_read = move |call: &Call| {
                let is_one = ["clusters", "probepolicies"].contains(&&*call.plural);
                is_one && (call.verb != Verb::Watch || broken == Some(&*call.plural))
            };
            world.seed.rule(Rule::always(answer, is_read));
            world.seed.switch(|it| it.late_watches = true);
            world.edit("probepolicies", "", "shoots", |policy| {
                policy["spec"]["suspend"] = json!(true);
            });
            if broken.is_some() {
                world.pass(2 * MINUTE).await;
            }
            world.shoot(0).cut(2);
            world.pass(LEASE).await;
            let expected = if broken.is_some() { UP } else { DOWN };
            assert_eq!(replicas(world), expected, "{answer:?}, {broken:?}");
        });
    }
}

#[test]
fn an_api_server_that_was_away_is_no_outage() {
    // Whenever it is back between two reads; its kubelets reach it four seconds later, each at its next turn.
    for second in 0..6 {
        let how = [Death::Refuses, Death::AnswersNothing][second % 2];
        tell(5, async |world, _| {
            world.shoot(0).die(how);
            world.shoot(0).cut(5);
            world
                .pass(MINUTE + Duration::from_secs(second as u64))
                .await;
            world.shoot(0).revive();
            world.pass(LEASE / 10).await;
            world.shoot(0).restore();
            world.pass(2 * MINUTE).await;
            let calls = world.seed.calls();
            let written: Vec<_> = calls.iter().filter(|it| is_write(&it.call)).collect();
            assert!(written.is_empty(), "{written:?}");
        });
    }
}

#[test]
fn an_outage_is_acted_on_before_a_node_is_marked() {
    for is_restarted in [false, true] {
        tell(2, async |world, operator| {
            (0..2).for_each(|node| {
                world
                    .shoot(0)
                    .kubelets()
                    .step_node(node, 90 * SECOND, micros())
            });
            world.pass(MINUTE).await;
            let begun = Instant::now();
            world.shoot(0).cut(2);
            if is_restarted {
                operator.kill();
                world.pass(LEASE / 4).await;
                world.start(Role::Prober, Election::None);
            }
            comes_to(world, DOWN).await;
            let limit = LEASE * 3 / 4 + Duration::from_secs(1);
            assert!(begun.elapsed() <= limit, "{:?}", begun.elapsed());
        });
    }
}

#[test]
fn an_outage_is_acted_on_neither_before_its_leases_expire_nor_long_after() {
    tell(2, async |world, _| {
        world.shoot(0).cut(2);
        world
            .shoot(0)
            .kubelets()
            .step_server(600 * SECOND, micros());
        world.pass(LEASE / 2).await;
        assert_eq!(replicas(world), UP);
        comes_to(world, DOWN).await;
    });
    // What is due in a moment in which the operator is frozen.
    tell(2, async |world, _| {
        let [at_once, delayed] = [("0s", 0), ("25s", 1)].map(|(delay, place)| {
            json!({
                "ref": {"apiVersion": "apps/v1", "kind": "Deployment", "name": REPLICAS[place].0},
                "scaleDown": {"initialDelay": delay},
            })
        });
        world.put_policy(&json!({"mode": "Enforce", "dependentResourceInfos": [at_once, delayed]}));
        world.pass(MINUTE).await;
        world.shoot(0).cut(2);
        comes_to(world, [0, UP[1], UP[2]]).await;
        world.shoot(0).restore();
        world.shoots.gate.shut();
        advance(MINUTE).await;
        world.pass(Duration::from_secs(3)).await;
        world.shoots.gate.open();
        comes_to(world, UP).await;
        let calls = world.seed.calls();
        assert!(
            !calls
                .iter()
                .any(|it| is_write(&it.call) && it.call.name == REPLICAS[1].0)
        );
    });
}

#[test]
fn a_silence_that_is_not_watched_all_the_time_is_not_proven() {
    tell(2, async |world, _| {
        world.shoot(0).cut(2);
        for _ in 0..15 {
            for read in [Read::Cached, Read::Consistent] {
                let answer = Answer::Refused(500, None);
                world
                    .shoot(0)
                    .behave(|it| _ = it.answers.insert(read, answer));
            }
            world.pass(LEASE / 10).await;
            world.shoot(0).behave(|it| it.answers.clear());
            world.pass(LEASE / 10).await;
        }
        assert_eq!(replicas(world), UP);
    });
}

#[test]
fn what_somebody_sets_between_a_read_and_a_write_stays() {
    for at_restore in [false, true] {
        tell(2, async |world, _| {
            let name = REPLICAS[0].0;
            let key = Key::new("deployments", &namespace(0), name);
            let set_seven = || {
                let key = key.clone();
                let when = move |call: &Call| is_write(call) && call.name == name;
                world.seed.interfere(1, when, move |store, now| {
                    store.edit(&key, now, |it| it["spec"]["replicas"] = json!(7));
                });
            };
            if !at_restore {
                set_seven();
            }
            world.shoot(0).cut(2);
            comes_to(world, DOWN).await;
            if at_restore {
                set_seven();
            }
            world.shoot(0).restore();
            comes_to(world, [7, UP[1], UP[2]]).await;
        });
    }
}

#[test]
fn what_is_to_be_ignored_is_not_scaled() {
    tell(2, async |world, _| {
        world.edit("deployments", &namespace(0), REPLICAS[0].0, |it| {
            it["metadata"]["annotations"] = json!({IGNORE: "true"});
        });
        world.shoot(0).cut(2);
        comes_to(world, [UP[0], 0, 0]).await;
        world.pass(MINUTE).await;
        assert_eq!(replicas(world), [UP[0], 0, 0]);
    });
}

/// What holds a policy back.
fn holds() -> [Value; 2] {
    [json!({"suspend": true}), json!({"mode": "DryRun"})]
}

fn annotation(world: &World, name: &str, key: &str) -> Value {
    let found = world.get("deployments", &namespace(0), name);
    found["metadata"]["annotations"][key].clone()
}

/// Which dependents carry the mark.
fn marked(world: &World) -> [bool; 3] {
    REPLICAS.map(|(name, _)| !annotation(world, name, MARK).is_null())
}

/// Somebody scales a dependent.
fn scale(world: &World, name: &str, replicas: i64) {
    world.edit("deployments", &namespace(0), name, |it| {
        it["spec"]["replicas"] = json!(replicas);
    });
}

#[test]
fn gardenlet_decides_about_a_hibernation_once_it_has_taken_it_up() {
    let status = |observed| json!({"observedGeneration": observed});
    let shoots = [
        (
            "taken up",
            json!({"metadata": {"generation": 2}, "status": status(2)}),
            true,
        ),
        (
            "of a Cluster made by hand",
            json!({"metadata": null, "status": null}),
            true,
        ),
        (
            "of a Shoot that is ignored",
            json!({"metadata": {"generation": 2}}),
            false,
        ),
        ("of a Shoot without status", json!({"status": null}), false),
    ];
    for (what, mut shoot, is_gardenlets) in shoots {
        shoot["spec"] = json!({"hibernation": {"enabled": true}});
        tell(2, async |world, _| {
            world.shoot(0).cut(2);
            comes_to(world, DOWN).await;
            change_shoot(world, &shoot);
            if is_gardenlets {
                // As gardenlet does, whatever the mark says.
                scale(world, REPLICAS[0].0, 1);
            }
            world.pass(MINUTE).await;
            let records = REPLICAS.map(|(name, _)| annotation(world, name, RECORD));
            if is_gardenlets {
                assert_eq!(
                    (replicas(world), marked(world)),
                    ([1, 0, 0], [false; 3]),
                    "{what}"
                );
                assert_eq!(records, [json!(null), json!("3"), json!("1")], "{what}");
            } else {
                assert_eq!(
                    (replicas(world), marked(world)),
                    (DOWN, [true; 3]),
                    "{what}"
                );
                world.shoot(0).restore();
                comes_to(world, UP).await;
            }
        });
    }
}

#[test]
fn what_people_scale_up_while_the_policy_holds_back_is_owed_nothing() {
    for hold in holds() {
        tell(2, async |world, _| {
            world.shoot(0).cut(2);
            comes_to(world, DOWN).await;
            change_policy(world, &hold);
            world.pass(MINUTE).await;
            for (name, replicas) in REPLICAS {
                scale(world, name, replicas);
            }
            world.pass(2 * MINUTE).await;
            assert_eq!((replicas(world), marked(world)), (UP, [true; 3]));
            let health = world.get("clusterhealths", "", &namespace(0));
            assert_eq!(health["status"]["protection"], "None", "{health}");
        });
    }
}

/// Tells a story of a cluster that was protected, and is restored just now.
fn tell_restored(story: impl AsyncFnOnce(&World)) {
    tell(2, async |world, _| {
        world.shoot(0).cut(2);
        comes_to(world, DOWN).await;
        world.shoot(0).restore();
        comes_to(world, UP).await;
        assert_eq!(marked(world), [true; 3]);
        story(world).await;
    });
}

#[test]
fn a_mark_falls_a_minute_after_the_restore_whatever_is_known_by_then() {
    let troubles: [(&str, Trouble); 5] = [
        ("an API server that is away", |world| {
            world.shoot(0).die(Death::Refuses)
        }),
        ("a Gate that never passes", |world| {
            let exec =
                json!({"podSelector": {"matchLabels": {"app": "none"}}, "command": ["true"]});
            let gate = json!({"name": "etcd", "role": "Gate", "exec": exec});
            change_policy(world, &json!({"checks": [gate]}));
        }),
        ("a grace that cannot be read", |world| {
            let manager = json!({"nodeMonitorGracePeriod": "soon"});
            let kubernetes = json!({"kubeControllerManager": manager});
            change_shoot(world, &json!({"spec": {"kubernetes": kubernetes}}));
        }),
        ("a Shoot that cannot be read", |world| {
            change_shoot(world, &json!("?"))
        }),
        ("no policy any more, and an outage", |world| {
            let key = Key::new("probepolicies", "", "shoots");
            world.seed.store(|store, now| store.remove(&key, now));
            world.shoot(0).cut(2);
        }),
    ];
    for (what, trouble) in troubles {
        tell_restored(async |world| {
            trouble(world);
            world.pass(MINUTE + LEASE / 20).await;
            assert_eq!((replicas(world), marked(world)), (UP, [false; 3]), "{what}");
        });
    }
    for hold in holds() {
        tell_restored(async |world| {
            change_policy(world, &hold);
            world.pass(5 * MINUTE).await;
            assert_eq!(marked(world), [true; 3], "{hold}");
            change_policy(world, &json!({"suspend": false, "mode": "Enforce"}));
            world.pass(Duration::from_secs(2)).await;
            assert_eq!((replicas(world), marked(world)), (UP, [false; 3]), "{hold}");
        });
    }
}

#[test]
fn a_rehearsal_writes_to_no_dependent_whatever_becomes_of_the_policy() {
    tell(2, async |world, operator| {
        world.shoot(0).cut(2);
        comes_to(world, DOWN).await;
        operator.kill();
        world.start(Role::Rehearsal, Election::None);
        world.pass(MINUTE).await;
        let key = Key::new("probepolicies", "", "shoots");
        world.seed.store(|store, now| store.remove(&key, now));
        world.shoot(0).restore();
        world.pass(5 * MINUTE).await;
        assert_eq!(replicas(world), DOWN);
    });
}

#[test]
fn a_mark_alone_is_a_debt_that_a_start_pays_first() {
    in_virtual_time(async {
        let clusters = 1_000;
        let world = World::new(clusters, 2, LEASE);
        let marked = || (0..clusters).step_by(100);
        let (kcm, replicas) = REPLICAS[0];
        for cluster in marked() {
            world.edit("deployments", &namespace(cluster), kcm, |it| {
                it["spec"]["replicas"] = json!(0);
                it["metadata"]["annotations"] = json!({MARK: "true", RECORD: replicas.to_string()});
            });
        }
        world.put_policy(&json!({"mode": "Enforce"}));
        world.start(Role::Prober, Election::None);
        world.pass(Duration::from_secs(30)).await;
        let found = |cluster| world.get("deployments", &namespace(cluster), kcm);
        let left = marked().find(|it| found(*it)["spec"]["replicas"] == 0);
        assert_eq!(left, None);
    });
}

/// Every dependent is read after a start, twice, and within the same budget as what is reported.
#[test]
fn a_start_reports_before_it_has_read_all_dependents() {
    in_virtual_time(async {
        let world = World::new(300, 2, LEASE);
        world.put_policy(&json!({"mode": "Enforce"}));
        world.start(Role::Prober, Election::None);
        world.pass(MINUTE).await;
        let health = |cluster| world.get("clusterhealths", "", &namespace(cluster));
        let left = (0..300).find(|it| health(*it)["status"]["reason"] != "Healthy");
        assert_eq!(left, None);
    });
}

#[test]
fn a_healthy_cluster_costs_no_requests() {
    tell(2, async |world, _| {
        world.pass(5 * MINUTE).await;
        world.seed.forget_calls();
        world.pass(10 * MINUTE).await;
        let mut asked = world.seed.calls();
        asked.retain(|it| {
            it.call.verb != Verb::Watch && it.call.plural != "selfsubjectaccessreviews"
        });
        let asked: Vec<String> = asked.iter().map(|it| it.call.brief()).collect();
        assert!(asked.len() < 10, "{asked:#?}");
    });
}
