//! Kubernetes objects as messages of protobuf: the numbers of the fields are those of
//! `generated.proto` in k8s.io/api and k8s.io/apimachinery v0.36.
//!
//! kube-apiserver writes a field that is no pointer in Go even when it is empty; those are
//! `required` here, so that a body is as long as a real one.

use super::framing::Body;
use jiff::Timestamp;
use prost::{Message, length_delimiter_len};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::collections::BTreeMap;

/// What a body in this encoding begins with.
const MAGIC: &[u8] = b"k8s\0";
/// `contentEncoding` and `contentType` of the envelope, a tag and a length each.
const EMPTY_FIELDS: usize = 4;
/// How this encoding is asked for, and told.
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A list, written as kube-apiserver does: each item is an encoded object, and a write.
pub(super) fn list(version: &str, kind: &str, metadata: ListMeta, items: Vec<Vec<u8>>) -> Body {
    let lengths: Vec<usize> = items.iter().map(Vec::len).collect();
    let unknown = Unknown {
        type_meta: TypeMeta {
            api_version: version.to_owned(),
            kind: kind.to_owned(),
        },
        raw: List { metadata, items }.encode_to_vec(),
        ..Unknown::default()
    };
    let mut bytes = Vec::with_capacity(MAGIC.len() + unknown.encoded_len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend(unknown.encode_to_vec());
    // From the end, where two empty fields follow the items.
    let mut writes = Vec::new();
    let mut end = bytes.len() - EMPTY_FIELDS;
    for length in lengths.into_iter().rev() {
        writes.extend([end, end - length]);
        end -= length + 1 + length_delimiter_len(length);
    }
    writes.reverse();
    Body {
        writes,
        ..Body::new(PROTOBUF, bytes)
    }
}

/// The envelope of every body.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Unknown {
    #[prost(message, required, tag = "1")]
    pub(super) type_meta: TypeMeta,
    #[prost(bytes = "vec", required, tag = "2")]
    pub(super) raw: Vec<u8>,
    #[prost(string, required, tag = "3")]
    pub(super) content_encoding: String,
    #[prost(string, required, tag = "4")]
    pub(super) content_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TypeMeta {
    #[prost(string, required, tag = "1")]
    pub(super) api_version: String,
    #[prost(string, required, tag = "2")]
    pub(super) kind: String,
}

/// A list of anything: messages within messages are bytes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct List {
    #[prost(message, required, tag = "1")]
    pub(super) metadata: ListMeta,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) items: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    #[prost(string, required, tag = "1")]
    pub(super) self_link: String,
    #[prost(string, required, tag = "2")]
    pub(super) resource_version: String,
    #[prost(string, required, tag = "3")]
    pub(super) r#continue: String,
    #[prost(int64, optional, tag = "4")]
    pub(super) remaining_item_count: Option<i64>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectMeta {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
    #[prost(string, required, tag = "2")]
    pub(super) generate_name: String,
    #[prost(string, required, tag = "3")]
    pub(super) namespace: String,
    #[prost(string, required, tag = "4")]
    pub(super) self_link: String,
    #[prost(string, required, tag = "5")]
    pub(super) uid: String,
    #[prost(string, required, tag = "6")]
    pub(super) resource_version: String,
    #[prost(int64, required, tag = "7")]
    pub(super) generation: i64,
    #[prost(message, required, tag = "8")]
    pub(super) creation_timestamp: Time,
    #[prost(message, optional, tag = "9")]
    pub(super) deletion_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(super) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(super) annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    pub(super) owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    pub(super) finalizers: Vec<String>,
    #[prost(message, repeated, tag = "17")]
    pub(super) managed_fields: Vec<ManagedFieldsEntry>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerReference {
    #[prost(string, required, tag = "1")]
    pub(super) kind: String,
    #[prost(string, required, tag = "3")]
    pub(super) name: String,
    #[prost(string, required, tag = "4")]
    pub(super) uid: String,
    #[prost(string, required, tag = "5")]
    pub(super) api_version: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ManagedFieldsEntry {
    #[prost(string, required, tag = "1")]
    pub(super) manager: String,
    #[prost(string, required, tag = "2")]
    pub(super) operation: String,
    #[prost(string, required, tag = "3")]
    pub(super) api_version: String,
    #[prost(message, optional, tag = "4")]
    pub(super) time: Option<Time>,
    #[prost(string, required, tag = "6")]
    pub(super) fields_type: String,
    #[prost(message, optional, tag = "7")]
    pub(super) fields_v1: Option<FieldsV1>,
    #[prost(string, required, tag = "8")]
    pub(super) subresource: String,
}

/// JSON, as it is.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FieldsV1 {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) raw: Vec<u8>,
}

/// `Time` and `MicroTime` alike.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Time {
    #[prost(int64, required, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, required, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    #[prost(message, required, tag = "1")]
    pub(super) metadata: ObjectMeta,
    #[prost(message, required, tag = "2")]
    pub(super) spec: LeaseSpec,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseSpec {
    #[prost(string, optional, tag = "1")]
    pub(super) holder_identity: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) lease_duration_seconds: Option<i32>,
    #[prost(message, optional, tag = "4")]
    pub(super) renew_time: Option<Time>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    #[prost(message, required, tag = "1")]
    pub(super) metadata: ObjectMeta,
    #[prost(message, required, tag = "2")]
    pub(super) spec: NodeSpec,
    #[prost(message, required, tag = "3")]
    pub(super) status: NodeStatus,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    #[prost(string, required, tag = "1")]
    #[serde(rename = "podCIDR")]
    pub(super) pod_cidr: String,
    #[prost(string, required, tag = "2")]
    #[serde(rename = "externalID")]
    pub(super) external_id: String,
    #[prost(string, required, tag = "3")]
    #[serde(rename = "providerID")]
    pub(super) provider_id: String,
    #[prost(bool, required, tag = "4")]
    pub(super) unschedulable: bool,
    #[prost(message, repeated, tag = "5")]
    pub(super) taints: Vec<Taint>,
    #[prost(string, repeated, tag = "7")]
    #[serde(rename = "podCIDRs")]
    pub(super) pod_cidrs: Vec<String>,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    #[prost(string, required, tag = "1")]
    pub(super) key: String,
    #[prost(string, required, tag = "2")]
    pub(super) value: String,
    #[prost(string, required, tag = "3")]
    pub(super) effect: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeStatus {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(super) capacity: BTreeMap<String, Quantity>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(super) allocatable: BTreeMap<String, Quantity>,
    #[prost(string, required, tag = "3")]
    pub(super) phase: String,
    #[prost(message, repeated, tag = "4")]
    pub(super) conditions: Vec<NodeCondition>,
    #[prost(message, repeated, tag = "5")]
    pub(super) addresses: Vec<NodeAddress>,
    #[prost(message, required, tag = "6")]
    pub(super) daemon_endpoints: NodeDaemonEndpoints,
    #[prost(message, required, tag = "7")]
    pub(super) node_info: NodeSystemInfo,
    #[prost(message, repeated, tag = "8")]
    pub(super) images: Vec<ContainerImage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Quantity {
    #[prost(string, required, tag = "1")]
    pub(super) string: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeCondition {
    #[prost(string, required, tag = "1")]
    pub(super) r#type: String,
    #[prost(string, required, tag = "2")]
    pub(super) status: String,
    #[prost(message, required, tag = "3")]
    pub(super) last_heartbeat_time: Time,
    #[prost(message, required, tag = "4")]
    pub(super) last_transition_time: Time,
    #[prost(string, required, tag = "5")]
    pub(super) reason: String,
    #[prost(string, required, tag = "6")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct NodeAddress {
    #[prost(string, required, tag = "1")]
    pub(super) r#type: String,
    #[prost(string, required, tag = "2")]
    pub(super) address: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeDaemonEndpoints {
    #[prost(message, required, tag = "1")]
    pub(super) kubelet_endpoint: DaemonEndpoint,
}

#[derive(Clone, Copy, PartialEq, Message, Deserialize)]
#[serde(default)]
pub(super) struct DaemonEndpoint {
    #[prost(int32, required, tag = "1")]
    #[serde(rename = "Port")]
    pub(super) port: i32,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeSystemInfo {
    #[prost(string, required, tag = "1")]
    #[serde(rename = "machineID")]
    pub(super) machine_id: String,
    #[prost(string, required, tag = "2")]
    #[serde(rename = "systemUUID")]
    pub(super) system_uuid: String,
    #[prost(string, required, tag = "3")]
    #[serde(rename = "bootID")]
    pub(super) boot_id: String,
    #[prost(string, required, tag = "4")]
    pub(super) kernel_version: String,
    #[prost(string, required, tag = "5")]
    pub(super) os_image: String,
    #[prost(string, required, tag = "6")]
    pub(super) container_runtime_version: String,
    #[prost(string, required, tag = "7")]
    pub(super) kubelet_version: String,
    #[prost(string, required, tag = "8")]
    pub(super) kube_proxy_version: String,
    #[prost(string, required, tag = "9")]
    pub(super) operating_system: String,
    #[prost(string, required, tag = "10")]
    pub(super) architecture: String,
}

#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerImage {
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
    #[prost(int64, required, tag = "2")]
    pub(super) size_bytes: i64,
}

impl Time {
    /// A moment in microseconds since the unix epoch.
    pub(super) fn from_micros(moment: i64) -> Self {
        Self {
            seconds: moment.div_euclid(1_000_000),
            // Less than 10^9.
            nanos: (moment.rem_euclid(1_000_000) * 1000) as i32,
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment: Timestamp = text.parse().map_err(D::Error::custom)?;
        Ok(Self::from_micros(moment.as_microsecond()))
    }
}

impl<'de> Deserialize<'de> for FieldsV1 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = serde_json::Value::deserialize(deserializer)?;
        let raw = fields.to_string().into_bytes();
        Ok(Self { raw })
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|string| Self { string })
    }
}

/// A list as another encoding of it has it.
#[cfg(test)]
pub(super) fn from_json<T: Message + serde::de::DeserializeOwned>(body: &[u8]) -> Body {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Json<T> {
        api_version: String,
        kind: String,
        metadata: ListMeta,
        items: Vec<T>,
    }
    let json: Json<T> = serde_json::from_slice(body).unwrap();
    let items = json.items.iter().map(Message::encode_to_vec).collect();
    list(&json.api_version, &json.kind, json.metadata, items)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kube-apiserver v1.36.3 has answered in both encodings for the same objects.
    #[test]
    fn messages_are_those_of_a_real_server_byte_for_byte() {
        let leases = from_json::<Lease>(include_bytes!("../../../tests/fixtures/wire/leases.json"));
        assert_eq!(
            leases.bytes,
            include_bytes!("../../../tests/fixtures/wire/leases.protobuf")
        );
        let nodes = from_json::<Node>(include_bytes!("../../../tests/fixtures/wire/nodes.json"));
        assert_eq!(
            nodes.bytes,
            include_bytes!("../../../tests/fixtures/wire/nodes.protobuf")
        );
    }
}
