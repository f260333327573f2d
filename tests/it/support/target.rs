//! What checks are made of: servers on real sockets that do what a test says, and an API server that
//! runs commands.

use std::{io, net::SocketAddr, sync::Arc};

use dependency_watchdog::{
    api::HealthCheck,
    checks::{CheckMetrics, Cuts, Run, Runner},
    runtime::{names::Names, seed::Seed},
};
use futures::{SinkExt as _, future::BoxFuture};
use kube::{Client, Config};
use rcgen::{Certificate, KeyPair, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
    server::TlsStream,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};
use tokio_util::task::AbortOnDropHandle;

use super::Activity;

/// A server on a port of this machine.
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    _serving: AbortOnDropHandle<()>,
}

impl Target {
    /// Talks like this on each connection.
    pub async fn start<F>(
        activity: &Activity,
        talk: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let activity = activity.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                activity.note();
                let (talking, activity) = (talk(stream), activity.clone());
                tokio::spawn(async move {
                    talking.await;
                    activity.note();
                });
            }
        });
        Self {
            address,
            _serving: AbortOnDropHandle::new(serving),
        }
    }
}

/// Waits until the other side has gone; what it sends is dropped.
pub async fn gone(stream: &mut (impl AsyncRead + Unpin)) {
    let mut read = [0; 4096];
    while stream.read(&mut read).await.is_ok_and(|length| length > 0) {}
}

/// Reads the head of a request.
pub async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// Answers one request, by its head, with these bytes, and ends the connection.
pub async fn http(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(&str) -> String,
) {
    let request = head(&mut stream).await;
    if request.is_empty() {
        return;
    }
    let _ = stream.write_all(answer(&request).as_bytes()).await;
    let _ = stream.shutdown().await;
    gone(&mut stream).await;
}

/// Takes a connection over TLS, with a certificate that nobody knows.
pub async fn tls(stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let signed = generate_simple_self_signed(vec!["nobody.invalid".to_owned()]).unwrap();
    tls_with(stream, &signed.cert, &signed.signing_key).await
}

/// Takes a connection over TLS, with this certificate.
pub async fn tls_with(
    stream: TcpStream,
    certificate: &Certificate,
    key: &KeyPair,
) -> Option<TlsStream<TcpStream>> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
        .accept(stream)
        .await
        .ok()
}

/// A check, by its fields in a policy; it is named `c`.
pub fn check(fields: Value) -> HealthCheck {
    let mut check = json!({"name": "c"});
    let all = check.as_object_mut().unwrap();
    all.extend(fields.as_object().unwrap().clone());
    serde_json::from_value(check).unwrap()
}

/// Makes runs; commands by this API server.
pub fn runner(api: Option<&Target>, gates: &str, metrics: CheckMetrics) -> Runner {
    let address = api.map_or("127.0.0.1:9".parse().unwrap(), |api| api.address);
    let mut config = Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    let seed = Seed::unlimited(Client::try_from(config).unwrap());
    Runner::new(seed, gates.parse().unwrap(), metrics, names())
}

/// Each Service is on this machine, but `nobody`, which no name server knows.
pub fn names() -> Names {
    let resolver = |host: Arc<str>| async move {
        match host.starts_with("nobody.") {
            true => Err(io::Error::other("no such name")),
            false => Ok(vec![SocketAddr::from(([127, 0, 0, 1], 0))]),
        }
    };
    Names::new(resolver)
}

/// One run of a check, whatever came before.
pub async fn once(runner: &Runner, check: &HealthCheck) -> Run {
    runner.run("shoot--a", check, &mut Cuts::default()).await
}

/// A command, as the API server runs it.
pub type Socket = WebSocketStream<TcpStream>;
type Command = Arc<dyn Fn(String, Socket) -> BoxFuture<'static, ()> + Send + Sync>;

/// An API server that has these pods in any namespace, and runs commands like this; it is told the
/// request.
pub async fn api<F>(
    activity: &Activity,
    pods: Value,
    run: impl Fn(String, Socket) -> F + Send + Sync + 'static,
) -> Target
where
    F: Future<Output = ()> + Send + 'static,
{
    let run: Command = Arc::new(move |request, socket| Box::pin(run(request, socket)));
    let activity = activity.clone();
    let noted = activity.clone();
    Target::start(&activity, move |mut stream| {
        let (pods, run, activity) = (pods.clone(), run.clone(), noted.clone());
        async move {
            loop {
                let request = head(&mut stream).await;
                activity.note();
                let Some(path) = request.split(' ').nth(1) else {
                    return;
                };
                if path.contains("/exec?") {
                    let key = request.lines().find_map(|line| {
                        let (name, value) = line.split_once(": ")?;
                        name.eq_ignore_ascii_case("sec-websocket-key")
                            .then_some(value)
                    });
                    let accept = derive_accept_key(key.unwrap().as_bytes());
                    let switched = format!(
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: \
                         websocket\r\nSec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: \
                         v5.channel.k8s.io\r\n\r\n"
                    );
                    let _ = stream.write_all(switched.as_bytes()).await;
                    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
                    return run(path.to_owned(), socket).await;
                }
                let (status, body) = match &pods {
                    Value::Array(items) => ("200 OK", json!({"items": items})),
                    status => ("403 Forbidden", status.clone()),
                };
                let body = body.to_string();
                let answer = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: \
                     {}\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    })
    .await
}

/// A command ends with this status, after it wrote these to its channels.
pub async fn ended(mut socket: Socket, written: &[(u8, &str)], status: &Value) {
    let status = status.to_string();
    let messages = written.iter().copied().chain([(3, status.as_str())]);
    for (channel, text) in messages {
        let message = [&[channel], text.as_bytes()].concat();
        let _ = socket.send(Message::Binary(message.into())).await;
    }
    let _ = socket.close(None).await;
}

/// The status of a command that ended with this exit code.
pub fn exit(code: i32) -> Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
    }
}
