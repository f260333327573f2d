//! The leases of a shoot, as large as real ones.

use super::{
    clock::Micros,
    kubelets::{Kubelets, Renewal},
    names::{by_name, node_name, uid},
    wire::{Message, list, manager, metadata, time},
};

/// What the kubelet owns of a lease.
const OWNED: &str = concat!(
    r#"{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"@NODE@\"}":{}}},"#,
    r#""f:spec":{"f:holderIdentity":{},"f:leaseDurationSeconds":{},"f:renewTime":{}}}"#
);

/// The list of a shoot's leases as it is then, as the body of an answer.
pub fn leases(shoot: usize, kubelets: &Kubelets, duration: u32, at: Micros) -> Vec<u8> {
    let renewals: Vec<Option<Renewal>> = kubelets.renewals(at).collect();
    let lease = |node: usize| {
        let renewal = (*renewals.get(node)?)?;
        let (name, node_uid) = (node_name(shoot, node), uid(0, shoot, node));
        let uid = uid(renewal.incarnation.saturating_add(1), shoot, node);
        let revision = kubelets.revision(renewal.written);
        let owner = Message::default().bytes(1, "Node").bytes(3, &name);
        let owner = owner.bytes(4, &node_uid).bytes(5, "v1");
        let owned = OWNED.replace("@NODE@", &node_uid);
        let version = "coordination.k8s.io/v1";
        let metadata = metadata(&name, "kube-node-lease", &uid, revision)
            .bytes(13, owner)
            .bytes(17, manager("kubelet", version, renewal.stamp, &owned, ""));
        let spec = Message::default()
            .bytes(1, &name)
            .number(2, duration.into());
        let spec = spec.bytes(4, time(renewal.renew_time));
        Some(Message::default().bytes(1, metadata).bytes(2, spec))
    };
    let leases = by_name(renewals.len()).filter_map(lease).collect();
    list(
        "coordination.k8s.io/v1",
        "LeaseList",
        kubelets.revision(at),
        leases,
    )
}
