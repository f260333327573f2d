//! What the API server refuses, and what becomes of an object that got past it.

use super::Scenario;
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::{ProbePolicy, WeedPolicy, crds};
use dependency_watchdog_e2e::{
    DEPENDENTS, Env, Operator, Seed,
    wait::{self, Look, seen},
};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![
        e2e_nonsense_is_refused_with_the_field_and_what_is_allowed,
        e2e_a_policy_from_before_a_rule_stalls_alone,
    ]
}

/// The service of the WeedPolicy that refusals are made of.
const SERVICE: &str = "etcd-main-client";

#[derive(Deserialize)]
struct Accepted {
    name: String,
    object: Value,
}

#[derive(Deserialize)]
struct Refusal {
    name: String,
    #[serde(default = "probe_policy")]
    kind: String,
    patch: Value,
    field: String,
    expect: String,
}

fn probe_policy() -> String {
    "ProbePolicy".to_owned()
}

fn fixture<T: DeserializeOwned>(name: &str) -> Result<Vec<T>> {
    let path = format!("{}/../tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    serde_saphyr::from_str(&text).with_context(|| path)
}

fn policies(seed: &Seed, kind: &str) -> Result<Api<DynamicObject>> {
    let resource = match kind {
        "ProbePolicy" => ApiResource::erase::<ProbePolicy>(&()),
        "WeedPolicy" => ApiResource::erase::<WeedPolicy>(&()),
        _ => bail!("{kind} is no policy"),
    };
    Ok(Api::all_with(seed.client()?, &resource))
}

fn kind(object: &Value) -> Result<&str> {
    let kind = object.get("kind").and_then(Value::as_str);
    kind.context("an object without a kind")
}

/// The policy of this kind that refusals are made of.
fn base<'a>(accepted: &'a [Accepted], of: &str) -> Result<&'a Value> {
    let mut objects = accepted.iter().map(|case| &case.object);
    let base = objects.find(|object| kind(object).is_ok_and(|kind| kind == of));
    base.with_context(|| format!("no accepted {of}"))
}

/// Asks the API server whether it would take the object, without storing it.
async fn would_create(seed: &Seed, object: &Value) -> Result<kube::Result<DynamicObject>> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let policies = policies(seed, kind(object)?)?;
    let object = serde_json::from_value(object.clone())?;
    Ok(policies.create(&params, &object).await)
}

async fn e2e_nonsense_is_refused_with_the_field_and_what_is_allowed(env: Env) -> Result<()> {
    let seed = env.seed().await?;
    let accepted: Vec<Accepted> = fixture("accepted.yaml")?;
    for case in &accepted {
        would_create(&seed, &case.object)
            .await?
            .with_context(|| format!("{} should be accepted", case.name))?;
    }
    let example = [
        "apply",
        "--dry-run=server",
        "-f",
        "docs/examples/checks.yaml",
    ];
    seed.kubectl().run(&example).await?;
    let refusals: Vec<Refusal> = fixture("refusals.yaml")?;
    ensure!(refusals.len() > 50, "only {} refusals", refusals.len());
    let mut wrong = Vec::new();
    for case in refusals {
        let mut object = base(&accepted, &case.kind)?.clone();
        json_patch::merge(&mut object, &case.patch);
        let message = match would_create(&seed, &object).await? {
            Ok(_) => "accepted".to_owned(),
            // A key of a map stands in brackets only where a CEL rule is broken.
            Err(kube::Error::Api(status)) => {
                let bracketed = format!("[{SERVICE}]");
                status.message.replace(&bracketed, &format!(".{SERVICE}"))
            }
            Err(error) => return Err(error).with_context(|| case.name),
        };
        if !(message.contains(&case.field) && message.contains(&case.expect)) {
            wrong.push(format!(
                "{}: {message:?} lacks {:?} or {:?}",
                case.name, case.field, case.expect
            ));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

async fn e2e_a_policy_from_before_a_rule_stalls_alone(env: Env) -> Result<()> {
    let seed = env.own_seed("stalled").await?;
    let cases = [
        ("out-of-range", json!({"nodeLeaseFailureFraction": 2})),
        ("another-type", json!({"probeInterval": 7})),
    ];
    store_from_before_the_rules(&seed, "ProbePolicy", &cases).await?;
    let every_pod = json!({"servicesAndDependantSelectors": {SERVICE: {"podSelectors": [{}]}}});
    let cases = [
        ("every-pod", every_pod),
        ("another-type", json!({"watchDuration": 7})),
    ];
    store_from_before_the_rules(&seed, "WeedPolicy", &cases).await?;
    let accepted: Vec<Accepted> = fixture("accepted.yaml")?;
    let sound = serde_json::from_value(base(&accepted, "WeedPolicy")?.clone())?;
    let weeds = policies(&seed, "WeedPolicy")?
        .create(&PostParams::default(), &sound)
        .await?;

    let prober = Operator::start(&seed, "prober", "prober", &[])?;
    let weeder = Operator::start(&seed, "weeder", "weeder", &[])?;
    let shoot = env.shoot("stalled").nodes(2).on(&seed);
    let shoot = shoot.dependents(DEPENDENTS).await?;
    shoot.policy()?.apply().await?;
    shoot.is_found("Healthy").await?;
    let sound = ("ProbePolicy", shoot.namespace());
    condition(&seed, sound, "Ready", "True").await?;
    let broken = ("ProbePolicy", "out-of-range");
    stalls(&seed, broken, "spec.nodeLeaseFailureFraction").await?;
    is_told_in_the_log(&prober, "another-type", "probeInterval").await?;

    let ready = condition(&seed, ("WeedPolicy", &weeds.name_any()), "Ready", "True").await?;
    ensure!(ready.reason == "Watching", "{ready:?}");
    let field = format!("spec.servicesAndDependantSelectors.{SERVICE}.podSelectors");
    stalls(&seed, ("WeedPolicy", "every-pod"), &field).await?;
    is_told_in_the_log(&weeder, "another-type", "watchDuration").await
}

/// Stores policies of this kind, with these names and in place of some fields these, as if there had
/// never been a rule; now there is.
async fn store_from_before_the_rules(seed: &Seed, of: &str, cases: &[(&str, Value)]) -> Result<()> {
    lift_the_rules(seed, of).await?;
    let accepted: Vec<Accepted> = fixture("accepted.yaml")?;
    for (name, spec) in cases {
        let mut object = base(&accepted, of)?.clone();
        json_patch::merge(
            &mut object,
            &json!({"metadata": {"name": name}, "spec": spec}),
        );
        let object = serde_json::from_value(object)?;
        wait::until("the API server to have lifted the rules", async || {
            Ok(
                match policies(seed, of)?
                    .create(&PostParams::default(), &object)
                    .await
                {
                    Ok(_) => Look::Met(()),
                    Err(error) => Look::Not(error.to_string()),
                },
            )
        })
        .await?;
    }
    restore_the_rules(seed, of).await
}

/// Waits until a policy, by its kind and name, says that this field breaks a rule.
async fn stalls(seed: &Seed, policy: (&str, &str), field: &str) -> Result<()> {
    let stalled = condition(seed, policy, "Stalled", "True").await?;
    ensure!(stalled.message.contains(field), "{stalled:?}");
    let ready = condition(seed, policy, "Ready", "False").await?;
    ensure!(ready.reason == "Invalid", "{ready:?}");
    Ok(())
}

/// Of an object whose types are not those of the schema, the API server takes no status either.
async fn is_told_in_the_log(operator: &Operator, policy: &str, field: &str) -> Result<()> {
    wait::until(&format!("the log to tell of {policy}"), async || {
        let log = operator.process.log()?;
        let told = log
            .lines()
            .any(|line| line.contains(policy) && line.contains(field));
        seen(told, log)
    })
    .await
}

/// Waits until a condition of the policy, by its kind and name, has this status.
async fn condition(
    seed: &Seed,
    (of, policy): (&str, &str),
    kind: &str,
    status: &str,
) -> Result<Condition> {
    let api = policies(seed, of)?;
    let what = format!("the condition {kind} of {policy} to be {status}");
    let found = wait::until(&what, async || {
        let object = api.get(policy).await?;
        let conditions = object.data.pointer("/status/conditions");
        let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        Ok(
            match conditions.find(|c| has(c, "type", kind) && has(c, "status", status)) {
                Some(condition) => Look::Met(condition.clone()),
                None => Look::Not(object.data.to_string()),
            },
        )
    })
    .await?;
    Ok(serde_json::from_value(found)?)
}

fn has(object: &Value, key: &str, value: &str) -> bool {
    object.get(key).and_then(Value::as_str) == Some(value)
}

/// As in a time before there was any rule.
async fn lift_the_rules(seed: &Seed, of: &str) -> Result<()> {
    let lax = json!({"openAPIV3Schema": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    }});
    replace_schema(seed, of, &lax).await
}

async fn restore_the_rules(seed: &Seed, of: &str) -> Result<()> {
    let version = definition(of)?.spec.versions.into_iter().next();
    let schema = version.context("no version")?.schema;
    replace_schema(seed, of, &serde_json::to_value(schema)?).await
}

async fn replace_schema(seed: &Seed, of: &str, schema: &Value) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(seed.client()?);
    let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema", "value": schema}]);
    let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
    let name = definition(of)?.name_any();
    api.patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn definition(of: &str) -> Result<CustomResourceDefinition> {
    let mut crds = crds().into_iter();
    let found = crds.find(|crd| crd.spec.names.kind == of);
    found.with_context(|| format!("no {of}"))
}
