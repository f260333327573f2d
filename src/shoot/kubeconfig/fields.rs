//! What is taken from a kubeconfig and what is refused, field by field.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use http::uri::{Authority, Scheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::file::{Cluster, User};
use super::given::Given;
use super::{Identity, KubeconfigError};

const NO_TRUST: &str =
    "the answers of an unverified server are no evidence; set certificate-authority-data";
const INLINE: &str = "put the content, base64 encoded, into the field of the same name with -data";
const NO_PROXY: &str = "the API server is reached directly; remove it and set a reachable server";
const NO_PLUGIN: &str = "no plugin is run from a Secret; set token";
const NO_FILE: &str = "put the content of the file into token";
const NO_BASIC: &str = "API servers no longer accept passwords; set token";
const NO_IMPERSONATION: &str = "no other user is impersonated; set the needed user's own token";

impl Cluster {
    pub(super) fn refuse(&self) -> Result<(), KubeconfigError> {
        refuse_each(&[
            (
                self.insecure_skip_tls_verify,
                "clusters[].cluster.insecure-skip-tls-verify",
                NO_TRUST,
            ),
            (
                self.certificate_authority,
                "clusters[].cluster.certificate-authority",
                INLINE,
            ),
            (self.proxy_url, "clusters[].cluster.proxy-url", NO_PROXY),
        ])
    }

    pub(super) fn server(&self) -> Result<Uri, KubeconfigError> {
        const FIELD: &str = "clusters[].cluster.server";
        let invalid = |problem| KubeconfigError::Invalid {
            field: FIELD,
            problem,
        };
        let server = non_empty(self.server.as_deref())
            .ok_or_else(|| missing(FIELD, "set the https URL of the API server"))?;
        // client-go reads HOST:PORT as https if there is a CA, and then takes no path.
        let bare = !server.contains("://");
        let scheme = if bare { "https://" } else { "" };
        let uri: Uri = format!("{scheme}{server}")
            .parse()
            .map_err(|_| invalid("not a URL; write https://HOST or https://HOST:PORT"))?;
        if uri.scheme() != Some(&Scheme::HTTPS) || bare && uri.path() != "/" {
            return Err(invalid(
                "only https is accepted; write https://HOST or https://HOST:PORT",
            ));
        }
        let authority = uri.authority().map(Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            return Err(invalid("a URL must carry no user or password; use token"));
        }
        if uri.port_u16().is_none() && uri.host().is_none_or(|host| host != authority) {
            return Err(invalid("the port is not between 0 and 65535"));
        }
        if uri.query().is_some() {
            return Err(invalid(
                "a URL with a query cannot be extended by a path; remove the query",
            ));
        }
        Ok(uri)
    }

    pub(super) fn tls_server_name(&self) -> Result<Option<String>, KubeconfigError> {
        let Some(name) = non_empty(self.tls_server_name.as_deref()) else {
            return Ok(None);
        };
        ServerName::try_from(name).map_err(|_| KubeconfigError::Invalid {
            field: "clusters[].cluster.tls-server-name",
            problem: "neither a DNS name nor an IP address",
        })?;
        Ok(Some(name.to_owned()))
    }

    pub(super) fn roots(&self) -> Result<Vec<Vec<u8>>, KubeconfigError> {
        const FIELD: &str = "clusters[].cluster.certificate-authority-data";
        let data = non_empty(self.certificate_authority_data.as_deref())
            .ok_or_else(|| missing(FIELD, NO_TRUST))?;
        certificates(FIELD, &decode(FIELD, data)?)
    }
}

impl User {
    pub(super) fn refuse(&self) -> Result<(), KubeconfigError> {
        refuse_each(&[
            (self.exec, "users[].user.exec", NO_PLUGIN),
            (self.auth_provider, "users[].user.auth-provider", NO_PLUGIN),
            (self.token_file, "users[].user.tokenFile", NO_FILE),
            (
                self.client_certificate,
                "users[].user.client-certificate",
                INLINE,
            ),
            (self.client_key, "users[].user.client-key", INLINE),
            (self.username, "users[].user.username", NO_BASIC),
            (self.password, "users[].user.password", NO_BASIC),
            (self.r#as, "users[].user.as", NO_IMPERSONATION),
            (self.as_uid, "users[].user.as-uid", NO_IMPERSONATION),
            (self.as_groups, "users[].user.as-groups", NO_IMPERSONATION),
            (
                self.as_user_extra,
                "users[].user.as-user-extra",
                NO_IMPERSONATION,
            ),
        ])
    }

    pub(super) fn token(&self) -> Result<Option<String>, KubeconfigError> {
        let Some(token) = non_empty(self.token.as_deref()) else {
            return Ok(None);
        };
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KubeconfigError::Invalid {
                field: "users[].user.token",
                problem: "it has white space or other characters that no HTTP header can carry; \
                          write the bare token, not base64 encoded, on one line",
            });
        }
        Ok(Some(token.to_owned()))
    }

    pub(super) fn identity(&self) -> Result<Option<Identity>, KubeconfigError> {
        const CERTIFICATE: &str = "users[].user.client-certificate-data";
        const KEY: &str = "users[].user.client-key-data";
        let certificate = non_empty(self.client_certificate_data.as_deref());
        let (certificate, key) = match (certificate, non_empty(self.client_key_data.as_deref())) {
            (None, None) => return Ok(None),
            (Some(_), None) => return Err(missing(KEY, "set the key of client-certificate-data")),
            (None, Some(_)) => {
                return Err(missing(
                    CERTIFICATE,
                    "set the certificate of client-key-data",
                ));
            }
            (Some(certificate), Some(key)) => {
                (decode(CERTIFICATE, certificate)?, decode(KEY, key)?)
            }
        };
        certificates(CERTIFICATE, &certificate)?;
        PrivateKeyDer::from_pem_slice(&key).map_err(|_| KubeconfigError::Invalid {
            field: KEY,
            problem: "no unencrypted private key in PEM form (PKCS#8, PKCS#1 or SEC1)",
        })?;
        Ok(Some(Identity { certificate, key }))
    }
}

fn refuse_each(fields: &[(Given, &'static str, &'static str)]) -> Result<(), KubeconfigError> {
    match fields.iter().find(|(given, ..)| given.0) {
        Some((_, field, remedy)) => Err(KubeconfigError::Refused { field, remedy }),
        None => Ok(()),
    }
}

pub(super) fn missing(field: &'static str, remedy: &'static str) -> KubeconfigError {
    KubeconfigError::Missing { field, remedy }
}

fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// Base64 as Go's decoder takes it: line breaks are skipped.
fn decode(field: &'static str, data: &str) -> Result<Vec<u8>, KubeconfigError> {
    let data: Vec<u8> = data
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    STANDARD.decode(data).map_err(|_| KubeconfigError::Invalid {
        field,
        problem: "not base64; encode the PEM file as a whole",
    })
}

fn certificates(field: &'static str, pem: &[u8]) -> Result<Vec<Vec<u8>>, KubeconfigError> {
    let invalid = || KubeconfigError::Invalid {
        field,
        problem: "not a PEM bundle of at least one certificate",
    };
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|_| invalid())?;
    if found.is_empty() {
        Err(invalid())
    } else {
        Ok(found)
    }
}
