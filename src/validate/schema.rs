//! The keywords of structural schemas that our definitions use, as the API server applies them.
//!
//! A test sees to it that the definitions use no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;

use super::{Found, quoted};
use crate::{
    api,
    yaml::{Entry, Node, Value},
};

/// What the root of an object holds besides what its schema names.
const ROOT: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// Dropped by the API server from what is applied.
const STATUS: &str = "status";

/// A structural schema.
pub(super) struct Schema {
    root: JSONSchemaProps,
    /// By their text; one that cannot be compiled refuses everything.
    patterns: BTreeMap<String, Option<Regex>>,
}

impl Schema {
    pub(super) fn new(root: JSONSchemaProps) -> Self {
        let mut patterns = BTreeMap::new();
        compile(&root, &mut patterns);
        Self { root, patterns }
    }

    /// What the schema refuses in an object, apart from its metadata and status.
    pub(super) fn validate(&self, object: &Node, found: &mut Found) {
        duplicates(object, "", found);
        let known = properties(&self.root);
        for entry in object.entries() {
            let key = entry.key.as_str();
            match known.and_then(|it| it.get(key)) {
                _ if ROOT.contains(&key) || key == STATUS => {}
                Some(schema) => self.property(schema, &entry.value, key, found),
                None => found.add(
                    entry.place,
                    key,
                    "unknown field; there are apiVersion, kind, metadata and spec".to_owned(),
                ),
            }
        }
        required(&self.root, object, "", found);
    }

    /// A value of a mapping: a null is one that is left out, as the API server drops it.
    fn property(&self, schema: &JSONSchemaProps, node: &Node, field: &str, found: &mut Found) {
        if !node.is_null() {
            self.value(schema, node, field, found);
        }
    }

    fn value(&self, schema: &JSONSchemaProps, node: &Node, field: &str, found: &mut Found) {
        if found.is_full() {
            return;
        }
        let add = |found: &mut Found, message| found.add(node.place, field, message);
        let expected = schema.type_.as_deref().unwrap_or_default();
        let fits = match (expected, &node.value) {
            ("object", Value::Map(_)) | ("array", Value::List(_)) | ("boolean", Value::Bool(_)) => {
                true
            }
            ("string", Value::Text(_)) | ("integer" | "number", Value::Int(_)) => true,
            ("number", Value::Float(value)) => value.is_finite(),
            ("integer", Value::Float(value)) => value.fract() == 0.0,
            _ => false,
        };
        if !fits {
            let hint = match (expected, &node.value) {
                ("string", Value::Bool(_) | Value::Int(_) | Value::Float(_)) => {
                    ": put it in quotes if it is meant"
                }
                _ => "",
            };
            let message = format!("must be {}, not {}{hint}", named(expected), node.kind());
            return add(found, message);
        }
        if let Some(allowed) = &schema.enum_
            && !allowed.iter().any(|it| it.0.as_str() == node.text())
        {
            let allowed: Vec<String> = allowed.iter().map(|it| it.0.to_string()).collect();
            let message = format!("must be one of {}", allowed.join(", "));
            return add(found, message);
        }
        match &node.value {
            Value::Text(text) => self.text(schema, &text.text, |message| add(found, message)),
            Value::Int(value) => number(schema, *value as f64, |message| add(found, message)),
            Value::Float(value) => number(schema, *value, |message| add(found, message)),
            Value::List(items) => {
                let bounds = (schema.min_items, schema.max_items);
                count(items.len(), bounds, ("item", "items"), |message| {
                    add(found, message)
                });
                if let Some(JSONSchemaPropsOrArray::Schema(each)) = &schema.items {
                    for (index, item) in items.iter().enumerate() {
                        self.value(each, item, &format!("{field}[{index}]"), found);
                    }
                }
            }
            Value::Map(entries) => {
                let bounds = (schema.min_properties, schema.max_properties);
                let there = entries.iter().filter(|it| !it.value.is_null()).count();
                count(there, bounds, ("entry", "entries"), |message| {
                    add(found, message)
                });
                duplicates(node, field, found);
                for entry in entries {
                    self.entry(schema, entry, field, found);
                }
                required(schema, node, field, found);
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn entry(&self, schema: &JSONSchemaProps, entry: &Entry, field: &str, found: &mut Found) {
        let path = join(field, &entry.key);
        let known = properties(schema);
        if let Some(schema) = known.and_then(|it| it.get(&entry.key)) {
            return self.property(schema, &entry.value, &path, found);
        }
        if let Some(JSONSchemaPropsOrBool::Schema(each)) = &schema.additional_properties {
            return self.property(each, &entry.value, &path, found);
        }
        let known: Vec<&str> = known
            .into_iter()
            .flatten()
            .map(|it| it.0.as_str())
            .collect();
        let message = match known[..] {
            [] => "unknown field; there is none".to_owned(),
            _ => format!("unknown field; there are {}", known.join(", ")),
        };
        found.add(entry.place, &path, message);
    }

    fn text(&self, schema: &JSONSchemaProps, text: &str, mut add: impl FnMut(String)) {
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if schema.min_length.is_some_and(|min| length < min) {
            return add("must not be empty".to_owned());
        }
        if let Some(max) = schema.max_length.filter(|max| length > *max) {
            return add(format!("must have at most {max} characters, not {length}"));
        }
        // A text can have to match several patterns, which stand side by side.
        let patterns = iter::once(schema).chain(schema.all_of.iter().flatten());
        let holds = |pattern: &&String| {
            let pattern = self.patterns.get(*pattern).and_then(Option::as_ref);
            pattern.is_some_and(|it| it.is_match(text))
        };
        let mut patterns = patterns.filter_map(|it| it.pattern.as_ref());
        let Some(broken) = patterns.find(|pattern| !holds(pattern)) else {
            return;
        };
        match text.parse::<api::Duration>() {
            Err(error) if is_duration(schema) => add(error.to_string()),
            _ => {
                // What the field is says more to people than a pattern.
                let meant = schema.description.as_deref().unwrap_or_default();
                let meant = match meant.trim_end_matches('.') {
                    "" => String::new(),
                    meant => format!(" ({meant})"),
                };
                add(format!(
                    "must match {broken}, which {} does not{meant}",
                    quoted(text)
                ));
            }
        }
    }
}

/// Keys that a mapping has twice: YAML forbids it, and one of them would be lost.
pub(super) fn duplicates(node: &Node, field: &str, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for entry in node.entries() {
        if !seen.insert(entry.key.as_str()) {
            let path = join(field, &entry.key);
            found.add(entry.place, &path, "is there twice".to_owned());
        }
    }
}

fn required(schema: &JSONSchemaProps, node: &Node, field: &str, found: &mut Found) {
    for name in schema.required.iter().flatten() {
        let value = node.get(name);
        if value.is_none_or(Node::is_null) {
            let place = value.unwrap_or(node).place;
            found.add(place, &join(field, name), "is required".to_owned());
        }
    }
}

fn number(schema: &JSONSchemaProps, value: f64, mut add: impl FnMut(String)) {
    let above = schema.exclusive_minimum == Some(true);
    if let Some(min) = schema
        .minimum
        .filter(|min| value < *min || above && value == *min)
    {
        let words = if above { "greater than" } else { "at least" };
        return add(format!("must be {words} {min}, not {value}"));
    }
    let below = schema.exclusive_maximum == Some(true);
    if let Some(max) = schema
        .maximum
        .filter(|max| value > *max || below && value == *max)
    {
        let words = if below { "less than" } else { "at most" };
        add(format!("must be {words} {max}, not {value}"));
    }
}

fn count(
    count: usize,
    (min, max): (Option<i64>, Option<i64>),
    (one, what): (&str, &str),
    mut add: impl FnMut(String),
) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if let Some(min) = min.filter(|min| count < *min) {
        let what = if min == 1 { one } else { what };
        add(format!("must have at least {min} {what}, not {count}"));
    }
    if let Some(max) = max.filter(|max| count > *max) {
        add(format!("must have at most {max} {what}, not {count}"));
    }
}

fn properties(schema: &JSONSchemaProps) -> Option<&BTreeMap<String, JSONSchemaProps>> {
    schema.properties.as_ref()
}

fn join(field: &str, key: &str) -> String {
    match field {
        "" => key.to_owned(),
        _ => format!("{field}.{key}"),
    }
}

/// A type of a schema in words.
fn named(kind: &str) -> &'static str {
    match kind {
        "object" => "a mapping",
        "array" => "a list",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        _ => "a string",
    }
}

/// Whether a field takes what [`api::Duration`] takes, whose error says more than a pattern.
fn is_duration(schema: &JSONSchemaProps) -> bool {
    let generator = &mut schemars::SchemaGenerator::default();
    let duration = <api::Duration as schemars::JsonSchema>::json_schema(generator);
    let pattern = duration.get("pattern").and_then(|it| it.as_str());
    pattern.is_some() && pattern == schema.pattern.as_deref()
}

fn compile(schema: &JSONSchemaProps, patterns: &mut BTreeMap<String, Option<Regex>>) {
    if let Some(pattern) = &schema.pattern {
        patterns
            .entry(pattern.clone())
            .or_insert_with(|| Regex::new(pattern).ok());
    }
    let items = match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => Some(&**items),
        _ => None,
    };
    let values = match &schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(values)) => Some(&**values),
        _ => None,
    };
    let properties = properties(schema).into_iter().flat_map(BTreeMap::values);
    let sides = schema.all_of.iter().flatten();
    for child in properties.chain(items).chain(values).chain(sides) {
        compile(child, patterns);
    }
}
