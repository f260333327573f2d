//! The man in the middle: understands requests, forwards them, and lets go wrong what the script
//! says.

use super::{Fault, call::Call, identity::Identity, script::Script};
use crate::Kubeconfig;
use anyhow::Result;
use futures::{SinkExt as _, StreamExt as _, channel::mpsc};
use http::{
    HeaderValue, Request, Response, StatusCode, Uri,
    header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING},
};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::{Value, json};
use std::{
    convert::Infallible, future::pending, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// After a connection that was not accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The kinds of which the operator is shown nothing but what is of its own cluster, so that many
/// operators can share a seed.
const NARROWED: [&str; 3] = ["clusters", "probepolicies", "clusterhealths"];

/// What there is behind a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The seed, of which the operator sees this namespace.
    Seed(String),
    /// The shoot.
    Shoot,
}

/// A proxy; it ends with this value.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

struct Server {
    side: Side,
    upstream: Client,
    script: Arc<Script>,
}

impl Proxy {
    /// Starts one, which goes on as the user of this kubeconfig.
    pub(super) async fn start(
        side: Side,
        kubeconfig: &Kubeconfig,
        identity: &Identity,
        script: &Arc<Script>,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = Arc::new(Server {
            side,
            upstream: kubeconfig.client().await?,
            script: Arc::clone(script),
        });
        let task = tokio::spawn(accept(listener, identity.clone(), server));
        Ok(Self {
            address,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// What the operator is given to get here. The user stays who it is.
    pub(super) fn kubeconfig(&self, identity: &Identity, user: &Kubeconfig) -> Kubeconfig {
        Kubeconfig {
            server: format!("https://{}", self.address),
            certificate_authority: identity.authority.clone(),
            ..user.clone()
        }
    }
}

async fn accept(listener: TcpListener, identity: Identity, server: Arc<Server>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, identity.clone(), Arc::clone(&server)));
            }
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                sleep(ACCEPT_AGAIN).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

/// Serves a connection until it ends. That it is cut is what it is there for.
async fn serve(stream: TcpStream, identity: Identity, server: Arc<Server>) {
    let served = async {
        stream.set_nodelay(true)?;
        let stream = identity.acceptor.accept(stream).await?;
        let answers = service_fn(|request| Arc::clone(&server).answer(request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answers);
        connection.await.map_err(anyhow::Error::from)
    };
    let mut deaths = server.script.deaths();
    let dies = async {
        match server.side {
            Side::Seed(_) => drop(deaths.changed().await),
            Side::Shoot => pending().await,
        }
    };
    let mut served = pin!(served);
    tokio::select! {
        biased;
        // It stays open, and nobody says a word.
        () = dies => pending().await,
        ended = &mut served => if let Err(error) = ended {
            tracing::debug!("a connection ended: {error:#}");
        },
    }
}

fn cut() -> io::Error {
    io::Error::other("cut by the script")
}

fn whole(body: Bytes) -> Body {
    Full::new(body)
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

impl Server {
    /// Waits while nothing is answered.
    async fn speaks(&self) {
        let silent = match self.side {
            Side::Seed(_) => Fault::SeedSilent,
            Side::Shoot => Fault::ShootSilent,
        };
        let mut mode = self.script.mode();
        // The script outlives this.
        let _ = mode.wait_for(|mode| *mode != Some(silent)).await;
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let call = Call::new(&parts.method, &parts.uri);
        let mut place = None;
        let mut fault = None;
        if call.is_write && self.side != Side::Shoot {
            let says = call.says(&parts.method, &body);
            let (at, happens) = self.script.writes(&says);
            (place, fault) = (Some(at), happens);
        }
        self.speaks().await;
        let answered = match fault {
            Some(Fault::CrashBefore) => {
                self.script.crash();
                Err(cut())
            }
            Some(Fault::SeedConnectionsDead) => pending().await,
            _ => {
                let forwarded = self.forward(&parts, body, &call).await;
                let is_committed = forwarded.as_ref().is_ok_and(|it| it.status().is_success());
                if let Some(place) = place
                    && !is_committed
                    && fault.is_some_and(Fault::wants_a_commit)
                {
                    fault = None;
                    self.script.spare(place);
                }
                match fault {
                    Some(Fault::CrashAfter) => {
                        self.script.crash();
                        Err(cut())
                    }
                    Some(Fault::Lost) => Err(cut()),
                    Some(Fault::Hang) => pending().await,
                    _ => forwarded,
                }
            }
        };
        if let (Some(place), Ok(answer)) = (place, &answered) {
            self.script.answered(place, answer.status().as_u16());
        }
        answered
    }

    /// Sends a request on, and its answer back.
    async fn forward(
        &self,
        parts: &http::request::Parts,
        body: Bytes,
        call: &Call,
    ) -> Result<Response<Body>, io::Error> {
        let target = self.narrowed(&parts.uri, call);
        if call.is_watch && self.script.is_on(Fault::WatchesGone) {
            let mut answer = Response::new(whole(gone().to_string().into()));
            *answer.status_mut() = StatusCode::GONE;
            let json = HeaderValue::from_static("application/json");
            answer.headers_mut().insert(CONTENT_TYPE, json);
            return Ok(answer);
        }
        let mut request = Request::builder().method(&parts.method).uri(&target);
        if let Some(headers) = request.headers_mut() {
            *headers = parts.headers.clone();
            for own in [HOST, AUTHORIZATION, CONTENT_LENGTH, CONNECTION] {
                headers.remove(own);
            }
        }
        let request = request
            .body(kube::client::Body::from(body.to_vec()))
            .map_err(io::Error::other)?;
        let sent = self.upstream.send(request).await;
        let (mut answer, body) = sent.map_err(io::Error::other)?.into_parts();
        if call.is_watch {
            answer.headers.remove(TRANSFER_ENCODING);
            let (sender, events) = mpsc::channel(0);
            tokio::spawn(pump(body, sender, Arc::clone(&self.script)));
            let events = StreamBody::new(events.map(|event| event.map(Frame::data)));
            return Ok(Response::from_parts(answer, events.boxed_unsync()));
        }
        let body = body.collect_bytes().await.map_err(io::Error::other)?;
        for of_connection in [TRANSFER_ENCODING, CONTENT_LENGTH, CONNECTION] {
            answer.headers.remove(of_connection);
        }
        Ok(Response::from_parts(answer, whole(body)))
    }

    /// The path and query to ask for: what is asked, as far as it is of the operator's own cluster.
    fn narrowed(&self, uri: &Uri, call: &Call) -> String {
        let asked = uri.path_and_query().map_or("/", |it| it.as_str());
        let Side::Seed(namespace) = &self.side else {
            return asked.to_owned();
        };
        if call.is_write || call.name.is_some() {
            return asked.to_owned();
        }
        if NARROWED.contains(&call.resource.as_str()) {
            let and = if asked.contains('?') { '&' } else { '?' };
            return format!("{asked}{and}fieldSelector=metadata.name%3D{namespace}");
        }
        if call.resource == "secrets" {
            let of_name = "fieldSelector=metadata.name%3D";
            let of_both =
                format!("fieldSelector=metadata.namespace%3D{namespace}%2Cmetadata.name%3D");
            return asked.replace(of_name, &of_both);
        }
        asked.to_owned()
    }
}

/// The Status by which an API server ends a watch from a version that it has forgotten.
fn gone() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    })
}

/// Passes the events of a watch on, as long as the script lets it.
async fn pump(
    mut watched: kube::client::Body,
    mut sender: mpsc::Sender<io::Result<Bytes>>,
    script: Arc<Script>,
) {
    let mut mode = script.mode();
    loop {
        let events = tokio::select! {
            biased;
            _ = mode.wait_for(|mode| *mode == Some(Fault::WatchesGone)) => None,
            frame = watched.frame() => match frame {
                Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => return,
            },
        };
        let Some(events) = events else {
            let event = json!({"type": "ERROR", "object": gone()});
            // The operator may be gone already.
            let _ = sender.send(Ok(format!("{event}\n").into())).await;
            return;
        };
        let is_late =
            |mode: &Option<Fault>| matches!(mode, Some(Fault::WatchesLate | Fault::SeedSilent));
        let _ = mode.wait_for(|mode| !is_late(mode)).await;
        if sender.send(Ok(events)).await.is_err() {
            return;
        }
    }
}
