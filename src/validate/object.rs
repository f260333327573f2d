//! What makes a document an object of this group: its kind, its version, its name.

use super::{Finding, Found, quoted, rules::Rules};
use crate::{
    api::{GROUP, KEY_MESSAGE, VALUE_MESSAGE, is_label_key, is_label_value, needed_by_probe},
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

/// Those of these fields that are lists.
const LISTS: [&str; 3] = ["finalizers", "managedFields", "ownerReferences"];
/// Those that are whole numbers. All others are strings, but for labels and annotations.
const INTEGERS: [&str; 2] = ["deletionGracePeriodSeconds", "generation"];

/// Bytes of all annotations of an object, keys and values.
const MAX_ANNOTATIONS: usize = 256 * 1024;

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
    let meant = ours.is_some() && group_version.is_none_or(resembles);
    if !meant && !is_of_group(object) {
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

/// What is allowed in an object of this group, and may be a mistake: the probe itself needs what a policy
/// scales to zero.
pub(super) fn warnings(object: &Node) -> impl Iterator<Item = Finding> {
    let spec = object.get("spec");
    let dependents = spec.and_then(|spec| spec.get("dependentResourceInfos"));
    let dependents = dependents.map_or(&[][..], Node::items).iter().enumerate();
    dependents.filter_map(|(index, dependent)| {
        let name = dependent.get("ref")?.get("name")?;
        Some(Finding {
            place: name.place,
            field: format!("spec.dependentResourceInfos[{index}].ref.name"),
            message: needed_by_probe(name.text()?)?,
        })
    })
}

/// Whether a document says that it is of this group.
pub(super) fn is_of_group(object: &Node) -> bool {
    let group_version = object.text_at("apiVersion");
    group_version.is_some_and(|it| it.split('/').next() == Some(GROUP))
}

/// Whether the `apiVersion` of a kind of ours was meant to name this group: a typing error in it must
/// not let a policy go unread. A word of the group is right, or it was left out.
fn resembles(group_version: &str) -> bool {
    let group_version = group_version.to_ascii_lowercase();
    let group = group_version.split_once('/').map_or("", |it| it.0);
    !group.contains('.') || ["watchdog", "gardener"].iter().any(|it| group.contains(it))
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
        let value = &*entry.value;
        match (entry.key.as_str(), &value.value) {
            ("labels", _) => labels(value, &field, found),
            ("annotations", _) => annotations(value, &field, found),
            // The name has been judged, and what is unknown has been told.
            ("name", _) | (_, Value::Null) => {}
            (key, Value::Text(_)) if !LISTS.contains(&key) && !INTEGERS.contains(&key) => {}
            (key, Value::List(_)) if LISTS.contains(&key) => {}
            (key, Value::Int(_)) if INTEGERS.contains(&key) => {}
            (key, _) if METADATA.contains(&key) => {
                let expected = match key {
                    key if LISTS.contains(&key) => "a list",
                    key if INTEGERS.contains(&key) => "a whole number",
                    _ => "a string",
                };
                let message = format!("must be {expected}, not {}", value.kind());
                found.add(value.place, &field, message);
            }
            _ => {}
        }
    }
    super::schema::duplicates(metadata, "metadata", found);
}

/// That keys and values are those of labels.
fn labels(node: &Node, field: &str, found: &mut Found) {
    texts(node, field, found);
    for entry in node.entries() {
        let (key, value) = (quoted(&entry.key), entry.value.text());
        if !is_label_key(&entry.key) {
            found.add(entry.place, field, format!("{key} {KEY_MESSAGE}"));
        }
        if !value.is_none_or(is_label_value) {
            let value = quoted(value.unwrap_or_default());
            let message = format!("{value} {VALUE_MESSAGE}");
            found.add(entry.value.place, field, message);
        }
    }
}

/// That keys are those of annotations, and all together no longer than the API server takes.
fn annotations(node: &Node, field: &str, found: &mut Found) {
    texts(node, field, found);
    let mut length = 0usize;
    for entry in node.entries() {
        // The domain in front of a slash may have upper case letters here.
        if !is_label_key(&entry.key.to_lowercase()) {
            let key = quoted(&entry.key);
            found.add(entry.place, field, format!("{key} {KEY_MESSAGE}"));
        }
        length += entry.key.len() + entry.value.text().map_or(0, str::len);
    }
    if length > MAX_ANNOTATIONS {
        let message = format!("must be at most {MAX_ANNOTATIONS} bytes together, not {length}");
        found.add(node.place, field, message);
    }
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
