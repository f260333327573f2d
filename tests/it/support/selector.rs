//! Label selectors as they come in the query of a request.

use serde_json::Value;

/// What a label selector requires.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(Vec<Requirement>);

#[derive(Clone, Debug)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Labels {
    /// Of a selector's text, with its escapes.
    pub(super) fn parse(text: &str) -> Self {
        let text = decode(text);
        let mut parts = Vec::new();
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in text.char_indices() {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(&text[start..at]);
                    start = at + 1;
                }
                _ => {}
            }
        }
        parts.push(&text[start..]);
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        Self(parts.map(requirement).collect())
    }

    /// Whether an object has such labels.
    pub(super) fn match_object(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str();
        let among = |key: &str, values: &[String]| {
            label(key).is_some_and(|label| values.iter().any(|value| value == label))
        };
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => among(key, values),
            Requirement::NotIn(key, values) => !among(key, values),
            Requirement::Exists(key) => label(key).is_some(),
            Requirement::Absent(key) => label(key).is_none(),
        })
    }
}

fn requirement(text: &str) -> Requirement {
    let values = |list: &str| {
        let list = list.trim_start_matches('(').trim_end_matches(')');
        list.split(',').map(str::to_owned).collect()
    };
    if let Some((key, list)) = text.split_once(" notin ") {
        Requirement::NotIn(key.to_owned(), values(list))
    } else if let Some((key, list)) = text.split_once(" in ") {
        Requirement::In(key.to_owned(), values(list))
    } else if let Some((key, value)) = text.split_once("!=") {
        Requirement::NotIn(key.to_owned(), vec![value.to_owned()])
    } else if let Some((key, value)) = text.split_once('=') {
        Requirement::In(key.to_owned(), vec![value.to_owned()])
    } else if let Some(key) = text.strip_prefix('!') {
        Requirement::Absent(key.to_owned())
    } else {
        Requirement::Exists(text.to_owned())
    }
}

/// Undoes the escapes of a query.
pub(super) fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap();
                u8::from_str_radix(digits, 16).unwrap()
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}
