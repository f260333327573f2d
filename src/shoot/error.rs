//! Why a read from a shoot told nothing, and what to do about it.
//!
//! Whatever comes from the other side is bounded and made printable before it enters a message,
//! so that a message fits a condition and can forge no log line. None carries a secret.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::util::text::{clean, clean_bytes};

/// A server that asks for more patience than this is asked again all the same: a shoot must not
/// be able to switch its own protection off.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// A server that asks for less is not asked sooner: it is overloaded.
pub const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Room for the text of a cause or of a server, in characters.
const MAX_TEXT: usize = 120;

/// What was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The leases in `kube-node-lease`.
    Leases,
    /// All nodes.
    Nodes,
    /// The server's version.
    Version,
    /// Whether the server is ready.
    Readiness,
    /// What an API has.
    Api,
}

/// What stood between us and the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The host name did not resolve.
    Dns,
    /// Nothing listens there.
    Refused,
    /// The connection was broken, perhaps in the middle of an answer.
    Closed,
    /// No trust: certificates, names or protocol versions do not fit.
    Tls,
    /// Anything else, such as no route.
    Other,
}

/// Why a read told nothing. None of these is evidence about the nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No connection, or one that broke.
    #[error("cannot {tried}: {obstacle} ({cause}); {}", obstacle.remedy(cause))]
    Unreachable {
        /// What was to be read.
        tried: Target,
        /// What kind of failure it was.
        obstacle: Obstacle,
        /// What the connection said, bounded and printable.
        cause: String,
    },
    /// No whole answer in time.
    #[error(
        "cannot {tried}: no whole answer within {} ms; check the network to the API server and its \
         load", .after.as_millis()
    )]
    Timeout {
        /// What was to be read.
        tried: Target,
        /// The limit that was set.
        after: Duration,
    },
    /// 401: the credentials are not accepted.
    #[error(
        "cannot {tried}: the API server does not accept the credentials (401); renew the \
         kubeconfig in the Secret"
    )]
    Unauthorized {
        /// What was to be read.
        tried: Target,
    },
    /// 403: the credentials lack a right.
    #[error(
        "the user of the kubeconfig may not {verb} {resource}{} (403); grant it this right in \
         the shoot, as manifests/shoot does", .namespace.map(|name| format!(" in namespace {name}")).unwrap_or_default()
    )]
    Forbidden {
        /// The verb that must be granted.
        verb: &'static str,
        /// The resource (`plural.group`), or the path of a non-resource URL.
        resource: &'static str,
        /// The namespace in which it must be granted; `None`: cluster-wide.
        namespace: Option<&'static str>,
    },
    /// 404: the server does not serve this.
    #[error(
        "cannot {tried}: the server does not serve it (404); check that the kubeconfig's server is \
         the URL of a Kubernetes API server"
    )]
    NotFound {
        /// What was to be read.
        tried: Target,
    },
    /// 429: the server is overloaded.
    #[error(
        "cannot {tried}: the API server is overloaded (429){}; it is asked again later", 
        .retry_after.map(|after| format!(", it asks to wait {after:?}")).unwrap_or_default()
    )]
    TooManyRequests {
        /// What was to be read.
        tried: Target,
        /// How long the server asks to wait, within [`MIN_RETRY_AFTER`] and [`MAX_RETRY_AFTER`];
        /// `None` if it does not say, or not in seconds.
        retry_after: Option<Duration>,
    },
    /// Any other status that is no success.
    #[error("cannot {tried}: the API server answers {code} ({message}); look at its log")]
    Server {
        /// What was to be read.
        tried: Target,
        /// The HTTP status code.
        code: u16,
        /// What the server says about it, bounded and printable.
        message: String,
    },
    /// A success whose body is not what was asked for.
    #[error(
        "cannot {tried}: {problem} came, with content type '{content_type}' and the start \
         '{start}'; check that the kubeconfig's server is no proxy or login page"
    )]
    Unreadable {
        /// What was to be read.
        tried: Target,
        /// What came instead, bounded and printable.
        problem: String,
        /// The content type that the server claims, bounded and printable.
        content_type: String,
        /// The first characters of the body, bounded and printable.
        start: String,
    },
    /// A body beyond all reason.
    #[error(
        "cannot {tried}: the answer is larger than {limit} bytes; check what answers there, and \
         delete what was made there to no purpose"
    )]
    TooLarge {
        /// What was to be read.
        tried: Target,
        /// The limit, in bytes.
        limit: usize,
    },
    /// More objects than any cluster can have.
    #[error(
        "cannot {tried}: the answer has more than {limit} items, and Kubernetes takes 5000 nodes; \
         check what answers there, and delete what was made there to no purpose"
    )]
    TooMany {
        /// What was to be read.
        tried: Target,
        /// The limit.
        limit: usize,
    },
}

impl ReadError {
    /// The reason for a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { obstacle, .. } => match obstacle {
                Obstacle::Dns => "NameNotResolved",
                Obstacle::Refused => "ConnectionRefused",
                Obstacle::Closed => "ConnectionClosed",
                Obstacle::Tls => "TlsFailed",
                Obstacle::Other => "Unreachable",
            },
            Self::Timeout { .. } => "Timeout",
            Self::Unauthorized { .. } => "Unauthorized",
            Self::Forbidden { .. } => "Forbidden",
            Self::NotFound { .. } => "NotFound",
            Self::TooManyRequests { .. } => "TooManyRequests",
            Self::Server { .. } => "ServerError",
            Self::Unreadable { .. } => "Unreadable",
            Self::TooLarge { .. } | Self::TooMany { .. } => "TooLarge",
        }
    }

    pub(super) fn unreachable(tried: Target, error: &(dyn Error + 'static)) -> Self {
        let mut obstacle = Obstacle::Other;
        let mut cause = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            cause = error.to_string();
            obstacle = sharpen(obstacle, error, &cause);
            next = match error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref)
            {
                // An io::Error that wraps another error does not name it as its source.
                Some(inner) => Some(inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        Self::Unreachable {
            tried,
            obstacle,
            cause: clean(&cause, MAX_TEXT),
        }
    }

    pub(super) fn unreadable(
        tried: Target,
        problem: &dyn fmt::Display,
        content_type: &str,
        start: &[u8],
    ) -> Self {
        Self::Unreadable {
            tried,
            problem: clean(&problem.to_string(), 70),
            content_type: clean(content_type, 30),
            start: clean_bytes(start, 40),
        }
    }

    pub(super) fn server(tried: Target, code: u16, message: &str) -> Self {
        let message = clean(message, MAX_TEXT);
        Self::Server {
            tried,
            code,
            message: if message.is_empty() {
                "no explanation".to_owned()
            } else {
                message
            },
        }
    }
}

/// The most telling obstacle so far; a name that does not resolve explains all that follows.
fn sharpen(known: Obstacle, error: &(dyn Error + 'static), text: &str) -> Obstacle {
    if known != Obstacle::Other {
        return known;
    }
    if text == "dns error" {
        return Obstacle::Dns;
    }
    if error
        .downcast_ref::<hyper::Error>()
        .is_some_and(hyper::Error::is_incomplete_message)
    {
        return Obstacle::Closed;
    }
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => Obstacle::Refused,
        // rustls reports all that it refuses as invalid data.
        Some(io::ErrorKind::InvalidData) => Obstacle::Tls,
        Some(
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof,
        ) => Obstacle::Closed,
        _ => known,
    }
}

/// What rustls says of certificates that Go takes and it does not, and what to do about them.
const STRICTER_THAN_GO: [(&str, &str); 4] = [
    (
        "UnknownIssuer",
        "put into certificate-authority-data who signed the API server's certificate, not that \
         certificate itself",
    ),
    (
        "CaUsedAsEndEntity",
        "give the API server a certificate that is not one of an authority (CA:TRUE)",
    ),
    (
        "UnsupportedSignatureAlgorithm",
        "have the certificates use RSA, P-256 or P-384: others, such as P-521, are not understood",
    ),
    // No common algorithm, so that a server whose only key is of another kind has none to show.
    (
        "HandshakeFailure",
        "give the API server a key of RSA, P-256 or P-384, and TLS of at least 1.2",
    ),
];

impl Obstacle {
    fn remedy(self, cause: &str) -> &'static str {
        if self == Self::Tls
            && let Some((_, remedy)) = STRICTER_THAN_GO.iter().find(|(it, _)| cause.contains(it))
        {
            return remedy;
        }
        match self {
            Self::Dns => "check the host name in the kubeconfig and the seed's DNS",
            Self::Refused => "check that the API server runs, and the port in the kubeconfig",
            Self::Closed => "check the API server and what stands before it",
            Self::Tls => "check certificate-authority-data and the API server's certificate",
            Self::Other => "check the network from here to the API server",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dns => "its name does not resolve",
            Self::Refused => "the connection is refused",
            Self::Closed => "the connection was closed",
            Self::Tls => "TLS failed",
            Self::Other => "it is unreachable",
        })
    }
}

impl Target {
    pub(super) fn forbidden(self) -> ReadError {
        let (verb, resource, namespace) = match self {
            Self::Leases => (
                "list",
                "leases.coordination.k8s.io",
                Some("kube-node-lease"),
            ),
            Self::Nodes => ("list", "nodes", None),
            Self::Version => ("get", "/version", None),
            Self::Readiness => ("get", "/readyz", None),
            Self::Api => ("get", "/apis/*", None),
        };
        ReadError::Forbidden {
            verb,
            resource,
            namespace,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leases => "list the leases in kube-node-lease",
            Self::Nodes => "list the nodes",
            Self::Version => "get /version",
            Self::Readiness => "get /readyz",
            Self::Api => "ask for the API",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str, after: Duration) -> Vec<ReadError> {
        let tried = Target::Leases;
        vec![
            ReadError::unreachable(tried, &io::Error::other(text.to_owned())),
            ReadError::Timeout { tried, after },
            ReadError::Unauthorized { tried },
            Target::Leases.forbidden(),
            Target::Nodes.forbidden(),
            Target::Version.forbidden(),
            Target::Readiness.forbidden(),
            Target::Api.forbidden(),
            ReadError::NotFound { tried },
            ReadError::TooManyRequests {
                tried,
                retry_after: Some(MAX_RETRY_AFTER),
            },
            ReadError::server(tried, 500, text),
            ReadError::unreadable(tried, &text, text, text.as_bytes()),
            ReadError::TooLarge {
                tried,
                limit: usize::MAX,
            },
            ReadError::TooMany {
                tried,
                limit: usize::MAX,
            },
        ]
    }

    #[test]
    fn the_cause_tells_the_obstacle() {
        let tls = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, "UnknownIssuer"));
        for (error, obstacle, reason) in [
            (
                io::ErrorKind::ConnectionRefused.into(),
                Obstacle::Refused,
                "ConnectionRefused",
            ),
            (
                io::ErrorKind::ConnectionReset.into(),
                Obstacle::Closed,
                "ConnectionClosed",
            ),
            (
                io::ErrorKind::UnexpectedEof.into(),
                Obstacle::Closed,
                "ConnectionClosed",
            ),
            (tls, Obstacle::Tls, "TlsFailed"),
            (
                io::ErrorKind::NetworkUnreachable.into(),
                Obstacle::Other,
                "Unreachable",
            ),
        ] {
            let read = ReadError::unreachable(Target::Leases, &error);
            assert_eq!(read.reason(), reason);
            assert!(
                matches!(read, ReadError::Unreachable { obstacle: o, .. } if o == obstacle),
                "{error:?}: {read:?}"
            );
        }
    }

    #[test]
    fn a_missing_right_is_named() {
        assert_eq!(
            Target::Leases.forbidden().to_string(),
            "the user of the kubeconfig may not list leases.coordination.k8s.io in namespace \
             kube-node-lease (403); grant it this right in the shoot, as manifests/shoot does"
        );
    }

    proptest! {
        #[test]
        fn messages_are_short_and_printable(text in "(?s)[\"\\\\].{0,400}", after: Duration) {
            for error in all(&text, after) {
                let message = error.to_string();
                prop_assert!(message.chars().count() <= 300, "{message}");
                prop_assert!(!message.chars().any(char::is_control), "{message:?}");
                prop_assert!(error.reason().chars().all(|c| c.is_ascii_alphabetic()));
            }
        }
    }
}
