//! Contexts, clusters and users of a kubeconfig, and the values of their fields.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, uri::Scheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tokio_rustls::rustls::RootCertStore;

use super::{KubeconfigError, NO_TRUST};
use crate::util::text::clean;

/// Entries of the list of this kind.
pub(super) fn entries<'a>(
    config: &'a Value,
    kind: &str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
    let list = config.get(format!("{kind}s")).and_then(Value::as_array);
    list.into_iter().flatten().filter(|entry| entry.is_object())
}

/// The content of one context, cluster or user.
pub(super) struct Entry<'a> {
    kind: &'static str,
    fields: &'a Value,
}

impl<'a> Entry<'a> {
    pub(super) fn of(kind: &'static str, entry: &'a Value) -> Self {
        let fields = entry.get(kind).unwrap_or(&Value::Null);
        Self { kind, fields }
    }

    /// The first entry of this kind and name, which stands in `field`.
    pub(super) fn named(
        config: &'a Value,
        kind: &'static str,
        name: &Value,
        field: &str,
    ) -> Result<Self, KubeconfigError> {
        let mut entries = entries(config, kind);
        let found = entries.find(|entry| entry.get("name") == Some(name));
        found.map(|entry| Self::of(kind, entry)).ok_or_else(|| {
            let name = clean(name.as_str().unwrap_or("(no text)"), 80);
            KubeconfigError::Invalid(format!(
                "the kubeconfig's {field} names {name:?}, of which there is none"
            ))
        })
    }

    /// The cluster or user that this context refers to.
    pub(super) fn refers_to(
        &self,
        config: &'a Value,
        kind: &'static str,
    ) -> Result<Self, KubeconfigError> {
        let field = self.path(kind);
        match self.text(kind)? {
            Some(name) => Self::named(config, kind, &Value::from(name), &field),
            None => Err(KubeconfigError::missing(&field, "set the name of an entry")),
        }
    }

    /// How messages name this field.
    fn path(&self, field: &str) -> String {
        format!("{0}s[].{0}.{field}", self.kind)
    }

    pub(super) fn invalid(&self, field: &str, problem: &str) -> KubeconfigError {
        KubeconfigError::Invalid(format!(
            "the kubeconfig's {} is invalid: {problem}",
            self.path(field)
        ))
    }

    /// Refuses an entry that sets one of these fields. client-go treats null, false, and an empty text or list as absent.
    pub(super) fn refuse(&self, refused: &[(&str, &'static str)]) -> Result<(), KubeconfigError> {
        let is_set = |field: &str| match self.fields.get(field) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        match refused.iter().find(|(field, _)| is_set(field)) {
            Some((field, remedy)) => Err(KubeconfigError::Refused {
                field: self.path(field),
                remedy,
            }),
            None => Ok(()),
        }
    }

    /// The text in a field; `None` if it is absent, null or empty.
    fn text(&self, field: &str) -> Result<Option<&'a str>, KubeconfigError> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(&**text).filter(|text| !text.is_empty())),
            Some(_) => Err(self.invalid(field, "no text; write it in quotes")),
        }
    }

    /// The bytes in a field in base64, as Go's decoder takes it: line breaks are skipped.
    fn data(&self, field: &str) -> Result<Option<Vec<u8>>, KubeconfigError> {
        let Some(text) = self.text(field)? else {
            return Ok(None);
        };
        let decoded = STANDARD.decode(text.replace(['\r', '\n'], ""));
        let problem = "not base64; encode the PEM file as a whole";
        decoded.map(Some).map_err(|_| self.invalid(field, problem))
    }

    /// The certificates in a field, at least one.
    fn certificates(
        &self,
        field: &str,
    ) -> Result<Option<Vec<CertificateDer<'static>>>, KubeconfigError> {
        let Some(pem) = self.data(field)? else {
            return Ok(None);
        };
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(Some(found)),
            _ => Err(self.invalid(field, "not a PEM bundle of at least one certificate")),
        }
    }

    pub(super) fn server(&self) -> Result<Uri, KubeconfigError> {
        let invalid = |problem| Err(self.invalid("server", problem));
        let Some(server) = self.text("server")? else {
            let remedy = "set the https URL of the API server";
            return Err(KubeconfigError::missing(&self.path("server"), remedy));
        };
        // client-go reads HOST:PORT as https if there is a CA, and then takes no path.
        let bare = !server.contains("://");
        let scheme = if bare { "https://" } else { "" };
        let Ok(uri) = format!("{scheme}{server}").parse::<Uri>() else {
            return invalid("not a URL; write https://HOST or https://HOST:PORT");
        };
        let authority = uri.authority().map_or("", |it| it.as_str());
        if uri.scheme() != Some(&Scheme::HTTPS) || bare && uri.path() != "/" {
            return invalid("only https is accepted; write https://HOST or https://HOST:PORT");
        }
        if authority.contains('@') {
            return invalid("a URL must carry no user or password; use token");
        }
        if uri.port_u16().is_none() && uri.host().is_none_or(|host| host != authority) {
            return invalid("the port is not between 0 and 65535");
        }
        if uri.query().is_some() {
            return invalid("a URL with a query cannot be extended by a path; remove the query");
        }
        Ok(uri)
    }

    /// The name that the certificate of the server must have.
    pub(super) fn tls_name(&self, server: &Uri) -> Result<ServerName<'static>, KubeconfigError> {
        let given = self.text("tls-server-name")?;
        let (field, name) = match given {
            Some(name) => ("tls-server-name", name),
            None => ("server", server.host().unwrap_or_default()),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(name.to_owned())
            .map_err(|_| self.invalid(field, "neither a DNS name nor an IP address"))
    }

    pub(super) fn roots(&self) -> Result<RootCertStore, KubeconfigError> {
        let field = "certificate-authority-data";
        let certificates = self.certificates(field)?;
        let mut roots = RootCertStore::empty();
        for root in
            certificates.ok_or_else(|| KubeconfigError::missing(&self.path(field), NO_TRUST))?
        {
            // rustls' messages quote no data.
            roots
                .add(root)
                .map_err(|error| self.invalid(field, &error.to_string()))?;
        }
        Ok(roots)
    }

    pub(super) fn authorization(&self) -> Result<Option<HeaderValue>, KubeconfigError> {
        let Some(token) = self.text("token")? else {
            return Ok(None);
        };
        let is_bare = token.bytes().all(|byte| byte.is_ascii_graphic());
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let Some(mut value) = value.ok().filter(|_| is_bare) else {
            return Err(self.invalid(
                "token",
                "it has white space or other characters that no HTTP header can carry; write the bare token, \
                 not base64 encoded, on one line",
            ));
        };
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// The certificates that the client shows, and their key.
    pub(super) fn identity(
        &self,
    ) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, KubeconfigError>
    {
        let (certificate, key) = ("client-certificate-data", "client-key-data");
        let missing = |field, remedy| Err(KubeconfigError::missing(&self.path(field), remedy));
        match (self.certificates(certificate)?, self.data(key)?) {
            (None, None) => Ok(None),
            (Some(_), None) => missing(key, "set the key of client-certificate-data"),
            (None, Some(_)) => missing(certificate, "set the certificate of client-key-data"),
            (Some(certificates), Some(pem)) => match PrivateKeyDer::from_pem_slice(&pem) {
                Ok(key) => Ok(Some((certificates, key))),
                Err(_) => Err(self.invalid(
                    key,
                    "no unencrypted private key in PEM form (PKCS#8, PKCS#1 or SEC1)",
                )),
            },
        }
    }
}
