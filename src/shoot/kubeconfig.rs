//! Reading a kubeconfig out of a Secret, as untrusted input.
//!
//! Whoever can write the Secret must gain nothing by it: no plugin is run, no file is read, no
//! proxy is used, and a server that cannot be verified is refused, since its answers are no
//! evidence. Only inline data is accepted. No message here repeats anything but field names and
//! the names of contexts, clusters and users.

use std::fmt;
use std::sync::Arc;

use http::Uri;

use file::File;

mod fields;
mod file;
mod given;

/// No kubeconfig is longer, in bytes. With one cluster and one user it has 3 to 10 KB; a thousand of
/// the size that a Secret allows would take a gigabyte.
pub const MAX_KUBECONFIG_BYTES: usize = 256 * 1024;

/// A kubeconfig nests about six levels deep; far beyond that the parser's stack is at stake.
const MAX_DEPTH: usize = 64;

/// How to reach one API server: where it is, how to know it, and what to show it.
///
/// Two are equal when a connection made from one serves the other. Cloning is cheap. Secrets never
/// show in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Access(Arc<Parts>);

#[derive(PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) server: Uri,
    pub(super) tls_server_name: Option<String>,
    /// DER, at least one.
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) token: Option<String>,
    pub(super) identity: Option<Identity>,
}

/// A client certificate chain and its key, both PEM.
#[derive(PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Why a kubeconfig is not used, and what to change in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// More than [`MAX_KUBECONFIG_BYTES`].
    #[error(
        "the kubeconfig has more than {MAX_KUBECONFIG_BYTES} bytes: leave only the one cluster, user and context \
         that are needed in it"
    )]
    TooLarge,
    /// Not YAML or JSON, or not of the shape of a kubeconfig.
    #[error(
        "the kubeconfig cannot be read at line {line}, column {column}: it must be UTF-8 YAML or \
         JSON of kind Config (v1)"
    )]
    Malformed {
        /// The line, from 1; 0 if unknown.
        line: u64,
        /// The column, from 1; 0 if unknown.
        column: u64,
    },
    /// A key that a mapping has twice. Readers differ in which value they take.
    #[error("the kubeconfig gives a key twice at line {line}, column {column}: keep one of them")]
    KeyTwice {
        /// The line of the second one, from 1.
        line: u64,
        /// Its column, from 1.
        column: u64,
    },
    /// A second document that is not empty. kubectl reads the first one and ignores the others.
    #[error("the kubeconfig has several YAML documents: keep only the first, which kubectl reads")]
    Documents,
    /// A field that would run, read, or trust something beyond the kubeconfig itself.
    #[error("the kubeconfig sets {field}, which is refused: {remedy}")]
    Refused {
        /// The field.
        field: &'static str,
        /// What to use instead.
        remedy: &'static str,
    },
    /// A field that is needed and absent.
    #[error("the kubeconfig lacks {field}: {remedy}")]
    Missing {
        /// The field.
        field: &'static str,
        /// What to put there.
        remedy: &'static str,
    },
    /// A field whose value cannot be used. The value itself is never repeated.
    #[error("the kubeconfig's {field} is invalid: {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong, and what would be right.
        problem: &'static str,
    },
    /// A name that refers to nothing, or to several entries.
    #[error(
        "the kubeconfig's {field} names {name:?}, of which there are {found}: there must be one"
    )]
    Reference {
        /// The field that holds the name.
        field: &'static str,
        /// The name, bounded and printable.
        name: String,
        /// How many entries have that name.
        found: usize,
    },
}

impl KubeconfigError {
    /// The reason for a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "KubeconfigRefused",
            _ => "KubeconfigInvalid",
        }
    }
}

impl Access {
    /// The URL of the API server. It carries no credentials.
    pub fn server(&self) -> &Uri {
        &self.0.server
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.0
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("server", &self.0.server)
            .field("tls_server_name", &self.0.tls_server_name)
            .field("token", &self.0.token.is_some())
            .field("client_certificate", &self.0.identity.is_some())
            .finish_non_exhaustive()
    }
}

/// Reads a kubeconfig and keeps what its current context needs.
pub fn parse(bytes: &[u8]) -> Result<Access, KubeconfigError> {
    if bytes.len() > MAX_KUBECONFIG_BYTES {
        return Err(KubeconfigError::TooLarge);
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, flow_nesting_limit: MAX_DEPTH },
        with_snippet: false,
    };
    // The parser's own message may quote the document, secrets included: only the place is kept.
    let files: Vec<File> =
        serde_saphyr::from_slice_multiple_with_options(bytes, options).map_err(|error| {
            let place = error.location();
            let (line, column) = place.map_or((0, 0), |at| (at.line(), at.column()));
            match error {
                serde_saphyr::Error::DuplicateMappingKey { .. } => {
                    KubeconfigError::KeyTwice { line, column }
                }
                _ => KubeconfigError::Malformed { line, column },
            }
        })?;
    // Documents that hold nothing are passed over, such as the one after a final `---`.
    let file = match &*files {
        [] => &File::default(),
        [file] => file,
        _ => return Err(KubeconfigError::Documents),
    };
    file.parts().map(|parts| Access(Arc::new(parts)))
}

#[cfg(test)]
mod tests;
