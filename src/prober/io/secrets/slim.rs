//! A Secret of which the kubeconfig alone is decoded.

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{api::core::v1, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use crate::shoot::{KubeconfigError, MAX_KUBECONFIG_BYTES};

/// The key of the kubeconfig.
pub(super) const KEY: &str = "kubeconfig";

/// A Secret without its other keys and its annotations, which are not decoded: kubectl may have
/// left a copy of all keys there. No message and no log shows the kubeconfig.
#[derive(Clone, Deserialize, Resource)]
#[resource(inherit = v1::Secret)]
#[serde(from = "Received")]
pub(super) struct Secret {
    metadata: ObjectMeta,
    /// The value of the key [`KEY`]. One that is too large is not kept.
    pub(super) kubeconfig: Option<Result<Arc<[u8]>, KubeconfigError>>,
}

#[derive(Deserialize)]
struct Received {
    metadata: Meta,
    data: Option<Data>,
}

/// What is known of a Secret beside its kubeconfig. What is not decoded cannot fail the whole list.
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
        let encoded = received.data.and_then(|data| data.kubeconfig);
        Self {
            metadata: ObjectMeta {
                // A store of Secrets needs one, whatever a seed sends.
                name: Some(received.metadata.name.unwrap_or_default()),
                namespace: received.metadata.namespace,
                resource_version: received.metadata.resource_version,
                ..ObjectMeta::default()
            },
            // API servers send base64 only. Anything else must not fail the whole list: it becomes
            // an empty kubeconfig, which is reported as invalid when it is used.
            kubeconfig: encoded
                .map(|encoded| bounded(STANDARD.decode(encoded).unwrap_or_default())),
        }
    }
}

fn bounded(kubeconfig: Vec<u8>) -> Result<Arc<[u8]>, KubeconfigError> {
    let bytes = kubeconfig.len();
    if bytes > MAX_KUBECONFIG_BYTES {
        return Err(KubeconfigError::TooLarge { bytes });
    }
    Ok(kubeconfig.into())
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.metadata.name)
            .field("namespace", &self.metadata.namespace)
            .finish_non_exhaustive()
    }
}
