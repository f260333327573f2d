//! From the tool's fields to ours, with the place of everything that is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Remark, duration,
    fields::{Assumed, Becomes, Object, Shape},
    source::Configuration,
    tree::Tree,
};
use crate::yaml::{Entry, Node, Place, Value};

/// What is wrong is told up to here: more is noise.
const MAX_REFUSALS: usize = 100;
/// Characters of a value that a message repeats.
const MAX_QUOTED: usize = 60;

/// Writes one specification.
pub(super) struct Writer<'a> {
    configuration: &'a Configuration,
    /// Where each field was written, by its path.
    places: BTreeMap<String, Place>,
    pub(super) refusals: Vec<Remark>,
    pub(super) notes: Vec<Remark>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(configuration: &'a Configuration) -> Self {
        Self {
            configuration,
            places: BTreeMap::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Refuses what is at these paths, each with a message.
    pub(super) fn refuse(&mut self, problems: Vec<(String, String)>) {
        for (path, message) in problems {
            let mut nearest = path.as_str();
            let place = loop {
                match (self.places.get(nearest), nearest.rfind(['.', '['])) {
                    (Some(place), _) => break *place,
                    (None, Some(end)) => nearest = nearest.get(..end).unwrap_or_default(),
                    (None, None) => break self.configuration.root.place,
                }
            };
            let path = path.strip_prefix("spec.").unwrap_or(&path);
            self.error(place, format!("{path}: {message}"));
        }
    }

    /// What a mapping becomes.
    pub(super) fn object(&mut self, object: &Object, node: &Node, path: &str) -> Tree {
        self.places.insert(path.to_owned(), node.place);
        let mut written: Vec<(String, Tree)> = Vec::new();
        let mut said = BTreeSet::new();
        // The fields of ours that have a value, refused or not; a null says nothing to Go.
        let mut given = BTreeSet::new();
        if !matches!(node.value, Value::Map(_)) {
            self.unfit(node, path, "a mapping");
        }
        for entry in node.entries() {
            // Go takes a field by its name, whatever its case.
            let known = |name: &str| name.eq_ignore_ascii_case(&entry.key);
            let Some(field) = object.fields.iter().find(|field| known(field.name)) else {
                let names: Vec<&str> = object.fields.iter().map(|field| field.name).collect();
                let message = format!(
                    "unknown field {}: dependency-watchdog has {}",
                    quoted(&entry.key),
                    names.join(", ")
                );
                self.error(entry.place, message);
                continue;
            };
            if !said.insert(field.name) {
                self.error(entry.place, format!("{} is there twice", field.name));
                continue;
            }
            let (name, value) = match &field.becomes {
                Becomes::Nothing(reason) => {
                    self.note(entry, format!("{} is left out: {reason}", field.name));
                    continue;
                }
                // As if it were not there.
                _ if entry.value.is_null() => continue,
                Becomes::Same(shape) => (
                    field.name,
                    self.value(shape, &entry.value, &join(path, field.name)),
                ),
                Becomes::Renamed(name, shape) => {
                    self.note(entry, format!("{} has become {name}", field.name));
                    (*name, self.value(shape, &entry.value, &join(path, name)))
                }
                Becomes::Opposite(name) => {
                    self.note(
                        entry,
                        format!("{} has become {name}, its opposite", field.name),
                    );
                    let value = self.value(&Shape::Bool, &entry.value, &join(path, name));
                    let opposite = value.map(|value| match value {
                        Tree::Bool(value) => Tree::Bool(!value),
                        value => value,
                    });
                    (*name, opposite)
                }
            };
            if !given.insert(name) {
                self.error(
                    entry.place,
                    format!("{name} is there under two names: keep one"),
                );
            }
            written.extend(value.map(|value| (name.to_owned(), value)));
        }
        for (name, assumed) in object.assumed {
            if !given.contains(name) {
                let value = match assumed {
                    Assumed::False => Tree::Bool(false),
                    Assumed::Zero => Tree::Int(0),
                };
                written.push(((*name).to_owned(), value));
            }
        }
        for (name, remedy) in object.required {
            if !given.contains(name) {
                self.error(
                    node.place,
                    format!("{} is missing: {remedy}", below(path, name)),
                );
            }
        }
        Tree::Map(written)
    }

    /// What a value becomes; `None` if it was refused.
    fn value(&mut self, shape: &Shape, node: &Node, path: &str) -> Option<Tree> {
        if self.refusals.len() >= MAX_REFUSALS {
            return None;
        }
        self.places.insert(path.to_owned(), node.place);
        match (shape, &node.value) {
            (Shape::Bool, Value::Bool(value)) => Some(Tree::Bool(*value)),
            (Shape::Number, Value::Float(value)) if value.is_finite() => Some(Tree::Float(*value)),
            (Shape::Integer | Shape::Number, Value::Int(value)) => match i32::try_from(*value) {
                Ok(value) => Some(Tree::Int(value.into())),
                Err(_) => {
                    let message = format!("must be a whole number of 32 bits, not {value}");
                    self.error(node.place, format!("{}: {message}", short(path)));
                    None
                }
            },
            (Shape::Word(words), Value::Text(text)) if !words.contains(&text.text.as_str()) => {
                let message = format!("must be one of {}", words.join(", "));
                self.error(node.place, format!("{}: {message}", short(path)));
                None
            }
            (Shape::Text | Shape::Word(_), Value::Text(text)) => {
                Some(Tree::Text(text.text.clone()))
            }
            // Go's reader makes a string of it, where one is due.
            (Shape::Text, Value::Bool(value)) => Some(Tree::Text(value.to_string())),
            (Shape::Text, Value::Int(value)) => Some(Tree::Text(value.to_string())),
            (Shape::Duration, Value::Text(text)) => match duration::convert(&text.text) {
                Ok(written) => {
                    if written != text.text {
                        let message =
                            format!("{}: {} is written as {written}", short(path), text.text);
                        self.say(node.place, message);
                    }
                    Some(Tree::Text(written))
                }
                Err(error) => {
                    let message = format!("{}: {error}", short(path));
                    self.error(node.place, message);
                    None
                }
            },
            (Shape::List(each), Value::List(items)) => {
                let items = items.iter().enumerate();
                let items = items.filter_map(|(index, item)| {
                    self.value(each, item, &format!("{path}[{index}]"))
                });
                Some(Tree::List(items.collect()))
            }
            (Shape::Map(each), Value::Map(entries)) => Some(self.map(each, entries, path)),
            (Shape::Object(object), Value::Map(_)) => Some(self.object(object, node, path)),
            (Shape::Duration, _) => self.unfit(node, path, "a duration with its unit, such as 30s"),
            (Shape::Text | Shape::Word(_), _) => self.unfit(node, path, "a string"),
            (Shape::Number, _) => self.unfit(node, path, "a number"),
            (Shape::Integer, _) => self.unfit(node, path, "a whole number"),
            (Shape::Bool, _) => self.unfit(node, path, "true or false"),
            (Shape::List(_), _) => self.unfit(node, path, "a list"),
            (Shape::Map(_) | Shape::Object(_), _) => self.unfit(node, path, "a mapping"),
        }
    }

    fn map(&mut self, each: &Shape, entries: &[Entry], path: &str) -> Tree {
        let mut written = Vec::new();
        let mut said = BTreeSet::new();
        for entry in entries {
            if !said.insert(entry.key.as_str()) {
                let key = quoted(&entry.key);
                self.error(
                    entry.place,
                    format!("{}: {key} is there twice", short(path)),
                );
            }
            let value = self.value(each, &entry.value, &join(path, &entry.key));
            written.extend(value.map(|value| (entry.key.clone(), value)));
        }
        Tree::Map(written)
    }

    fn unfit(&mut self, node: &Node, path: &str, expected: &str) -> Option<Tree> {
        let path = short(path);
        self.error(
            node.place,
            format!("{path}: must be {expected}, not {}", node.kind()),
        );
        None
    }

    fn note(&mut self, entry: &Entry, message: String) {
        self.say(entry.place, message);
    }

    fn say(&mut self, place: Place, message: String) {
        self.notes.push(Remark {
            place: Some(self.configuration.place(place)),
            message,
        });
    }

    fn error(&mut self, place: Place, message: String) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push(Remark {
                place: Some(self.configuration.place(place)),
                message,
            });
        }
    }
}

fn join(path: &str, name: &str) -> String {
    format!("{path}.{name}")
}

/// A path as the configuration has it, which knows no `spec`; not longer than a message bears.
fn short(path: &str) -> String {
    let path = path.strip_prefix("spec.").unwrap_or(path);
    path.chars().take(4 * MAX_QUOTED).collect()
}

fn below(path: &str, name: &str) -> String {
    short(&join(path, name))
}

fn quoted(text: &str) -> String {
    let start: String = text.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}
