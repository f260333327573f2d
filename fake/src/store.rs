//! The objects of an API server, and what becomes of them by its requests. Nothing here knows a clock
//! or a network: time is an argument.

mod call;
mod fields;
mod list;
mod select;

pub use self::{
    call::{Call, Patch, Verb},
    list::{Event, Gone},
    select::Select,
};
pub use crate::refusal::Refusal;

use self::fields::{Difference, Fields, Manager, Owners};
use crate::kinds::{Generation, KINDS, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The resourceVersion of a new store, which holds nothing.
const FIRST_REVISION: u64 = 1;
/// The grace period of a pod that names none, in seconds.
const GRACE: i64 = 30;
const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Such as `deployments`.
    pub plural: String,
    /// Empty for kinds without.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// The place with these parts.
    pub fn new(plural: &str, namespace: &str, name: &str) -> Self {
        Self {
            plural: plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// A change of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The resourceVersion that it made.
    pub revision: u64,
    /// When.
    pub at: Timestamp,
    /// Of what.
    pub key: Key,
    /// The object before, unless it was created.
    pub before: Option<Arc<Value>>,
    /// The object after, unless it is gone.
    pub after: Option<Arc<Value>>,
}

/// The objects, and what they were.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    revision: u64,
    uids: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    log: Vec<Change>,
    /// Of what was before this revision nothing is known any more.
    compacted: u64,
    /// The names of workloads whose status does not follow their spec.
    stuck: BTreeSet<String>,
    /// The served versions of kinds of which a test has a say.
    versions: BTreeMap<String, BTreeSet<String>>,
    /// The schemas of kinds, for what they have unless told otherwise.
    schemas: BTreeMap<String, Arc<Value>>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            revision: FIRST_REVISION,
            uids: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
            compacted: FIRST_REVISION,
            stuck: BTreeSet::new(),
            versions: BTreeMap::new(),
            schemas: BTreeMap::new(),
        }
    }
}

/// How a write is to be taken.
struct Write<'a> {
    manager: Manager,
    /// The owners after an apply, which are known by then.
    owners: Option<Owners>,
    verb: Verb,
    /// The subresource.
    sub: &'a str,
    /// Whether it is taken as it is, with what only the API server itself writes.
    is_raw: bool,
    now: Timestamp,
}

impl Store {
    /// The resourceVersion of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// An object as it is.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.objects.get(key).map(|object| &**object)
    }

    /// The objects of a kind, by their places.
    pub fn objects(&self, plural: &str) -> impl Iterator<Item = (&Key, &Value)> {
        let all = self.objects.range(Key::new(plural, "", "")..);
        let all = all.take_while(move |(key, _)| key.plural == plural);
        all.map(|(key, object)| (key, &**object))
    }

    /// The changes of the objects of a kind since the last compaction.
    pub fn versions(&self, plural: &str) -> impl Iterator<Item = &Change> {
        self.log
            .iter()
            .filter(move |change| change.key.plural == plural)
    }

    /// Serves a kind in these versions, and in no other.
    pub fn serve(&mut self, plural: &str, versions: &[&str]) {
        let versions = versions.iter().map(|it| (*it).to_owned()).collect();
        self.versions.insert(plural.to_owned(), versions);
    }

    /// Takes the defaults of a kind from the schema of its CustomResourceDefinition.
    pub fn define(&mut self, definition: &Value) {
        let plural = text(definition, "/spec/names/plural").to_owned();
        let schema = definition.pointer("/spec/versions/0/schema/openAPIV3Schema");
        self.schemas
            .insert(plural, Arc::new(schema.cloned().unwrap_or_default()));
    }

    /// Carries a request out.
    ///
    /// # Errors
    ///
    /// If an API server would refuse it. A watch is refused: [`Self::changes_since`] tells what it tells.
    pub fn call(&mut self, call: &Call, now: Timestamp) -> Result<Value, Refusal> {
        self.answer(call, now).map(|(_, answer)| answer)
    }

    /// Carries a request out, and tells the code of the answer too.
    ///
    /// # Errors
    ///
    /// As [`Self::call`].
    pub fn answer(&mut self, call: &Call, now: Timestamp) -> Result<(u16, Value), Refusal> {
        let kind = self.kind_of(call)?;
        match call.verb {
            Verb::Get => {
                let object = self.live(kind, call)?;
                let shown = match &*call.sub {
                    "scale" => scale(&object),
                    _ => shown(call, &object),
                };
                Ok((200, shown))
            }
            Verb::List => self.list(kind, call).map(|list| (200, list)),
            Verb::Watch => Err(Refusal::new(405, "a store cannot be watched")),
            Verb::Create => self.create(kind, call, now),
            Verb::Update | Verb::Patch(_) => self.change(kind, call, now),
            Verb::Delete => self.delete(kind, call, now),
        }
    }

    /// The kind of a request, if it is served there.
    ///
    /// # Errors
    ///
    /// If it is not: 404, as plain text or about the object.
    pub(crate) fn kind_of(&self, call: &Call) -> Result<&'static Kind, Refusal> {
        let (group, version) = call
            .group_version
            .rsplit_once('/')
            .unwrap_or(("", &call.group_version));
        let found = KINDS.iter().find(|kind| {
            (kind.plural, kind.group) == (&*call.plural, group)
                && self.served(kind).contains(version)
        });
        let kind = found.ok_or_else(|| {
            let is_built_in = KINDS.iter().any(|kind| !kind.custom && kind.group == group);
            if is_built_in {
                Refusal::unknown(404)
            } else {
                Refusal::unserved()
            }
        })?;
        let has_sub = match &*call.sub {
            "" => true,
            "status" => kind.status,
            "scale" => kind.scale,
            _ => false,
        };
        match (has_sub, kind.custom) {
            (true, _) => Ok(kind),
            (false, true) => Err(Refusal::not_found(kind, &call.name)),
            (false, false) => Err(Refusal::unknown(404)),
        }
    }

    /// The versions in which a kind is served.
    pub(crate) fn served(&self, kind: &Kind) -> BTreeSet<String> {
        let said = self.versions.get(kind.plural).cloned();
        said.unwrap_or_else(|| BTreeSet::from([kind.version.to_owned()]))
    }

    fn live(&self, kind: &Kind, call: &Call) -> Result<Arc<Value>, Refusal> {
        let found = self.objects.get(&key_of(call)).cloned();
        found.ok_or_else(|| Refusal::not_found(kind, &call.name))
    }

    fn create(
        &mut self,
        kind: &Kind,
        call: &Call,
        now: Timestamp,
    ) -> Result<(u16, Value), Refusal> {
        let mut object = call.body.clone();
        let text = |object: &Value, field: &str| text(object, field).to_owned();
        let mut name = text(&object, "/metadata/name");
        if name.is_empty() {
            let prefix = text(&object, "/metadata/generateName");
            name = format!("{prefix}{:05x}", self.revision);
            set(&mut object, "/metadata/name", name.clone().into());
        }
        let key = Key::new(&call.plural, &call.namespace, &name);
        if self.objects.contains_key(&key) {
            return Err(Refusal::exists(kind, &name));
        }
        if kind.namespaced {
            set(
                &mut object,
                "/metadata/namespace",
                key.namespace.clone().into(),
            );
        }
        if kind.status {
            put_or_remove(&mut object, "status", None);
        }
        kind.complete(&name, &mut object);
        let write = Write::of(call, now);
        let created = self.write(kind, &key, object, write)?;
        self.settle(&key, now);
        Ok((201, shown(call, &created)))
    }

    /// Changes an object, as PUT and PATCH do.
    fn change(
        &mut self,
        kind: &Kind,
        call: &Call,
        now: Timestamp,
    ) -> Result<(u16, Value), Refusal> {
        let key = key_of(call);
        let found = self.objects.get(&key).cloned();
        let mut write = Write::of(call, now);
        let (live, code) = match found {
            Some(live) => (live, 200),
            None if call.verb == Verb::Patch(Patch::Apply) && call.sub.is_empty() => {
                let uid = text(&call.body, "/metadata/uid");
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Refusal::conflict(kind, &key.name, &why));
                }
                (Arc::new(json!({})), 201)
            }
            None => return Err(Refusal::not_found(kind, &call.name)),
        };
        let before = match &*call.sub {
            "scale" => scale(&live),
            _ => in_version(call, &live),
        };
        let mut after = before.clone();
        match call.verb {
            Verb::Patch(Patch::Apply) => {
                let owners = apply(kind, call, &live, &mut after, &write.manager, now)?;
                write.owners = Some(owners);
            }
            Verb::Patch(Patch::Merge) => json_patch::merge(&mut after, &call.body),
            Verb::Patch(Patch::Json) => json_patched(&mut after, &call.body)?,
            _ => after = call.body.clone(),
        }
        let name = text(&after, "/metadata/name");
        if name != key.name && code == 200 {
            let message = format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                key.name
            );
            return Err(Refusal::new(400, message));
        }
        if call.sub == "scale" {
            let replicas = after.pointer("/spec/replicas").and_then(Value::as_i64);
            let version = after.pointer("/metadata/resourceVersion").cloned();
            after = (*live).clone();
            set(&mut after, "/spec/replicas", replicas.unwrap_or(0).into());
            set(
                &mut after,
                "/metadata/resourceVersion",
                version.unwrap_or_default(),
            );
        }
        if code == 201 {
            if kind.namespaced {
                set(
                    &mut after,
                    "/metadata/namespace",
                    key.namespace.clone().into(),
                );
            }
            kind.complete(&key.name, &mut after);
        }
        let written = self.write(kind, &key, after, write)?;
        self.settle(&key, now);
        let answer = match &*call.sub {
            "scale" => scale(&written),
            _ => shown(call, &written),
        };
        Ok((code, answer))
    }

    fn delete(
        &mut self,
        kind: &Kind,
        call: &Call,
        now: Timestamp,
    ) -> Result<(u16, Value), Refusal> {
        let key = key_of(call);
        let live = self.live(kind, call)?;
        let wanted = |field| text(&call.body, field);
        let uid = text(&live, "/metadata/uid");
        let version = text(&live, "/metadata/resourceVersion");
        let (wanted_uid, wanted_version) = (
            wanted("/preconditions/uid"),
            wanted("/preconditions/resourceVersion"),
        );
        if !wanted_uid.is_empty() && wanted_uid != uid {
            let why = format!(
                "the UID in the precondition ({wanted_uid}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            );
            return Err(Refusal::other_record(kind, &key.name, &why));
        }
        if !wanted_version.is_empty() && wanted_version != version {
            let why = format!(
                "the ResourceVersion in the precondition ({wanted_version}) does not match the ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(Refusal::other_record(kind, &key.name, &why));
        }
        let grace = grace(kind, call, &live);
        let is_held = !finalizers(&live).is_empty() || kind.plural == "namespaces";
        if grace == 0 && !is_held {
            let last = self.remove(&key, now);
            let answer = match (kind.plural, last) {
                ("pods" | "services", Some(last)) => {
                    let mut last = shown(call, &last);
                    if let Some(grace) = last.pointer_mut("/metadata/deletionGracePeriodSeconds") {
                        *grace = 0.into();
                    }
                    last
                }
                _ => {
                    let mut details = json!({"name": key.name, "kind": kind.plural, "uid": uid});
                    if !kind.group.is_empty() {
                        details["group"] = kind.group.into();
                    }
                    json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                        "details": details,
                    })
                }
            };
            return Ok((200, answer));
        }
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Ok((200, shown(call, &live)));
        }
        let mut object = (*live).clone();
        let seconds = std::time::Duration::from_secs(grace.unsigned_abs());
        set(
            &mut object,
            "/metadata/deletionTimestamp",
            time(now + seconds).into(),
        );
        match kind.plural {
            "namespaces" => set(&mut object, "/status/phase", "Terminating".into()),
            _ => set(
                &mut object,
                "/metadata/deletionGracePeriodSeconds",
                grace.into(),
            ),
        }
        if let Some(generation) = live.pointer("/metadata/generation").and_then(Value::as_i64) {
            set(&mut object, "/metadata/generation", (generation + 1).into());
        }
        let written = self.store(&key, object, now);
        Ok((200, shown(call, &written)))
    }

    /// Removes an object at once, whatever holds it.
    pub fn remove(&mut self, key: &Key, now: Timestamp) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.revision += 1;
        let mut last = (*before).clone();
        set(
            &mut last,
            "/metadata/resourceVersion",
            self.revision.to_string().into(),
        );
        self.log.push(Change {
            revision: self.revision,
            at: now,
            key: key.clone(),
            before: Some(before),
            after: None,
        });
        Some(Arc::new(last))
    }

    /// Creates or replaces an object by its kind and name, with its status, and with the metadata that
    /// it brings. An object of a kind that is not known is not taken.
    pub fn put(&mut self, now: Timestamp, object: Value) -> Option<Key> {
        let kind = Kind::named(text(&object, "/kind"))?;
        let key = Key::new(
            kind.plural,
            text(&object, "/metadata/namespace"),
            text(&object, "/metadata/name"),
        );
        let mut object = object;
        if !self.objects.contains_key(&key) {
            let status = object.get("status").cloned();
            kind.complete(&key.name, &mut object);
            if let Some(status) = status {
                set(&mut object, "/status", status);
            }
        }
        self.write_raw(kind, &key, object, now);
        Some(key)
    }

    /// Changes an object as somebody else would: all of it. False if it is not there.
    pub fn edit(&mut self, key: &Key, now: Timestamp, change: impl FnOnce(&mut Value)) -> bool {
        let (Some(kind), Some(live)) = (Kind::find(&key.plural), self.objects.get(key)) else {
            return false;
        };
        let mut object = (**live).clone();
        change(&mut object);
        self.write_raw(kind, key, object, now);
        true
    }

    fn write_raw(&mut self, kind: &Kind, key: &Key, mut object: Value, now: Timestamp) {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let call = Call::new(Verb::Update, key);
        let write = Write {
            is_raw: true,
            ..Write::of(&call, now)
        };
        // What is raw is never refused.
        let _ = self.write(kind, key, object, write);
        self.settle(key, now);
    }

    /// Stores an object as it is to be, if it may be, and if it is not so already.
    fn write(
        &mut self,
        kind: &Kind,
        key: &Key,
        mut object: Value,
        write: Write<'_>,
    ) -> Result<Arc<Value>, Refusal> {
        let live = self.objects.get(key).cloned();
        if let Some(live) = live.as_deref().filter(|_| !write.is_raw) {
            preconditions(kind, key, live, &object, &write)?;
        }
        let blank = match kind.custom {
            true => json!({}),
            false => json!({"spec": {}, "status": {}}),
        };
        let before = live.as_deref().unwrap_or(&blank);
        if !write.is_raw {
            if write.sub == "status" {
                let status = object.get("status").cloned();
                object = before.clone();
                put_or_remove(&mut object, "status", status);
            } else if let Some(live) = live.as_deref().filter(|_| kind.status) {
                put_or_remove(&mut object, "status", live.get("status").cloned());
            }
        }
        if let Some(schema) = self.schemas.get(kind.plural) {
            add_defaults(&mut object, schema);
        }
        self.system_fields(kind, live.as_deref(), &mut object, &write);
        if live.is_some() && !write.is_raw {
            no_new_finalizers(kind, key, before, &object)?;
        }
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
        if let Some(replicas) =
            replicas.filter(|it| *it < 0 && kind.scale && !kind.custom && !write.is_raw)
        {
            let text = format!("Invalid value: {replicas}: must be greater than or equal to 0");
            let field = "spec.replicas";
            return Err(Refusal::invalid(
                kind,
                &key.name,
                field,
                "FieldValueInvalid",
                &text,
            ));
        }
        if kind.status && !kind.custom && object.get("status").is_none() {
            object["status"] = json!({});
        }
        let owners = match &write.owners {
            Some(owners) => owners.clone(),
            None => owners_after(kind, before, &object, &write),
        };
        let old_owners = Owners::of(before);
        if let Some(live) = &live
            && same_but_owners(live, &object)
            && old_owners.same_fields(&owners)
        {
            return Ok(Arc::clone(live));
        }
        if let Some(live) = &live {
            let generation = live.pointer("/metadata/generation").and_then(Value::as_i64);
            if kind.generation != Generation::None && raises_generation(kind, live, &object) {
                set(
                    &mut object,
                    "/metadata/generation",
                    (generation.unwrap_or(0) + 1).into(),
                );
            }
        }
        if !owners.0.is_empty() {
            set(&mut object, "/metadata/managedFields", owners.told());
        }
        let is_done = |object: &Value| {
            object.pointer("/metadata/deletionTimestamp").is_some() && finalizers(object).is_empty()
        };
        let at_once = before.pointer("/metadata/deletionGracePeriodSeconds") == Some(&json!(0));
        if at_once && is_done(&object) && key.plural != "namespaces" {
            // It goes as it is stored, and is answered as it would have become.
            set(
                &mut object,
                "/metadata/resourceVersion",
                text(before, "/metadata/resourceVersion").into(),
            );
            self.remove(key, write.now);
            return Ok(Arc::new(object));
        }
        Ok(self.store(key, object, write.now))
    }

    /// Gives an object the metadata that only the API server writes.
    fn system_fields(
        &mut self,
        kind: &Kind,
        live: Option<&Value>,
        object: &mut Value,
        write: &Write<'_>,
    ) {
        set(object, "/apiVersion", kind.group_version().into());
        set(object, "/kind", kind.kind.into());
        for field in [
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "namespace",
        ] {
            let pointer = format!("/metadata/{field}");
            let of_live = live.and_then(|live| live.pointer(&pointer)).cloned();
            let own = object.pointer(&pointer).cloned();
            let own = own.filter(|_| write.is_raw || live.is_none() && field == "namespace");
            if let Some(metadata) = object.get_mut("metadata") {
                put_or_remove(metadata, field, own.or(of_live));
            }
        }
        if live.is_none() {
            if text(object, "/metadata/uid").is_empty() {
                self.uids += 1;
                let uid = format!("00000000-0000-4000-8000-{:012x}", self.uids);
                set(object, "/metadata/uid", uid.into());
            }
            if text(object, "/metadata/creationTimestamp").is_empty() {
                set(
                    object,
                    "/metadata/creationTimestamp",
                    time(write.now).into(),
                );
            }
            if kind.generation != Generation::None
                && object.pointer("/metadata/generation").is_none()
            {
                set(object, "/metadata/generation", 1.into());
            }
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|name, value| {
                !value.is_null() && (!fields::is_empty(value) || name == "managedFields")
            });
        }
    }

    fn store(&mut self, key: &Key, mut object: Value, now: Timestamp) -> Arc<Value> {
        self.revision += 1;
        set(
            &mut object,
            "/metadata/resourceVersion",
            self.revision.to_string().into(),
        );
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        self.log.push(Change {
            revision: self.revision,
            at: now,
            key: key.clone(),
            before,
            after: Some(Arc::clone(&object)),
        });
        object
    }

    /// The status of a workload of this name follows its spec, or does not.
    pub fn follow(&mut self, name: &str, follows: bool, now: Timestamp) {
        match follows {
            true => self.stuck.remove(name),
            false => self.stuck.insert(name.to_owned()),
        };
        let workloads = self.objects.keys().filter(|key| key.name == name);
        for key in workloads.cloned().collect::<Vec<_>>() {
            self.settle(&key, now);
        }
    }

    /// Whether the last change was made by the controller of a workload, in answer to the one before.
    pub fn has_settled_last(&self) -> bool {
        let last = self.log.last();
        last.is_some_and(|it| {
            it.before
                .as_ref()
                .is_some_and(|before| is_unsettled(&it.key, before))
        })
    }

    /// The controller of a workload does its work.
    fn settle(&mut self, key: &Key, now: Timestamp) {
        let (Some(kind), Some(live)) = (Kind::find(&key.plural), self.objects.get(key)) else {
            return;
        };
        if !is_unsettled(key, live) || self.stuck.contains(&key.name) {
            return;
        }
        let mut object = (**live).clone();
        set(&mut object, "/status", workload_status(live));
        let mut call = Call::new(Verb::Update, key);
        call.sub = "status".to_owned();
        call.manager = "kube-controller-manager".to_owned();
        // Nobody comes between, so that it is not refused.
        let _ = self.write(kind, key, object, Write::of(&call, now));
    }
}

impl<'a> Write<'a> {
    fn of(call: &'a Call, now: Timestamp) -> Self {
        Self {
            manager: Manager {
                is_apply: call.verb == Verb::Patch(Patch::Apply),
                name: call.manager.clone(),
                api_version: call.group_version.clone(),
                sub: call.sub.clone(),
            },
            owners: None,
            verb: call.verb,
            sub: &call.sub,
            is_raw: false,
            now,
        }
    }
}

/// What is asked of the version of an object that a write is made of.
fn preconditions(
    kind: &Kind,
    key: &Key,
    live: &Value,
    object: &Value,
    write: &Write<'_>,
) -> Result<(), Refusal> {
    let uid = text(object, "/metadata/uid");
    let live_uid = text(live, "/metadata/uid");
    let version = text(object, "/metadata/resourceVersion");
    if !uid.is_empty() && uid != live_uid {
        return Err(match write.verb {
            Verb::Update => {
                let Key {
                    plural,
                    namespace,
                    name,
                } = key;
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{plural}/{namespace}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}"
                );
                Refusal::conflict(kind, &key.name, &why)
            }
            _ => {
                let text = format!("Invalid value: {uid:?}: field is immutable");
                invalid_metadata(kind, key, "uid", "FieldValueInvalid", &text)
            }
        });
    }
    if version.is_empty() && !kind.unconditional && write.verb == Verb::Update {
        return Err(Refusal::unversioned(kind, &key.name));
    }
    if !version.is_empty() && version != text(live, "/metadata/resourceVersion") {
        return Err(Refusal::conflict(kind, &key.name, MODIFIED));
    }
    Ok(())
}

/// The refusal of a field of the metadata, of which the API server gives the cause twice.
fn invalid_metadata(kind: &Kind, key: &Key, field: &str, reason: &str, text: &str) -> Refusal {
    let field = format!("metadata.{field}");
    let mut refusal = Refusal::invalid(kind, &key.name, &field, reason, text);
    let cause = refusal.details["causes"][0].clone();
    refusal.details["causes"] = json!([cause, cause]);
    refusal
}

fn no_new_finalizers(kind: &Kind, key: &Key, live: &Value, object: &Value) -> Result<(), Refusal> {
    let (old, new) = (finalizers(live), finalizers(object));
    let added: Vec<&str> = new.into_iter().filter(|it| !old.contains(it)).collect();
    if added.is_empty() || live.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let added = added.iter().map(|it| format!("{it:?}")).collect::<Vec<_>>();
    let text = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    Err(invalid_metadata(
        kind,
        key,
        "finalizers",
        "FieldValueForbidden",
        &text,
    ))
}

/// Whether two objects are the same but for who owns their fields.
fn same_but_owners(one: &Value, other: &Value) -> bool {
    let plain = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
            metadata.remove("resourceVersion");
        }
        object
    };
    plain(one) == plain(other)
}

fn raises_generation(kind: &Kind, before: &Value, after: &Value) -> bool {
    let differs = |pointer: &str| before.pointer(pointer) != after.pointer(pointer);
    match kind.generation {
        Generation::None => false,
        Generation::Spec => differs("/spec"),
        Generation::SpecOrAnnotations => differs("/spec") || differs("/metadata/annotations"),
        Generation::All => {
            let rest = |object: &Value| {
                let mut object = object.clone();
                if let Some(fields) = object.as_object_mut() {
                    fields.remove("metadata");
                    if kind.status {
                        fields.remove("status");
                    }
                }
                object
            };
            rest(before) != rest(after)
        }
    }
}

/// The owners after a write that is no apply.
fn owners_after(kind: &Kind, before: &Value, after: &Value, write: &Write<'_>) -> Owners {
    let mut difference = difference(kind, before, after);
    if kind.status && write.sub.is_empty() && !write.is_raw {
        let is_status = |path: &[String]| path.first().is_some_and(|it| it == "f:status");
        difference.changed.retain(|path| !is_status(path));
    }
    let mut owners = Owners::of(before);
    if write.sub == "scale" {
        // A Scale of zero lacks the field; what nobody owns is not owned through it either.
        let replicas = ["f:spec".to_owned(), "f:replicas".to_owned()].to_vec();
        let is_zero = after.pointer("/spec/replicas") == Some(&json!(0));
        let is_owned = owners.all().contains(&replicas);
        if (is_zero || !is_owned) && difference.changed.remove(&replicas) {
            difference.removed.insert(replicas);
        }
    }
    owners.yield_to(&difference);
    if !difference.changed.is_empty() {
        let (fields, at) = owners.0.entry(write.manager.clone()).or_default();
        fields.extend(difference.changed);
        // What is written through a Scale has no time.
        *at = match write.sub {
            "scale" => String::new(),
            _ => time(write.now),
        };
    }
    owners
}

fn difference(kind: &Kind, before: &Value, after: &Value) -> Difference {
    let Difference { changed, removed } = Difference::between(before, after);
    let owned = |fields: Fields| fields::without_system(fields, kind.custom);
    Difference {
        changed: owned(changed),
        removed: owned(removed),
    }
}

/// Applies the fields of a manager to an object, and tells who owns what then.
fn apply(
    kind: &Kind,
    call: &Call,
    live: &Value,
    object: &mut Value,
    manager: &Manager,
    now: Timestamp,
) -> Result<Owners, Refusal> {
    let mut wanted = call.body.clone();
    if let Some(fields) = wanted.as_object_mut() {
        match &*call.sub {
            "status" => fields.retain(|name, _| name == "status"),
            _ if kind.status => drop(fields.remove("status")),
            _ => {}
        }
    }
    let set = fields::without_system(fields::applied(&wanted), true);
    fields::merge(&mut Vec::new(), object, &wanted);
    let mut owners = Owners::of(live);
    let conflicts = owners.conflicts(manager, &difference(kind, live, object));
    if !conflicts.is_empty() && !call.is("force") {
        return Err(apply_conflict(&conflicts));
    }
    let last = owners.0.remove(manager);
    let (last, at) = last.unwrap_or_default();
    let kept: Fields = owners.all().union(&set).cloned().collect();
    let gone: Fields = last.difference(&set).cloned().collect();
    fields::remove(&mut Vec::new(), object, &gone, &kept);
    owners.yield_to(&difference(kind, live, object));
    if !set.is_empty() {
        let at = if same_but_owners(live, object) && last == set {
            at
        } else {
            time(now)
        };
        owners.0.insert(manager.clone(), (set, at));
    }
    Ok(owners)
}

fn apply_conflict(conflicts: &[(String, Vec<String>)]) -> Refusal {
    let count: usize = conflicts.iter().map(|(_, fields)| fields.len()).sum();
    let causes = conflicts.iter().flat_map(|(manager, fields)| {
        fields.iter().map(move |field| {
            json!({
                "reason": "FieldManagerConflict", "message": format!("conflict with {manager}"),
                "field": field,
            })
        })
    });
    let text = match conflicts {
        [(manager, fields)] if fields.len() == 1 => {
            format!(
                "Apply failed with 1 conflict: conflict with {manager}: {}",
                fields.join("")
            )
        }
        _ => {
            let lines = conflicts.iter().map(|(manager, fields)| {
                let fields: Vec<String> = fields.iter().map(|it| format!("\n- {it}")).collect();
                format!("conflicts with {manager}:{}", fields.join(""))
            });
            let lines: Vec<String> = lines.collect();
            format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
        }
    };
    Refusal {
        details: json!({"causes": causes.collect::<Vec<_>>()}),
        ..Refusal::new(409, text)
    }
}

fn json_patched(object: &mut Value, patch: &Value) -> Result<(), Refusal> {
    let patch = serde_json::from_value::<json_patch::Patch>(patch.clone());
    let patch = patch.map_err(|error| Refusal::new(400, error.to_string()))?;
    json_patch::patch(object, &patch).map_err(|_| {
        let text = "the server rejected our request due to an error in our request";
        Refusal {
            details: json!({}),
            ..Refusal::new(422, text)
        }
    })
}

/// Adds what a schema says that is there unless told otherwise.
fn add_defaults(value: &mut Value, schema: &Value) {
    let properties = schema.get("properties").and_then(Value::as_object);
    match value {
        Value::Object(fields) => {
            for (name, schema) in properties.into_iter().flatten() {
                if let Some(default) = schema.get("default") {
                    fields.entry(name).or_insert_with(|| default.clone());
                }
                if let Some(field) = fields.get_mut(name) {
                    add_defaults(field, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| add_defaults(item, schema));
            }
        }
        _ => {}
    }
}

fn grace(kind: &Kind, call: &Call, live: &Value) -> i64 {
    let is_over = ["Succeeded", "Failed"].contains(&text(live, "/status/phase"));
    if kind.plural != "pods" || text(live, "/spec/nodeName").is_empty() || is_over {
        return 0;
    }
    let asked = call
        .body
        .pointer("/gracePeriodSeconds")
        .and_then(Value::as_i64);
    let own = live
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    asked.or(own).unwrap_or(GRACE)
}

/// Whether it is a workload whose controller has yet to do its work.
fn is_unsettled(key: &Key, object: &Value) -> bool {
    let is_workload = ["deployments", "statefulsets", "etcds"].contains(&&*key.plural);
    is_workload
        && object.pointer("/status/observedGeneration") != object.pointer("/metadata/generation")
}

/// The status of a workload whose controller has done its work. What is zero is not told.
fn workload_status(object: &Value) -> Value {
    let replicas = object
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    let mut status = json!({"observedGeneration": object.pointer("/metadata/generation")});
    let always = match text(object, "/kind") {
        "StatefulSet" => &["replicas", "availableReplicas"][..],
        _ => &[],
    };
    for field in ["replicas", "readyReplicas", "availableReplicas"] {
        if replicas > 0 || always.contains(&field) {
            status[field] = replicas.into();
        }
    }
    status
}

/// The `Scale` of an object. A spec of zero replicas lacks the field.
fn scale(object: &Value) -> Value {
    let replicas = |part: &str| {
        let replicas = object.pointer(&format!("/{part}/replicas"));
        replicas.and_then(Value::as_i64).unwrap_or(0)
    };
    let metadata = [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ];
    let metadata = metadata.into_iter().filter_map(|field| {
        let value = object.pointer(&format!("/metadata/{field}"))?;
        Some((field.to_owned(), value.clone()))
    });
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata.collect::<serde_json::Map<_, _>>(),
        "spec": {}, "status": {"replicas": replicas("status")},
    });
    if replicas("spec") != 0 {
        scale["spec"]["replicas"] = replicas("spec").into();
    }
    let labels = object
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    if let Some(labels) = labels {
        let pairs = labels
            .iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
        scale["status"]["selector"] = pairs.collect::<Vec<_>>().join(",").into();
    }
    scale
}

fn shown(call: &Call, object: &Value) -> Value {
    if call.only_metadata {
        return only_metadata(object);
    }
    in_version(call, object)
}

/// An object as it is in the version that is asked for.
fn in_version(call: &Call, object: &Value) -> Value {
    let mut object = object.clone();
    set(
        &mut object,
        "/apiVersion",
        call.group_version.clone().into(),
    );
    object
}

/// The metadata of an object alone.
pub(crate) fn only_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata"),
    })
}

fn key_of(call: &Call) -> Key {
    Key::new(&call.plural, &call.namespace, &call.name)
}

fn finalizers(object: &Value) -> Vec<&str> {
    let all = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// A text in a value, empty if there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A time as API servers write it.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Sets a field of an object, and makes what is to hold it.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = value;
}

fn put_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(fields) = object.as_object_mut() {
        match value {
            Some(value) => fields.insert(field.to_owned(), value),
            None => fields.remove(field),
        };
    }
}
