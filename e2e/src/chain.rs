//! A control plane in which each part needs the one before, labelled as Gardener does it.

use crate::App;

/// What all else needs.
pub const ETCD: App<'_> = App {
    name: "etcd-main",
    replicas: 3,
    labels: &[("gardener.cloud/role", "controlplane"), ("role", "main")],
    service: Some("etcd-main-client"),
    needs: None,
};

/// Crashes without etcd.
pub const API_SERVER: App<'_> = App {
    name: "kube-apiserver",
    replicas: 2,
    labels: &[
        ("gardener.cloud/role", "controlplane"),
        ("role", "apiserver"),
    ],
    service: Some("kube-apiserver"),
    needs: ETCD.service,
};

/// Crashes without an API server.
pub const KCM: App<'_> = App {
    name: "kube-controller-manager",
    replicas: 1,
    labels: &[
        ("gardener.cloud/role", "controlplane"),
        ("role", "controller-manager"),
    ],
    service: None,
    needs: API_SERVER.service,
};

/// Likewise.
pub const SCHEDULER: App<'_> = App {
    name: "kube-scheduler",
    labels: &[
        ("gardener.cloud/role", "controlplane"),
        ("role", "scheduler"),
    ],
    ..KCM
};
