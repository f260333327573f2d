//! What a list or a watch asks for.

use super::{Call, Key};
use crate::{kinds::Kind, refusal::Refusal};
use serde_json::Value;

/// A selection of the objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Select {
    plural: String,
    /// All, if it is empty.
    namespace: String,
    labels: Vec<Requirement>,
    /// Pointers to fields, with what they must be or not be.
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Select {
    /// Every object of a kind.
    pub fn all(plural: &str) -> Self {
        Self {
            plural: plural.to_owned(),
            ..Self::default()
        }
    }

    /// The selection of a list or a watch.
    ///
    /// # Errors
    ///
    /// If it selects by a field that cannot be selected by.
    pub fn of(call: &Call) -> Result<Self, Refusal> {
        let kind = Kind::find(&call.plural);
        let known = kind.map_or(&[][..], |kind| kind.fields);
        let mut fields = Vec::new();
        let wanted = call.parameter("fieldSelector").unwrap_or_default();
        for part in wanted.split(',').filter(|part| !part.is_empty()) {
            let (field, value) = part.split_once('=').unwrap_or((part, ""));
            let (field, equal) = match field.strip_suffix('!') {
                Some(field) => (field, false),
                None => (field, true),
            };
            if !["metadata.name", "metadata.namespace"].contains(&field) && !known.contains(&field)
            {
                let message = match kind.is_some_and(|kind| kind.custom || !known.is_empty()) {
                    true => format!("field label not supported: {field}"),
                    false => format!(
                        "{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    ),
                };
                return Err(Refusal::new(400, message));
            }
            let pointer = format!("/{}", field.replace('.', "/"));
            fields.push((pointer, equal, value.trim_start_matches('=').to_owned()));
        }
        Ok(Self {
            plural: call.plural.clone(),
            namespace: call.namespace.clone(),
            labels: labels(call.parameter("labelSelector").unwrap_or_default()),
            fields,
        })
    }

    /// The kind.
    pub(crate) fn plural(&self) -> &str {
        &self.plural
    }

    /// Whether all objects of the kind in the namespace are selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub fn matches(&self, key: &Key, object: &Value) -> bool {
        self.plural == key.plural
            && (self.namespace.is_empty() || self.namespace == key.namespace)
            && self.fields.iter().all(|(pointer, equal, wanted)| {
                let value = object.pointer(pointer).and_then(Value::as_str);
                (value.unwrap_or_default() == wanted) == *equal
            })
            && self.labels.iter().all(|it| it.holds(object))
    }
}

impl Requirement {
    fn holds(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
        let among = |key: &str, values: &[String]| {
            label(key).is_some_and(|label| values.iter().any(|value| value == label))
        };
        match self {
            Self::In(key, values) => among(key, values),
            Self::NotIn(key, values) => !among(key, values),
            Self::Exists(key) => label(key).is_some(),
            Self::Absent(key) => label(key).is_none(),
        }
    }
}

/// The requirements of a label selector.
fn labels(text: &str) -> Vec<Requirement> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let parts = parts.iter().map(|part| part.trim());
    parts
        .filter(|part| !part.is_empty())
        .map(requirement)
        .collect()
}

fn requirement(text: &str) -> Requirement {
    let values = |list: &str| {
        let list = list.trim().trim_matches(['(', ')']);
        list.split(',').map(|it| it.trim().to_owned()).collect()
    };
    let key = |key: &str| key.trim().to_owned();
    if let Some((name, list)) = text.split_once(" notin ") {
        Requirement::NotIn(key(name), values(list))
    } else if let Some((name, list)) = text.split_once(" in ") {
        Requirement::In(key(name), values(list))
    } else if let Some((name, value)) = text.split_once("!=") {
        Requirement::NotIn(key(name), vec![key(value)])
    } else if let Some((name, value)) = text.split_once('=') {
        Requirement::In(key(name), vec![key(value.trim_start_matches('='))])
    } else if let Some(name) = text.strip_prefix('!') {
        Requirement::Absent(key(name))
    } else {
        Requirement::Exists(key(text))
    }
}
