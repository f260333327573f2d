//! Finds configurations in a file: as the file itself, or in ConfigMaps.

use std::rc::Rc;

use super::{Part, Remark, fields};
use crate::yaml::{self, Embedded, Node, Place, Value};

/// More in one file were never deployed, and each is read several times.
const MAX_CONFIGURATIONS: usize = 100;

/// A configuration of the tool.
pub(super) struct Configuration {
    pub(super) part: Part,
    pub(super) root: Rc<Node>,
    /// The name of its ConfigMap.
    pub(super) name: Option<String>,
    /// Where the text of a ConfigMap stands in the file.
    shift: yaml::Shift,
}

/// What a mapping is, by its fields.
enum Kind {
    Known(Part),
    /// A format that the tool gave up long ago.
    First,
}

impl Configuration {
    /// Where in the file a node of the configuration is.
    pub(super) fn place(&self, inner: Place) -> Place {
        self.shift.place(inner)
    }

    /// Says something about the configuration as a whole.
    pub(super) fn remark(&self, message: String) -> Remark {
        Remark {
            place: Some(self.place(self.root.place)),
            message,
        }
    }
}

/// The configurations in a text.
pub(super) fn configurations(text: &str) -> Result<Vec<Configuration>, Vec<Remark>> {
    let mut search = Search {
        file: text,
        found: Vec::new(),
        refused: Vec::new(),
        embedded: 0,
    };
    for document in yaml::documents(text) {
        match document {
            Ok(document) => search.document(&document),
            Err(error) => search.refused.push(error.into()),
        }
        if search.is_full() {
            break;
        }
    }
    if search.is_full() {
        return Err(vec![Remark {
            place: None,
            message: format!(
                "there are more than {MAX_CONFIGURATIONS} configurations in this: convert them \
                 in smaller files"
            ),
        }]);
    }
    match (search.refused.is_empty(), search.found.is_empty()) {
        (true, false) => Ok(search.found),
        (true, true) => Err(vec![Remark {
            place: None,
            message:
                "there is no configuration of Gardener's dependency-watchdog in this: neither \
                      a file nor a ConfigMap with a data key that has dependentResourceInfos (of \
                      the prober) or servicesAndDependantSelectors (of the weeder)"
                    .to_owned(),
        }]),
        (false, _) => Err(search.refused),
    }
}

struct Search<'a> {
    file: &'a str,
    found: Vec<Configuration>,
    refused: Vec<Remark>,
    /// The bytes of texts in ConfigMaps that were read: aliases can repeat one without end.
    embedded: usize,
}

impl Search<'_> {
    /// Whether there is more than is converted.
    fn is_full(&self) -> bool {
        self.found.len() + self.refused.len() > MAX_CONFIGURATIONS
    }

    fn document(&mut self, node: &Rc<Node>) {
        match node.text_at("kind") {
            Some("ConfigMap") => self.config_map(node),
            Some(kind) if kind.ends_with("List") => {
                for item in node.get("items").map(Node::items).unwrap_or_default() {
                    self.document(item);
                }
            }
            // An object of another kind, which may stand beside it.
            Some(_) => {}
            None => self.configuration(node, || yaml::Shift::NONE, None),
        }
    }

    fn config_map(&mut self, node: &Node) {
        let name = node.get("metadata").and_then(|it| it.text_at("name"));
        for entry in node.get("data").map(Node::entries).unwrap_or_default() {
            let Some(embedded) = Embedded::of(self.file, &entry.value) else {
                continue;
            };
            self.embedded = self.embedded.saturating_add(embedded.text.len());
            if self.embedded > yaml::MAX_BYTES {
                return self.refused.push(Remark {
                    place: Some(entry.place),
                    message: format!(
                        "with this the data of ConfigMaps, counting what aliases repeat, is longer \
                         than {} MiB, which is not read",
                        yaml::MAX_BYTES >> 20
                    ),
                });
            }
            for document in yaml::documents(embedded.text) {
                if self.is_full() {
                    return;
                }
                match document {
                    Ok(document) => self.configuration(&document, || embedded.shift(), name),
                    // What is no YAML may be something else, unless it speaks of it.
                    Err(error) if fields::MARKS.iter().any(|it| embedded.text.contains(it)) => {
                        let place = embedded.shift().place(error.place);
                        self.refused.push(yaml::YamlError { place, ..error }.into());
                    }
                    Err(_) => {}
                }
            }
        }
    }

    fn configuration(
        &mut self,
        root: &Rc<Node>,
        shift: impl FnOnce() -> yaml::Shift,
        name: Option<&str>,
    ) {
        match recognise(root) {
            Some(Kind::Known(part)) => self.found.push(Configuration {
                part,
                root: Rc::clone(root),
                name: name.map(str::to_owned),
                shift: shift(),
            }),
            Some(Kind::First) => self.refused.push(Remark {
                place: Some(shift().place(root.place)),
                message: "this is the format of the tool's first versions (probes with \
                          dependantScales, services with dependantPods), whose fields have no \
                          counterparts: write the configuration of a current version, or a policy, \
                          and see docs/policy.md"
                    .to_owned(),
            }),
            None => {}
        }
    }
}

fn recognise(node: &Node) -> Option<Kind> {
    let has = |names: &[&str]| {
        let known = |key: &str| names.iter().any(|name| name.eq_ignore_ascii_case(key));
        node.entries().iter().any(|entry| known(&entry.key))
    };
    let first = |name: &str, field: &str| {
        let below = |node: &Node| node.get(field).is_some();
        node.get(name).is_some_and(|it| match &it.value {
            Value::List(items) => items.iter().any(|item| below(item)),
            _ => it.entries().iter().any(|entry| below(&entry.value)),
        })
    };
    if has(&fields::PROBER_MARKS) {
        Some(Kind::Known(Part::Prober))
    } else if has(&fields::WEEDER_MARKS) {
        Some(Kind::Known(Part::Weeder))
    } else if first("probes", "dependantScales") || first("services", "dependantPods") {
        Some(Kind::First)
    } else {
        None
    }
}
