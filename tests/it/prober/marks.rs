//! What is restored keeps its mark for a minute: what somebody writes meanwhile who had read it at zero
//! before is undone.

use std::time::Duration;

use crate::support::{
    Call, DEPENDENTS, INTERVAL, LONG, RUNNING, World, assert_back, assert_restored, is_marked,
    protected, run, scale_by_hand,
};

/// Restored just now, and marked.
async fn restored() -> World {
    let world = protected().await;
    world.shoot("a").renew();
    world.protection("a", "None").await;
    assert_back(&world);
    assert_eq!(is_marked(&world), [true; 3]);
    world.seed.forget_calls();
    world
}

fn reads_the_cluster(call: &Call) -> bool {
    call.resource == "clusters" && call.selected_name().is_some()
}

fn reads_of_the_cluster(world: &World) -> usize {
    let calls = world.seed.calls();
    calls.iter().filter(|call| reads_the_cluster(call)).count()
}

/// gardenlet had read it at zero, and deploys it so when it is back: each dependent, whenever in that
/// minute.
#[test]
fn a_stale_zero_after_a_restore_does_not_stay() {
    for name in DEPENDENTS {
        for after in [0, 20, 45] {
            run(async move {
                let world = restored().await;
                world.clock.pass(Duration::from_secs(after)).await;
                scale_by_hand(&world, name, 0, false);
                let back = || (world.replicas("a") == RUNNING).then_some(());
                world.clock.until("it is back again", back).await;
                // What was confirmed before the scale-down still counts at first.
                assert_eq!(reads_of_the_cluster(&world), usize::from(after > 0));
                world.clock.pass(2 * LONG).await;
                assert_restored(&world);
            });
        }
    }
}

/// Whoever scales it to zero each time it is back is undone each time, and people are told.
#[tokio::test]
async fn what_is_zeroed_again_and_again_is_given_back_and_told() {
    let world = restored().await;
    for _ in 0..4 {
        scale_by_hand(&world, "mcm", 0, false);
        let back = || (world.replicas("a") == RUNNING).then_some(());
        world.clock.until("it is back again", back).await;
    }
    world.clock.pass(INTERVAL).await;
    let last = &world.health("a")["lastAction"]["message"];
    let told = "restored 5 times, since somebody scaled it to zero within a minute";
    assert!(last.as_str().unwrap().contains(told), "{last}");
    world.clock.pass(2 * LONG).await;
    assert_restored(&world);
}
