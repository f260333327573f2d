//! Who owns which fields of an object: `managedFields`, and the merge of an apply.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A step from a value to a part of it, written as in `fieldsV1`: `f:` and the name of a field, `k:`
/// and the keys of an item, `v:` and an item.
type Step = String;
/// A way from an object to a part of it.
pub(super) type Path = Vec<Step>;
/// A set of fields.
pub(super) type Fields = BTreeSet<Path>;

/// The list of items of which each is owned by itself: by a key, or by its value.
enum List {
    Atomic,
    Set,
    Map(&'static [&'static str]),
}

/// The type of the list in the field of this name, by the schemas of all kinds.
fn list(path: &[Step]) -> List {
    let at = |back: usize| path.iter().nth_back(back).map_or("", String::as_str);
    let within = |name: &str| path.iter().any(|step| step == name);
    match at(0) {
        "f:finalizers" => List::Set,
        "f:ownerReferences" => List::Map(&["uid"]),
        "f:conditions" => List::Map(&["type"]),
        "f:containers" | "f:initContainers" | "f:volumes" | "f:env" | "f:imagePullSecrets"
            if within("f:spec") =>
        {
            List::Map(&["name"])
        }
        "f:ports" if within("f:containers") => List::Map(&["containerPort", "protocol"]),
        "f:ports" if at(1) == "f:spec" => List::Map(&["port", "protocol"]),
        "f:volumeMounts" => List::Map(&["mountPath"]),
        _ => List::Atomic,
    }
}

/// Whether the map in the field of this name is owned as a whole.
fn is_whole(path: &[Step]) -> bool {
    matches!(
        path.last().map(String::as_str),
        Some(
            "f:selector"
                | "f:labelSelector"
                | "f:nodeSelector"
                | "f:clusterSelector"
                | "f:regarding"
        )
    ) || path
        .iter()
        .nth_back(1)
        .is_some_and(|step| step == "f:ownerReferences")
}

/// The parts of a value, each with the step to it, if they are owned by themselves.
fn parts<'a>(path: &[Step], value: &'a Value) -> Option<Vec<(Step, &'a Value)>> {
    match value {
        Value::Object(fields) if !fields.is_empty() && !is_whole(path) => {
            let parts = fields
                .iter()
                .map(|(name, part)| (format!("f:{name}"), part));
            Some(parts.collect())
        }
        Value::Array(items) => {
            let step: Box<dyn Fn(&Value) -> Step> = match list(path) {
                List::Atomic => return None,
                List::Set => Box::new(|item: &Value| format!("v:{item}")),
                List::Map(keys) => Box::new(|item: &Value| {
                    let pairs = keys.iter().filter_map(|key| {
                        let value = item.get(key).cloned();
                        let value = value.or_else(|| (*key == "protocol").then(|| json!("TCP")));
                        Some(((*key).to_owned(), value?))
                    });
                    format!("k:{}", Value::Object(pairs.collect()))
                }),
            };
            Some(items.iter().map(|item| (step(item), item)).collect())
        }
        _ => None,
    }
}

/// What differs between two values.
#[derive(Default)]
pub(super) struct Difference {
    pub(super) changed: Fields,
    pub(super) removed: Fields,
}

impl Difference {
    pub(super) fn between(before: &Value, after: &Value) -> Self {
        let mut difference = Self::default();
        difference.compare(&mut Vec::new(), Some(before), Some(after));
        difference
    }

    fn compare(&mut self, path: &mut Path, before: Option<&Value>, after: Option<&Value>) {
        if before == after {
            return;
        }
        let old = before.and_then(|value| parts(path, value));
        let new = after.and_then(|value| parts(path, value));
        if old.is_none() && new.is_none() {
            match after {
                Some(_) => self.changed.insert(path.clone()),
                None => self.removed.insert(path.clone()),
            };
            return;
        }
        let mut both: BTreeMap<Step, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
        for (step, part) in old.into_iter().flatten() {
            both.entry(step).or_default().0 = Some(part);
        }
        for (step, part) in new.into_iter().flatten() {
            both.entry(step).or_default().1 = Some(part);
        }
        for (step, (old, new)) in both {
            path.push(step);
            self.compare(path, old, new);
            path.pop();
        }
        match (before, after) {
            (None, _) => self.changed.insert(path.clone()),
            (_, None) => self.removed.insert(path.clone()),
            _ => false,
        };
    }
}

/// The fields that an applied object names.
pub(super) fn applied(object: &Value) -> Fields {
    fn walk(path: &mut Path, value: &Value, fields: &mut Fields) {
        let is_item = path.last().is_some_and(|step| step.starts_with("k:"));
        let parts = parts(path, value);
        if is_item || parts.is_none() {
            fields.insert(path.clone());
        }
        for (step, part) in parts.into_iter().flatten() {
            path.push(step);
            walk(path, part, fields);
            path.pop();
        }
    }
    let mut fields = Fields::new();
    walk(&mut Vec::new(), object, &mut fields);
    fields
}

fn is_struct(path: &[Step]) -> bool {
    matches!(
        path.last().map(String::as_str),
        Some(
            "f:spec"
                | "f:status"
                | "f:strategy"
                | "f:template"
                | "f:metadata"
                | "f:updateStrategy"
                | "f:containers"
        )
    )
}

/// The fields that can be owned: not those that only the API server writes.
pub(super) fn without_system(mut fields: Fields, is_custom: bool) -> Fields {
    const SYSTEM: [&str; 9] = [
        "f:name",
        "f:namespace",
        "f:creationTimestamp",
        "f:uid",
        "f:generation",
        "f:managedFields",
        "f:resourceVersion",
        "f:deletionTimestamp",
        "f:deletionGracePeriodSeconds",
    ];
    if !is_custom {
        // What is no pointer in Go is always there, so nobody owns it as a whole.
        let held = |path: &Path| {
            fields
                .range(path.clone()..)
                .nth(1)
                .is_some_and(|it| it.starts_with(path))
        };
        let structs: Vec<Path> = fields
            .iter()
            .filter(|path| is_struct(path) && held(path))
            .cloned()
            .collect();
        for path in structs {
            fields.remove(&path);
        }
    }
    fields.retain(|path| match path.first().map(String::as_str) {
        None | Some("f:kind" | "f:apiVersion") => false,
        // Of a namespace.
        Some("f:spec") => path.get(1).is_none_or(|it| it != "f:finalizers"),
        Some("f:metadata") => path.get(1).is_some_and(|it| !SYSTEM.contains(&it.as_str())),
        _ => true,
    });
    fields
}

/// Puts the fields of `applied` into `live`.
pub(super) fn merge(path: &mut Path, live: &mut Value, applied: &Value) {
    let (Some(_), Some(new)) = (parts(path, live), parts(path, applied)) else {
        *live = applied.clone();
        return;
    };
    match live {
        Value::Object(fields) => {
            for (step, part) in new {
                let name = step.trim_start_matches("f:").to_owned();
                path.push(step);
                match fields.get_mut(&name) {
                    Some(old) => merge(path, old, part),
                    None => {
                        fields.insert(name, part.clone());
                    }
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            let there = parts(path, &Value::Array(items.clone()))
                .into_iter()
                .flatten()
                .map(|(step, _)| step)
                .collect::<Vec<_>>();
            for (step, part) in new {
                let found = there.iter().position(|it| *it == step);
                match found.and_then(|index| items.get_mut(index)) {
                    Some(old) => {
                        path.push(step);
                        merge(path, old, part);
                        path.pop();
                    }
                    None => items.push(part.clone()),
                }
            }
        }
        _ => {}
    }
}

/// Takes fields off a value. What holds others that stay, stays.
pub(super) fn remove(path: &mut Path, value: &mut Value, gone: &Fields, kept: &Fields) {
    let Some(parts) = parts(path, value) else {
        return;
    };
    let steps: Vec<Step> = parts.into_iter().map(|(step, _)| step).collect();
    for (index, step) in steps.into_iter().enumerate().rev() {
        let name = step.get(2..).unwrap_or_default().to_owned();
        path.push(step);
        let part = match &mut *value {
            Value::Object(fields) => fields.get_mut(&name),
            Value::Array(items) => items.get_mut(index),
            _ => None,
        };
        if gone.contains(path) && !reaches(kept, path) {
            take(value, &name, index);
        } else if let Some(part) = part {
            let was_empty = is_empty(part);
            remove(path, part, gone, kept);
            if !was_empty && is_empty(part) {
                take(value, &name, index);
            }
        }
        path.pop();
    }
}

fn take(value: &mut Value, name: &str, index: usize) {
    match value {
        Value::Object(fields) => drop(fields.remove(name)),
        Value::Array(items) => drop(items.remove(index)),
        _ => {}
    }
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Whether a path, or one below it, is among the fields.
fn reaches(fields: &Fields, path: &Path) -> bool {
    let next = fields.range(path.clone()..).next();
    next.is_some_and(|next| next.starts_with(path))
}

/// Who wrote: an entry of `managedFields` without its fields and its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) is_apply: bool,
    pub(super) name: String,
    pub(super) api_version: String,
    pub(super) sub: String,
}

impl Manager {
    /// The name in the text of a conflict.
    pub(super) fn told(&self) -> String {
        let sub = match &*self.sub {
            "" => String::new(),
            sub => format!(" with subresource {sub:?}"),
        };
        let using = match self.is_apply {
            true => String::new(),
            false => format!(" using {}", self.api_version),
        };
        format!("{:?}{sub}{using}", self.name)
    }
}

/// The owners of an object's fields, with the time of their last change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners(pub(super) BTreeMap<Manager, (Fields, String)>);

impl Owners {
    pub(super) fn of(object: &Value) -> Self {
        let entries = object.pointer("/metadata/managedFields");
        let entries = entries.and_then(Value::as_array).into_iter().flatten();
        let owners = entries.map(|entry| {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let manager = Manager {
                is_apply: text("operation") == "Apply",
                name: text("manager").to_owned(),
                api_version: text("apiVersion").to_owned(),
                sub: text("subresource").to_owned(),
            };
            let mut fields = Fields::new();
            read(&mut Vec::new(), entry.get("fieldsV1"), &mut fields);
            (manager, (fields, text("time").to_owned()))
        });
        Self(owners.collect())
    }

    /// The value of `managedFields`.
    pub(super) fn told(&self) -> Value {
        let mut owners: Vec<_> = self.0.iter().collect();
        // As the API server sorts them: applies first, then by time.
        owners.sort_by(|(one, (_, at)), (other, (_, then))| {
            let rank = |it: &Manager| !it.is_apply;
            rank(one).cmp(&rank(other)).then_with(|| at.cmp(then))
        });
        let entries = owners.into_iter().map(|(manager, (fields, time))| {
            let mut entry = json!({
                "manager": manager.name,
                "operation": if manager.is_apply { "Apply" } else { "Update" },
                "apiVersion": manager.api_version, "fieldsType": "FieldsV1",
                "fieldsV1": written(fields),
            });
            if !time.is_empty() {
                entry["time"] = time.clone().into();
            }
            if !manager.sub.is_empty() {
                entry["subresource"] = manager.sub.clone().into();
            }
            entry
        });
        entries.collect()
    }

    /// The fields of all.
    pub(super) fn all(&self) -> Fields {
        self.0
            .values()
            .flat_map(|(fields, _)| fields)
            .cloned()
            .collect()
    }

    /// Whether all own the same as there, whenever it was.
    pub(super) fn same_fields(&self, other: &Self) -> bool {
        let fields = |it: &Self| -> Vec<(Manager, Fields)> {
            let all = it.0.iter();
            all.map(|(manager, (fields, _))| (manager.clone(), fields.clone()))
                .collect()
        };
        fields(self) == fields(other)
    }

    /// The fields of others among those that are changed, by the names of their owners.
    pub(super) fn conflicts(
        &self,
        writer: &Manager,
        difference: &Difference,
    ) -> Vec<(String, Vec<String>)> {
        let others = self.0.iter().filter(|(manager, _)| *manager != writer);
        let conflicts = others.map(|(manager, (fields, _))| {
            let fields = fields.intersection(&difference.changed);
            (manager.told(), fields.map(|path| told(path)).collect())
        });
        conflicts
            .filter(|(_, fields): &(_, Vec<String>)| !fields.is_empty())
            .collect()
    }

    /// Takes what is changed or gone from everybody.
    pub(super) fn yield_to(&mut self, difference: &Difference) {
        self.0.retain(|_, (fields, _)| {
            let lost = |path: &Path| {
                difference.changed.contains(path) || difference.removed.contains(path)
            };
            fields.retain(|path| !lost(path));
            !fields.is_empty()
        });
    }
}

/// A path as conflicts name it, such as `.spec.replicas`.
fn told(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step.split_at(2) {
        ("f:", name) => format!(".{name}"),
        ("k:", keys) => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> = keys
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            format!("[{}]", keys.join(","))
        }
        (_, value) => format!("[={value}]"),
    });
    steps.collect()
}

fn read(path: &mut Path, fields: Option<&Value>, into: &mut Fields) {
    let fields = fields.and_then(Value::as_object);
    if fields.is_none_or(Map::is_empty) {
        into.insert(path.clone());
    }
    for (step, below) in fields.into_iter().flatten() {
        if step == "." {
            into.insert(path.clone());
            continue;
        }
        path.push(step.clone());
        read(path, Some(below), into);
        path.pop();
    }
}

fn written(fields: &Fields) -> Value {
    let mut tree = json!({});
    for path in fields {
        let next = fields.range(path.clone()..).nth(1);
        let below = next.is_some_and(|next| next.starts_with(path));
        let mut node = &mut tree;
        for step in path {
            node = &mut node[step.as_str()];
            if node.is_null() {
                *node = json!({});
            }
        }
        if below && !path.is_empty() {
            node["."] = json!({});
        }
    }
    tree
}
