//! The kubelet of a seed's node, as far as commands in its pods go: the API server leads them to it,
//! over a WebSocket, and it plays what they do.

use anyhow::{Context as _, Result};
use futures::{SinkExt as _, StreamExt as _};
use http::header;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
    server::TlsStream,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, handshake::derive_accept_key, protocol::Role},
};
use tokio_util::task::AbortOnDropHandle;

/// By which a kubelet says that it takes WebSockets, which it does since Kubernetes 1.36.
const FEATURE: &str = "ExtendWebSocketsToKubelet";
/// The head of a request is shorter.
const MAX_HEAD: usize = 16 * 1024;

/// What a command does.
#[derive(Clone, Debug)]
pub enum Play {
    /// It writes this, and ends with this exit code.
    Ends(i32, String),
    /// It neither writes nor ends.
    Hangs,
    /// The runtime cannot start it.
    Missing,
}

/// The stand-in; it ends with this value.
pub struct Execs {
    client: Client,
    node: String,
    shared: Arc<Mutex<Shared>>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Shared {
    /// By the first word of a command.
    plays: BTreeMap<String, Play>,
    /// The paths and queries of all commands, as the API server asked for them.
    asked: Vec<String>,
}

impl Execs {
    /// Registers the node of this name, and starts.
    pub async fn start(client: &Client, node: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let nodes: Api<Node> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": node}}))?;
        let created = nodes.create(&PostParams::default(), &object).await;
        created.with_context(|| format!("cannot create the node {node}"))?;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "declaredFeatures": [FEATURE],
        }});
        let params = PatchParams::default();
        nodes
            .patch_status(node, &params, &Patch::Merge(status))
            .await?;
        let shared: Arc<Mutex<Shared>> = Arc::default();
        let task = tokio::spawn(serve(listener, acceptor()?, shared.clone()));
        Ok(Self {
            client: client.clone(),
            node: node.to_owned(),
            shared,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// From now on this is what the command does that begins with this word.
    pub fn play(&self, program: &str, play: Play) {
        lock(&self.shared).plays.insert(program.to_owned(), play);
    }

    /// The paths and queries by which commands were asked for, so far.
    pub fn asked(&self) -> Vec<String> {
        lock(&self.shared).asked.clone()
    }

    /// A pod on the node that runs and is ready, with one container of this name.
    pub async fn pod(
        &self,
        namespace: &str,
        name: &str,
        container: &str,
        labels: &Value,
    ) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": container, "image": "played"}],
            },
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
        let status = json!({"status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let params = PatchParams::default();
        pods.patch_status(name, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By a certificate that nobody knows: an API server that is not told of an authority takes any.
fn acceptor() -> Result<TlsAcceptor> {
    let signed = generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Mutex<Shared>>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("a command is not taken: {error}");
                continue;
            }
        };
        let (acceptor, shared) = (acceptor.clone(), shared.clone());
        tokio::spawn(async move {
            if let Err(error) = command(stream, acceptor, &shared).await {
                tracing::debug!("a command is not played to its end: {error:#}");
            }
        });
    }
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

async fn command(stream: TcpStream, acceptor: TlsAcceptor, shared: &Mutex<Shared>) -> Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let path = head.split(' ').nth(1).context("no path")?.to_owned();
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let wanted = name.eq_ignore_ascii_case(header::SEC_WEBSOCKET_KEY.as_str());
        wanted.then_some(value)
    });
    let accept = derive_accept_key(key.context("no WebSocket")?.as_bytes());
    let switched = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    );
    stream.write_all(switched.as_bytes()).await?;
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let play = {
        let mut shared = lock(shared);
        shared.asked.push(path.clone());
        let words = path.split(['?', '&']);
        let program = words.filter_map(|it| it.strip_prefix("command=")).next();
        program.and_then(|program| shared.plays.get(program).cloned())
    };
    act(socket, play.unwrap_or(Play::Missing)).await
}

async fn act(mut socket: Socket, play: Play) -> Result<()> {
    let status = match play {
        Play::Ends(code, written) => {
            socket.send(message(1, &written)).await?;
            match code {
                0 => json!({"metadata": {}, "status": "Success"}),
                code => json!({
                    "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                    "message": format!("command terminated with non-zero exit code: exit status {code}"),
                    "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
                }),
            }
        }
        Play::Missing => json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": "Internal error occurred: executable file not found in $PATH",
        }),
        Play::Hangs => {
            while socket.next().await.is_some_and(|it| it.is_ok()) {}
            return Ok(());
        }
    };
    socket.send(message(3, &status.to_string())).await?;
    socket.close(None).await?;
    Ok(())
}

fn message(channel: u8, text: &str) -> Message {
    Message::Binary([&[channel], text.as_bytes()].concat().into())
}
