//! What makes a document an object of this group: its kind, its version, its name.

use super::{Found, quoted, rules::Rules};
use crate::{
    api::GROUP,
    yaml::{Node, Value},
};

/// The fields that the API server knows in `metadata`.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Characters of a DNS subdomain.
const MAX_NAME: usize = 253;

/// Whether an object of the API can have this name: a DNS subdomain by RFC 1123.
pub fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let label = |label: &str| {
        let ends = !label.starts_with('-') && !label.ends_with('-');
        !label.is_empty() && ends && label.bytes().all(inner)
    };
    text.len() <= MAX_NAME && text.split('.').all(label)
}

/// Validates a document if it is an object of this group, and tells whether it is.
pub(super) fn validate(kinds: &[Rules], object: &Node, found: &mut Found) -> bool {
    let kind = object.text_at("kind");
    let group_version = object.text_at("apiVersion");
    let ours = kinds.iter().find(|it| Some(it.kind.as_str()) == kind);
    let of_group = group_version.is_some_and(|it| it.split('/').next() == Some(GROUP));
    // A kind of ours that names no group was meant for this one.
    if !of_group && (ours.is_none() || group_version.is_some()) {
        return false;
    }
    let Some(rules) = ours else {
        let place = object.get("kind").unwrap_or(object).place;
        let kinds: Vec<&str> = kinds.iter().map(|it| it.kind.as_str()).collect();
        found.add(
            place,
            "kind",
            format!("must be one of {}", kinds.join(", ")),
        );
        return true;
    };
    if group_version != Some(rules.group_version.as_str()) {
        let place = object.get("apiVersion").unwrap_or(object).place;
        let message = format!("must be {}", rules.group_version);
        found.add(place, "apiVersion", message);
    }
    metadata(object, found);
    rules.validate(object, found);
    true
}

fn metadata(object: &Node, found: &mut Found) {
    let Some(metadata) = object.get("metadata") else {
        return found.add(object.place, "metadata.name", "is required".to_owned());
    };
    if !matches!(metadata.value, Value::Map(_)) {
        let message = format!("must be a mapping, not {}", metadata.kind());
        return found.add(metadata.place, "metadata", message);
    }
    match metadata.get("name") {
        None => found.add(metadata.place, "metadata.name", "is required".to_owned()),
        Some(name) if name.text().is_some_and(is_name) => {}
        Some(name) => found.add(
            name.place,
            "metadata.name",
            "must be the name of an object: at most 253 lower case letters, digits, '-' or '.', \
             beginning and ending with a letter or digit"
                .to_owned(),
        ),
    }
    for entry in metadata.entries() {
        let field = format!("metadata.{}", entry.key);
        if !METADATA.contains(&entry.key.as_str()) {
            let message = format!("unknown field; there are {}", METADATA.join(", "));
            found.add(entry.place, &field, message);
        }
        if matches!(entry.key.as_str(), "labels" | "annotations") {
            texts(&entry.value, &field, found);
        }
    }
    super::schema::duplicates(metadata, "metadata", found);
}

/// That all values of a mapping are strings: numbers and booleans need quotes.
fn texts(node: &Node, field: &str, found: &mut Found) {
    if !matches!(node.value, Value::Map(_) | Value::Null) {
        let message = format!("must be a mapping, not {}", node.kind());
        return found.add(node.place, field, message);
    }
    for entry in node.entries() {
        if entry.value.text().is_none() && !entry.value.is_null() {
            let message = format!(
                "{} must be a string, not {}: put it in quotes",
                quoted(&entry.key),
                entry.value.kind()
            );
            found.add(entry.value.place, field, message);
        }
    }
}
