//! A scripted HTTPS API server on a real socket: what it answers, a closure decides; how it
//! misbehaves, a [`Reply`] says. It counts connections and logs requests.

mod clock;
mod encode;
mod failure;
mod garden;
mod openmetrics;
mod protection;
mod recording;
mod seed;
mod shoot;
mod stall;
mod target;
mod world;

pub use self::{
    clock::{Activity, Clock, run},
    encode::encoded,
    failure::Failure,
    garden::{Garden, looping, put_namespace, put_pod, put_slice, weed_policy},
    openmetrics::{Exposition, Family},
    protection::{
        DEPENDENTS, DOWN, LONG, RUNNING, assert_back, assert_kept, assert_released,
        assert_restored, change_policy, change_shoot, deleting, deselect, first_write, is_marked,
        protected, scale_by_hand, truncate, undecodable,
    },
    recording::Runs,
    seed::{Call, Seed},
    shoot::{Read, ScriptedShoot},
    stall::{Case, Stalls, not_taken},
    target::{
        Target, api, check, ended, exit, gone, head, http, names, once, runner, tls, tls_with,
    },
    world::{
        INTERVAL, NODES, World, condition, degraded, info, policy, put_kubeconfig, put_secret,
        put_workload,
    },
};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fake::farm::wire::PROTOBUF;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// The token that [`ScriptedServer::kubeconfig`] carries. The server does not insist on it: the
/// handler may.
pub const TOKEN: &str = "scripted-token";

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Such as `PATCH`.
    pub method: String,
    /// The path, without query.
    pub path: String,
    /// The query, without the question mark; empty if there is none.
    pub query: String,
    /// In the order in which they came, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Which connection it came on, from 1.
    pub connection: usize,
    /// The client showed a certificate of the server's CA.
    pub client_certificate: bool,
}

impl Request {
    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What the server does with a request: bytes, pauses, and how it ends.
#[derive(Clone, Debug)]
pub struct Reply {
    head: Option<Head>,
    steps: Vec<Step>,
    end: End,
}

#[derive(Clone, Debug)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    length: Option<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    Pause(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The connection serves the next request.
    Keep,
    /// Nothing more comes, and the connection stays.
    Hang,
    /// TCP RST.
    Reset,
    /// An orderly TLS and TCP end.
    Close,
}

impl Reply {
    /// A body of any kind.
    pub fn body(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self {
            head: Some(Head {
                status,
                headers: vec![
                    ("Content-Type".into(), content_type.into()),
                    ("Date".into(), "Fri, 20 Nov 2026 11:02:33 GMT".into()),
                ],
                length: Some(body.len()),
            }),
            steps: vec![Step::Send(body)],
            end: End::Keep,
        }
    }

    /// A JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    /// A list of leases or Nodes, in protobuf.
    pub fn list(list: &Value) -> Self {
        Self::body(200, PROTOBUF, encoded(list))
    }

    /// A failure as API servers report it.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self::json(code, &status)
    }

    /// Nothing at all, on a connection that stays open.
    pub fn hang() -> Self {
        Self {
            head: None,
            steps: Vec::new(),
            end: End::Hang,
        }
    }

    /// A reset instead of an answer.
    pub fn reset() -> Self {
        Self {
            head: None,
            steps: Vec::new(),
            end: End::Reset,
        }
    }

    /// An orderly end instead of an answer.
    pub fn close() -> Self {
        Self {
            head: None,
            steps: Vec::new(),
            end: End::Close,
        }
    }

    /// Sets a header, in place of the one of that name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(head) = &mut self.head {
            head.headers
                .retain(|(key, _)| !key.eq_ignore_ascii_case(name));
            head.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Leaves a header out.
    pub fn without_header(mut self, name: &str) -> Self {
        if let Some(head) = &mut self.head {
            head.headers
                .retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        }
        self
    }

    /// Says no length: the body ends with the connection.
    pub fn until_close(mut self) -> Self {
        if let Some(head) = &mut self.head {
            head.length = None;
        }
        self.end = End::Close;
        self
    }

    /// Sends that many bytes of the body, then hangs.
    pub fn hang_after(self, bytes: usize) -> Self {
        self.cut(bytes, End::Hang)
    }

    /// Sends that many bytes of the body, then resets the connection.
    pub fn reset_after(self, bytes: usize) -> Self {
        self.cut(bytes, End::Reset)
    }

    /// Sends that many bytes of the body, then ends the connection in an orderly way, although
    /// more was announced.
    pub fn truncate_after(self, bytes: usize) -> Self {
        self.cut(bytes, End::Close)
    }

    /// Sends the body in pieces of that many bytes, with a pause after each.
    pub fn drip(mut self, bytes: usize, pause: Duration) -> Self {
        let body = self.sent();
        self.steps = body
            .chunks(bytes.max(1))
            .flat_map(|piece| [Step::Send(piece.to_vec()), Step::Pause(pause)])
            .collect();
        self
    }

    /// Sends half of the body, and the rest after a pause.
    pub fn halved(mut self, pause: Duration) -> Self {
        let mut body = self.sent();
        let rest = body.split_off(body.len() / 2);
        self.steps = vec![Step::Send(body), Step::Pause(pause), Step::Send(rest)];
        self
    }

    fn cut(mut self, bytes: usize, end: End) -> Self {
        let mut body = self.sent();
        body.truncate(bytes);
        self.steps = vec![Step::Send(body)];
        self.end = end;
        self
    }

    fn sent(&self) -> Vec<u8> {
        let sent = self.steps.iter().filter_map(|step| match step {
            Step::Send(bytes) => Some(bytes.as_slice()),
            Step::Pause(_) => None,
        });
        sent.collect::<Vec<_>>().concat()
    }
}

type Handler = dyn Fn(Request) -> Reply + Send + Sync;

struct Shared {
    handler: Box<Handler>,
    acceptor: TlsAcceptor,
    connections: AtomicUsize,
    log: watch::Sender<Vec<Request>>,
}

/// The server; it ends with the value.
pub struct ScriptedServer {
    address: SocketAddr,
    ca: CertifiedIssuer<'static, KeyPair>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ScriptedServer {
    /// Starts it on a free port of the loopback. Its certificate is for `127.0.0.1` and for
    /// `kubernetes`.
    pub async fn start(handler: impl Fn(Request) -> Reply + Send + Sync + 'static) -> Self {
        let ca = authority();
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            acceptor: acceptor(&ca),
            connections: AtomicUsize::new(0),
            log: watch::Sender::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(accept(listener, shared.clone()));
        Self {
            address,
            ca,
            shared,
            task,
        }
    }

    /// Answers every request alike.
    pub async fn always(reply: Reply) -> Self {
        Self::start(move |_| reply.clone()).await
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate of its CA, PEM.
    pub fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    /// A kubeconfig for it, with [`TOKEN`].
    pub fn kubeconfig(&self) -> Vec<u8> {
        kubeconfig(&self.url(), &self.ca_pem(), &json!({"token": TOKEN}))
    }

    /// A kubeconfig for it, with a client certificate of its CA.
    pub fn kubeconfig_with_certificate(&self) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.ca).unwrap();
        let user = json!({
            "client-certificate-data": STANDARD.encode(certificate.pem()),
            // Without its last line break, as some tools write it.
            "client-key-data": STANDARD.encode(key.serialize_pem().trim_end()),
        });
        kubeconfig(&self.url(), &self.ca_pem(), &user)
    }

    /// How many TLS connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.log.borrow().clone()
    }

    /// Waits until there were that many requests, and returns them.
    pub async fn requested(&self, count: usize) -> Vec<Request> {
        let mut log = self.shared.log.subscribe();
        log.wait_for(|log| log.len() >= count)
            .await
            .unwrap()
            .clone()
    }
}

/// Runs this in a process of its own, of this test alone. Returns what it printed, in the process that waits for it.
pub fn alone(run: impl FnOnce()) -> Option<String> {
    const ALONE: &str = "DWD_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        run();
        return None;
    }
    // libtest names the thread of a test by its path.
    let thread = std::thread::current();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([thread.name().unwrap(), "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{errors}");
    assert!(told.contains("1 passed"), "{told}");
    Some(told)
}

/// A kubeconfig, as JSON.
pub fn kubeconfig(server: &str, ca_pem: &str, user: &Value) -> Vec<u8> {
    let cluster = json!({
        "server": server, "certificate-authority-data": STANDARD.encode(ca_pem),
    });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
    })
    .to_string()
    .into_bytes()
}

/// An object that nobody asked for.
pub fn wrong_kind() -> Value {
    json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "x", "resourceVersion": "1"}, "items": [],
    })
}

/// A URL on which nothing listens.
pub async fn refusing_url() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("https://{}", listener.local_addr().unwrap())
}

/// A new CA.
pub fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Takes connections, with a certificate of this CA for `127.0.0.1` and `kubernetes`.
pub fn acceptor(ca: &CertifiedIssuer<'static, KeyPair>) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "kubernetes".to_owned()];
    let certificate = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, ca)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
        .allow_unauthenticated()
        .build()
        .unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // The connections end with the server.
    let mut serving = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        // Head and body are written one after the other: none waits for the other's ACK.
        stream.set_nodelay(true).unwrap();
        let shared = shared.clone();
        serving.spawn(async move {
            if let Ok(stream) = shared.acceptor.accept(stream).await {
                let connection = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                serve(stream, &shared, connection).await;
            }
        });
    }
}

async fn serve(mut stream: TlsStream<TcpStream>, shared: &Shared, connection: usize) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer, connection).await {
        shared.log.send_modify(|log| log.push(request.clone()));
        let reply = (shared.handler)(request);
        let Ok(()) = write_reply(&mut stream, &reply).await else {
            return;
        };
        match reply.end {
            End::Keep => {}
            End::Hang => std::future::pending().await,
            End::Reset => {
                stream.get_ref().0.set_zero_linger().unwrap();
                return;
            }
            End::Close => {
                // The client may be gone already, which is an end as well.
                let _ = stream.shutdown().await;
                return;
            }
        }
    }
}

async fn write_reply(stream: &mut TlsStream<TcpStream>, reply: &Reply) -> std::io::Result<()> {
    if let Some(head) = &reply.head {
        let mut text = format!("HTTP/1.1 {} Scripted\r\n", head.status);
        for (name, value) in &head.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(length) = head.length {
            text += &format!("Content-Length: {length}\r\n");
        }
        text += "\r\n";
        stream.write_all(text.as_bytes()).await?;
    }
    for step in &reply.steps {
        match step {
            Step::Send(bytes) => stream.write_all(bytes).await?,
            Step::Pause(pause) => {
                stream.flush().await?;
                tokio::time::sleep(*pause).await;
            }
        }
    }
    stream.flush().await
}

/// The next request, or `None` at the end of the connection.
async fn read_request(
    stream: &mut TlsStream<TcpStream>,
    buffer: &mut Vec<u8>,
    connection: usize,
) -> Option<Request> {
    let end = loop {
        match buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(end) => break end,
            None => more(stream, buffer).await?,
        }
    };
    let head = String::from_utf8(buffer.drain(..end + 4).collect()).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?, first.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    while buffer.len() < length {
        more(stream, buffer).await?;
    }
    Some(Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        headers,
        body: buffer.drain(..length).collect(),
        connection,
        client_certificate: stream.get_ref().1.peer_certificates().is_some(),
    })
}

async fn more(stream: &mut TlsStream<TcpStream>, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(read) if read > 0 => Some(()),
        _ => None,
    }
}
