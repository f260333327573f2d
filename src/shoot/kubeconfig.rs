//! Reading a kubeconfig out of a Secret, as untrusted input.
//!
//! Whoever can write the Secret must gain nothing by it: no plugin is run, no file is read, no
//! proxy is used, and a server that cannot be verified is refused, since its answers are no
//! evidence. Only inline data is accepted. No message here repeats anything but field names and
//! the names of contexts, clusters and users.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, uri::Scheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, client::Resumption};

use super::unread::Unread;
use crate::util::text::clean;

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

/// Access to an API server: its place, its certificates, and credentials for it. It holds secrets, so it has no
/// `Debug`.
pub struct Access {
    /// The URL of the API server. It carries no credentials.
    pub server: Uri,
    pub(super) tls_name: ServerName<'static>,
    pub(super) tls: TlsConnector,
    pub(super) authorization: Option<HeaderValue>,
}

/// Reads a kubeconfig and keeps what its current context needs.
///
/// # Errors
///
/// If a field would run, read, or trust something beyond the kubeconfig itself, is absent, or cannot be used. No value
/// is repeated but names of entries.
pub fn parse(bytes: &[u8]) -> Result<Access, Unread> {
    let config = document(bytes)?;
    let root = Entry {
        path: String::new(),
        fields: &config,
    };
    let context = root.entry("current-context", "context", &config)?;
    let cluster = context.entry("cluster", "cluster", &config)?;
    let user = context.entry("user", "user", &config)?;
    let authorization = user.authorization()?;
    let certificates = user.certificates("client-certificate-data")?;
    if authorization.is_none() && certificates.is_none() {
        let remedy = "set it, or client-certificate-data and client-key-data";
        return Err(user.missing("token", remedy));
    }
    let key = user.key("client-key-data")?;
    let tls = ClientConfig::builder().with_root_certificates(cluster.roots()?);
    let mut tls = match (certificates, key) {
        (None, None) => tls.with_no_client_auth(),
        (Some(certificates), Some(key)) => tls
            .with_client_auth_cert(certificates, key)
            .map_err(|error| user.invalid("client-key-data", &error.to_string()))?,
        _ => return Err(user.missing("client-certificate-data or client-key-data", "set both")),
    };
    // A connection is kept, and seldom made: what the next handshake would save costs more
    // memory than the rest of the connection.
    tls.resumption = Resumption::disabled();
    let server = cluster.server()?;
    Ok(Access {
        tls_name: cluster.tls_name(&server)?,
        tls: TlsConnector::from(Arc::new(tls)),
        server,
        authorization,
    })
}

/// Parses the document. The parser's own message may quote it, secrets included: only the place is kept.
fn document(bytes: &[u8]) -> Result<Value, Unread> {
    if bytes.len() > MAX_KUBECONFIG_BYTES {
        return Err(invalid(format!(
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
    serde_saphyr::from_slice_with_options(bytes, options).map_err(|error| {
        let place = error.location();
        let (line, column) = place.map_or((0, 0), |at| (at.line(), at.column()));
        invalid(format!(
            "the kubeconfig cannot be read at line {line}, column {column}: it must be one document of UTF-8 YAML or \
             JSON, of kind Config (v1), in which no key is given twice"
        ))
    })
}

fn invalid(message: String) -> Unread {
    Unread::new("KubeconfigInvalid", message)
}

/// The fields of the kubeconfig, or of one context, cluster or user in it.
struct Entry<'a> {
    /// Beginning of their names in messages.
    path: String,
    fields: &'a Value,
}

impl<'a> Entry<'a> {
    /// Returns the first entry of this kind with the name that stands in a field, unless it sets something that is
    /// refused.
    fn entry(&self, field: &str, kind: &'static str, config: &'a Value) -> Result<Self, Unread> {
        let Some(name) = self.text(field)? else {
            return Err(self.missing(field, &format!("set the name of a {kind}")));
        };
        let entries = config.get(format!("{kind}s")).and_then(Value::as_array);
        let entry = entries.into_iter().flatten().find(|it| it["name"] == name);
        let Some(entry) = entry else {
            let problem = format!("there is no {kind} {:?}", clean(name, 80));
            return Err(self.invalid(field, &problem));
        };
        let entry = Self {
            path: format!("{kind}s[].{kind}."),
            fields: &entry[kind],
        };
        let mut refused = REFUSED.iter().filter(|(of, ..)| *of == kind);
        match refused.find(|(_, field, _)| entry.is_set(field)) {
            Some((_, field, remedy)) => Err(Unread::new(
                "KubeconfigRefused",
                format!(
                    "the kubeconfig sets {}{field}, which is refused: {remedy}",
                    entry.path
                ),
            )),
            None => Ok(entry),
        }
    }

    /// Returns whether a field is set. client-go treats null, false, and an empty text or list as absent.
    fn is_set(&self, field: &str) -> bool {
        match &self.fields[field] {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        }
    }

    fn missing(&self, field: &str, remedy: &str) -> Unread {
        let path = &self.path;
        invalid(format!("the kubeconfig lacks {path}{field}: {remedy}"))
    }

    fn invalid(&self, field: &str, problem: &str) -> Unread {
        let path = &self.path;
        invalid(format!(
            "the kubeconfig's {path}{field} is invalid: {problem}"
        ))
    }

    /// The text in a field; `None` if it is absent, null or empty.
    fn text(&self, field: &str) -> Result<Option<&'a str>, Unread> {
        match &self.fields[field] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(&**text).filter(|text| !text.is_empty())),
            _ => Err(self.invalid(field, "no text; write it in quotes")),
        }
    }

    /// The bytes in a field in base64, as Go's decoder takes it: line breaks are skipped.
    fn data(&self, field: &str) -> Result<Option<Vec<u8>>, Unread> {
        let text = self.text(field)?.map(|it| it.replace(['\r', '\n'], ""));
        let problem = "not base64; encode the PEM file as a whole";
        let decoded = text.map(|it| STANDARD.decode(it)).transpose();
        decoded.map_err(|_| self.invalid(field, problem))
    }

    /// The certificates in a field, at least one.
    fn certificates(&self, field: &str) -> Result<Option<Vec<CertificateDer<'static>>>, Unread> {
        let Some(pem) = self.data(field)? else {
            return Ok(None);
        };
        let found = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        match found {
            Ok(found) if !found.is_empty() => Ok(Some(found)),
            _ => Err(self.invalid(field, "not a PEM bundle of at least one certificate")),
        }
    }

    fn key(&self, field: &str) -> Result<Option<PrivateKeyDer<'static>>, Unread> {
        let pem = self.data(field)?;
        let key = pem
            .map(|pem| PrivateKeyDer::from_pem_slice(&pem))
            .transpose();
        let problem = "no unencrypted private key in PEM form (PKCS#8, PKCS#1 or SEC1)";
        key.map_err(|_| self.invalid(field, problem))
    }

    fn roots(&self) -> Result<RootCertStore, Unread> {
        let field = "certificate-authority-data";
        let certificates = self.certificates(field)?;
        let mut roots = RootCertStore::empty();
        for root in certificates.ok_or_else(|| self.missing(field, NO_TRUST))? {
            // rustls' messages quote no data.
            let added = roots.add(root);
            added.map_err(|error| self.invalid(field, &error.to_string()))?;
        }
        Ok(roots)
    }

    fn server(&self) -> Result<Uri, Unread> {
        let Some(server) = self.text("server")? else {
            return Err(self.missing("server", "set the https URL of the API server"));
        };
        // client-go reads HOST:PORT as https if there is a CA, and then takes no path.
        let bare = !server.contains("://");
        let scheme = if bare { "https://" } else { "" };
        let uri = format!("{scheme}{server}").parse::<Uri>().ok();
        let uri = uri.filter(|uri| {
            let authority = uri.authority().map_or("", |it| it.as_str());
            uri.scheme() == Some(&Scheme::HTTPS)
                && !(bare && uri.path() != "/")
                && !authority.contains('@')
                && (uri.port_u16().is_some() || uri.host() == Some(authority))
                && uri.query().is_none()
        });
        let problem =
            "not https://HOST or https://HOST:PORT, without a user, a password and a query";
        uri.ok_or_else(|| self.invalid("server", problem))
    }

    /// The name that the certificate of the server must have.
    fn tls_name(&self, server: &Uri) -> Result<ServerName<'static>, Unread> {
        let (field, name) = match self.text("tls-server-name")? {
            Some(name) => ("tls-server-name", name),
            None => ("server", server.host().unwrap_or_default()),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned());
        name.map_err(|_| self.invalid(field, "neither a DNS name nor an IP address"))
    }

    fn authorization(&self) -> Result<Option<HeaderValue>, Unread> {
        let Some(token) = self.text("token")? else {
            return Ok(None);
        };
        let is_bare = token.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let problem = "it has white space or other characters that no HTTP header can carry; write the \
                       bare token, not base64 encoded, on one line";
        let value = value.ok().filter(|_| is_bare);
        let mut value = value.ok_or_else(|| self.invalid("token", problem))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests;
