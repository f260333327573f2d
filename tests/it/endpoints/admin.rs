//! The endpoints over real connections.

use std::{net::SocketAddr, time::Duration};

use dependency_watchdog::{
    prober::instruments::Instruments,
    runtime::{
        admin::{Admin, BindAddress, Endpoints},
        liveness::Liveness,
        readiness::Checks,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// A server on ports of its own.
struct Served {
    /// Of the metrics first.
    addresses: Vec<SocketAddr>,
    liveness: Liveness,
    checks: Checks,
}

fn address(text: &str) -> BindAddress {
    text.parse().unwrap()
}

async fn serve(metrics: &str, health: &str) -> Served {
    let (instruments, registry) = Instruments::new();
    let endpoints = Endpoints {
        registry,
        liveness: instruments.common.liveness.clone(),
        checks: instruments.common.checks.clone(),
    };
    let (metrics, health) = (address(metrics), address(health));
    let admin = Admin::bind(&metrics, &health, endpoints).await.unwrap();
    let addresses = admin.addresses();
    tokio::spawn(admin.run(CancellationToken::new()));
    Served {
        addresses,
        liveness: instruments.common.liveness,
        checks: instruments.common.checks,
    }
}

/// The status and the whole answer to these bytes.
async fn send(to: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    (status, answer)
}

async fn ask(to: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    send(to, request.as_bytes()).await
}

async fn get(to: SocketAddr, path: &str) -> (u16, String) {
    ask(to, "GET", path).await
}

#[tokio::test]
async fn each_address_serves_its_own_and_names_it() {
    let served = serve("127.0.0.1:0", ":0").await;
    let [metrics, health] = served.addresses[..] else {
        panic!("two listeners");
    };
    let health = SocketAddr::from(([127, 0, 0, 1], health.port()));
    let (status, answer) = get(metrics, "/metrics").await;
    assert_eq!(status, 200);
    assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(
        answer.contains("\ndependency_watchdog_leader 1\n"),
        "{answer}"
    );
    assert!(answer.ends_with("# EOF\n"));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(health, path).await.0, 200, "{path}");
        assert_eq!(get(metrics, path).await.0, 404, "{path}");
    }
    let (status, answer) = get(health, "/metrics").await;
    assert_eq!(status, 404);
    assert!(
        answer.ends_with("served here: /healthz /readyz\n"),
        "{answer}"
    );
    for method in ["POST", "HEAD", "DELETE", "PROPFIND"] {
        let (status, answer) = ask(health, method, "/healthz").await;
        assert_eq!(status, 405, "{method}");
        assert!(answer.contains("allow: GET"), "{answer}");
    }
}

#[tokio::test]
async fn readiness_names_what_fails() {
    let served = serve("0", "127.0.0.1:0").await;
    let health = served.addresses[0];
    let stop = CancellationToken::new();
    served.checks.stopped_by(stop.clone());
    served.checks.register("caches", || Ok(()));
    let (status, answer) = get(health, "/readyz").await;
    assert_eq!(status, 200);
    assert!(
        answer.ends_with("[+]caches ok\n[+]shutdown ok\nok\n"),
        "{answer}"
    );
    served.checks.register("caches", || Err("empty".to_owned()));
    stop.cancel();
    let (status, answer) = get(health, "/readyz").await;
    assert_eq!(status, 503);
    let expected = "[-]caches failed: empty\n[-]shutdown failed: shutting down\nnot ready\n";
    assert!(answer.ends_with(expected), "{answer}");
}

#[tokio::test]
async fn a_loop_that_hangs_is_named() {
    let served = serve("0", "127.0.0.1:0").await;
    let health = served.addresses[0];
    let liveness = served.liveness.begin("fleet");
    assert_eq!(get(health, "/healthz").await.0, 200);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    let (status, answer) = get(health, "/healthz").await;
    assert_eq!(status, 503);
    assert!(answer.contains("[-]fleet failed"), "{answer}");
    liveness.beat();
    assert_eq!(get(health, "/healthz").await.0, 200);
}

/// Whoever keeps connections open, or sends nonsense, is served no more than others.
#[tokio::test]
async fn clients_are_bounded() {
    let served = serve("0", "127.0.0.1:0").await;
    let health = served.addresses[0];
    for nonsense in [
        "\r\n\r\n\r\n\0".to_owned(),
        format!(
            "GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
            "x".repeat(100_000)
        ),
        format!("GET /healthz HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000)),
    ] {
        let mut stream = TcpStream::connect(health).await.unwrap();
        // It may be closed before all of it was sent.
        let _ = stream.write_all(nonsense.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // All places are taken by clients that say nothing, or half of it.
    let mut idle = Vec::new();
    for _ in 0..64 {
        let mut stream = TcpStream::connect(health).await.unwrap();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\n")
            .await
            .unwrap();
        idle.push(stream);
    }
    // The clock jumps to where they are closed.
    tokio::time::pause();
    let (status, _) = get(health, "/healthz").await;
    assert_eq!(status, 200);
    for mut stream in idle {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"));
    }
}

/// Clients that hold connections on either address do not keep the kubelet waiting, which would end
/// the process.
#[tokio::test]
async fn nobody_keeps_others_out() {
    let served = serve("127.0.0.1:0", ":0").await;
    let [metrics, health] = served.addresses[..] else {
        panic!("two listeners");
    };
    let health = SocketAddr::from(([127, 0, 0, 1], health.port()));
    let mut idle = Vec::new();
    for address in [metrics, health] {
        for _ in 0..100 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let half = stream.write_all(b"GET /healthz HTTP/1.1\r\n");
            half.await.unwrap();
            idle.push(stream);
        }
    }
    for (address, path) in [(health, "/healthz"), (metrics, "/metrics")] {
        let answered = tokio::time::timeout(Duration::from_secs(2), get(address, path));
        assert_eq!(answered.await.unwrap().0, 200, "{path}");
    }
}
