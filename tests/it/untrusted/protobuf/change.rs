//! Lists in protobuf, changed in ways that keep their form: a field of another type, twice, elsewhere,
//! left out, of another number, or of another length than it says.

use std::ops::Range;

use jiff::Timestamp;
use proptest::{
    prelude::*,
    sample::{Index, select},
};
use serde_json::Value;

use super::{
    MAGIC,
    schema::{Field, Kind},
};
use crate::untrusted::mutate::garbled;

/// What a field holds on the wire.
#[derive(Clone, Debug)]
enum Tree {
    Number(u64),
    Bytes(Vec<u8>),
    /// So many bytes.
    Fixed(u8),
    Message(Vec<Branch>),
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    field: u32,
    tree: Tree,
    /// What its length is wrong by.
    lie: i8,
}

#[derive(Clone, Debug)]
enum Change {
    Replace(Tree),
    Remove,
    /// It comes once more, behind the others.
    Repeat,
    /// It comes once more, with something else.
    Contradict(Tree),
    /// The next one goes before it.
    Swap,
    Insert(u32, Tree),
    Renumber(u32),
    Lie(i8),
}

/// A list in protobuf.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// Whether bytes were changed without regard to what they are a part of.
    pub(super) garbled: bool,
}

fn branch(field: u32, tree: Tree) -> Branch {
    Branch {
        field,
        tree,
        lie: 0,
    }
}

fn text(field: u32, text: &str) -> Branch {
    branch(field, Tree::Bytes(text.as_bytes().to_vec()))
}

/// The message that says what this object does.
fn message(object: &Value, schema: &[Field]) -> Tree {
    let mut branches = vec![];
    for Field(number, name, kind) in schema {
        let value = &object[name];
        let mut push = |tree| branches.push(branch(*number, tree));
        match kind {
            _ if value.is_null() => {}
            Kind::Text | Kind::Lossy | Kind::Sticky => {
                push(Tree::Bytes(value.as_str().unwrap().as_bytes().to_vec()));
            }
            Kind::Number => push(Tree::Number(value.as_i64().unwrap().cast_unsigned())),
            Kind::Time => {
                let time: Timestamp = value.as_str().unwrap().parse().unwrap();
                let nanos = i64::from(time.subsec_nanosecond());
                let parts = [(1, time.as_second()), (2, nanos)];
                let parts = parts.map(|(at, it)| branch(at, Tree::Number(it.cast_unsigned())));
                push(Tree::Message(parts.into()));
            }
            Kind::Json => push(Tree::Message(vec![text(1, &value.to_string())])),
            Kind::Message(schema) => push(message(value, schema)),
            Kind::List(schema) => {
                for item in value.as_array().unwrap() {
                    push(message(item, schema));
                }
            }
            Kind::Map => {
                for (key, value) in value.as_object().unwrap() {
                    let value = text(2, value.as_str().unwrap());
                    push(Tree::Message(vec![text(1, key), value]));
                }
            }
        }
    }
    Tree::Message(branches)
}

/// A list as an API server wraps it.
pub(super) fn wrapped(list: &Value, schema: &[Field]) -> Vec<Branch> {
    let kind = text(2, list["kind"].as_str().unwrap());
    vec![
        branch(1, Tree::Message(vec![text(1, "v1"), kind])),
        branch(2, message(list, schema)),
        text(3, ""),
        text(4, ""),
    ]
}

pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = vec![];
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub(super) fn written(branches: &[Branch]) -> Vec<u8> {
    let mut bytes = vec![];
    for Branch { field, tree, lie } in branches {
        let mut tag = |kind: u64| bytes.extend(varint(u64::from(*field) << 3 | kind));
        let inner = match tree {
            Tree::Number(number) => {
                tag(0);
                bytes.extend(varint(*number));
                continue;
            }
            Tree::Fixed(length) => {
                tag(if *length == 8 { 1 } else { 5 });
                bytes.extend(vec![7; usize::from(*length)]);
                continue;
            }
            Tree::Bytes(inner) => inner.clone(),
            Tree::Message(branches) => written(branches),
        };
        tag(2);
        let length = (inner.len() as u64).saturating_add_signed((*lie).into());
        bytes.extend(varint(length));
        bytes.extend(inner);
    }
    bytes
}

fn count(branches: &[Branch]) -> usize {
    let below = branches.iter().map(|it| match &it.tree {
        Tree::Message(inner) => count(inner),
        _ => 0,
    });
    branches.len() + below.sum::<usize>()
}

/// Changes what is so many behind the first of these; whether it was among or below them.
fn change(branches: &mut Vec<Branch>, at: &mut usize, how: &Change) -> bool {
    for place in 0..branches.len() {
        if *at == 0 {
            let it = &mut branches[place];
            match how.clone() {
                Change::Replace(tree) => it.tree = tree,
                Change::Remove => drop(branches.remove(place)),
                Change::Repeat => branches.push(branches[place].clone()),
                Change::Contradict(tree) => {
                    let again = branch(it.field, tree);
                    branches.insert(place + 1, again);
                }
                Change::Swap => {
                    let next = (place + 1) % branches.len();
                    branches.swap(place, next);
                }
                Change::Insert(field, tree) => branches.insert(place, branch(field, tree)),
                Change::Renumber(field) => it.field = field,
                Change::Lie(by) => it.lie = by,
            }
            return true;
        }
        *at -= 1;
        if let Tree::Message(inner) = &mut branches[place].tree
            && change(inner, at, how)
        {
            return true;
        }
    }
    false
}

fn odd() -> impl Strategy<Value = Tree> {
    let texts: &[&[u8]] = &[
        b"",
        b"7",
        b"a",
        b"True",
        b"\xff",
        b"a\xffb",
        b"Ready",
        b"UpdateFailed",
        b"worker.gardener.cloud/pool",
        b"node.machine.sapcloud.io/not-managed-by-mcm",
        b"{",
        b"{}",
        b"{\"f:spec\":{\"f:renewTime\":null}}",
        b"{\"f:spec\":{\"f:renewTime\":{}}}",
        b"18446744073709551616",
    ];
    let numbers = [0, 1, 40, -1, i64::from(i32::MAX) + 1, i64::MAX, i64::MIN];
    prop_oneof![
        4 => select(texts.to_vec()).prop_map(|text| Tree::Bytes(text.to_vec())),
        1 => (250..260usize).prop_map(|length| Tree::Bytes(vec![b'n'; length])),
        2 => select(numbers.to_vec()).prop_map(|number| Tree::Number(number.cast_unsigned())),
        1 => any::<u64>().prop_map(Tree::Number),
        1 => select(vec![4, 8]).prop_map(Tree::Fixed),
        1 => Just(Tree::Message(vec![])),
    ]
}

fn field() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..20u32, 1 => any::<u32>()]
}

fn any_change() -> impl Strategy<Value = Change> {
    let lies: Range<i8> = -3..4;
    prop_oneof![
        8 => odd().prop_map(Change::Replace),
        3 => Just(Change::Remove),
        3 => Just(Change::Repeat),
        3 => odd().prop_map(Change::Contradict),
        3 => Just(Change::Swap),
        3 => (field(), odd()).prop_map(|(field, tree)| Change::Insert(field, tree)),
        3 => field().prop_map(Change::Renumber),
        1 => lies.prop_map(Change::Lie),
    ]
}

/// A list, or a page of it, with up to so many changes, and sometimes with other bytes besides.
pub(super) fn changed(list: &Value, schema: &[Field], most: usize) -> impl Strategy<Value = Body> {
    let mut page = list.clone();
    page["metadata"]["continue"] = "more".into();
    let [list, page] = [list, &page].map(|it| Just(wrapped(it, schema)));
    let changes = prop::collection::vec((any::<Index>(), any_change()), 0..=most);
    let seed = prop_oneof![3 => list, 1 => page];
    let whole = (seed, changes).prop_map(move |(mut branches, changes)| {
        let mut lies = false;
        for (at, how) in &changes {
            lies |= matches!(how, Change::Lie(_));
            if !branches.is_empty() {
                let mut at = at.index(count(&branches));
                change(&mut branches, &mut at, how);
            }
        }
        let bytes = [MAGIC, &written(&branches)].concat();
        (bytes, lies)
    });
    whole.prop_flat_map(|(whole, lies)| {
        let as_it_is = Just(Body {
            bytes: whole.clone(),
            garbled: lies,
        });
        let otherwise = garbled(Just(whole)).prop_map(|bytes| Body {
            bytes,
            garbled: true,
        });
        prop_oneof![3 => as_it_is, 1 => otherwise]
    })
}
