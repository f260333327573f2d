//! The slim view of the nodes of a shoot: what decides whether a silent lease counts.
//!
//! A kubelet may write what it likes into annotations and conditions of its own Node, and the API server
//! takes and sends it although it is no UTF-8. One Node must not make the list unreadable by that.

use super::list::{Item, NAME};
use super::unread::Target;
use super::wire::{Malformed, Value, fields};

/// `deletionTimestamp`, `labels` and `annotations` of `meta/v1.ObjectMeta`, ...
const DELETED: (u32, u32) = (1, 9);
const LABELS: (u32, u32) = (1, 11);
const ANNOTATIONS: (u32, u32) = (1, 12);
/// ... and the key and the value of a label, an annotation or a taint.
const ENTRY: [u32; 2] = [1, 2];
/// `taints` of `core/v1.NodeSpec`.
const TAINTS: (u32, u32) = (2, 5);
/// `conditions` of `core/v1.NodeStatus`.
const CONDITIONS: (u32, u32) = (3, 4);
/// `type`, `status` and `reason` of `core/v1.NodeCondition`.
const CONDITION: [u32; 3] = [1, 2, 5];

/// The labels, the annotation and the taint that are read.
const WORKER_POOL: &str = "worker.gardener.cloud/pool";
const ZONE: &str = "topology.kubernetes.io/zone";
const EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";
const NOT_MANAGED_BY_MCM: &str = "node.machine.sapcloud.io/not-managed-by-mcm";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// So many conditions of a node that are `True` are kept; nearly all are `False`, ...
const MAX_CONDITIONS: usize = 16;
/// ... with names of at most so many bytes.
const MAX_CONDITION_BYTES: usize = 64;
/// The longest value of a label, in bytes, that an API server takes.
const MAX_LABEL_BYTES: usize = 63;

/// A Node, as far as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The name.
    pub name: Box<str>,
    /// Deletion has begun: `metadata.deletionTimestamp` is there.
    pub deleted: bool,
    /// Taint `node.kubernetes.io/out-of-service` is there, whatever its value and effect: somebody knows that the
    /// node is lost.
    pub out_of_service: bool,
    /// Label `worker.gardener.cloud/pool`: the worker pool whose node conditions apply.
    pub worker_pool: Option<String>,
    /// Label `topology.kubernetes.io/zone`, for telling where the silent nodes are.
    pub zone: Option<String>,
    /// Label `node.kubernetes.io/exclude-disruption` is there, whatever its value: kube-controller-manager
    /// does not count this node when it decides whether a zone is disrupted.
    pub exclude_disruption: bool,
    /// Annotation `node.machine.sapcloud.io/not-managed-by-mcm` is there, whatever its value: the
    /// machine-controller-manager leaves this node alone.
    pub not_managed_by_mcm: bool,
    /// The types of the conditions whose status is `True`, in the server's order; the first sixteen of at most 64 bytes.
    pub true_conditions: Vec<String>,
    /// In an in-place update: condition `InPlaceUpdate` with reason `ReadyForUpdate` or
    /// `UpdateFailed`. The kubelet may rest meanwhile.
    pub in_place_update: bool,
}

impl Node {
    /// Returns whether it says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.true_conditions.iter().any(|it| it == "Ready")
    }
}

impl Item for Node {
    const LIST: &'static str = "NodeList";
    const TARGET: Target = Target("list the nodes");
    const PATH: &'static str = "/api/v1/nodes";
    /// A node takes 15 to 20 KB, so this is more than 6,500 nodes, above Kubernetes' limit of 5,000.
    const MAX_BYTES: usize = 128 * 1024 * 1024;

    fn take(&mut self, field: (u32, u32), value: Value<'_>) -> Result<(), Malformed> {
        match field {
            NAME => self.name = value.text()?.into(),
            DELETED => self.deleted = true,
            LABELS => {
                let [key, value] = fields(value.bytes()?, ENTRY)?;
                let value = value.bytes()?;
                let is_one = (1..=MAX_LABEL_BYTES).contains(&value.len());
                let value = || is_one.then(|| String::from_utf8_lossy(value).into_owned());
                match str::from_utf8(key.bytes()?) {
                    Ok(WORKER_POOL) => self.worker_pool = value(),
                    Ok(ZONE) => self.zone = value(),
                    Ok(EXCLUDE_DISRUPTION) => self.exclude_disruption = true,
                    _ => {}
                }
            }
            ANNOTATIONS => {
                let [key, _] = fields(value.bytes()?, ENTRY)?;
                self.not_managed_by_mcm |= key.bytes()? == NOT_MANAGED_BY_MCM.as_bytes();
            }
            TAINTS => {
                let [key, _] = fields(value.bytes()?, ENTRY)?;
                self.out_of_service |= key.bytes()? == OUT_OF_SERVICE.as_bytes();
            }
            CONDITIONS => {
                let [kind, status, reason] = fields(value.bytes()?, CONDITION)?;
                let (kind, reason) = (kind.bytes()?, reason.bytes()?);
                self.in_place_update |= kind == b"InPlaceUpdate"
                    && matches!(reason, b"ReadyForUpdate" | b"UpdateFailed");
                if status.bytes()? == b"True" && self.true_conditions.len() < MAX_CONDITIONS {
                    // One that is no UTF-8 is no policy's.
                    let kind = str::from_utf8(kind).ok();
                    let kind = kind.filter(|it| (1..=MAX_CONDITION_BYTES).contains(&it.len()));
                    self.true_conditions.extend(kind.map(str::to_owned));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
