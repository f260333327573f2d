//! A Secret of which the kubeconfig alone is decoded.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// The key of the kubeconfig.
pub(super) const KEY: &str = "kubeconfig";

/// What is read of a Secret. Other keys are not even decoded, and annotations, in which kubectl
/// may have left a copy of all of them, neither. It shows in no message and no log.
#[derive(Clone, Deserialize)]
#[serde(from = "Received")]
pub(super) struct Secret {
    /// Name, namespace and resourceVersion.
    metadata: ObjectMeta,
    /// The bytes of the key [`KEY`]; `None` if there is no such key.
    pub(super) kubeconfig: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct Received {
    metadata: Meta,
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
struct Data {
    kubeconfig: Option<String>,
}

impl From<Received> for Secret {
    fn from(received: Received) -> Self {
        let Meta {
            name,
            namespace,
            resource_version,
        } = received.metadata;
        let encoded = received.data.and_then(|data| data.kubeconfig);
        Self {
            metadata: ObjectMeta {
                name,
                namespace,
                resource_version,
                ..ObjectMeta::default()
            },
            // API servers send nothing but base64. Whatever else it is, it is no kubeconfig, and is
            // called so when it is used; a list must not fail for it.
            kubeconfig: encoded.map(|encoded| STANDARD.decode(encoded).unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.metadata.name)
            .field("namespace", &self.metadata.namespace)
            .finish_non_exhaustive()
    }
}

impl Resource for Secret {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Secret".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "secrets".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
