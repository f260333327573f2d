//! Lists, watches, and what there was before.

use super::{Call, Change, Key, Refusal, Select, Store, only_metadata, set};
use crate::kinds::Kind;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::{ops::Bound, sync::Arc};

/// What a list says that cannot be gone on with.
const EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The resourceVersion of the change.
    pub revision: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub what: &'static str,
    /// The object, as it is now; as it was before, if it is not selected any more.
    pub object: Value,
}

/// What happened since then is not known any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gone {
    /// Since when it was asked.
    pub asked: u64,
    /// The oldest revision since which it is known.
    pub oldest: u64,
}

impl Store {
    /// The changes of what is selected after a revision, as a watch tells them.
    ///
    /// # Errors
    ///
    /// If they are not known any more.
    pub fn changes_since(&self, revision: u64, select: &Select) -> Result<Vec<Event>, Gone> {
        if revision < self.compacted {
            return Err(Gone {
                asked: revision,
                oldest: self.compacted,
            });
        }
        let first = self
            .log
            .partition_point(|change| change.revision <= revision);
        let changes = self.log.iter().skip(first);
        Ok(changes.filter_map(|change| event(change, select)).collect())
    }

    /// What is selected, as a watch begins that asks for no revision.
    pub fn present(&self, select: &Select) -> Vec<Event> {
        let selected = self
            .objects(select.plural())
            .filter(|(key, object)| select.matches(key, object));
        let added = selected.map(|(_, object)| Event {
            revision: self.revision,
            what: "ADDED",
            object: object.clone(),
        });
        added.collect()
    }

    /// Forgets what was: a watch or a list cannot go on where it ended.
    pub fn compact(&mut self) {
        self.log.clear();
        self.compacted = self.revision;
    }

    /// The store as it was at a revision, or as early as it is known.
    pub fn at(&self, revision: u64) -> Self {
        let mut past = self.clone();
        past.roll_back(revision);
        past
    }

    /// Makes everything what it was at a revision, as an etcd restored from a backup. The next change
    /// has the resourceVersion that followed then.
    pub fn roll_back(&mut self, revision: u64) {
        while let Some(Change { key, before, .. }) =
            self.log.pop_if(|change| change.revision > revision)
        {
            match before {
                Some(before) => self.objects.insert(key, before),
                None => self.objects.remove(&key),
            };
        }
        self.revision = self.revision.min(revision.max(self.compacted));
    }

    pub(super) fn list(&self, kind: &Kind, call: &Call) -> Result<Value, Refusal> {
        let select = Select::of(call)?;
        let token = call.parameter("continue").filter(|token| !token.is_empty());
        let token = token.map(|token| read_token(call, token)).transpose()?;
        let (past, start) = match token {
            Some((Some(revision), start)) if revision < self.compacted => {
                return Err(Refusal {
                    resume: Some(token_of(None, call, &start)),
                    ..Refusal::new(410, EXPIRED)
                });
            }
            Some((revision, start)) => (revision.map(|it| self.at(it)), Some(start)),
            None => (None, None),
        };
        let of = past.as_ref().unwrap_or(self);
        if start.is_none() && call.revision() > self.revision {
            return Err(too_new(call.revision(), self.revision));
        }
        let limit = call
            .parameter("limit")
            .and_then(|it| it.parse::<usize>().ok());
        // A list that may be of any age is told from a cache, which does not know limits.
        let limit =
            limit.filter(|limit| *limit > 0 && call.parameter("resourceVersion") != Some("0"));
        let first = Key::new(&call.plural, "", "");
        let from = start
            .as_ref()
            .map_or(Bound::Included(&first), Bound::Excluded);
        let mut found: Vec<(&Key, &Arc<Value>)> = of
            .objects
            .range::<Key, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.plural == call.plural)
            .filter(|(key, object)| select.matches(key, object))
            .collect();
        let mut metadata = json!({"resourceVersion": of.revision.to_string()});
        if let Some(limit) = limit
            && let Some(rest) = found.len().checked_sub(limit).filter(|rest| *rest > 0)
        {
            found.truncate(limit);
            if let Some((last, _)) = found.last() {
                metadata["continue"] = token_of(Some(of.revision), call, last).into();
            }
            if select.is_everything() {
                metadata["remainingItemCount"] = rest.into();
            }
        }
        let items = found.into_iter().map(|(_, object)| {
            if call.only_metadata {
                return only_metadata(object);
            }
            let mut object = (**object).clone();
            set(
                &mut object,
                "/apiVersion",
                call.group_version.clone().into(),
            );
            if let Some(fields) = object.as_object_mut().filter(|_| !kind.custom) {
                fields.remove("apiVersion");
                fields.remove("kind");
            }
            object
        });
        let items: Vec<Value> = items.collect();
        let (kind, group_version) = match call.only_metadata {
            true => ("PartialObjectMetadata", "meta.k8s.io/v1"),
            false => (kind.kind, &*call.group_version),
        };
        Ok(json!({
            "kind": format!("{kind}List"), "apiVersion": group_version, "metadata": metadata,
            "items": items,
        }))
    }
}

fn too_new(asked: u64, now: u64) -> Refusal {
    let message = format!("Timeout: Too large resource version: {asked}, current: {now}");
    Refusal {
        details: json!({"causes": [
            {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
        ]}),
        retry_after: Some(1),
        ..Refusal::new(504, message)
    }
}

fn event(change: &Change, select: &Select) -> Option<Event> {
    let seen = |object: &&Arc<Value>| select.matches(&change.key, object);
    let before = change.before.as_ref().filter(seen);
    let after = change.after.as_ref().filter(seen);
    let (what, object) = match (before, after) {
        (None, None) => return None,
        (None, Some(object)) => ("ADDED", object),
        (Some(_), Some(object)) => ("MODIFIED", object),
        (Some(before), None) => ("DELETED", before),
    };
    let mut object = (**object).clone();
    set(
        &mut object,
        "/metadata/resourceVersion",
        change.revision.to_string().into(),
    );
    Some(Event {
        revision: change.revision,
        what,
        object,
    })
}

/// The token to go on with after an object; without a revision if it may be with what is there by then.
fn token_of(revision: Option<u64>, call: &Call, last: &Key) -> String {
    let namespace = match &*call.namespace {
        "" if !last.namespace.is_empty() => format!("{}/", last.namespace),
        _ => String::new(),
    };
    let start = format!("{namespace}{}\0", last.name);
    let revision = revision.map_or(json!(-1), Value::from);
    let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
    BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
}

/// The revision and the last object of a token.
fn read_token(call: &Call, token: &str) -> Result<(Option<u64>, Key), Refusal> {
    let read = || {
        let token = BASE64_URL_SAFE_NO_PAD
            .decode(token.trim_end_matches('='))
            .ok()?;
        let token: Value = serde_json::from_slice(&token).ok()?;
        let start = token.get("start")?.as_str()?.trim_end_matches('\0');
        let (namespace, name) = start.split_once('/').unwrap_or((&call.namespace, start));
        let key = Key::new(&call.plural, namespace, name);
        Some((token.get("rv")?.as_u64(), key))
    };
    let invalid = "invalid continue token: continue key is not valid";
    read().ok_or_else(|| Refusal::new(400, invalid))
}
