//! One kept connection to the API server of a shoot.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, header};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::config::AuthInfo;
use kube::{Client, Config};
use tower::ServiceBuilder;

use super::kubeconfig::Access;
use super::text::clean;

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("dependency-watchdog/", env!("CARGO_PKG_VERSION")));

/// The time for a connection to be made, if nobody gives it up before.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// The buffer of a connection grows up to this while a list is read, and stays so large: by default it
/// is twelve times that, for each of a thousand shoots.
const READ_BUFFER: usize = 32 * 1024;

/// The API server of one shoot.
///
/// Reads one after the other share one HTTP/1 connection, which is made at the first of them and
/// kept. A read that is abandoned takes its connection with it, and two at once have one each. Clones
/// share their connections.
#[derive(Clone)]
pub struct Shoot {
    pub(super) client: Client,
}

/// The certificates of a kubeconfig, each well-formed, do not make a TLS client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no TLS client for {server} can be made from the kubeconfig: {problem}; renew \
     certificate-authority-data, client-certificate-data and client-key-data in the Secret"
)]
pub struct ConnectError {
    server: String,
    problem: String,
}

impl ConnectError {
    /// The reason for a condition, in CamelCase.
    pub fn reason(&self) -> &'static str {
        "KubeconfigInvalid"
    }
}

impl Shoot {
    /// Prepares a client; no packet is sent before the first read.
    ///
    /// Must be called within a tokio runtime, on which the connection then lives.
    pub fn connect(access: &Access) -> Result<Self, ConnectError> {
        Ok(Self {
            client: client(access)?,
        })
    }
}

fn client(access: &Access) -> Result<Client, ConnectError> {
    build(&config(access)).map_err(|error| {
        // Parsing has vetted the PEM, so what is left are rustls' messages, which quote no data.
        let source = std::error::Error::source(&error);
        let problem = source.map_or_else(|| error.to_string(), ToString::to_string);
        ConnectError {
            server: clean(&access.server().to_string(), 70),
            problem: clean(&problem, 70),
        }
    })
}

/// What kube would build, but for the read buffer.
fn build(config: &Config) -> kube::Result<Client> {
    let mut connector = TimeoutConnector::new(config.rustls_https_connector()?);
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    let connections = legacy::Client::builder(TokioExecutor::new())
        .http1_max_buf_size(READ_BUFFER)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(connections);
    Ok(Client::new(service, &*config.default_namespace))
}

/// Everything that could come from the environment is set here.
fn config(access: &Access) -> Config {
    let parts = access.parts();
    let mut config = Config::new(parts.server.clone());
    config.proxy_url = None;
    config.root_cert = Some(parts.roots.clone());
    config.tls_server_name = parts.tls_server_name.clone();
    // Each request has a limit of its own. A read timeout would count while the connection rests,
    // and cost a new handshake for each probe.
    config.read_timeout = None;
    // The schedule decides when to ask again.
    config.default_retry = false;
    config.headers = vec![(header::USER_AGENT, USER_AGENT)];
    config.auth_info = AuthInfo {
        token: parts.token.clone().map(Into::into),
        client_certificate_data: parts
            .identity
            .as_ref()
            .map(|own| STANDARD.encode(&own.certificate)),
        // The key is followed by the certificate in one PEM text: it must end its last line.
        client_key_data: parts
            .identity
            .as_ref()
            .map(|own| STANDARD.encode([&own.key[..], b"\n"].concat()).into()),
        ..AuthInfo::default()
    };
    config
}
