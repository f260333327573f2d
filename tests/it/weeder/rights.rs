//! Rights to pods that a recovery calls for, asked for ahead on a scripted seed: what is told, of
//! what, and when.

use crate::support::{Garden, put_slice, run, weed_policy};
use serde_json::Value;

/// Longer than a policy's status waits to be written, in seconds.
const WRITTEN: u64 = 10;

/// A weeder that may not do this from its start on, with a policy whose service is not ready.
async fn without(denied: fn(&Value) -> bool) -> Garden {
    let mut garden = Garden::new(&["a"]);
    garden.seed.put(&weed_policy("p", "etcd", "api"));
    put_slice(&garden.seed, "a", "etcd", false);
    garden.seed.deny(denied);
    garden.start();
    garden.pass(WRITTEN).await;
    garden
}

fn delete(asked: &Value) -> bool {
    asked["verb"] == "delete"
}

#[test]
fn what_is_missing_is_told_on_the_policy() {
    type Case = (fn(&Value) -> bool, Option<&'static str>);
    let cases: [Case; 6] = [
        (|_| false, None),
        // Of no concern.
        (|it| it["resource"] != "pods" || it["verb"] == "patch", None),
        (delete, Some("delete pods")),
        (|it| it["verb"] == "list", Some("list pods")),
        (|it| it["verb"] == "watch", Some("watch pods")),
        // A window may open in any namespace.
        (
            |it| it["namespace"].is_null(),
            Some("list pods, watch pods, delete pods"),
        ),
    ];
    for (index, (denied, missing)) in cases.into_iter().enumerate() {
        run(async {
            let garden = without(denied).await;
            let (reason, message) = garden.degraded();
            match missing {
                Some(missing) => {
                    assert_eq!(reason, "RightsMissing", "{index}: {message}");
                    let end = format!("as manifests/weeder/rbac.yaml does: {missing}");
                    assert!(message.ends_with(&end), "{index}: {message}");
                    assert_eq!(garden.seed.told_of_rights(), ["RightsMissing"], "{index}");
                }
                None => {
                    assert_eq!(reason, "AsExpected", "{index}: {message}");
                    assert!(garden.seed.told_of_rights().is_empty(), "{index}");
                }
            }
        });
    }
}
