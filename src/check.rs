//! Strict decoding of policies from files. Fields, values and rules are those that the operator decodes and
//! validates by, and a field that it does not know is an error.

use garde::Validate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    api::{self, GROUP, MODE_MESSAGE, ProbePolicySpec, WeedPolicySpec},
    util::text::clean,
};

/// The longest text that is read, in bytes: ten times what the API server takes as one object.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The deepest document that is read. A policy has ten levels.
const MAX_DEPTH: usize = 128;
/// The most problems that are reported per object: more is noise.
const MAX_PROBLEMS: usize = 100;
/// The most characters of a problem, which may repeat text of the file.
const MAX_PROBLEM: usize = 400;

/// An object of this group as the API server takes it. Only the operator writes its status.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<S> {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "metadata")]
    _metadata: ObjectMeta,
    spec: S,
    #[serde(default, rename = "status")]
    _status: Value,
}

/// Reads the YAML or JSON documents of a text, without those that are empty.
///
/// # Errors
/// Names the problem with its line and column. A key that a mapping has twice is an error, and so is a text that
/// aliases or nesting would blow up.
pub fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, flow_nesting_limit: MAX_DEPTH },
        // As kubectl reads YAML.
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple_with_options(text, options);
    let mut documents = documents.map_err(|error| clean(&error.to_string(), MAX_PROBLEM))?;
    documents.iter_mut().for_each(drop_nulls);
    Ok(documents)
}

/// Drops the nulls of mappings, which stand for an absent field to the API server and to Go.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Returns the objects of a document: the items of a list as kubectl prints it, or the document itself.
pub fn objects(mut document: Value) -> Vec<Value> {
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![document],
    }
}

/// Returns kind and name of an object, for messages.
pub fn name(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    clean(&format!("{kind}/{name}"), 253)
}

/// Returns what is wrong with an object, each with its field; `None` if it is of none of our kinds.
pub fn problems(object: &Value) -> Option<Vec<String>> {
    let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let is_ours = matches!(kind, "ProbePolicy" | "WeedPolicy");
    if !is_ours && version.split('/').next() != Some(GROUP) {
        return None;
    }
    let wanted = format!("{GROUP}/v1alpha1");
    let mut problems = match kind {
        // A typing error must not let a policy go unread.
        _ if version != wanted => vec![format!("apiVersion: must be {wanted}")],
        "ProbePolicy" => strict::<ProbePolicySpec>(object),
        "WeedPolicy" => strict::<WeedPolicySpec>(object),
        _ => vec!["kind: must be ProbePolicy or WeedPolicy".to_owned()],
    };
    problems.truncate(MAX_PROBLEMS);
    let problems = problems.iter().map(|it| clean(it, MAX_PROBLEM));
    Some(problems.collect())
}

/// Decodes an object and returns what is wrong: unknown fields, the first value of a wrong type, broken rules.
fn strict<S: DeserializeOwned + Validate<Context = ()>>(object: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(object, &mut track);
    let decoded: Result<Object<S>, _> = serde_ignored::deserialize(tracked, |path| {
        // A question mark stands for an optional field.
        let field = path.to_string().replace(".?", "");
        problems.push(format!("{field}: unknown field"));
    });
    match decoded {
        Ok(object) => problems.extend(api::problems(&object.spec)),
        Err(error) => problems.push(undecodable(&track.path().to_string(), &error.to_string())),
    }
    problems
}

/// Returns a problem from the place and the words of a decoder, which names a missing field only in its words.
fn undecodable(place: &str, error: &str) -> String {
    let missing = error.strip_prefix("missing field `");
    match (missing.and_then(|it| it.strip_suffix('`')), place) {
        (Some("mode"), place) => format!("{place}.mode: {MODE_MESSAGE}"),
        (Some(field), ".") => format!("{field}: is required"),
        (Some(field), place) => format!("{place}.{field}: is required"),
        (None, place) => format!("{place}: {error}"),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}
