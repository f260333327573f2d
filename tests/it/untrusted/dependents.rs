//! Dependents, as the seed answers for them: workloads of apps/v1, objects of other kinds with their
//! Scale, and what the seed says that it serves.

use std::sync::{Arc, Mutex};

use dependency_watchdog::{
    api::DependentRef,
    prober::{
        plan::{Family, Observed, Record},
        scale::{ScaleError, Scaler},
    },
    runtime::seed::Seed,
    util::text::parse_bool,
};
use kube::{Client, Config};
use proptest::{prelude::*, sample::select, test_runner::TestCaseResult};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, runtime::Runtime};

use super::mutate::changed;
use crate::support::{Activity, Target, head};

const MARK: &str = "dependency-watchdog.gardener.cloud/meltdown-protection-active";
const RECORD: &str = "dependency-watchdog.gardener.cloud/replicas";
const IGNORE: &str = "dependency-watchdog.gardener.cloud/ignore-scaling";

/// A seed that answers each request for a path with this text; for others with a 404.
struct Served {
    runtime: Runtime,
    answers: Answers,
    seed: Seed,
    _server: Target,
}

/// How a path ends, the status and the text of the answer.
type Answers = Arc<Mutex<Vec<(&'static str, u16, String)>>>;

impl Served {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let answers = Answers::default();
        let shared = answers.clone();
        let server = runtime.block_on(Target::start(&Activity::default(), move |mut stream| {
            let answers = shared.clone();
            async move {
                loop {
                    let head = head(&mut stream).await;
                    let Some(path) = head.split([' ', '?']).nth(1) else {
                        return;
                    };
                    let found = {
                        let answers = answers.lock().unwrap();
                        let found = answers.iter().find(|(end, ..)| path.ends_with(end));
                        found.map(|(_, code, body)| (*code, body.clone()))
                    };
                    let (code, body) = found.unwrap_or((404, String::new()));
                    let length = body.len();
                    let answer =
                        format!("HTTP/1.1 {code} \r\nContent-Length: {length}\r\n\r\n{body}");
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        }));
        let seed = {
            let _in_runtime = runtime.enter();
            let mut config = Config::new(format!("http://{}", server.address).parse().unwrap());
            config.default_retry = false;
            Seed::unlimited(Client::try_from(config).unwrap())
        };
        Self {
            runtime,
            answers,
            seed,
            _server: server,
        }
    }

    /// What a dependent is read as, with these answers.
    fn read(
        &self,
        dependent: &DependentRef,
        answers: Vec<(&'static str, String)>,
    ) -> Result<Option<Observed>, ScaleError> {
        let answers = answers.into_iter().map(|(end, text)| (end, 200, text));
        self.read_as(dependent, answers.collect())
    }

    /// The same, with statuses.
    fn read_as(
        &self,
        dependent: &DependentRef,
        answers: Vec<(&'static str, u16, String)>,
    ) -> Result<Option<Observed>, ScaleError> {
        *self.answers.lock().unwrap() = answers;
        let scaler = Scaler::new(self.seed.clone()).within("shoot--a--b".into());
        self.runtime.block_on(scaler.read(dependent))
    }
}

fn reference(api_version: &str, kind: &str, name: &str) -> DependentRef {
    DependentRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn is_told(error: &ScaleError) -> TestCaseResult {
    let told = error.to_string();
    prop_assert!(told.chars().count() < 2_000, "{}", told);
    prop_assert!(!told.chars().any(char::is_control), "{:?}", told);
    Ok(())
}

/// The annotations are read as they stand.
fn says(observed: &Observed, stands: &Value) -> TestCaseResult {
    let annotation = |name: &str| stands["metadata"]["annotations"][name].as_str();
    prop_assert_eq!(observed.marked, annotation(MARK).is_some());
    prop_assert_eq!(&observed.record, &Record::parse(annotation(RECORD)));
    let ignored = annotation(IGNORE).and_then(parse_bool);
    prop_assert_eq!(observed.ignored, ignored.unwrap_or(false));
    Ok(())
}

fn deployments() -> Vec<Value> {
    let deployment = |replicas: i32, annotations: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "kcm", "namespace": "shoot--a--b", "uid": "u", "resourceVersion": "7",
                "generation": 3, "annotations": annotations,
            },
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"observedGeneration": 3, "replicas": replicas, "readyReplicas": replicas},
        })
    };
    vec![
        deployment(3, json!({})),
        deployment(0, json!({MARK: "", RECORD: "3"})),
        deployment(1, json!({IGNORE: "T"})),
    ]
}

/// What is read of a dependent is what stands there: another number would be recorded, and restored.
#[test]
fn whatever_a_dependent_says_is_read_as_it_stands_or_told() {
    let served = Served::start();
    let dependent = reference("apps/v1", "Deployment", "kcm");
    crate::untrusted::fuzz::fuzz(
        file!(),
        "whatever_a_dependent_says_is_read_as_it_stands_or_told",
        200,
        changed(deployments(), 3),
        |changed| {
            let observed = match served.read(&dependent, vec![("/kcm", changed.text.clone())]) {
                Ok(observed) => observed.expect("there is one"),
                Err(error) => return is_told(&error),
            };
            // What is passed over may be a number that is too large.
            let Ok(stands) = serde_json::from_str::<Value>(&changed.text) else {
                return Ok(());
            };
            if changed.repeats {
                return Ok(());
            }
            let replicas = match &stands["spec"]["replicas"] {
                Value::Null => Some(1),
                number => number.as_i64(),
            };
            prop_assert_eq!(Some(i64::from(observed.replicas)), replicas);
            says(&observed, &stands)
        },
    );
}

/// By the API server, or by whatever stands before it.
#[test]
fn a_refusal_to_show_a_dependent_is_told_in_a_line() {
    let served = Served::start();
    let dependent = reference("apps/v1", "Deployment", "kcm");
    let says = |message: &str, reason: &str| {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": 403,
            "details": {"name": "kcm", "kind": "deployments"},
        })
    };
    let refusals = vec![
        says(
            "deployments.apps \"kcm\" is forbidden: no\nright",
            "Forbidden",
        ),
        says(&"no\n".repeat(5_000), "Forbidden"),
    ];
    let text = prop_oneof![
        changed(refusals, 3).prop_map(|changed| changed.text),
        "(?s).{0,80}",
        "[<>a-z\n]{1,20}".prop_map(|page| page.repeat(1_000)),
    ];
    crate::untrusted::fuzz::fuzz(
        file!(),
        "a_refusal_to_show_a_dependent_is_told_in_a_line",
        100,
        (select(vec![400, 401, 403, 403, 409, 429, 500, 503]), text),
        |(code, text)| match served.read_as(&dependent, vec![("/kcm", code, text)]) {
            Ok(observed) => Err(TestCaseError::fail(format!("{observed:?}"))),
            Err(error) => is_told(&error),
        },
    );
}

fn groups() -> Value {
    let version = |version: &str| json!({"groupVersion": format!("example.com/{version}"), "version": version});
    json!({
        "kind": "APIGroupList", "apiVersion": "v1",
        "groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]},
            {
                "name": "example.com", "versions": [version("v1"), version("v1alpha1")],
                "preferredVersion": version("v1"),
            },
        ],
    })
}

fn resources() -> Vec<Value> {
    let resource = |name: &str, kind: &str| {
        json!({
            "name": name, "singularName": "etcd", "namespaced": true, "kind": kind,
            "verbs": ["get", "list", "patch", "watch"],
        })
    };
    let mut scale = resource("etcds/scale", "Scale");
    scale["group"] = json!("autoscaling");
    scale["version"] = json!("v1");
    let list = |resources: Vec<Value>| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1",
            "resources": resources,
        })
    };
    let etcd = resource("etcds", "Etcd");
    vec![
        list(vec![etcd.clone(), resource("etcds/status", "Etcd"), scale]),
        list(vec![etcd]),
    ]
}

fn etcd() -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {
            "name": "main", "namespace": "shoot--a--b", "uid": "u", "resourceVersion": "7",
            "annotations": {MARK: "", RECORD: "3", IGNORE: "f"},
        },
    })
}

fn scales() -> Vec<Value> {
    let scale = |spec: Value, status: Value| {
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "main", "namespace": "shoot--a--b", "resourceVersion": "7"},
            "spec": spec, "status": status,
        })
    };
    vec![
        scale(
            json!({"replicas": 3}),
            json!({"replicas": 3, "selector": "a=b"}),
        ),
        scale(json!({}), json!({"replicas": 1})),
    ]
}

/// The same of a kind that has a Scale, which tells of its replicas.
#[test]
fn whatever_an_object_and_its_scale_say_is_read_as_it_stands_or_told() {
    let served = Served::start();
    let dependent = reference("example.com/v1", "Etcd", "main");
    crate::untrusted::fuzz::fuzz(
        file!(),
        "whatever_an_object_and_its_scale_say_is_read_as_it_stands_or_told",
        200,
        (changed(vec![etcd()], 3), changed(scales(), 3)),
        |(object, scale)| {
            let answers = vec![
                ("/example.com/v1", resources()[0].to_string()),
                ("/main", object.text.clone()),
                ("/scale", scale.text.clone()),
            ];
            let observed = match served.read(&dependent, answers) {
                Ok(observed) => observed.expect("there is one"),
                Err(error) => return is_told(&error),
            };
            let stands = |text: &str| serde_json::from_str::<Value>(text);
            let (Ok(object_stands), Ok(scale_stands)) = (stands(&object.text), stands(&scale.text))
            else {
                return Ok(());
            };
            if object.repeats || scale.repeats {
                return Ok(());
            }
            let replicas = |part: &str| match &scale_stands[part]["replicas"] {
                Value::Null => Some(0),
                number => number.as_i64(),
            };
            prop_assert_eq!(Some(i64::from(observed.replicas)), replicas("spec"));
            prop_assert_eq!(Some(observed.any_left), replicas("status").map(|it| it > 0));
            says(&observed, &object_stands)
        },
    );
}

/// Whatever the seed says that it serves, an object is read by what is served, or it is told why not.
#[test]
fn any_discovery_leads_to_the_object_or_is_told() {
    let served = Served::start();
    // Of which nothing is said in the version that is asked for, if it is another.
    let dependents =
        ["example.com/v1", "example.com/v1beta1"].map(|it| reference(it, "Etcd", "main"));
    crate::untrusted::fuzz::fuzz(
        file!(),
        "any_discovery_leads_to_the_object_or_is_told",
        200,
        (
            changed(resources(), 4),
            changed(vec![groups()], 4),
            any::<bool>(),
        ),
        |(resources, groups, other)| {
            let answers = vec![
                ("/apis", groups.text.clone()),
                ("/example.com/v1", resources.text.clone()),
                ("/main", etcd().to_string()),
                ("/scale", scales()[0].to_string()),
            ];
            match served.read(&dependents[usize::from(other)], answers) {
                Ok(observed) => {
                    let observed = observed.expect("there is one");
                    let replicas = match observed.family {
                        Family::Scalable => 3,
                        Family::Unscalable => 0,
                        Family::Apps => return Err(TestCaseError::fail("it is of another group")),
                    };
                    prop_assert_eq!(observed.replicas, replicas);
                    // A scale that is nowhere said to be is not asked for.
                    let said = resources.text.contains("scale") || resources.text.contains("\\u");
                    prop_assert!(said || observed.family == Family::Unscalable);
                    says(&observed, &etcd())
                }
                Err(error) => is_told(&error),
            }
        },
    );
}
