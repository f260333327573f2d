//! Reads from a shoot over a real connection: what succeeds, and what each failure is called.

use std::{pin::pin, sync::Arc, time::Duration};

use crate::support::{
    self, Activity, Reply, Request, ScriptedServer, TOKEN, authority, encoded, kubeconfig,
    refusing_url, tls_with,
};
use dependency_watchdog::{
    shoot::{
        Consistency, Dial, Item as _, Lease, LeaseRead, Readiness, Said, Shoot, Unread, parse,
    },
    util::mono_time::MonoTime,
};
use fake::farm::wire::PROTOBUF;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

/// Long enough for any answer that comes at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// Short, for the answers that never come.
const SHORT: Duration = Duration::from_millis(300);

fn leases(count: usize) -> Value {
    let lease = |i| {
        json!({
            "metadata": {"name": format!("node-{i}"), "uid": format!("u{i}"), "resourceVersion": "7"},
            "spec": {"leaseDurationSeconds": 40, "renewTime": "1970-01-01T00:00:01.5Z"},
        })
    };
    json!({
        "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"resourceVersion": "42"}, "items": (0..count).map(lease).collect::<Vec<_>>(),
    })
}

fn api(request: Request) -> Reply {
    match request.path.as_str() {
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" => Reply::list(&leases(3)),
        "/api/v1/nodes" => Reply::list(&json!({
            "kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "42"},
            "items": [{"metadata": {"name": "node-0"}}],
        })),
        "/readyz" => Reply::body(200, "text/plain", "ok"),
        _ => Reply::status(
            404,
            "NotFound",
            "the server could not find the requested resource",
        ),
    }
}

fn shoot(kubeconfig: &[u8]) -> Shoot {
    Shoot::new(parse(kubeconfig).unwrap(), &Dial::default())
}

async fn read(shoot: &Shoot) -> Result<LeaseRead, Unread> {
    shoot.leases(Consistency::Cached, PATIENCE).await
}

#[tokio::test]
async fn leases_and_nodes() {
    let server = ScriptedServer::start(api).await;
    let shoot = shoot(&server.kubeconfig());
    let before = MonoTime::now();
    let cached = read(&shoot).await.unwrap();
    assert!(before <= cached.started && cached.started <= cached.finished);
    assert!(cached.finished <= MonoTime::now());
    assert_eq!(cached.date, Some(1_795_172_553));
    assert_eq!(cached.consistency, Consistency::Cached);
    assert_eq!(
        (cached.list.resource_version, cached.list.items.len()),
        (42, 3)
    );
    let renewed = cached.list.items[2].renew_time.unwrap();
    assert_eq!(renewed.as_microsecond(), 1_500_000);

    let consistent = shoot
        .leases(Consistency::Consistent, PATIENCE)
        .await
        .unwrap();
    assert_eq!(consistent.consistency, Consistency::Consistent);
    assert_eq!(consistent.list, cached.list);
    for consistency in [Consistency::Cached, Consistency::Consistent] {
        let mut nodes = Vec::new();
        let keep = |node: dependency_watchdog::shoot::Node| nodes.push(node.name);
        shoot.list(consistency, PATIENCE, keep).await.unwrap();
        assert_eq!(nodes, ["node-0".into()]);
    }

    let requests = server.requests();
    let queries: Vec<_> = requests
        .iter()
        .map(|request| request.query.as_str())
        .collect();
    assert_eq!(queries, ["resourceVersion=0", "", "resourceVersion=0", ""]);
    for request in &requests {
        assert_eq!(request.method, "GET");
        assert_eq!(
            request.header("authorization"),
            Some(format!("Bearer {TOKEN}").as_str())
        );
        assert_eq!(request.header("accept"), Some(PROTOBUF));
        assert!(
            request
                .header("user-agent")
                .unwrap()
                .starts_with("dependency-watchdog/")
        );
    }
}

#[tokio::test]
async fn ten_reads_use_one_connection() {
    let server = ScriptedServer::start(api).await;
    let shoot = shoot(&server.kubeconfig());
    for _ in 0..10 {
        read(&shoot).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_refusal_keeps_the_connection() {
    let server = ScriptedServer::always(Reply::status(503, "ServiceUnavailable", "etcd")).await;
    let shoot = shoot(&server.kubeconfig());
    for _ in 0..3 {
        read(&shoot).await.unwrap_err();
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 3));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    let server = ScriptedServer::start(|request| {
        if request.connection == 1 {
            api(request).until_close()
        } else {
            api(request)
        }
    })
    .await;
    let shoot = shoot(&server.kubeconfig());
    for _ in 0..3 {
        read(&shoot).await.unwrap();
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let server = ScriptedServer::start(api).await;
    read(&shoot(&server.kubeconfig_with_certificate()))
        .await
        .unwrap();
    let request = server.requests().remove(0);
    assert!(request.client_certificate);
    assert_eq!(request.header("authorization"), None);
}

#[tokio::test]
async fn the_tls_server_name_is_honoured() {
    let server = ScriptedServer::start(api).await;
    let named = |name: &str| {
        let mut config: Value = serde_json::from_slice(&server.kubeconfig()).unwrap();
        config["clusters"][0]["cluster"]["tls-server-name"] = json!(name);
        shoot(config.to_string().as_bytes())
    };
    read(&named("kubernetes")).await.unwrap();
    assert_eq!(
        read(&named("elsewhere")).await.unwrap_err().reason,
        "TlsFailed"
    );
}

#[tokio::test]
async fn a_path_in_the_url_is_kept() {
    let server = ScriptedServer::start(|_| Reply::list(&leases(1))).await;
    let config = kubeconfig(
        &format!("{}/clusters/a/", server.url()),
        &server.ca_pem(),
        &json!({"token": "t"}),
    );
    read(&shoot(&config)).await.unwrap();
    assert_eq!(
        server.requests()[0].path,
        "/clusters/a/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    );
}

#[tokio::test]
async fn what_never_arrives_is_unreachable() {
    let other_ca = authority().pem();
    let server = ScriptedServer::start(api).await;
    let user = json!({"token": TOKEN});
    for (config, reason) in [
        (
            kubeconfig(&refusing_url().await, &other_ca, &user),
            "Unreachable",
        ),
        (
            kubeconfig("https://no-such-host.invalid", &other_ca, &user),
            "NameNotResolved",
        ),
        (kubeconfig(&server.url(), &other_ca, &user), "TlsFailed"),
    ] {
        let error = read(&shoot(&config)).await.unwrap_err();
        assert_eq!(
            (error.reason, error.said),
            (reason, Said::Broken),
            "{error}"
        );
    }
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn a_certificate_that_go_takes_is_refused_with_a_remedy() {
    let key = || KeyPair::generate().unwrap();
    let named = || {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        // Not the name that the authority has.
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params
    };
    let (leaf, its_key) = (key(), key());
    let signed = named().signed_by(&leaf, &authority()).unwrap();
    let mut itself = named();
    itself.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let itself = itself.self_signed(&its_key).unwrap();
    for (certificate, key, remedy) in [
        (signed, leaf, "who signed the API server's certificate"),
        (itself, its_key, "not one of an authority (CA:TRUE)"),
    ] {
        let pem = certificate.pem();
        let shown = Arc::new((certificate, key));
        let server = support::Target::start(&Activity::default(), move |stream| {
            let shown = shown.clone();
            async move { drop(tls_with(stream, &shown.0, &shown.1).await) }
        })
        .await;
        let url = format!("https://{}", server.address);
        let config = kubeconfig(&url, &pem, &json!({"token": TOKEN}));
        let error = read(&shoot(&config)).await.unwrap_err();
        assert_eq!(error.reason, "TlsFailed");
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[tokio::test]
async fn connections_that_break_are_unreachable() {
    let list = || Reply::list(&leases(100));
    for (case, reply) in [
        ("reset before headers", Reply::reset()),
        ("closed before headers", Reply::close()),
        ("reset in the body", list().reset_after(1000)),
        ("closed in the body", list().truncate_after(1000)),
    ] {
        let server = ScriptedServer::always(reply).await;
        let error = read(&shoot(&server.kubeconfig())).await.unwrap_err();
        assert_eq!(error.said, Said::Broken, "{case}: {error}");
    }
}

#[tokio::test]
async fn what_takes_too_long_is_a_timeout() {
    let list = || Reply::list(&leases(100));
    for (case, reply) in [
        ("no headers", Reply::hang()),
        ("no body", list().hang_after(0)),
        ("half a body", list().hang_after(1000)),
        (
            "a refusal without end",
            Reply::status(503, "x", "y").hang_after(3),
        ),
        ("drops", list().drip(1, Duration::from_millis(50))),
    ] {
        let server = ScriptedServer::always(reply).await;
        let shoot = shoot(&server.kubeconfig());
        let begin = std::time::Instant::now();
        let error = shoot
            .leases(Consistency::Consistent, SHORT)
            .await
            .unwrap_err();
        assert_eq!(error, Lease::TARGET.late(SHORT), "{case}");
        assert!(begin.elapsed() < PATIENCE, "{case}");
    }
}

#[tokio::test]
async fn an_abandoned_read_does_not_spoil_the_next() {
    let server = ScriptedServer::start(|request| {
        let answer = api(request.clone());
        if request.connection == 1 {
            answer.hang_after(20)
        } else {
            answer
        }
    })
    .await;
    let shoot = shoot(&server.kubeconfig());
    tokio::select! {
        read = read(&shoot) => panic!("{read:?}"),
        _ = server.requested(1) => {}
    }
    read(&shoot).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_was_given_up_while_it_was_read_does_not_come_back() {
    let server = ScriptedServer::start(api).await;
    let shoot = shoot(&server.kubeconfig());
    let mut slow = pin!(shoot.readiness(PATIENCE));
    tokio::select! {
        biased;
        _ = server.requested(1) => {}
        read = &mut slow => panic!("{read:?}"),
    }
    shoot.disconnect();
    slow.await.unwrap();
    read(&shoot).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_slow_answer_within_the_limit_is_an_answer() {
    let reply = Reply::list(&leases(3)).drip(64, Duration::from_millis(1));
    let server = ScriptedServer::always(reply).await;
    assert_eq!(
        read(&shoot(&server.kubeconfig()))
            .await
            .unwrap()
            .list
            .items
            .len(),
        3
    );
}

#[tokio::test]
async fn refusals() {
    let busy = || Reply::status(429, "TooManyRequests", "slow down");
    let wait = |seconds| Said::Throttled(Duration::from_secs(seconds));
    let json = |code, message| Reply::status(code, "x", message);
    let text = |code, message: &str| Reply::body(code, "text/html", message.to_owned());
    let right =
        "cannot list the leases in kube-node-lease: the user of the kubeconfig may not (403)";
    for (reply, reason, said, says) in [
        (
            json(401, "no"),
            "Unauthorized",
            Said::Refused,
            "renew the kubeconfig",
        ),
        (json(403, "no"), "Forbidden", Said::Refused, right),
        (json(404, "no"), "ServerError", Said::Other, "404 (no)"),
        (
            json(409, "changed"),
            "ServerError",
            Said::Other,
            "409 (changed)",
        ),
        (busy(), "TooManyRequests", wait(10), "alone for 10s"),
        (
            busy().header("Retry-After", "7"),
            "TooManyRequests",
            wait(7),
            "alone for 7s",
        ),
        (
            json(500, "etcd\u{1b}[2J gone"),
            "ServerError",
            Said::Other,
            "500 (etcd [2J gone)",
        ),
        (
            text(503, "upstream\r\n error"),
            "ServerError",
            Said::Other,
            "503 (upstream error)",
        ),
        (
            text(502, ""),
            "ServerError",
            Said::Other,
            "502 (no explanation)",
        ),
        (
            text(302, "moved").header("Location", "https://evil"),
            "ServerError",
            Said::Other,
            "302",
        ),
    ] {
        let server = ScriptedServer::always(reply).await;
        let error = read(&shoot(&server.kubeconfig())).await.unwrap_err();
        assert_eq!((error.reason, error.said), (reason, said));
        assert!(error.message.contains(says), "{error}");
        assert_eq!(server.requests().len(), 1, "no retry: {error}");
    }
}

#[tokio::test]
async fn other_bodies_are_unreadable() {
    let list = encoded(&leases(3));
    for (reply, says) in [
        (
            Reply::body(200, "text/html", "<html><h1>Log in</h1></html>"),
            &["text/html", "<html>"][..],
        ),
        (
            Reply::json(200, &leases(3)),
            &["application/json", "no whole protobuf", "such as a proxy"],
        ),
        (
            Reply::list(&json!({"kind": "Status"})),
            &["kind \"Status\""],
        ),
        (
            Reply::list(&json!({"kind": "LeaseList"})),
            &["without a resourceVersion"],
        ),
        (
            Reply::body(200, PROTOBUF, &list[..99]).until_close(),
            &["cut off"],
        ),
        (Reply::body(200, PROTOBUF, ""), &["cut off"]),
        (Reply::body(204, PROTOBUF, ""), &["cut off"]),
        (
            Reply::body(200, "application/octet-stream", vec![0xff; 500]),
            &["octet-stream"],
        ),
    ] {
        let server = ScriptedServer::always(reply).await;
        let error = read(&shoot(&server.kubeconfig())).await.unwrap_err();
        let message = error.to_string();
        assert_eq!(error.reason, "Unreadable", "{message}");
        assert!(says.iter().all(|part| message.contains(part)), "{message}");
        assert!(message.chars().count() <= 300, "{message}");
    }
}

#[tokio::test]
async fn a_success_counts_if_it_came_whole_and_a_failure_by_its_beginning() {
    let ok = Reply::body(200, "text/plain", "ok").truncate_after(1);
    let server = ScriptedServer::always(ok).await;
    let asked = shoot(&server.kubeconfig());
    let ready = asked.readiness(PATIENCE).await;
    assert_eq!(ready.unwrap_err().said, Said::Broken);
    let served = asked.serves("metrics.k8s.io", "v1beta1", PATIENCE).await;
    assert_eq!(served.unwrap_err().said, Said::Broken);
    let failed = "[-]etcd failed: reason withheld\n".to_owned() + &"[+]ping ok\n".repeat(10_000);
    let server = ScriptedServer::always(Reply::body(500, "text/plain", failed)).await;
    let ready = shoot(&server.kubeconfig()).readiness(PATIENCE).await;
    assert_eq!(ready, Ok(Readiness::NotReady(vec!["etcd".to_owned()])));
}

#[tokio::test]
async fn a_missing_or_ambiguous_date_is_none() {
    for reply in [
        Reply::list(&leases(1)).without_header("Date"),
        Reply::list(&leases(1)).header("Date", "now"),
    ] {
        let server = ScriptedServer::always(reply).await;
        assert_eq!(read(&shoot(&server.kubeconfig())).await.unwrap().date, None);
    }
}
