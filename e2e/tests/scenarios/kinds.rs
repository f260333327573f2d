//! What the API server refuses, and what becomes of an object that got past it.

use super::Scenario;
use anyhow::{Context as _, Result, bail, ensure};
use dependency_watchdog::api::{ProbePolicy, WeedPolicy};
use dependency_watchdog_e2e::{Env, Seed};
use kube::{
    Api,
    api::{DynamicObject, PostParams},
    core::ApiResource,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

pub(crate) fn all() -> Vec<Scenario> {
    super::scenarios![e2e_nonsense_is_refused_with_the_field_and_what_is_allowed,]
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
