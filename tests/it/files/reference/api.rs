//! docs/api.md: every field of the kinds, by the definitions that are installed.
//!
//! Definitions have no names for the objects inside them, and nothing to say of the values of an
//! enumeration; these come from the types.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use dependency_watchdog::api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value};

use super::page::{self, Part, plain, row};

const FILE: &str = "docs/api.md";
const SHARED: &str = "shared types";
const FORMATS: &str = "formats";

/// What texts of fields whose paths end so look like, which their pattern says more precisely.
const FORMS: [(&str, &str, &str); 11] = [
    (
        "probeInterval",
        "duration",
        "numbers of `h`, `m`, `s` and `ms`, in this order and each at most once, such as `1m30s` or `0.5s`",
    ),
    (
        "kubeConfigSecretName",
        "object name",
        "lower case letters, digits, `-` and `.`, as names of objects are",
    ),
    ("apiVersion", "API version", "such as `apps/v1`"),
    ("kind", "kind", "such as `Deployment`"),
    (
        "key",
        "label key",
        "a name, optionally after a DNS subdomain and a slash, such as `gardener.cloud/role`",
    ),
    (
        "values",
        "label value",
        "letters, digits, `-`, `_` and `.`, or nothing",
    ),
    (
        "checks[].name",
        "DNS label",
        "lower case letters, digits and `-`, as names of Services and containers are",
    ),
    ("path", "path", "a slash, and what follows it in a URL"),
    ("httpHeaders[].name", "header name", "such as `Accept`"),
    ("httpHeaders[].value", "header value", "printable ASCII"),
    (
        "apiService",
        "APIService name",
        "a version, a dot and a group, such as `v1beta1.metrics.k8s.io`",
    ),
];

/// A type, as it is known by the names of its fields or values.
struct Type {
    name: String,
    description: String,
    /// The values of an enumeration, each with what it means.
    values: Vec<(String, String)>,
}

/// The types by what they consist of.
struct Types(BTreeMap<BTreeSet<String>, Type>);

impl Types {
    fn all() -> Self {
        let mut types = Self(BTreeMap::new());
        types.add::<api::Action>();
        types.add::<api::CheckResult>();
        types.add::<api::CheckRole>();
        types.add::<api::CheckStatus>();
        types.add::<api::CheckType>();
        types.add::<api::ClusterCounts>();
        types.add::<api::ClusterHealthStatus>();
        types.add::<api::ClusterState>();
        types.add::<Condition>();
        types.add::<api::DependantSelectors>();
        types.add::<api::DependentRef>();
        types.add::<api::DependentResourceInfo>();
        types.add::<api::DependentStatus>();
        types.add::<api::ExecAction>();
        types.add::<api::HealthCheck>();
        types.add::<api::HttpGetAction>();
        types.add::<api::HttpHeader>();
        types.add::<api::LabelSelector>();
        types.add::<api::LabelSelectorOperator>();
        types.add::<api::LabelSelectorRequirement>();
        types.add::<api::LabelSource>();
        types.add::<api::LastAction>();
        types.add::<api::LastWeed>();
        types.add::<api::LeaseCounts>();
        types.add::<api::LeftAlone>();
        types.add::<api::MetricsProvider>();
        types.add::<api::Mode>();
        types.add::<api::ObserverSettings>();
        types.add::<api::ProbePolicySpec>();
        types.add::<api::ProbePolicyStatus>();
        types.add::<api::Protection>();
        types.add::<api::ScaleInfo>();
        types.add::<api::Scheme>();
        types.add::<api::ServiceCounts>();
        types.add::<api::TcpSocketAction>();
        types.add::<api::UnhealthyNode>();
        types.add::<api::WeedPolicySpec>();
        types.add::<api::WeedPolicyStatus>();
        types
    }

    fn add<T: JsonSchema>(&mut self) {
        let schema = Value::from(schema_for!(T));
        let name = T::schema_name().rsplit('.').next().unwrap().to_owned();
        let values: Vec<(String, String)> = list(&schema, "oneOf")
            .iter()
            .map(|it| {
                (
                    text(it, "const").to_owned(),
                    text(it, "description").to_owned(),
                )
            })
            .collect();
        let parts = match values.is_empty() {
            true => keys(&schema),
            false => values.iter().map(|(value, _)| value.clone()).collect(),
        };
        let description = text(&schema, "description").to_owned();
        let known = Type {
            name,
            description,
            values,
        };
        if let Some(other) = self.0.insert(parts, known) {
            panic!("{} consists of the same as another type", other.name);
        }
    }

    /// The type of an object, or of one of several values.
    fn of(&self, schema: &Value) -> &Type {
        let values = list(schema, "enum").iter();
        let values: BTreeSet<String> = values.map(|it| it.as_str().unwrap().to_owned()).collect();
        let parts = match values.is_empty() {
            true => keys(schema),
            false => values,
        };
        let known = self.0.get(&parts);
        known.unwrap_or_else(|| panic!("Types::all lacks the type that consists of {parts:?}"))
    }
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn list<'a>(schema: &'a Value, field: &str) -> &'a [Value] {
    let list = schema.get(field).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn keys(schema: &Value) -> BTreeSet<String> {
    let properties = properties(schema).into_iter();
    properties.flat_map(Map::keys).cloned().collect()
}

/// A type that is described in a section of its own, and where it is used.
struct Section {
    schema: Value,
    /// By kind.
    places: BTreeMap<String, Vec<String>>,
}

struct Reference {
    types: Types,
    /// By the name of the type, in the order in which they are met.
    order: Vec<String>,
    sections: BTreeMap<String, Section>,
    /// Patterns and lengths of texts, by the name of the format.
    formats: BTreeMap<&'static str, String>,
}

impl Reference {
    /// Finds what is described in sections of its own.
    fn collect(&mut self, kind: &str, path: &str, schema: &Value) {
        let named = properties(schema).is_some() || is_enumeration(schema);
        if named {
            let name = self.types.of(schema).name.clone();
            if !self.sections.contains_key(&name) {
                self.order.push(name.clone());
            }
            let section = self.sections.entry(name).or_insert_with(|| Section {
                schema: schema.clone(),
                places: BTreeMap::new(),
            });
            let places = section.places.entry(kind.to_owned()).or_default();
            places.push(format!("`{path}`"));
        }
        self.collect_format(path.trim_end_matches("[]"), schema);
        for (name, property) in properties(schema).into_iter().flatten() {
            self.collect(kind, &format!("{path}.{name}"), property);
        }
        if let Some(items) = schema.get("items") {
            self.collect(kind, &format!("{path}[]"), items);
        }
        if let Some(values) = schema.get("additionalProperties") {
            self.collect(kind, &format!("{path}.*"), values);
        }
    }

    fn collect_format(&mut self, path: &str, schema: &Value) {
        let ends = |end: &str| {
            path.strip_suffix(end)
                .is_some_and(|rest| rest.ends_with('.'))
        };
        let form = FORMS.iter().find(|(known, _, _)| ends(known));
        if let (Some((_, name, _)), Some(form)) = (form, format(schema)) {
            let known = self.formats.insert(name, form.clone());
            assert!(known.is_none_or(|known| known == form), "{name}: {form}");
        }
    }

    /// What a value is, with a link to what is described elsewhere.
    fn type_of(&self, schema: &Value) -> String {
        if properties(schema).is_some() || is_enumeration(schema) {
            let name = &self.types.of(schema).name;
            return format!("[{name}](#{})", name.to_lowercase());
        }
        match (text(schema, "type"), text(schema, "format")) {
            ("array", _) => format!("list of {}", self.type_of(&schema["items"])),
            ("object", _) => match schema.get("additionalProperties") {
                Some(values) => format!("map to {}", self.type_of(values)),
                None => "object".to_owned(),
            },
            ("string", "date-time") => "time".to_owned(),
            ("string", _) => match format(schema) {
                Some(form) => {
                    let known = self.formats.iter().find(|(_, known)| **known == form);
                    let (name, _) = known.unwrap_or_else(|| panic!("FORMS has no name for {form}"));
                    format!("[{name}](#formats)")
                }
                None => "string".to_owned(),
            },
            (other, _) => other.to_owned(),
        }
    }

    fn fields(&self, schema: &Value) -> String {
        let required: BTreeSet<&str> = list(schema, "required")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let mut table =
            "| field | type | default | allowed | |\n|---|---|---|---|---|\n".to_owned();
        let mut rules = rules("", schema);
        for (name, property) in properties(schema).unwrap() {
            let default = match property.get("default") {
                Some(default) => format!("`{}`", shown(default)),
                None if required.contains(&**name) => "required".to_owned(),
                None => String::new(),
            };
            table += &row(&[
                &format!("`{name}`"),
                &self.type_of(property),
                &default,
                &plain(&allowed(property)),
                &plain(text(property, "description")),
            ]);
            rules.extend(self::rules(name, property));
        }
        if !rules.is_empty() {
            table += "\nRules in CEL, which the API server evaluates:\n\n";
            table += &rules.concat();
        }
        table
    }

    /// A type, its fields or values, and where it is used.
    fn section(&self, name: &str, several: bool) -> String {
        let Section { schema, places } = &self.sections[name];
        let known = self.types.of(schema);
        let places = places.iter().map(|(kind, places)| match several {
            true => format!("{} of {kind}", places.join(", ")),
            false => places.join(", "),
        });
        let places = places.collect::<Vec<_>>().join("; ");
        let description = plain(&known.description);
        let content = match &known.values[..] {
            [] => self.fields(schema),
            values => {
                let rows = values
                    .iter()
                    .map(|(value, meaning)| row(&[&format!("`{value}`"), &plain(meaning)]));
                let head = "| value | |\n|---|---|\n".to_owned();
                [head].into_iter().chain(rows).collect()
            }
        };
        let begins = match schema.get("default") {
            Some(default) if places == "`status`" => format!(", at first `{}`", shown(default)),
            _ => String::new(),
        };
        format!("### {name}\n\n{description}\n\nIn {places}{begins}.\n\n{content}")
    }
}

fn is_enumeration(schema: &Value) -> bool {
    // The status of a condition is no type of its own.
    let values = list(schema, "enum");
    !values.is_empty() && !values.contains(&"Unknown".into())
}

/// The pattern and the length of a text, if it has a pattern.
fn format(schema: &Value) -> Option<String> {
    let pattern = schema.get("pattern")?.as_str()?;
    let also = list(schema, "allOf").iter().map(|it| text(it, "pattern"));
    let patterns: Vec<String> = [pattern].into_iter().chain(also).map(code).collect();
    let longest = schema["maxLength"].as_i64().unwrap();
    Some(format!(
        "at most {longest} characters that match {}",
        patterns.join(" and ")
    ))
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A number as people write it.
fn shown(value: &Value) -> String {
    match value.as_f64() {
        Some(number) => number.to_string(),
        None => value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// What is allowed of its type.
fn allowed(schema: &Value) -> String {
    let number = |field: &str| schema.get(field).filter(|it| !it.is_null());
    let range = |min: &str, max: &str| (number(min).map(shown), number(max).map(shown));
    // The limits of 32 bits are no rule of ours.
    let widest = |limit: &i32, text: &Option<String>| text.as_ref() == Some(&limit.to_string());
    let mut parts = Vec::new();
    let (min, max) = range("minimum", "maximum");
    let min = min.filter(|it| !widest(&i32::MIN, &Some(it.clone())));
    let max = max.filter(|it| !widest(&i32::MAX, &Some(it.clone())));
    let above = schema["exclusiveMinimum"] == true;
    parts.extend(match (min, max) {
        (Some(min), Some(max)) if above => Some(format!("above {min}, at most {max}")),
        (Some(min), Some(max)) => Some(format!("{min} to {max}")),
        (Some(min), None) => Some(format!("{min} or more")),
        (None, Some(max)) => Some(format!("at most {max}")),
        (None, None) => None,
    });
    for (min, max, of) in [
        ("minItems", "maxItems", "entries"),
        ("minProperties", "maxProperties", "entries"),
    ] {
        parts.extend(match range(min, max) {
            (Some(min), Some(max)) => Some(format!("{min} to {max} {of}")),
            (None, Some(max)) => Some(format!("at most {max} {of}")),
            _ => None,
        });
    }
    if !is_enumeration(schema) {
        let values = list(schema, "enum").iter();
        let values: Vec<String> = values.filter_map(Value::as_str).map(code).collect();
        parts.extend((!values.is_empty()).then(|| values.join(", ")));
    }
    if let (None, Some(longest)) = (schema.get("pattern"), schema.get("maxLength")) {
        parts.push(format!("at most {longest} characters"));
    }
    let messages = list(schema, "x-kubernetes-validations").iter();
    parts.extend(messages.map(|rule| text(rule, "message").to_owned()));
    let keys = list(schema, "x-kubernetes-list-map-keys").iter();
    parts.extend(
        keys.filter_map(Value::as_str)
            .map(|key| format!("each `{key}` once")),
    );
    parts.join("; ")
}

/// The rules of a field, or of the object as a whole.
fn rules(field: &str, schema: &Value) -> Vec<String> {
    let rules = list(schema, "x-kubernetes-validations").iter();
    let rules = rules.map(|rule| {
        let (rule, message) = (text(rule, "rule"), text(rule, "message"));
        let of = match field {
            "" => String::new(),
            field => format!("`{field}`: "),
        };
        format!("- {of}`{rule}`: *{}*\n", plain(message))
    });
    rules.collect()
}

/// What the kind is called, and what `kubectl get` shows.
fn introduction(crd: &Value) -> String {
    let (names, version) = (&crd["spec"]["names"], &crd["spec"]["versions"][0]);
    let schema = &version["schema"]["openAPIV3Schema"];
    let spec = match properties(&schema["properties"]["spec"]) {
        Some(_) => "`spec` is required",
        None => "`spec` is empty, and all is in `status`",
    };
    let mut page = format!(
        "{}\n\n`{}`, version `{}`, {}-scoped, short `{}`, category `{}`. {spec}.\n\n`kubectl get {}` shows:\n\n",
        plain(text(schema, "description")),
        text(&crd["metadata"], "name"),
        text(version, "name"),
        text(&crd["spec"], "scope").to_lowercase(),
        names["shortNames"][0].as_str().unwrap(),
        names["categories"][0].as_str().unwrap(),
        names["shortNames"][0].as_str().unwrap(),
    );
    page += "| column | field |\n|---|---|\n";
    for column in list(version, "additionalPrinterColumns") {
        let wide = column.get("priority").is_some_and(|it| it != 0);
        let wide = if wide { ", with `-o wide`" } else { "" };
        let field = format!("`{}`{wide}", text(column, "jsonPath"));
        page += &row(&[text(column, "name"), &field]);
    }
    page
}

fn parts() -> Vec<Part> {
    let mut reference = Reference {
        types: Types::all(),
        order: Vec::new(),
        sections: BTreeMap::new(),
        formats: BTreeMap::new(),
    };
    let crds = api::crds();
    let crds: Vec<Value> = crds
        .iter()
        .map(|it| serde_json::to_value(it).unwrap())
        .collect();
    for crd in &crds {
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let kind = text(&crd["spec"]["names"], "kind");
        assert!(list(schema, "required").contains(&"spec".into()), "{kind}");
        for half in ["spec", "status"] {
            reference.collect(kind, half, &schema["properties"][half]);
        }
    }
    let mut parts = Vec::new();
    let used_by = |name: &String| reference.sections[name].places.keys().collect::<Vec<_>>();
    for crd in &crds {
        let kind = text(&crd["spec"]["names"], "kind");
        let own = reference
            .order
            .iter()
            .filter(|name| used_by(name) == [kind]);
        let mut page = introduction(crd);
        for name in own {
            write!(page, "\n{}", reference.section(name, false)).unwrap();
        }
        parts.push(Part {
            name: kind.to_owned(),
            text: page,
        });
    }
    let shared = reference
        .order
        .iter()
        .filter(|name| used_by(name).len() > 1);
    parts.push(Part {
        name: SHARED.to_owned(),
        text: shared
            .map(|name| reference.section(name, true))
            .collect::<Vec<_>>()
            .join("\n"),
    });
    let formats = FORMS.iter().map(|(_, name, description)| {
        format!("- *{name}*: {description}; {}.\n", reference.formats[name])
    });
    parts.push(Part {
        name: FORMATS.to_owned(),
        text: formats.collect(),
    });
    parts
}

#[test]
fn every_field_is_described() {
    page::has(FILE, &parts());
}
