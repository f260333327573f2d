//! YAML and JSON as people write them, with the place of everything that is said.
//!
//! What is read here comes from files that nobody has looked at yet: every message about it names
//! line and column, and no input costs more memory than the limits below allow. Words and numbers
//! are told apart as kubectl and the Go tools do, by YAML 1.1 (`on` is a boolean), so that a file
//! means here what it will mean on the API server.

mod build;
mod embedded;
mod scalar;

use std::{fmt, rc::Rc};

use serde::Serialize;

pub use build::{Documents, documents};
pub use embedded::{Embedded, Shift};

/// The longest text that is read, in bytes: ten times what the API server takes as one object.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The most nodes of one document, those that aliases repeat counted again and again. What these
/// repeat and what is merged has at most [`MAX_BYTES`].
pub const MAX_NODES: usize = 500_000;
/// How deep a document nests at most.
pub const MAX_DEPTH: usize = 128;

/// A place in a text, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A value and where it stands.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// What it is.
    pub value: Value,
    /// How many nodes it consists of, itself included.
    size: usize,
    /// How many bytes its texts and keys have.
    bytes: usize,
}

/// What a node is.
#[derive(Debug)]
pub enum Value {
    /// Nothing: `null`, `~` or no value at all.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(Text),
    /// A list.
    List(Vec<Rc<Node>>),
    /// A mapping, in the order in which it was written.
    Map(Vec<Entry>),
}

/// A text, and whether it is a literal block (`|`), whose lines are lines of the file.
#[derive(Debug)]
pub struct Text {
    /// The text itself.
    pub text: String,
    /// Whether it was written as a literal block.
    pub literal: bool,
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// The value.
    pub value: Rc<Node>,
}

/// Why a text is not read, or no further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// Where.
    pub place: Place,
    /// What is wrong there.
    pub message: String,
}

impl Node {
    fn new(place: Place, value: Value) -> Self {
        let (mut size, mut bytes) = (1usize, 0usize);
        let mut add = |node: &Node| {
            size = size.saturating_add(node.size);
            bytes = bytes.saturating_add(node.bytes);
        };
        match &value {
            Value::List(items) => items.iter().for_each(|item| add(item)),
            Value::Map(entries) => entries.iter().for_each(|entry| add(&entry.value)),
            _ => {}
        }
        let texts = match &value {
            Value::Text(text) => text.text.len(),
            Value::Map(entries) => entries.iter().map(|entry| entry.key.len()).sum(),
            _ => 0,
        };
        Self {
            place,
            value,
            size,
            bytes: bytes.saturating_add(texts),
        }
    }

    /// The value under a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &*entry.value)
    }

    /// The text under a key, if there is a text.
    pub fn text_at(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Node::text)
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// The entries, if it is a mapping that has some.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items, if it is a list that has some.
    pub fn items(&self) -> &[Rc<Node>] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// What it is, in the words of a schema.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests;
