//! What is believed of a dependent that is read by several requests, or whose kind a server does not know.

use crate::support::{Failure, Seed, info, put_workload};
use dependency_watchdog::prober::{
    scale::{ScaleError, Scaler},
    step::{MARK, RECORD, Record},
};
use serde_json::json;

/// A seed with a dependent of this kind, and what reads it.
fn seed(kind: &str) -> (Seed, Scaler) {
    let seed = Seed::default();
    put_workload(&seed, kind, "a", "first", 3);
    let scaler = Scaler::new(seed.unlimited()).within("a".into());
    (seed, scaler)
}

/// A proxy that has lost its way says nothing of a Deployment.
#[tokio::test]
async fn what_is_not_served_is_not_gone() {
    let (seed, scaler) = seed("Deployment");
    seed.fail(Failure::Unserved, (0, usize::MAX), |call| {
        call.resource == "deployments"
    });
    let reference = serde_json::from_value(info("Deployment", "first", 0)["ref"].clone());
    let read = scaler.read(&reference.unwrap()).await;
    assert!(matches!(read, Err(ScaleError::Request { .. })), "{read:?}");
}

/// Of a mark and replicas that are read by two requests each may be of another moment: together they
/// would be somebody else's zero, which is nobody's to restore.
#[tokio::test(start_paused = true)]
async fn what_two_requests_read_is_of_one_version() {
    for times in 1..=6 {
        let (seed, scaler) = seed("Etcd");
        let mut told = 0;
        seed.interfere(
            times,
            |call| call.brief() == "GET etcds/scale/first",
            move |object| {
                told += 1;
                object["metadata"]["annotations"] = json!({MARK: "", RECORD: "3"});
                object["spec"]["replicas"] = json!(0);
                object["status"] = json!({"observed": told});
            },
        );
        let reference = serde_json::from_value(info("Etcd", "first", 0)["ref"].clone());
        let read = scaler.read(&reference.unwrap()).await;
        if times <= 5 {
            let read = read.unwrap().unwrap();
            let found = (read.replicas, read.marked, read.record);
            assert_eq!(found, (0, true, Record::Replicas(3)), "{times}");
        } else {
            assert!(matches!(read, Err(ScaleError::Conflicts)), "{read:?}");
        }
    }
}
