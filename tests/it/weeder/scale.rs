//! The weeder of a large seed: what it holds, and what it asks for, is bounded.

use std::{collections::BTreeMap, num::NonZeroU32};

use crate::support::{Call, Failure, Garden, put_pod, put_slice, weed_policy};
use dependency_watchdog::runtime::seed::{LEAST_QPS, Rate, Seed};

const NAMESPACES: usize = 1_000;

fn names() -> Vec<String> {
    (0..NAMESPACES).map(|index| format!("n{index}")).collect()
}

/// A namespace with a looping pod each, and a service that is as told.
fn garden(ready: bool) -> Garden {
    let names = names();
    let garden = Garden::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        put_slice(&garden.seed, name, "etcd", ready);
        put_pod(&garden.seed, name, "api-1", "api", true);
    }
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    garden
}

async fn all_watched(garden: &Garden) {
    garden
        .status_where("all are watched", |status| {
            status["services"]["watched"] == NAMESPACES
        })
        .await;
}

#[tokio::test]
async fn a_recovery_of_the_whole_seed_takes_a_few_watches() {
    let mut garden = garden(false);
    garden.start();
    all_watched(&garden).await;
    garden.seed.forget_calls();
    for name in names() {
        put_slice(&garden.seed, &name, "etcd", true);
    }
    let gone = || (garden.deletions().len() >= NAMESPACES).then_some(());
    garden.clock.until("all are deleted", gone).await;
    garden.pass(5).await;
    for name in names() {
        assert!(garden.seed.get("pods", &name, "api-1").is_none(), "{name}");
    }
    // A list that was under way may show pods again that are gone by then.
    let again = garden.deletions().len() - NAMESPACES;
    assert!(again <= 20, "{again}");
    assert_eq!(garden.seed.watches("pods"), 1);
    // Of some namespaces, and then of all, in pages.
    let reads = garden.pod_reads().len();
    assert!(reads <= 2 * 20 + NAMESPACES / 200 + 1, "{reads}");
    garden
        .status_where("all are told", |status| status["weeded"] == NAMESPACES)
        .await;
    // It ends with the windows.
    garden.pass(60).await;
    assert_eq!(garden.seed.watches("pods"), 0);
}

#[tokio::test]
async fn so_many_deletions_are_under_way_at_once() {
    let mut garden = garden(true);
    let deletions = |call: &Call| call.method == "DELETE";
    garden.seed.fail(Failure::Hang, (0, usize::MAX), deletions);
    for index in 0..10 {
        put_pod(&garden.seed, "n0", &format!("web-{index}"), "api", true);
    }
    garden.start();
    garden.pass(2).await;
    let deletions = garden.deletions();
    assert_eq!(deletions.len(), 32);
    let mut each = BTreeMap::new();
    for deletion in &deletions {
        *each.entry(&deletion.namespace).or_insert(0) += 1;
    }
    assert!(each.values().all(|count| *count <= 4), "{each:?}");
}

/// What is deleted does not wait for statuses, events and reviews; lists and watches are apart.
#[tokio::test]
async fn all_that_can_wait_is_within_the_budgets() {
    let mut garden = garden(true);
    let client = garden.seed.unlimited().client().clone();
    // The next turn comes when the test is long over.
    let rate = |burst| Rate {
        qps: LEAST_QPS,
        burst: NonZeroU32::new(burst).unwrap(),
    };
    let seed = Seed::within(client, rate(30), rate(20), &Default::default());
    garden.start_on(seed);
    garden.pass(10).await;
    let calls = [garden.seed.calls(), garden.seed.events()].concat();
    let waited = calls.iter().filter(|call| call.method != "GET").count();
    assert_eq!((garden.deletions().len(), waited), (30, 50));
}
