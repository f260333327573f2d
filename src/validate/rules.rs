//! The rules of one kind: its structural schema, and its CEL rules.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Map, Number, Value as Json};

use super::{Found, schema::Schema};
use crate::{
    api::GROUP,
    yaml::{Node, Value},
};

/// The rules of one kind.
pub(super) struct Rules {
    pub(super) kind: String,
    pub(super) group_version: String,
    schema: Schema,
    cel: CompiledSchema,
    validator: Validator,
}

impl Rules {
    /// Those of a definition, if it has a schema.
    pub(super) fn of(crd: &CustomResourceDefinition) -> Option<Self> {
        let version = crd.spec.versions.first()?;
        let schema = version.schema.as_ref()?.open_api_v3_schema.clone()?;
        Some(Self {
            kind: crd.spec.names.kind.clone(),
            group_version: format!("{GROUP}/{}", version.name),
            cel: compile_schema(&serde_json::to_value(&schema).ok()?),
            schema: Schema::new(schema),
            validator: Validator::new(),
        })
    }

    /// What the API server would refuse in an object of this kind. Its metadata is not looked at,
    /// nor its status, which the API server drops from what is applied.
    pub(super) fn validate(&self, object: &Node, found: &mut Found) {
        let before = found.0.len();
        self.schema.validate(object, found);
        // As on the API server: CEL sees what is well-formed, and so of bounded size.
        if found.0.len() > before {
            return;
        }
        let spec = object.get("spec").map(json).unwrap_or_default();
        let object_json = Json::Object(Map::from_iter([("spec".to_owned(), spec)]));
        let Err(errors) = self
            .validator
            .validate_compiled(&self.cel, &object_json, None)
        else {
            return;
        };
        for error in &errors {
            let place = locate(object, &error.field_path).place;
            found.add(place, &error.field_path, error.message.clone());
        }
    }
}

/// The node at a path such as `spec.a[1].b`, or the nearest that is there: a default is not.
fn locate<'a>(root: &'a Node, path: &str) -> &'a Node {
    let mut node = root;
    let mut rest = path;
    loop {
        rest = rest.trim_start_matches('.');
        let next = match rest.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((index, tail)) => {
                let item = index
                    .parse()
                    .ok()
                    .and_then(|it: usize| node.items().get(it));
                item.map(|it| (&**it, tail))
            }
            None => {
                let ends = |tail: &&str| tail.is_empty() || tail.starts_with(['.', '[']);
                node.entries().iter().find_map(|entry| {
                    let tail = rest.strip_prefix(entry.key.as_str()).filter(ends)?;
                    Some((&*entry.value, tail))
                })
            }
        };
        match next {
            Some((child, tail)) if !rest.is_empty() => (node, rest) = (child, tail),
            _ => return node,
        }
    }
}

/// What the API server decodes, less the nulls of mappings, which it drops; the schema has refused
/// those of lists.
fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => i64::try_from(*value)
            .map(Number::from)
            .or_else(|_| u64::try_from(*value).map(Number::from))
            .map_or(Json::Null, Json::Number),
        Value::Float(value) => Number::from_f64(*value).map_or(Json::Null, Json::Number),
        Value::Text(text) => Json::String(text.text.clone()),
        Value::List(items) => items.iter().map(|item| json(item)).collect(),
        Value::Map(entries) => entries
            .iter()
            .filter(|entry| !entry.value.is_null())
            .map(|entry| (entry.key.clone(), json(&entry.value)))
            .collect(),
    }
}
