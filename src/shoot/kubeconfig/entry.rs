//! Contexts, clusters and users of a kubeconfig, and the values of their fields.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, uri::Scheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::Value;
use tokio_rustls::rustls::RootCertStore;

use super::{KubeconfigError, NO_TRUST, REFUSED};
use crate::util::text::clean;

/// The content of a kubeconfig, or of one context, cluster or user in it.
pub(super) struct Entry<'a> {
    config: &'a Value,
    /// Empty of the kubeconfig itself.
    kind: &'static str,
    fields: &'a Value,
}

impl<'a> Entry<'a> {
    pub(super) fn root(config: &'a Value) -> Self {
        Self {
            config,
            kind: "",
            fields: config,
        }
    }

    /// The entries of this kind, with their names.
    fn entries(&self, kind: &'static str) -> impl Iterator<Item = (Option<&'a str>, Self)> {
        let config = self.config;
        let list = config.get(format!("{kind}s")).and_then(Value::as_array);
        let entries = list.into_iter().flatten().filter(|it| it.is_object());
        entries.map(move |entry| {
            let fields = entry.get(kind).unwrap_or(&Value::Null);
            let name = entry.get("name").and_then(Value::as_str);
            (
                name,
                Self {
                    config,
                    kind,
                    fields,
                },
            )
        })
    }

    /// The first entry of this kind with the name that stands in a field; `None` if none stands there.
    fn named(&self, kind: &'static str, field: &str) -> Result<Option<Self>, KubeconfigError> {
        let Some(wanted) = self.text(field)? else {
            return Ok(None);
        };
        let mut entries = self.entries(kind);
        match entries.find(|(name, _)| *name == Some(wanted)) {
            Some((_, entry)) => Ok(Some(entry)),
            None => Err(KubeconfigError::Invalid(format!(
                "the kubeconfig's {} names {:?}, of which there is none",
                self.path(field),
                clean(wanted, 80)
            ))),
        }
    }

    /// The context that is used: the current one, or the only one.
    pub(super) fn context(&self) -> Result<Self, KubeconfigError> {
        let current = "current-context";
        if let Some(context) = self.named("context", current)? {
            return Ok(context);
        }
        let mut contexts = self.entries("context");
        match (contexts.next(), contexts.next()) {
            (Some((_, only)), None) => Ok(only),
            (None, _) => Err(self.missing("contexts", "add one")),
            _ => Err(self.missing(current, "there are several contexts, name one")),
        }
    }

    /// The cluster or user that this context uses, unless it sets a field that is refused. client-go treats null, false,
    /// and an empty text or list as absent.
    pub(super) fn used(&self, kind: &'static str) -> Result<Self, KubeconfigError> {
        let used = self.named(kind, kind)?;
        let used = used.ok_or_else(|| self.missing(kind, "set the name of an entry"))?;
        let is_set = |field: &str| match used.fields.get(field) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        let mut refused = REFUSED.iter().filter(|(of, ..)| *of == kind);
        match refused.find(|(_, field, _)| is_set(field)) {
            Some((_, field, remedy)) => Err(KubeconfigError::Refused {
                field: used.path(field),
                remedy,
            }),
            None => Ok(used),
        }
    }

    /// Name of this field in messages.
    fn path(&self, field: &str) -> String {
        match self.kind {
            "" => field.to_owned(),
            kind => format!("{kind}s[].{kind}.{field}"),
        }
    }

    pub(super) fn missing(&self, field: &str, remedy: &str) -> KubeconfigError {
        let field = self.path(field);
        KubeconfigError::Invalid(format!("the kubeconfig lacks {field}: {remedy}"))
    }

    pub(super) fn invalid(&self, field: &str, problem: &str) -> KubeconfigError {
        let field = self.path(field);
        KubeconfigError::Invalid(format!("the kubeconfig's {field} is invalid: {problem}"))
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
            return Err(self.missing("server", remedy));
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
        for root in certificates.ok_or_else(|| self.missing(field, NO_TRUST))? {
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
        match (self.certificates(certificate)?, self.data(key)?) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(self.missing(key, "set the key of client-certificate-data")),
            (None, Some(_)) => {
                Err(self.missing(certificate, "set the certificate of client-key-data"))
            }
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
