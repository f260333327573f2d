//! From the events of the parser to nodes, within the limits.

use std::{collections::HashMap, rc::Rc};

use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle, StrInput, Tag};

use super::{Entry, MAX_BYTES, MAX_DEPTH, MAX_NODES, Node, Place, Text, Value, YamlError, scalar};

/// A byte order mark, which some editors put in front.
const MARK: char = '\u{feff}';

/// The documents of a text, one after the other, up to the first that cannot be read.
pub struct Documents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    refused: Option<YamlError>,
    /// Whether a document was read already.
    begun: bool,
    over: bool,
}

/// Reads the documents of a text.
pub fn documents(text: &str) -> Documents<'_> {
    let refused = (text.len() > MAX_BYTES).then(|| {
        let message = format!("longer than {} MiB, which is not read", MAX_BYTES >> 20);
        error(Place { line: 1, column: 1 }, message)
    });
    let options = granit_parser::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    Documents {
        parser: Parser::new_from_str_with_options(text.strip_prefix(MARK).unwrap_or(text), options),
        refused,
        begun: false,
        over: false,
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Rc<Node>, YamlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let refused = self.refused.take();
        let next = refused.map_or_else(|| self.document(), Err);
        self.over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

impl Documents<'_> {
    fn document(&mut self) -> Result<Option<Rc<Node>>, YamlError> {
        let mut builder = Builder::default();
        loop {
            let Some(event) = self.parser.next_event() else {
                return Ok(None);
            };
            let (event, span) = event.map_err(|it| error(place(it.marker()), it.info()))?;
            match event {
                Event::StreamEnd => return Ok(None),
                // Go's readers would not see what follows, and not say so.
                Event::DocumentStart(false, _) if self.begun => {
                    let message = "a document after the first must begin with ---: kubectl passes \
                                   over what does not";
                    return Err(error(place(&span.start), message));
                }
                Event::DocumentStart(..) => self.begun = true,
                Event::DocumentEnd => return Ok(builder.root.take()),
                event => builder.take(event, place(&span.start))?,
            }
        }
    }
}

fn error(place: Place, message: impl Into<String>) -> YamlError {
    YamlError {
        place,
        message: message.into(),
    }
}

fn place(marker: &Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col() + 1,
    }
}

/// A document that is being read.
#[derive(Default)]
struct Builder {
    root: Option<Rc<Node>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<Node>>,
    /// How many nodes there are, those that aliases repeat counted again.
    nodes: usize,
    /// How many bytes of texts and keys aliases repeat and merges copy.
    repeated: usize,
}

/// A collection whose end has not come.
struct Open {
    place: Place,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Rc<Node>>),
    Map(Mapping),
}

#[derive(Default)]
struct Mapping {
    entries: Vec<Entry>,
    /// Mappings that a key `<<` names, each with the number of entries before it.
    merged: Vec<(usize, Rc<Node>)>,
    key: Option<Key>,
}

struct Key {
    text: String,
    place: Place,
    merges: bool,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: Place) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.count(1, place)?;
                if self.awaits_key() {
                    let key = key(&text, style, place);
                    self.remember(anchor, &Rc::new(Node::new(place, scalar::text(&key.text))));
                    self.set_key(key);
                    return Ok(());
                }
                let value = value(&text, style, tag.as_deref())
                    .ok_or_else(|| error(place, "the value is not what its tag says"))?;
                self.put(Rc::new(Node::new(place, value)), anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(place, anchor, Kind::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => {
                self.begin(place, anchor, Kind::Map(Mapping::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => {
                    let value = match open.kind {
                        Kind::List(items) => Value::List(items),
                        Kind::Map(mapping) => Value::Map(mapping.merge()),
                    };
                    self.put(Rc::new(Node::new(open.place, value)), open.anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| error(place, "an alias of what it stands in"))?;
                self.count(node.size, place)?;
                self.repeat(&node, place)?;
                if self.awaits_key() {
                    let text = node
                        .text()
                        .ok_or_else(|| error(place, "a key must be a string"))?;
                    // What an alias repeats is a string, however it was written.
                    self.set_key(key(text, ScalarStyle::DoubleQuoted, place));
                    return Ok(());
                }
                self.put(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, place: Place, anchor: usize, kind: Kind) -> Result<(), YamlError> {
        if self.awaits_key() {
            return Err(error(place, "a key must be a string"));
        }
        self.count(1, place)?;
        self.open.push(Open {
            place,
            anchor,
            kind,
        });
        Ok(())
    }

    /// Puts a complete node where it belongs.
    fn put(&mut self, node: Rc<Node>, anchor: usize) -> Result<(), YamlError> {
        self.remember(anchor, &node);
        let merges = |open: &Open| matches!(&open.kind, Kind::Map(it) if it.merges());
        if self.open.last().is_some_and(merges) {
            self.repeat(&node, node.place)?;
        }
        match self.open.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(Kind::List(items)) => items.push(node),
            Some(Kind::Map(mapping)) => match mapping.key.take() {
                Some(key) if key.merges => {
                    let before = mapping.entries.len();
                    let merged = mergeable(key.place, node)?.into_iter();
                    mapping.merged.extend(merged.map(|node| (before, node)));
                }
                Some(key) => mapping.entries.push(Entry {
                    key: key.text,
                    place: key.place,
                    value: node,
                }),
                None => {}
            },
        }
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last().map(|open| &open.kind), Some(Kind::Map(it)) if it.key.is_none())
    }

    fn set_key(&mut self, key: Key) {
        if let Some(Kind::Map(mapping)) = self.open.last_mut().map(|open| &mut open.kind) {
            mapping.key = Some(key);
        }
    }

    fn remember(&mut self, anchor: usize, node: &Rc<Node>) {
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(node));
        }
    }

    fn repeat(&mut self, node: &Node, place: Place) -> Result<(), YamlError> {
        self.repeated = self.repeated.saturating_add(node.bytes);
        if self.repeated <= MAX_BYTES {
            return Ok(());
        }
        let most = MAX_BYTES >> 20;
        let message = format!("what aliases repeat is longer than {most} MiB, which is not read");
        Err(error(place, message))
    }

    fn count(&mut self, more: usize, place: Place) -> Result<(), YamlError> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        let message = format!(
            "a document of more than {MAX_NODES} values, counting what aliases repeat, which is not read"
        );
        Err(error(place, message))
    }
}

impl Mapping {
    /// Whether the value that comes next is merged.
    fn merges(&self) -> bool {
        self.key.as_ref().is_some_and(|key| key.merges)
    }

    /// The entries, with those of merged mappings. As kubectl and Go's tools read it, the last to say
    /// counts: what is merged after a key replaces it, other than in the specification of YAML. A
    /// key that the mapping itself has twice stays so.
    fn merge(self) -> Vec<Entry> {
        if self.merged.is_empty() {
            return self.entries;
        }
        let mut merged = self.merged.into_iter().peekable();
        let mut entries: Vec<Entry> = Vec::new();
        // Where a key stands in these, and whether the mapping has it itself.
        let mut said: HashMap<String, (usize, bool)> = HashMap::new();
        let mut say = |entry: Entry, own: bool| match said.get_mut(&entry.key) {
            Some((_, true)) if own => entries.push(entry),
            Some((index, itself)) => {
                *itself |= own;
                if let Some(before) = entries.get_mut(*index) {
                    *before = entry;
                }
            }
            None => {
                said.insert(entry.key.clone(), (entries.len(), own));
                entries.push(entry);
            }
        };
        for (index, entry) in self.entries.into_iter().enumerate() {
            while let Some((_, node)) = merged.next_if(|(before, _)| *before == index) {
                node.entries().iter().for_each(|it| say(it.clone(), false));
            }
            say(entry, true);
        }
        for (_, node) in merged {
            node.entries().iter().for_each(|it| say(it.clone(), false));
        }
        entries
    }
}

/// The mappings that stand under a key `<<`, the first of a list last: it counts most.
fn mergeable(place: Place, node: Rc<Node>) -> Result<Vec<Rc<Node>>, YamlError> {
    let mappings = match &node.value {
        Value::List(items) => items.iter().rev().cloned().collect(),
        _ => vec![node],
    };
    if mappings.iter().all(|it| matches!(it.value, Value::Map(_))) {
        return Ok(mappings);
    }
    Err(error(place, "<< takes mappings"))
}

/// A key as JSON has it, where every key is a string.
fn key(text: &str, style: ScalarStyle, place: Place) -> Key {
    let plain = style == ScalarStyle::Plain;
    let text = match scalar::plain(text) {
        Value::Bool(value) if plain => value.to_string(),
        Value::Int(value) if plain => value.to_string(),
        _ => text.to_owned(),
    };
    Key {
        merges: plain && text == "<<",
        text,
        place,
    }
}

/// What a scalar means; `None` if its tag says something else.
fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Option<Value> {
    let written = || {
        Value::Text(Text {
            text: text.to_owned(),
            literal: style == ScalarStyle::Literal,
        })
    };
    match tag.map(Tag::core_suffix) {
        None if style == ScalarStyle::Plain => Some(scalar::plain(text)),
        None | Some(None) => Some(written()),
        Some(Some(core)) => match (core, scalar::plain(text)) {
            ("float", Value::Int(int)) => Some(Value::Float(int as f64)),
            ("float", value @ Value::Float(_))
            | ("int", value @ Value::Int(_))
            | ("bool", value @ Value::Bool(_))
            | ("null", value @ Value::Null) => Some(value),
            ("float" | "int" | "bool" | "null", _) => None,
            _ => Some(written()),
        },
    }
}
