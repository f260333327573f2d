//! A seed whose API server has more requests than it can carry out.

use super::{
    Scenario,
    failover::PROBER,
    prober::{COUNTS, all_are_restored},
    steps::{ELECTION, are, staffed, taken},
};
use anyhow::{Context as _, Result, ensure};
use dependency_watchdog::api::Protection;
use dependency_watchdog_e2e::{
    Env, Operator, Seed,
    wait::{self, Look, seen},
};
use kube::Client;
use serde_json::json;
use std::time::Duration;
use tokio::{net::TcpListener, task::JoinSet, time::timeout};

const REPLICA: &str = "replica-only";
/// So many requests are carried out at the same time, of which ServiceAccounts have four in ten.
const INFLIGHT: u32 = 20;
/// So many accounts have a request under way. Queues are fair among accounts, so one would not do.
const ACCOUNTS: usize = 300;
/// For how long each holds its place, in seconds.
const HELD: u32 = 5;
/// An answer that takes longer comes too late for whoever renews a Lease.
const LATE: Duration = Duration::from_secs(5);

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_a_flood_of_requests_costs_neither_the_lease_nor_the_protection]
}

async fn e2e_a_flood_of_requests_costs_neither_the_lease_nor_the_protection(
    env: Env,
) -> Result<()> {
    let seed = env.narrow_seed("overload", INFLIGHT).await?;
    let kubeconfig = seed.operator_kubeconfig()?;
    let prober = Operator::replica(&seed, REPLICA, "prober", &kubeconfig, &ELECTION)?;
    let shoot = staffed(env.shoot("overload").on(&seed)).await?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;

    let _flood = Flood::begin(&seed).await?;
    shoot.cut_all();
    shoot.is_protected(Protection::Active).await?;
    are(&shoot, COUNTS.map(taken)).await?;
    ensure!(
        matches!(seed.is_held_by(PROBER, REPLICA).await?, Look::Met(())),
        "the Lease is another's"
    );
    let log = prober.process.log()?;
    ensure!(!log.contains("leadership was lost"), "{log}");
    shoot.restore_all();
    shoot.is_protected(Protection::None).await?;
    all_are_restored(&shoot).await
}

/// Requests of many ServiceAccounts, each of which holds its place while a webhook is asked that does not
/// answer. It ends with this value.
struct Flood {
    _requests: JoinSet<()>,
}

impl Flood {
    /// Begins, and waits until others of the same priority are not served in time any more.
    async fn begin(seed: &Seed) -> Result<Self> {
        let webhook = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/", webhook.local_addr()?);
        seed.apply(&objects(&url)).await?;
        let client = seed.client()?;
        let mut requests = JoinSet::new();
        requests.spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = webhook.accept().await {
                open.push(connection);
            }
        });
        for number in 0..ACCOUNTS {
            let client = client.clone();
            requests.spawn(async move {
                loop {
                    // Whatever is answered, the next follows.
                    let _ = create(&client, &format!("flood-{number}")).await;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
        wait::until("the seed to be overloaded", async || {
            let answer = timeout(LATE, read(&client, "witness")).await;
            let late = !matches!(answer, Ok(Ok(_)));
            seen(late, "it answers others in time")
        })
        .await?;
        Ok(Self {
            _requests: requests,
        })
    }
}

/// A webhook at this address, which is asked whenever a ConfigMap of the flood is created.
fn objects(url: &str) -> String {
    let here = json!({"kubernetes.io/metadata.name": "flood"});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "flood"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "flood", "namespace": "flood"},
            "rules": [{
                "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "list"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "flood", "namespace": "flood"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "flood",
            },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io", "kind": "Group",
                "name": "system:serviceaccounts",
            }],
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "flood"},
            "webhooks": [{
                "name": "flood.example.com",
                "clientConfig": {"url": url},
                "namespaceSelector": {"matchLabels": here},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"],
                }],
                "failurePolicy": "Fail",
                "timeoutSeconds": HELD,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        }),
    ];
    let objects = objects.map(|it| it.to_string());
    objects.join("\n---\n")
}

async fn create(client: &Client, account: &str) -> Result<String> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "flood-"},
    });
    let request = http::Request::post("/api/v1/namespaces/flood/configmaps?dryRun=All")
        .header("Content-Type", "application/json");
    send(client, request, account, object.to_string()).await
}

async fn read(client: &Client, account: &str) -> Result<String> {
    let request = http::Request::get("/api/v1/namespaces/flood/configmaps");
    send(client, request, account, String::new()).await
}

/// Sends it as this ServiceAccount.
async fn send(
    client: &Client,
    request: http::request::Builder,
    account: &str,
    body: String,
) -> Result<String> {
    let user = format!("system:serviceaccount:flood:{account}");
    let request = request
        .header("Impersonate-User", user)
        .header("Impersonate-Group", "system:serviceaccounts");
    let answer = client.request_text(request.body(body.into_bytes())?).await;
    answer.context("refused")
}
