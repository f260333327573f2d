//! Every version of the dependents, as an administrator's watch tells them.

use anyhow::{Result, bail};
use dependency_watchdog::prober::plan::{IGNORE, MARK, RECORD};
use dependency_watchdog_e2e::{
    DEPENDENTS,
    farm::{Micros, now},
    hosted,
};
use futures::TryStreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio_util::task::AbortOnDropHandle;

/// As which the operator writes.
const OPERATOR: &str = "dependency-watchdog";

/// One version of a dependent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Version {
    pub(crate) shoot: usize,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Its resourceVersion, by which versions of all objects are in order.
    pub(crate) version: u64,
    /// The second in which the operator has scaled it last, by the seed's clock, which is this
    /// machine's; where it never did, when the version was seen. To remove an annotation alone is not
    /// dated.
    pub(crate) written: Micros,
    /// When the version was seen.
    pub(crate) seen: Micros,
    pub(crate) replicas: i64,
    pub(crate) marked: bool,
    pub(crate) record: Option<i64>,
    pub(crate) ignored: bool,
}

impl Version {
    /// Of a dependent of these shoots; none of anything else.
    pub(crate) fn of(object: &Deployment, shoots: &BTreeMap<String, usize>) -> Option<Self> {
        let name = object.name_any();
        let shoot = *shoots.get(&object.namespace()?)?;
        if !DEPENDENTS.contains(&name.as_str()) {
            return None;
        }
        let annotations = object.annotations();
        let mut times: Vec<Micros> = object
            .managed_fields()
            .iter()
            .filter(|it| it.manager.as_deref() == Some(OPERATOR))
            .filter_map(|it| Some(it.time.as_ref()?.0.as_microsecond()))
            .collect();
        times.sort_unstable();
        let replicas = object.spec.as_ref().and_then(|spec| spec.replicas);
        Some(Self {
            shoot,
            name,
            uid: object.uid()?,
            version: object.resource_version()?.parse().ok()?,
            written: times.pop().unwrap_or_else(now),
            seen: now(),
            replicas: replicas.unwrap_or(1).into(),
            marked: annotations.contains_key(MARK),
            record: annotations.get(RECORD).and_then(|it| it.parse().ok()),
            ignored: annotations.get(IGNORE).is_some_and(|it| it == "true"),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = jiff::Timestamp::from_microsecond(self.written).unwrap_or_default();
        write!(
            f,
            "version {} with {} replicas, marked: {}, record {:?}, ignored: {} (dated {at})",
            self.version, self.replicas, self.marked, self.record, self.ignored
        )
    }
}

/// Sees all versions from its start on. It ends with this value.
pub(crate) struct Versions {
    seen: Arc<Mutex<Vec<Version>>>,
    _task: AbortOnDropHandle<()>,
}

impl Versions {
    /// Starts it for so many shoots.
    pub(crate) fn start(client: &Client, shoots: usize) -> Self {
        let seen = Arc::<Mutex<Vec<Version>>>::default();
        let task = tokio::spawn(watch(client.clone(), names(shoots), Arc::clone(&seen)));
        Self {
            seen,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Every version so far, in order.
    pub(crate) fn history(&self) -> Vec<Version> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut history = seen.clone();
        drop(seen);
        history.sort_by_key(|it| it.version);
        history.dedup_by_key(|it| it.version);
        history
    }

    /// Fails unless it has seen what is there by now.
    pub(crate) fn ensure_newest(&self, there: &[Version]) -> Result<()> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = there.iter().map(|it| it.version).max();
        if seen.iter().map(|it| it.version).max() < newest {
            bail!("the watch of the dependents has not caught up");
        }
        Ok(())
    }
}

/// The namespaces of so many shoots.
pub(crate) fn names(shoots: usize) -> BTreeMap<String, usize> {
    (0..shoots).map(|it| (hosted::namespace(it), it)).collect()
}

async fn watch(client: Client, shoots: BTreeMap<String, usize>, seen: Arc<Mutex<Vec<Version>>>) {
    let all: Api<Deployment> = Api::all(client);
    let mut events = pin!(watcher(all, watcher::Config::default()).default_backoff());
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Apply(found) | watcher::Event::InitApply(found))) => {
                let version = Version::of(&found, &shoots);
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend(version);
            }
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => tracing::debug!("watch of the dependents: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_version_tells_when_the_operator_wrote_last() {
        let manager =
            |name: &str, time: &str| json!({"manager": name, "time": time, "operation": "Update"});
        let object = json!({
            "metadata": {
                "name": DEPENDENTS[0], "namespace": hosted::namespace(1),
                "uid": "u", "resourceVersion": "7",
                "annotations": {MARK: "", RECORD: "2"},
                "managedFields": [
                    manager(OPERATOR, "2026-01-01T00:00:05Z"),
                    manager(OPERATOR, "2026-01-01T00:00:07Z"),
                    manager("kubectl", "2026-01-01T00:00:09Z"),
                ],
            },
            "spec": {"replicas": 0, "selector": {}, "template": {}},
        });
        let object: Deployment = serde_json::from_value(object).unwrap();
        let version = Version::of(&object, &names(2)).unwrap();
        let written: jiff::Timestamp = "2026-01-01T00:00:07Z".parse().unwrap();
        assert_eq!(version.written, written.as_microsecond());
        assert_eq!((version.shoot, version.version), (1, 7));
        assert_eq!((version.replicas, version.record), (0, Some(2)));
        assert!(version.marked && !version.ignored);
        assert_eq!(Version::of(&object, &names(1)), None);
    }
}
