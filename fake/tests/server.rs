//! What conformance to a real API server cannot reach.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use bytes::Bytes;
use fake::{
    fault::{Fate, Rule},
    server::{Connection, Server},
    store::{Call, Key, Patch, Store, Verb},
};
use http::Request;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash as _, Hasher as _},
    time::Duration,
};
use tokio::time::Instant;

const KCM: &str = "/apis/apps/v1/namespaces/a/deployments/kcm";

fn now() -> Timestamp {
    Timestamp::from_second(1_790_000_000).unwrap()
}

fn kcm() -> Value {
    json!({
        "kind": "Deployment", "metadata": {"name": "kcm", "namespace": "a"}, "spec": {"replicas": 1},
    })
}

fn server() -> Server {
    let begun = Instant::now();
    let server = Server::new(move || now() + begun.elapsed());
    server.store(|store, now| store.put(now, kcm()));
    server
}

fn scaled(replicas: u8) -> Call {
    let mut call = Call::new(
        Verb::Patch(Patch::Merge),
        &Key::new("deployments", "a", "kcm"),
    );
    call.body = json!({"spec": {"replicas": replicas}});
    call
}

async fn get(connection: &Connection, path: &str) -> Result<(u16, Value), std::io::Error> {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    let answer = connection.call(request).await?;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
}

fn hash(store: &Store) -> u64 {
    let mut hasher = DefaultHasher::new();
    store.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn a_store_rolled_back_is_the_store_that_was() {
    let mut store = Store::default();
    store.put(now(), kcm());
    let backup = store.clone();
    store.call(&scaled(0), now()).unwrap();
    assert_ne!(hash(&store), hash(&backup));
    let past = store.at(backup.revision());
    store.roll_back(backup.revision());
    assert_eq!(store, backup);
    assert_eq!(past, backup);
    assert_eq!(hash(&store), hash(&backup));
}

#[tokio::test(start_paused = true)]
async fn reads_can_be_stale_while_watches_are_not() {
    let server = server();
    let connection = server.connect();
    let then = server.store(|store, _| store.revision());
    server
        .store(|store, now| store.call(&scaled(0), now))
        .unwrap();
    server.switch(|it| it.stale = Some(then));
    let (_, read) = get(&connection, KCM).await.unwrap();
    assert_eq!(read["spec"]["replicas"], 1);
    server.heal();
    let (_, read) = get(&connection, KCM).await.unwrap();
    assert_eq!(read["spec"]["replicas"], 0);
}

#[tokio::test(start_paused = true)]
async fn dead_connections_are_never_heard_of_and_new_ones_work() {
    let server = server();
    let old = server.connect();
    server.lose_connections();
    let lost = tokio::time::timeout(Duration::from_secs(3_600), get(&old, KCM)).await;
    lost.unwrap_err();
    assert_eq!(get(&server.connect(), KCM).await.unwrap().0, 200);
    assert_eq!(server.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_answers_when_it_speaks_again() {
    let server = server();
    let connection = server.connect();
    server.switch(|it| it.silent = true);
    let asked = tokio::spawn(async move { get(&connection, KCM).await });
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(server.calls(), []);
    server.heal();
    assert_eq!(asked.await.unwrap().unwrap().0, 200);
    assert_eq!(server.calls()[0].at, now() + Duration::from_secs(9));
}

#[tokio::test(start_paused = true)]
async fn rules_hit_what_they_match() {
    let server = server();
    let connection = server.connect();
    server.rule(Rule {
        skip: 1,
        ..Rule::once(Fate::LostAfter, |call| call.name == "kcm")
    });
    server.rule(Rule::once(Fate::Refuse(429, Some(7)), |call| {
        call.name == "kcm"
    }));
    let codes = async || get(&connection, KCM).await.map(|(code, _)| code).ok();
    assert_eq!(codes().await, Some(429));
    assert_eq!(codes().await, None);
    assert_eq!(codes().await, Some(200));
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_ends_and_is_cut() {
    let server = server();
    let connection = server.connect();
    let path = "/apis/apps/v1/deployments?watch=true&timeoutSeconds=60&resourceVersion=1";
    let watch = |connection: Connection| async move {
        let request = Request::get(path).body(Bytes::new()).unwrap();
        connection.call(request).await.unwrap().into_body()
    };
    let told = watch(connection.clone()).await.collect().await.unwrap();
    let told = String::from_utf8(told.to_bytes().to_vec()).unwrap();
    let kinds: Vec<&str> = told.lines().filter_map(|line| line.get(..60)).collect();
    assert_eq!(kinds.len(), 2, "added, and its status: {told}");
    let mut cut = watch(connection).await;
    assert!(cut.frame().await.unwrap().is_ok());
    server.cut_watches();
    assert!(cut.frame().await.unwrap().is_ok());
    cut.frame().await.unwrap().unwrap_err();
    assert!(cut.frame().await.is_none());
}
