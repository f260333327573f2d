//! What a scripted seed answers, and how it patches.

use std::{io, pin::Pin};

use bytes::Bytes;
use futures::{StreamExt as _, channel::mpsc};
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use super::{
    Failure,
    failure::{UNSERVED, reason},
};

type AnswerBody = BoxBody<Bytes, io::Error>;

/// An answer, or a broken connection.
pub(super) type Answer = Result<http::Response<AnswerBody>, io::Error>;

/// What a request comes to.
pub(super) enum Outcome {
    Json(u16, Value),
    /// What was missed, what comes, and what it ends with.
    Watch(
        Vec<Bytes>,
        mpsc::UnboundedReceiver<Bytes>,
        Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    ),
}

/// The status of a workload whose controller has done its work.
pub fn workload_status(object: &Value) -> Value {
    let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
    json!({
        "observedGeneration": object["metadata"]["generation"],
        "replicas": replicas, "readyReplicas": replicas,
    })
}

pub(super) fn respond(outcome: Outcome) -> http::Response<AnswerBody> {
    match outcome {
        Outcome::Json(code, body) => whole(code, "application/json", body.to_string()),
        Outcome::Watch(missed, coming, end) => {
            let coming = coming.take_until(end);
            let lines = futures::stream::iter(missed).chain(coming);
            let frames = lines.map(|line| Ok::<_, io::Error>(Frame::data(line)));
            http::Response::new(BodyExt::boxed(StreamBody::new(frames)))
        }
    }
}

fn whole(code: u16, content_type: &str, body: String) -> http::Response<AnswerBody> {
    let body = http_body_util::Full::new(Bytes::from(body));
    http::Response::builder()
        .status(code)
        .header("content-type", content_type)
        .body(body.map_err(|never| match never {}).boxed())
        .unwrap()
}

/// How a request for the object of this name, or for none, fails.
pub(super) async fn fail(failure: Failure, name: &str) -> Answer {
    match failure {
        Failure::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
        Failure::Reset => Err(io::ErrorKind::ConnectionReset.into()),
        Failure::Hang => std::future::pending().await,
        Failure::Status(404) if !name.is_empty() => Ok(respond(not_found(name))),
        Failure::Status(code) => Ok(respond(status(code, "scripted failure"))),
        Failure::RetryAfter(seconds) => {
            let Outcome::Json(code, mut body) = status(429, "scripted failure") else {
                unreachable!();
            };
            body["details"] = json!({"retryAfterSeconds": seconds});
            let mut answer = respond(Outcome::Json(code, body));
            answer.headers_mut().insert("retry-after", seconds.into());
            Ok(answer)
        }
        Failure::Truncated => {
            let frames = [
                Ok(Frame::data(Bytes::from_static(b"{\"kind\": \"Dep"))),
                Err(io::ErrorKind::UnexpectedEof.into()),
            ];
            let body = StreamBody::new(futures::stream::iter(frames));
            Ok(http::Response::new(BodyExt::boxed(body)))
        }
        Failure::Html => Ok(whole(200, "text/html", "<html>Sign in</html>".into())),
        Failure::WrongKind => Ok(respond(Outcome::Json(200, super::wrong_kind()))),
        Failure::Unserved => Ok(whole(404, "text/plain", UNSERVED.into())),
    }
}

pub(super) fn status(code: u16, message: &str) -> Outcome {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason(code), "code": code,
    });
    Outcome::Json(code, body)
}

/// There is no object of this name.
pub(super) fn not_found(name: &str) -> Outcome {
    let Outcome::Json(code, mut body) = status(404, &format!("{name:?} not found")) else {
        unreachable!();
    };
    body["details"] = json!({"name": name});
    Outcome::Json(code, body)
}

/// The groups that are served: those of these that have versions, and another.
pub(super) fn groups(served: &[(&str, &[&str])]) -> Value {
    let group = |name: &str, versions: &[&str]| {
        let version = |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
        let versions: Vec<Value> = versions.iter().map(version).collect();
        json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
    };
    let served = served.iter().filter(|(_, versions)| !versions.is_empty());
    let mut groups = vec![group("apps", &["v1"])];
    groups.extend(served.map(|(name, versions)| group(name, versions)));
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// What there is of the group and version of Etcds, which have a scale in it or not.
pub(super) fn discovery(version: &str, scale: bool) -> Value {
    let resource = |name: &str, kind: &str| {
        json!({
            "name": name, "singularName": "etcd", "namespaced": true, "kind": kind,
            "verbs": ["get", "list", "patch"],
        })
    };
    let mut resources = vec![resource("etcds", "Etcd")];
    if scale {
        resources.push(resource("etcds/scale", "Scale"));
    }
    json!({
        "kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": version,
        "resources": resources,
    })
}

/// A Scale of zero replicas lacks the field.
pub(super) fn scale(object: &Value) -> Value {
    let field = |part: &str| match object[part]["replicas"].as_i64() {
        None | Some(0) => json!({}),
        Some(replicas) => json!({"replicas": replicas}),
    };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": object["metadata"],
        "spec": field("spec"), "status": field("status"),
    })
}

/// The replicas that a merge patch or a JSON patch of `scale` asks for, if its tests hold.
pub(super) fn new_scale(object: &Value, patch: &Value) -> Option<Value> {
    let Some(operations) = patch.as_array() else {
        return Some(patch["spec"]["replicas"].clone());
    };
    let mut scale = scale(object);
    for operation in operations {
        let path = operation["path"].as_str().unwrap();
        match operation["op"].as_str().unwrap() {
            "test" if scale.pointer(path) != Some(&operation["value"]) => return None,
            "test" => {}
            "replace" => *scale.pointer_mut(path)? = operation["value"].clone(),
            "add" if path == "/spec/replicas" => {
                scale["spec"]["replicas"] = operation["value"].clone();
            }
            other => panic!("the operation {other} of {path} is not scripted"),
        }
    }
    Some(scale["spec"]["replicas"].clone())
}

/// RFC 7386.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
