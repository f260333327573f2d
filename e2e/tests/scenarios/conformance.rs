//! The fake API server against a real one: the same requests to both, and the same fates.

#![allow(
    clippy::indexing_slicing,
    reason = "a part that JSON lacks is null and does not panic"
)]

mod table;

use self::table::{Answer, Side, Table, differences};
use super::Scenario;
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog_e2e::{
    Env, Etcd, Kubeconfig, Seed,
    wait::{self, Look},
};
use fake::{
    fault::{Fate, Rule},
    server::Server,
};
use http::{StatusCode, header::RETRY_AFTER};
use jiff::Timestamp;
use kube::{Client, Config, client::Body};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::AbortOnDropHandle;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_the_fake_api_server_answers_as_a_real_one,
        e2e_the_fates_of_the_fake_api_server_are_those_of_a_real_one,
    ]
}

/// Where the requests play.
const NAMESPACE: &str = "conformance";
/// The id and the name of the user who is denied things.
const PROBER: &str = "dependency-watchdog";
/// The workloads of the requests. Nobody plays their controllers.
const WORKLOADS: [&str; 4] = ["kcm", "main", "s", "lost"];
/// In the middle of a list of all CustomResourceDefinitions, after the handshake.
const PART: u64 = 20_000;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What differs, by the beginning of the request and of the place in the answer, and why that may
/// stay.
const KNOWN: [(&str, &str, &str); 8] = [
    (
        "POST events",
        "/deprecatedSource",
        "fields of an older version of events, which are empty",
    ),
    (
        "POST reviews",
        "/metadata",
        "a review is not stored, so that nobody asks who wrote it",
    ),
    (
        "GET secrets?limit=2&continue=nonsense",
        "/message",
        "the text of Go's parser",
    ),
    (
        "PUT machines/m/status",
        "/metadata/managedFields",
        "the slim definition of Machine does not say that conditions have a key",
    ),
    (
        "PATCH machines/m",
        "/metadata/managedFields",
        "the same conditions",
    ),
    ("GET machines?watch", "/", "the same conditions"),
    (
        "GET /apis/druid",
        "/resources/0/storageVersionHash",
        "it is for migrations of etcd",
    ),
    (
        "GET /apis/druid",
        "/resources/0/verbs",
        "nobody deletes collections of the fake one",
    ),
];

/// A real API server with its etcd, and a fake one that knows the same kinds.
struct Pair {
    etcd: Etcd,
    seed: Arc<Seed>,
    real: Client,
    server: Server,
    fake: Client,
    _serving: AbortOnDropHandle<()>,
}

impl Pair {
    async fn start(env: &Env, name: &str) -> Result<Self> {
        let (etcd, seed) = env.seed_on_own_etcd(name).await?;
        let definition = include_str!("etcd.yaml");
        seed.apply(definition).await?;
        seed.deployments().pause(NAMESPACE);
        let real = seed.client()?;
        let server = Server::new(Timestamp::now);
        let definitions = http::Request::get(DEFINITIONS).body(Vec::new())?;
        let definitions: Value = real.request(definitions).await?;
        let definitions = definitions["items"].as_array().context("no list")?;
        server.store(|store, now| {
            definitions.iter().for_each(|it| store.define(it));
            WORKLOADS.iter().for_each(|it| store.follow(it, false, now));
        });
        let (address, serving) = serve(&server).await?;
        let mut config = Config::new(format!("http://{address}").parse()?);
        config.default_retry = false;
        let fake = Client::try_from(config)?;
        Ok(Self {
            etcd,
            seed,
            real,
            server,
            fake,
            _serving: serving,
        })
    }

    /// Forgets on both sides what was before.
    async fn compact(&self) -> Result<()> {
        let now = etcd(&self.etcd, "/v3/kv/range", &json!({"key": "AA=="})).await?;
        let revision = now["header"]["revision"].clone();
        let what = json!({"revision": revision, "physical": true});
        etcd(&self.etcd, "/v3/kv/compaction", &what).await?;
        self.server.store(|store, _| store.compact());
        Ok(())
    }
}

/// Serves the fake one on a socket.
async fn serve(server: &Server) -> Result<(SocketAddr, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = server.clone();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(server.clone().serve(stream));
        }
    });
    Ok((address, AbortOnDropHandle::new(serving)))
}

/// Asks an etcd over its gateway for JSON.
async fn etcd(etcd: &Etcd, path: &str, body: &Value) -> Result<Value> {
    let url = etcd.url();
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await?;
    let (body, length) = (body.to_string(), body.to_string().len());
    let request = format!("POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 200 "), "{answer}");
    Ok(serde_json::from_str(body)?)
}

async fn send(client: &Client, request: http::Request<Vec<u8>>) -> Result<Answer> {
    let (parts, body) = client.send(request.map(Body::from)).await?.into_parts();
    let retry_after = parts.headers.get(RETRY_AFTER);
    let retry_after = retry_after.map(|it| it.to_str().map(str::to_owned));
    let body = body.collect_bytes().await?;
    Ok(Answer::new(
        parts.status.as_u16(),
        retry_after.transpose()?,
        &body,
    ))
}

/// Sends it until the kind is ready, which takes a moment after a definition is new.
async fn send_when_ready(client: &Client, request: http::Request<Vec<u8>>) -> Result<Answer> {
    wait::until("the kind to be ready", async || {
        let answer = send(client, request.clone()).await?;
        let text = answer.body.to_string();
        Ok(match text.contains("storage is (re)initializing") {
            true => Look::Not(text),
            false => Look::Met(answer),
        })
    })
    .await
}

async fn e2e_the_fake_api_server_answers_as_a_real_one(env: Env) -> Result<()> {
    let pair = Pair::start(&env, "conformance").await?;
    let table: Table = serde_saphyr::from_str(include_str!("conformance/requests.yaml"))?;
    let (mut there, mut here) = (Side::default(), Side::default());
    let (mut found, mut met) = (Vec::new(), BTreeSet::new());
    for request in &table.requests {
        if request.send == "COMPACT" {
            pair.compact().await?;
            continue;
        }
        let real = send_when_ready(&pair.real, there.request(&table, request));
        let fake = send(&pair.fake, here.request(&table, request));
        let (real, fake) = tokio::try_join!(real, fake)
            .with_context(|| format!("no answer to {}", request.send))?;
        let (real, fake) = (there.plain(request, real), here.plain(request, fake));
        for difference in compared(&real, &fake) {
            let known = KNOWN.iter().position(|(send, place, _)| {
                request.send.starts_with(send) && difference.starts_with(place)
            });
            match known {
                Some(known) => drop(met.insert(known)),
                None => found.push(format!("{}\n  {difference}", request.send)),
            }
        }
    }
    ensure!(found.is_empty(), "{}", found.join("\n"));
    for (index, (send, place, why)) in KNOWN.iter().enumerate() {
        ensure!(
            met.contains(&index),
            "{send} does not differ at {place} any more: {why}"
        );
    }
    println!(
        "{} requests, {} known differences",
        table.requests.len(),
        KNOWN.len()
    );
    Ok(())
}

fn compared(real: &Answer, fake: &Answer) -> Vec<String> {
    let mut found = Vec::new();
    let head = |answer: &Answer| json!({"code": answer.code, "retry": answer.retry_after});
    differences("head", &head(real), &head(fake), &mut found);
    differences("", &real.body, &fake.body, &mut found);
    found
}

async fn e2e_the_fates_of_the_fake_api_server_are_those_of_a_real_one(env: Env) -> Result<()> {
    let pair = Pair::start(&env, "fates").await?;
    for client in [&pair.real, &pair.fake] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        write(client, "POST", "/api/v1/namespaces", &namespace).await?;
    }
    an_answer_is_lost(&pair).await.context("a lost answer")?;
    later(&pair).await.context("429")?;
    denied(&pair).await.context("403")?;
    a_list_is_cut(&pair).await.context("a list that is cut")
}

async fn write(client: &Client, method: &str, path: &str, body: &Value) -> Result<Answer> {
    let content_type = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", content_type);
    send(client, request.body(body.to_string().into_bytes())?).await
}

/// Who sends a write again whose answer was lost is told that it was done.
async fn an_answer_is_lost(pair: &Pair) -> Result<()> {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lost"},
        "spec": {"holderIdentity": "one"},
    });
    let path = format!("{leases}/lost");
    let mut answers = Vec::new();
    for (client, is_lost) in [(&pair.real, false), (&pair.fake, true)] {
        let created = write(client, "POST", &leases, &lease).await?;
        let version = &created.body["metadata"]["resourceVersion"];
        let patch =
            json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "two"}});
        if is_lost {
            let rule = Rule::once(Fate::LostAfter, |call| call.name == "lost");
            pair.server.rule(rule);
        }
        let first = write(client, "PATCH", &path, &patch).await;
        ensure!(first.is_err() == is_lost, "{first:?}");
        answers.push(write(client, "PATCH", &path, &patch).await?);
        answers.push(send(client, http::Request::get(&path).body(Vec::new())?).await?);
    }
    let [again, there, again_here, here] = &answers[..] else {
        bail!("{answers:?}");
    };
    ensure!(
        again.code == 409 && again == again_here,
        "{again:?} there, {again_here:?} here"
    );
    let holder = |answer: &Answer| answer.body["spec"]["holderIdentity"].clone();
    ensure!(
        holder(there) == "two" && holder(here) == "two",
        "{there:?} there, {here:?} here"
    );
    Ok(())
}

/// An eviction that a budget does not allow is refused until later. Nobody plays its controller.
async fn later(pair: &Pair) -> Result<()> {
    let (pods, budgets) = (
        format!("/api/v1/namespaces/{NAMESPACE}/pods"),
        format!("/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"),
    );
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": {"app": "one"}},
        "spec": {"containers": [{"name": "one", "image": "one:1"}]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "one"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "one"}}},
    });
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"},
    });
    write(&pair.real, "POST", &pods, &pod).await?;
    let running = json!({"status": {"phase": "Running"}});
    write(&pair.real, "PATCH", &format!("{pods}/one/status"), &running).await?;
    write(&pair.real, "POST", &budgets, &budget).await?;
    let real = write(
        &pair.real,
        "POST",
        &format!("{pods}/one/eviction"),
        &eviction,
    )
    .await?;
    pair.server
        .rule(Rule::once(Fate::Refuse(429, Some(10)), |call| {
            call.name == "one"
        }));
    let path = format!("{pods}/one");
    let fake = write(&pair.fake, "PATCH", &path, &running).await?;
    let shape = |answer: &Answer| {
        let field = |pointer: &str| answer.body.pointer(pointer).cloned();
        let fields = [
            "/kind",
            "/status",
            "/reason",
            "/code",
            "/details/retryAfterSeconds",
        ];
        (answer.code, answer.retry_after.clone(), fields.map(field))
    };
    ensure!(
        real.code == 429 && shape(&real) == shape(&fake),
        "{real:?} there, {fake:?} here"
    );
    Ok(())
}

async fn denied(pair: &Pair) -> Result<()> {
    let prober = pair.seed.server().client_of(PROBER).await?;
    pair.server.deny(|_, _, _| true);
    let deployments = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments");
    let policy = "/apis/dependency-watchdog.gardener.cloud/v1alpha1/probepolicies/p";
    for (method, path) in [
        ("POST", &*deployments),
        ("PUT", &format!("{deployments}/kcm/status")),
        ("DELETE", policy),
    ] {
        let real = write(&prober, method, path, &json!({})).await?;
        let fake = write(&pair.fake, method, path, &json!({})).await?;
        ensure!(
            real.code == 403 && real == fake,
            "{real:?} there, {fake:?} here"
        );
    }
    pair.server.heal();
    Ok(())
}

/// A list whose connection dies is an error, and no shorter list.
async fn a_list_is_cut(pair: &Pair) -> Result<()> {
    let through = cut(pair
        .seed
        .server()
        .url()
        .trim_start_matches("https://")
        .parse()?)
    .await?;
    let (address, _cutting) = through;
    let kubeconfig = Kubeconfig {
        server: format!("https://{address}"),
        ..pair.seed.server().kubeconfig_of("admin")?
    };
    let real = kubeconfig.client().await?;
    pair.server
        .rule(Rule::once(Fate::Truncated, |call| call.plural == "secrets"));
    for (client, path) in [(&real, DEFINITIONS), (&pair.fake, "/api/v1/secrets")] {
        let request = http::Request::get(path).body(Body::empty())?;
        let (parts, body) = client.send(request).await?.into_parts();
        ensure!(parts.status == StatusCode::OK, "{}", parts.status);
        let read = body.collect_bytes().await;
        ensure!(read.is_err(), "{path} was read");
    }
    Ok(())
}

/// A way to a server that ends after the first part of what that answers.
async fn cut(server: SocketAddr) -> Result<(SocketAddr, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let cutting = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let Ok(mut server) = TcpStream::connect(server).await else {
                return;
            };
            let (mut from_client, mut to_client) = client.split();
            let (from_server, mut to_server) = server.split();
            let mut part = from_server.take(PART);
            tokio::select! {
                _ = copy(&mut from_client, &mut to_server) => {}
                _ = copy(&mut part, &mut to_client) => {}
            }
        }
    });
    Ok((address, AbortOnDropHandle::new(cutting)))
}
