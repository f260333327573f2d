//! The leases of a shoot, byte for byte as large as real ones.

use super::{
    bodies::{Encoding, list},
    clock::{Micros, micro_time, stamp},
    framing::Body,
    kubelets::{Kubelets, Renewal},
    names::{by_name, node_name, uid},
    template::Template,
    wire,
};
use prost::Message as _;
use serde_json::Value;
use std::sync::LazyLock;

const SECOND: Micros = 1_000_000;

/// As kube-apiserver v1.36 encodes a lease that a kubelet renews.
const LEASE: &str = concat!(
    r#"{"metadata":{"name":"@NAME@","namespace":"kube-node-lease","uid":"@UID@","#,
    r#""resourceVersion":"@REVISION@","creationTimestamp":"2026-01-01T00:00:00Z","#,
    r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"@NAME@","uid":"@NODE@"}],"#,
    r#""managedFields":[{"manager":"kubelet","operation":"Update","#,
    r#""apiVersion":"coordination.k8s.io/v1","time":"@STAMP@","fieldsType":"FieldsV1","#,
    r#""fieldsV1":{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"@NODE@\"}":{}}},"#,
    r#""f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}}]},"#,
    r#""spec":{"holderIdentity":"@NAME@","leaseDurationSeconds":@DURATION@,"#,
    r#""renewTime":"@RENEWED@"}}"#
);

/// What the kubelet owns of it, as it stands there.
const OWNED: &str = concat!(
    r#"{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"@NODE@\"}":{}}},"#,
    r#""f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}"#
);
/// The `creationTimestamp` of everything, in seconds since the unix epoch.
const CREATED: i64 = 1_767_225_600;

/// The list of a shoot's leases.
pub(super) fn leases(
    encoding: Encoding,
    shoot: usize,
    kubelets: &Kubelets,
    duration: u32,
    is_stamping: bool,
    at: Micros,
) -> Body {
    let renewals: Vec<Option<Renewal>> = kubelets.renewals(at).collect();
    let items = by_name(renewals.len()).filter_map(|node| {
        let renewal = (*renewals.get(node)?)?;
        let revision = kubelets.revision(renewal.written);
        Some(LeaseOf {
            name: node_name(shoot, node),
            uid: uid(renewal.incarnation.saturating_add(1), shoot, node),
            node_uid: uid(0, shoot, node),
            revision: revision.to_string(),
            duration,
            is_stamping,
            renewal,
        })
    });
    let revision = kubelets.revision(at);
    list(
        encoding,
        "coordination.k8s.io/v1",
        "LeaseList",
        revision,
        items.map(|lease| lease.encode(encoding)),
    )
}

/// What differs from lease to lease.
struct LeaseOf {
    name: String,
    uid: String,
    node_uid: String,
    revision: String,
    duration: u32,
    is_stamping: bool,
    renewal: Renewal,
}

impl LeaseOf {
    fn encode(self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Json => self.json(),
            Encoding::Protobuf => self.message().encode_to_vec(),
        }
    }

    fn json(&self) -> Vec<u8> {
        static ITEM: LazyLock<Template> = LazyLock::new(|| {
            let marks = [
                "@NAME@",
                "@UID@",
                "@NODE@",
                "@REVISION@",
                "@STAMP@",
                "@DURATION@",
                "@RENEWED@",
            ];
            Template::new(LEASE.as_bytes(), &marks)
        });
        let values = [
            &self.name,
            &self.uid,
            &self.node_uid,
            &self.revision,
            &stamp(self.renewal.stamp),
            &self.duration.to_string(),
            &micro_time(self.renewal.renew_time),
        ];
        let mut item = Vec::with_capacity(2 * LEASE.len());
        ITEM.fill(&values.map(String::as_str), &mut item);
        if self.is_stamping {
            return item;
        }
        let mut lease: Value = serde_json::from_slice(&item).unwrap_or_default();
        if let Some(Value::Object(metadata)) = lease.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        lease.to_string().into_bytes()
    }

    fn message(self) -> wire::Lease {
        // In whole seconds, as all times but renewTime.
        let stamp = self.renewal.stamp;
        let written = wire::Time::from_micros(stamp - stamp.rem_euclid(SECOND));
        let mut managed_fields = Vec::new();
        let fields = OWNED.replace("@NODE@", &self.node_uid).into_bytes();
        if self.is_stamping {
            managed_fields.push(wire::ManagedFieldsEntry {
                manager: "kubelet".to_owned(),
                operation: "Update".to_owned(),
                api_version: "coordination.k8s.io/v1".to_owned(),
                time: Some(written),
                fields_type: "FieldsV1".to_owned(),
                fields_v1: Some(wire::FieldsV1 { raw: fields }),
                ..wire::ManagedFieldsEntry::default()
            });
        }
        wire::Lease {
            spec: wire::LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: self.duration.try_into().ok(),
                renew_time: Some(wire::Time::from_micros(self.renewal.renew_time)),
            },
            metadata: wire::ObjectMeta {
                namespace: "kube-node-lease".to_owned(),
                uid: self.uid,
                resource_version: self.revision,
                creation_timestamp: wire::Time {
                    seconds: CREATED,
                    nanos: 0,
                },
                owner_references: vec![wire::OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: self.name.clone(),
                    uid: self.node_uid,
                }],
                managed_fields,
                name: self.name,
                ..wire::ObjectMeta::default()
            },
        }
    }
}
