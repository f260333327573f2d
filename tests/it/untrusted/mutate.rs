//! Inputs that are nearly right: valid documents with some things changed, and written in one of the
//! many ways in which the same can be written.

use std::collections::BTreeSet;

use proptest::{
    prelude::*,
    sample::{Index, select},
};
use serde_json::Value;

/// What stands where it should not, as JSON.
const ODD: &[&str] = &[
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e400",
    "18446744073709551616",
    "-9223372036854775809",
    "2147483648",
    "[]",
    "{}",
    "[null]",
    "[[[[[[[[[[[[]]]]]]]]]]]]",
    r#"{"":{"":{"":[]}}}"#,
    r#""""#,
    r#"" ""#,
    r#""0""#,
    r#""1""#,
    r#""-1""#,
    r#""true""#,
    r#""T""#,
    r#""True""#,
    r#""5s""#,
    r#""1h-5m""#,
    r#""99999h99999h99999h99999h""#,
    r#""9999999999999999h""#,
    r#""2026-11-20T11:02:33Z""#,
    r#""2026-11-20T11:02:33.999999999+14:00""#,
    r#""-009999-01-01T00:00:00Z""#,
    r#""9999-12-31T23:59:60Z""#,
    r#""18446744073709551615""#,
    r#""18446744073709551616""#,
    r#""\u0000""#,
    r#""\ud800""#,
    r#""\ud83d\ude00""#,
    "\"\u{202e}\u{feff}\"",
    r#""https://[::1]:99999/?#@""#,
    r#""../../etc/passwd""#,
    r#""LS0tLS1CRUdJTg==""#,
];

/// A document that can say a key twice.
#[derive(Clone, Debug)]
enum Doc {
    /// As it is written.
    Scalar(String),
    /// A mapping, whose keys are not escaped yet; or a list, whose keys are empty.
    Many(bool, Vec<(String, Doc)>),
}

/// Something that is done to a document, somewhere.
#[derive(Clone, Debug)]
enum Change {
    /// Something odd takes its place.
    Replace(Index, String),
    /// It is left out.
    Remove(Index),
    /// An item of a list, or a key with its value, is said twice.
    Repeat(Index),
    /// A key is said again, with something odd.
    Contradict(Index, String),
    /// A key that nobody knows.
    Add(Index, String),
}

/// A document with changes, and whether a key is said twice in it.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    /// As it is written.
    pub(crate) text: String,
    /// Whether some key is said twice in a mapping.
    pub(crate) repeats: bool,
}

/// One of these documents with up to so many changes.
pub(crate) fn changed(seeds: Vec<Value>, most: usize) -> impl Strategy<Value = Changed> {
    let changes = prop::collection::vec(change(), 0..=most);
    (select(seeds), changes, any::<u64>()).prop_map(|(seed, changes, style)| {
        let mut doc = Doc::of(&seed);
        for change in &changes {
            doc.change(change);
        }
        Changed {
            text: doc.written(&mut fastrand::Rng::with_seed(style)),
            repeats: doc.repeats(),
        }
    })
}

/// The same, or a piece of it, or with other bytes somewhere.
pub(crate) fn bytes(seeds: Vec<Value>, most: usize) -> impl Strategy<Value = Vec<u8>> {
    let text = changed(seeds, most).prop_map(|it| it.text.into_bytes());
    garbled(text)
}

/// One of these texts with pieces cut out, said twice, or replaced by words that mean something.
pub(crate) fn text(
    seeds: Vec<String>,
    words: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let cut = (any::<Index>(), 0..40usize, 0..3usize, select(words));
    (select(seeds), prop::collection::vec(cut, 0..6)).prop_map(|(mut text, cuts)| {
        for (at, length, times, word) in cuts {
            let chars: Vec<char> = text.chars().collect();
            let begin = at.index(chars.len() + 1);
            let end = chars.len().min(begin + length);
            let piece: String = chars[begin..end].iter().collect();
            let (head, tail) = (&chars[..begin], &chars[end..]);
            text = head.iter().collect();
            text += &piece.repeat(times);
            text += word;
            text.extend(tail);
        }
        text
    })
}

/// Bytes of which a few are others, or the end is missing.
pub(crate) fn garbled(whole: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let flips = prop::collection::vec((any::<Index>(), any::<u8>()), 0..3);
    (whole, flips, prop::option::weighted(0.1, any::<Index>())).prop_map(
        |(mut bytes, flips, end)| {
            for (at, byte) in flips {
                if !bytes.is_empty() {
                    let at = at.index(bytes.len());
                    bytes[at] = byte;
                }
            }
            if let Some(end) = end {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            bytes
        },
    )
}

fn odd() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(ODD).prop_map(str::to_owned),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => "\\PC{0,12}".prop_map(|text| Value::from(text).to_string()),
        1 => (1..3_000usize).prop_map(|length| format!("\"{}\"", "x".repeat(length))),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (any::<Index>(), odd()).prop_map(|(at, odd)| Change::Replace(at, odd)),
        2 => any::<Index>().prop_map(Change::Remove),
        1 => any::<Index>().prop_map(Change::Repeat),
        1 => (any::<Index>(), odd()).prop_map(|(at, odd)| Change::Contradict(at, odd)),
        1 => (any::<Index>(), odd()).prop_map(|(at, odd)| Change::Add(at, odd)),
    ]
}

impl Doc {
    /// The document as it is meant.
    fn of(value: &Value) -> Self {
        let item = |value| (String::new(), Self::of(value));
        match value {
            Value::Array(items) => Self::Many(false, items.iter().map(item).collect()),
            Value::Object(entries) => {
                let entry = |(key, value): (&String, &Value)| (key.clone(), Self::of(value));
                Self::Many(true, entries.iter().map(entry).collect())
            }
            scalar => Self::Scalar(scalar.to_string()),
        }
    }

    fn entries(&self) -> &[(String, Self)] {
        match self {
            Self::Scalar(_) => &[],
            Self::Many(_, entries) => entries,
        }
    }

    fn repeats(&self) -> bool {
        let keys: BTreeSet<&str> = self.entries().iter().map(|it| it.0.as_str()).collect();
        let twice = matches!(self, Self::Many(true, entries) if keys.len() < entries.len());
        twice || self.entries().iter().any(|it| it.1.repeats())
    }

    fn count(&self) -> usize {
        1 + self.entries().iter().map(|it| it.1.count()).sum::<usize>()
    }

    fn change(&mut self, change: &Change) {
        let (Change::Replace(at, _)
        | Change::Remove(at)
        | Change::Repeat(at)
        | Change::Contradict(at, _)
        | Change::Add(at, _)) = change;
        let mut at = at.index(self.count());
        if at == 0 {
            // The document itself has nothing around it.
            match change {
                Change::Replace(_, odd) => *self = Self::Scalar(odd.clone()),
                Change::Add(_, odd) => self.add(odd),
                _ => {}
            }
            return;
        }
        self.change_below(&mut at, change);
    }

    /// Changes what is so many behind this one; whether it was below.
    fn change_below(&mut self, at: &mut usize, change: &Change) -> bool {
        let Self::Many(_, entries) = self else {
            return false;
        };
        for index in 0..entries.len() {
            *at -= 1;
            if *at == 0 {
                match change {
                    Change::Replace(_, odd) => entries[index].1 = Self::Scalar(odd.clone()),
                    Change::Remove(_) => drop(entries.remove(index)),
                    Change::Repeat(_) => entries.push(entries[index].clone()),
                    Change::Contradict(_, odd) => {
                        let key = entries[index].0.clone();
                        entries.push((key, Self::Scalar(odd.clone())));
                    }
                    Change::Add(_, odd) => entries[index].1.add(odd),
                }
                return true;
            }
            if entries[index].1.change_below(at, change) {
                return true;
            }
        }
        false
    }

    fn add(&mut self, odd: &str) {
        if let Self::Many(_, entries) = self {
            entries.insert(0, ("unknown".to_owned(), Self::Scalar(odd.to_owned())));
        }
    }

    /// In JSON, with white space and escapes as they fall.
    fn written(&self, style: &mut fastrand::Rng) -> String {
        let mut out = String::new();
        self.write(style, &mut out);
        out
    }

    fn write(&self, style: &mut fastrand::Rng, out: &mut String) {
        space(style, out);
        match self {
            Self::Scalar(text) => {
                match text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
                    Some(inner) if !inner.contains('\\') && style.u8(..8) == 0 => {
                        string(inner, style, out);
                    }
                    _ => out.push_str(text),
                }
            }
            Self::Many(keyed, entries) => {
                let [open, close] = if *keyed { ['{', '}'] } else { ['[', ']'] };
                out.push(open);
                for (index, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    if *keyed {
                        space(style, out);
                        string(key, style, out);
                        out.push(':');
                    }
                    value.write(style, out);
                }
                out.push(close);
            }
        }
        space(style, out);
    }
}

fn space(style: &mut fastrand::Rng, out: &mut String) {
    if style.u8(..20) == 0 {
        out.push_str([" ", "\n", "\t", " \r\n"][style.usize(..4)]);
    }
}

fn string(text: &str, style: &mut fastrand::Rng, out: &mut String) {
    let escape = style.u8(..10) == 0;
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') || letter < ' ' || escape && style.bool() {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(letter);
        }
    }
    out.push('"');
}
