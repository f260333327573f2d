//! Answers of the seed that are not about dependents: Secrets, the Lease of the leader, what `explain`
//! asks for.

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dependency_watchdog::{
    explain::{ask, page},
    prober::secrets::Secrets,
    runtime::{
        leader::{Elected, Elector, Times},
        seed::Seed,
    },
};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use prometheus_client::metrics::counter::Counter;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};
use tokio::{
    runtime::{Builder, Runtime},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    fuzz::fuzzed,
    mutate::{bytes, changed, text},
    objects::{clusters, healths, probe_policies, weed_policies},
};

const HUSH: &str = "hush-hush";

/// Time passes when nothing else is to be done.
fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// A seed that answers each request by this; a watch is never answered.
fn client(
    answer: impl Fn(&Request<()>, Vec<u8>) -> Response<Vec<u8>> + Clone + Send + 'static,
) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (head, body) = request.into_parts();
            let query = head.uri.query().unwrap_or_default();
            if query.contains("watch=true") || query.contains("watch=1") {
                std::future::pending::<()>().await;
            }
            let body = body.collect().await.unwrap().to_bytes();
            let head = Request::from_parts(head, ());
            Ok::<_, Infallible>(answer(&head, body.to_vec()).map(Body::from))
        }
    });
    Client::new(service, "default")
}

fn secrets() -> Value {
    let secret = |namespace: &str, data: Value| {
        json!({
            "metadata": {
                "name": "dwd", "namespace": namespace, "resourceVersion": "7",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": HUSH},
            },
            "data": data, "type": "Opaque",
        })
    };
    let hush = STANDARD.encode(HUSH);
    json!({
        "kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
        "items": [
            secret("a", json!({"kubeconfig": hush, "other": hush})),
            secret("b", json!({"kubeconfig": "no base64"})),
            secret("c", json!(null)),
        ],
    })
}

/// Whether an item of this namespace holds this kubeconfig, or what is none.
fn holds(list: &Value, namespace: &str, kubeconfig: &[u8]) -> bool {
    let mut items = list["items"].as_array().unwrap().iter();
    items.any(|it| {
        let encoded = it["data"]["kubeconfig"].as_str();
        let decoded = encoded.map(|it| STANDARD.decode(it).unwrap_or_default());
        it["metadata"]["namespace"] == namespace && decoded.as_deref() == Some(kubeconfig)
    })
}

fuzzed!(
    any_secret_holds_a_kubeconfig_or_is_told_without_what_it_holds,
    200,
    bytes(vec![secrets()], 4),
    |list| {
        let runtime = paused();
        let answer = list.clone();
        let client = runtime.block_on(async { client(move |_, _| Response::new(answer.clone())) });
        let stands: Option<Value> = serde_json::from_slice(&list).ok();
        for namespace in ["a", "b", "c"] {
            let read = runtime.block_on(async {
                let named = Secrets::new(client.clone(), Counter::default()).named(&"dwd".into());
                named.kubeconfig(&namespace.into()).await
            });
            match read {
                // Neither what is said twice nor a number too large is seen by the second opinion.
                Ok(kubeconfig) => {
                    let twice = String::from_utf8_lossy(&list).matches("kubeconfig").count() > 2;
                    let seen = stands
                        .as_ref()
                        .is_none_or(|it| holds(it, namespace, &kubeconfig));
                    prop_assert!(twice || seen, "{:?}", kubeconfig);
                }
                Err(error) => {
                    let told = error.to_string();
                    prop_assert!(told.chars().count() <= 1_500, "{}", told);
                    prop_assert!(!told.chars().any(char::is_control), "{:?}", told);
                    let encoded = STANDARD.encode(HUSH);
                    prop_assert!(!told.contains(HUSH) && !told.contains(&encoded), "{}", told);
                }
            }
        }
        Ok(())
    }
);

fn leases() -> Vec<Value> {
    let lease = |spec: Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "dwd-prober-leader-election", "namespace": "garden", "resourceVersion": "7",
                "managedFields": [{
                    "manager": "dependency-watchdog", "operation": "Update", "fieldsType": "FieldsV1",
                    "time": "2026-11-20T11:59:58Z", "fieldsV1": {"f:spec": {"f:renewTime": {}}},
                }],
            },
            "spec": spec,
        })
    };
    vec![
        lease(json!({
            "holderIdentity": "prober-0_4711", "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "acquireTime": "2026-11-20T11:00:00.000000Z", "renewTime": "2026-11-20T11:59:58.000000Z",
        })),
        lease(json!({
            "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 2147483647,
        })),
    ]
}

fuzzed!(
    /// Whatever else stands in it, and whatever its times say: another acts by it until it was seen silent
    /// for as long as ours.
    a_lease_of_any_content_is_its_holders_until_it_was_silent,
    150,
    changed(leases(), 4),
    |lease| {
        let written: Arc<Mutex<Option<Instant>>> = Arc::default();
        let first = written.clone();
        let text = lease.text.clone();
        let seconds = Duration::from_secs;
        let times = Times::new(seconds(15), seconds(10), seconds(2)).unwrap();
        let after = paused().block_on(async move {
            let client = client(move |request, body| {
                if request.method() == Method::GET {
                    return Response::new(text.clone().into_bytes());
                }
                first.lock().unwrap().get_or_insert_with(Instant::now);
                Response::new(body)
            });
            let begun = Instant::now();
            let mut elector = Elector::new(client, "garden", "lease", times);
            let stop = CancellationToken::new();
            let led = elector.stand(&stop, Elected::term);
            // Longer than it would take it to find a Lease of 60 s silent.
            let _ = timeout(seconds(90), led).await;
            let written = *written.lock().unwrap();
            written.map(|it| it - begun)
        });
        let Ok(stands) = serde_json::from_str::<Value>(&lease.text) else {
            return Ok(());
        };
        if lease.repeats {
            return Ok(());
        }
        let spec = &stands["spec"];
        let held = spec["holderIdentity"].as_str().is_some_and(|it| !it.is_empty());
        let holds = spec["leaseDurationSeconds"].as_u64().unwrap_or_default().max(15);
        if let (true, Some(after)) = (held, after) {
            prop_assert!(after >= seconds(holds), "taken after {:?}", after);
        }
        Ok(())
    }
);

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "kcm", "namespace": CLUSTER, "uid": "u", "resourceVersion": "7", "generation": 1,
            "annotations": {
                "dependency-watchdog.gardener.cloud/meltdown-protection-active": "",
                "dependency-watchdog.gardener.cloud/replicas": "3",
            },
            "managedFields": [{
                "manager": "gardenlet", "operation": "Update", "fieldsType": "FieldsV1",
                "time": "2026-11-20T11:59:58Z", "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }],
        },
        "spec": {"replicas": 0}, "status": {"observedGeneration": 1},
    })
}

fn namespace() -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": CLUSTER, "labels": {"gardener.cloud/role": "shoot"}},
    })
}

const CLUSTER: &str = "shoot--a--b";

/// What is asked for, by its plural, and the objects that there are.
static KINDS: LazyLock<Vec<(&str, Vec<Value>)>> = LazyLock::new(|| {
    let mut clusters = clusters();
    clusters[0]["metadata"]["name"] = json!(CLUSTER);
    vec![
        ("clusters", clusters),
        ("clusterhealths", healths()),
        ("probepolicies", probe_policies()),
        ("weedpolicies", weed_policies()),
        ("leases", leases()),
        ("deployments", vec![deployment()]),
        ("namespaces", vec![namespace()]),
    ]
});

/// An object of one kind, with changes.
fn one_odd() -> impl Strategy<Value = (&'static str, String)> {
    select(&KINDS[..]).prop_flat_map(|(plural, objects)| {
        changed(objects, 4).prop_map(move |it| (plural, it.text))
    })
}

/// From the seed, or from whoever stands before it.
fn dates() -> impl Strategy<Value = String> {
    let dates = [
        "Fri, 20 Nov 2026 12:00:00 GMT",
        "Thu, 30 Dec 9999 21:59:59 GMT",
        "Thu, 30 Dec 9999 21:59:59 -2359",
        "Sat, 01 Jan 0000 00:00:00 +2359",
        "Thu, 01 Jan 1970 00:00:00 GMT",
    ];
    let words = &[
        "", "0", "60", "9999", "Feb", "31", "GMT", "-2359", "+0000", ",", "é",
    ];
    text(dates.map(str::to_owned).to_vec(), words)
}

fuzzed!(
    whatever_the_seed_says_of_a_cluster_is_told,
    250,
    (one_odd(), prop_oneof![3 => dates(), 1 => "\\PC{0,40}"]),
    |((odd, object), date)| {
        let answer = move |request: &Request<()>, _| {
            let path = request.uri().path().trim_start_matches('/').to_owned();
            let parts: Vec<&str> = path.split('/').collect();
            let kind = KINDS.iter().rfind(|(plural, _)| parts.contains(plural));
            let Some((plural, objects)) = kind else {
                let mut version = Response::new(b"{}".to_vec());
                if let Ok(date) = HeaderValue::from_str(&date) {
                    version.headers_mut().insert("Date", date);
                }
                return version;
            };
            let first = match odd == *plural {
                true => object.clone(),
                false => objects[0].to_string(),
            };
            // One by its name, or a list of all.
            Response::new(
                match parts.last() == Some(plural) {
                    true => format!(r#"{{"kind": "List", "metadata": {{}}, "items": [{first}]}}"#),
                    false => first,
                }
                .into_bytes(),
            )
        };
        let runtime = paused();
        let page = runtime.block_on(async {
            let seed = Seed::unlimited(client(answer));
            let answers = timeout(Duration::from_secs(60), ask(&seed, CLUSTER, "garden"));
            match answers.await.expect("it ends") {
                Ok(answers) => page(&answers),
                Err(error) => error.to_string(),
            }
        });
        prop_assert!(!page.is_empty());
        // No more than there is, or the text of one that was quoted.
        prop_assert!(page.len() < 40_000, "{}", page);
        let odd = |c: char| c.is_control() && c != '\n';
        prop_assert!(!page.chars().any(odd), "{:?}", page);
        Ok(())
    }
);
