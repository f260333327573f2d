//! The endpoints over real connections.

use std::{net::SocketAddr, time::Duration};

use dependency_watchdog::{
    prober::instruments::Instruments,
    runtime::{admin::Admin, instruments::Common},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Serves on ports of its own. Returns what is told, and where: the metrics first.
async fn serve(metrics: &str, health: &str) -> (Common, Vec<SocketAddr>) {
    let (instruments, registry) = Instruments::new();
    let common = instruments.common;
    let shown = (registry, common.health().clone());
    let admin = Admin::bind(metrics, health, shown).await.unwrap();
    let addresses = admin.addresses().into_iter();
    let addresses = addresses.map(|it| SocketAddr::from(([127, 0, 0, 1], it.port())));
    let addresses = addresses.collect();
    tokio::spawn(admin.run());
    (common, addresses)
}

/// The status and the whole answer to these bytes.
async fn send(to: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // It may be closed before all of it was sent.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, answer)
}

async fn get(to: SocketAddr, path: &str) -> (u16, String) {
    send(to, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
}

#[tokio::test]
async fn each_address_serves_its_own() {
    let (_, addresses) = serve("localhost:0", ":0").await;
    let [metrics, health] = addresses[..] else {
        panic!("two listeners");
    };
    let (status, answer) = get(metrics, "/metrics").await;
    assert_eq!(status, 200);
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"));
    let leads = "\ndependency_watchdog_leader 1\n";
    assert!(answer.contains(leads), "{answer}");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(health, path).await.0, 200, "{path}");
        assert_eq!(get(metrics, path).await.0, 404, "{path}");
    }
    assert_eq!(get(health, "/metrics").await.0, 404);
    let nowhere = Admin::bind("9643", "0", Default::default()).await;
    let error = nowhere.err().unwrap();
    assert!(
        error.starts_with("--metrics-bind-addr 9643 cannot"),
        "{error}"
    );
    let [both] = serve("127.0.0.1:0", "127.0.0.1:0").await.1[..] else {
        panic!("one listener");
    };
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(get(both, path).await.0, 200, "{path}");
    }
}

/// Nothing that is left of an earlier candidacy fails.
#[tokio::test]
async fn health_names_what_fails() {
    let (common, addresses) = serve("0", "127.0.0.1:0").await;
    let [health] = addresses[..] else {
        panic!("one listener");
    };
    common.health().check("watch", || Err("broken".to_owned()));
    common.health().beat("writer");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    let (status, answer) = get(health, "/readyz").await;
    assert_eq!(status, 503);
    let expected = "\n[-]watch failed: broken\nnot ready\n";
    assert!(answer.ends_with(expected), "{answer}");
    let (status, answer) = get(health, "/healthz").await;
    assert_eq!(status, 503);
    assert!(answer.contains("[-]writer failed"), "{answer}");
    common.stand_by();
    common.health().check("caches", || Ok(()));
    let (status, answer) = get(health, "/readyz").await;
    assert_eq!(status, 200);
    assert!(answer.ends_with("\n[+]caches ok\nok\n"), "{answer}");
    assert_eq!(get(health, "/healthz").await.0, 200);
}

/// Whoever keeps connections open, or sends nonsense, is served no more than others, who wait for seconds.
#[tokio::test]
async fn clients_are_bounded() {
    let (_, addresses) = serve("0", "127.0.0.1:0").await;
    let [health] = addresses[..] else {
        panic!("one listener");
    };
    let long = "x".repeat(100_000);
    for nonsense in [
        "\r\n\r\n\r\n\0".to_owned(),
        format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {long}\r\n\r\n"),
    ] {
        let (status, answer) = send(health, &nonsense).await;
        assert_ne!(status, 200, "{answer}");
    }
    // All places are taken by clients that say half of it.
    let mut idle = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(health).await.unwrap();
        let half = stream.write_all(b"GET /healthz HTTP/1.1\r\n");
        half.await.unwrap();
        idle.push(stream);
    }
    // The clock jumps to where they are closed.
    tokio::time::pause();
    assert_eq!(get(health, "/healthz").await.0, 200);
}
