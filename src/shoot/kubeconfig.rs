//! Reading a kubeconfig out of a Secret, as untrusted input.
//!
//! Whoever can write the Secret must gain nothing by it: no plugin is run, no file is read, no
//! proxy is used, and a server that cannot be verified is refused, since its answers are no
//! evidence. Only inline data is accepted. No message here repeats anything but field names and
//! the names of contexts, clusters and users.

use std::fmt;

use http::{HeaderValue, Uri};
use rustls_pki_types::ServerName;
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;

use self::entry::Entry;

mod entry;

/// No kubeconfig is longer, in bytes. With one cluster and one user it has 3 to 10 KB; a thousand of
/// the size that a Secret allows would take a gigabyte.
pub const MAX_KUBECONFIG_BYTES: usize = 256 * 1024;

/// A kubeconfig nests about six levels deep; far beyond that the parser's stack is at stake.
const MAX_DEPTH: usize = 64;

const NO_TRUST: &str =
    "the answers of an unverified server are no evidence; set certificate-authority-data";
const INLINE: &str = "put the content, base64 encoded, into the field of the same name with -data";
const NO_PROXY: &str = "the API server is reached directly; remove it and set a reachable server";
const NO_PLUGIN: &str = "no plugin is run from a Secret; set token";
const NO_FILE: &str = "put the content of the file into token";
const NO_BASIC: &str = "API servers no longer accept passwords; set token";
const NO_IMPERSONATION: &str = "no other user is impersonated; set the needed user's own token";

/// Fields of a cluster or a user that would run, read, reach or trust more than the kubeconfig itself, and what to do
/// instead.
const REFUSED: [(&str, &str, &str); 14] = [
    ("cluster", "insecure-skip-tls-verify", NO_TRUST),
    ("cluster", "certificate-authority", INLINE),
    ("cluster", "proxy-url", NO_PROXY),
    ("user", "exec", NO_PLUGIN),
    ("user", "auth-provider", NO_PLUGIN),
    ("user", "tokenFile", NO_FILE),
    ("user", "client-certificate", INLINE),
    ("user", "client-key", INLINE),
    ("user", "username", NO_BASIC),
    ("user", "password", NO_BASIC),
    ("user", "as", NO_IMPERSONATION),
    ("user", "as-uid", NO_IMPERSONATION),
    ("user", "as-groups", NO_IMPERSONATION),
    ("user", "as-user-extra", NO_IMPERSONATION),
];

/// Access to an API server: its place, its certificates, and credentials for it. Secrets never show in `Debug`.
pub struct Access {
    pub(super) server: Uri,
    pub(super) tls_name: ServerName<'static>,
    pub(super) tls: ClientConfig,
    pub(super) authorization: Option<HeaderValue>,
}

/// Why a kubeconfig is not used, and what to change in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// A field would run, read, or trust something beyond the kubeconfig itself.
    #[error("the kubeconfig sets {field}, which is refused: {remedy}")]
    Refused {
        /// The field.
        field: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// The kubeconfig cannot be read, or a field is absent or cannot be used. The value itself is never repeated.
    #[error("{0}")]
    Invalid(String),
}

impl KubeconfigError {
    /// The reason for a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "KubeconfigRefused",
            Self::Invalid(_) => "KubeconfigInvalid",
        }
    }
}

impl Access {
    /// The URL of the API server. It carries no credentials.
    pub fn server(&self) -> &Uri {
        &self.server
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut access = f.debug_struct("Access");
        access.field("server", &self.server).finish_non_exhaustive()
    }
}

/// Reads a kubeconfig and keeps what its current context needs.
pub fn parse(bytes: &[u8]) -> Result<Access, KubeconfigError> {
    let config = document(bytes)?;
    let context = Entry::root(&config).context()?;
    let cluster = context.used("cluster")?;
    let user = context.used("user")?;
    let (authorization, identity) = (user.authorization()?, user.identity()?);
    if authorization.is_none() && identity.is_none() {
        let remedy = "set it, or client-certificate-data and client-key-data";
        return Err(user.missing("token", remedy));
    }
    let server = cluster.server()?;
    let tls = ClientConfig::builder().with_root_certificates(cluster.roots()?);
    Ok(Access {
        tls_name: cluster.tls_name(&server)?,
        tls: match identity {
            None => tls.with_no_client_auth(),
            Some((certificates, key)) => tls
                .with_client_auth_cert(certificates, key)
                .map_err(|error| user.invalid("client-key-data", &error.to_string()))?,
        },
        server,
        authorization,
    })
}

/// Parses the one document that has content. The parser's own message may quote it, secrets included: only the
/// place is kept.
fn document(bytes: &[u8]) -> Result<Value, KubeconfigError> {
    if bytes.len() > MAX_KUBECONFIG_BYTES {
        return Err(KubeconfigError::Invalid(format!(
            "the kubeconfig has more than {MAX_KUBECONFIG_BYTES} bytes: leave only the one cluster, user and context that \
             are needed in it"
        )));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            // Aliases must not multiply it.
            max_total_scalar_bytes: MAX_KUBECONFIG_BYTES,
        },
        with_snippet: false,
    };
    let place = match serde_saphyr::from_slice_multiple_with_options(bytes, options) {
        Ok(mut documents) if documents.len() <= 1 => {
            return Ok(documents.pop().unwrap_or_default());
        }
        Ok(_) => String::new(),
        Err(error) => error.location().map_or_else(String::new, |at| {
            format!(" at line {}, column {}", at.line(), at.column())
        }),
    };
    Err(KubeconfigError::Invalid(format!(
        "the kubeconfig cannot be read{place}: it must be one document of UTF-8 YAML or JSON, of kind Config (v1), in \
         which no key is given twice"
    )))
}

#[cfg(test)]
mod tests;
