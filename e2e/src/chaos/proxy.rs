//! The man in the middle: understands requests, forwards them, and lets go wrong what the script
//! says.

use super::{Fault, call::Call, identity::Identity, script::Script};
use crate::Kubeconfig;
use anyhow::Result;
use futures::{SinkExt as _, StreamExt as _, channel::mpsc};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST, RETRY_AFTER,
        TRANSFER_ENCODING,
    },
};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde_json::json;
use std::{
    collections::HashMap,
    convert::Infallible,
    future::pending,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
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
    /// The last answer to each read.
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Clone)]
struct Known {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Known {
    fn new(answer: http::response::Parts, body: Bytes) -> Self {
        let mut headers = answer.headers;
        // These are of the connection on which it came.
        for own in [TRANSFER_ENCODING, CONTENT_LENGTH, CONNECTION] {
            headers.remove(own);
        }
        Self {
            status: answer.status,
            headers,
            body,
        }
    }
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
            known: Mutex::default(),
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
    if server.is_away() {
        return;
    }
    let served = async {
        stream.set_nodelay(true)?;
        let stream = identity.acceptor.accept(stream).await?;
        let answers = service_fn(|request| Arc::clone(&server).answer(request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answers);
        connection.await.map_err(anyhow::Error::from)
    };
    let (mut modes, mut deaths) = (server.script.modes(), server.script.deaths());
    let fault = server.away();
    let mut cut = pin!(async {
        // The script outlives this.
        let _ = modes.wait_for(|modes| modes.contains(&fault)).await;
    });
    let dies = async {
        match server.side {
            Side::Seed(_) => drop(deaths.changed().await),
            Side::Shoot => pending().await,
        }
    };
    let mut served = pin!(served);
    tokio::select! {
        biased;
        // It is dropped with all that is under way on it.
        () = &mut cut => {}
        // It stays open, and nobody says a word.
        () = dies => cut.await,
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
    fn is_away(&self) -> bool {
        self.script.is_on(self.away())
    }

    /// The fault by which no connection lasts.
    fn away(&self) -> Fault {
        match self.side {
            Side::Seed(_) => Fault::SeedAway,
            Side::Shoot => Fault::ShootAway,
        }
    }

    /// Waits while nothing is answered.
    async fn speaks(&self) {
        let silent = match self.side {
            Side::Seed(_) => Fault::SeedSilent,
            Side::Shoot => Fault::ShootSilent,
        };
        let mut modes = self.script.modes();
        // The script outlives this.
        let _ = modes.wait_for(|modes| !modes.contains(&silent)).await;
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
        if self.is_away() {
            return Err(cut());
        }
        self.speaks().await;
        if matches!(fault, Some(Fault::StaleReads | Fault::StaleStart)) {
            self.remember().await;
        }
        let answered = match fault {
            Some(Fault::CrashBefore) => {
                self.script.crash();
                Err(cut())
            }
            Some(Fault::Reset) => Err(cut()),
            Some(Fault::SeedConnectionsDead) => pending().await,
            Some(Fault::Conflict) => Ok(refusal(StatusCode::CONFLICT, "Conflict")),
            Some(Fault::ServerError) => {
                Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))
            }
            Some(Fault::Unavailable) => Ok(refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
            )),
            Some(Fault::TooMany) => {
                let mut answer = refusal(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests");
                let after = HeaderValue::from_static("1");
                answer.headers_mut().insert(RETRY_AFTER, after);
                Ok(answer)
            }
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
                    Some(Fault::CrashAfter | Fault::StaleStart) => {
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

    /// Reads once more whatever the operator has read, so that what is stale is what there is now.
    async fn remember(&self) {
        let targets: Vec<String> = {
            let known = self.known();
            known.keys().cloned().collect()
        };
        let read = async |target: String| -> Result<()> {
            let request = Request::get(&target).body(kube::client::Body::empty())?;
            let (answer, body) = self.upstream.send(request).await?.into_parts();
            let now = Known::new(answer, body.collect_bytes().await?);
            self.known().insert(target, now);
            Ok(())
        };
        for read in futures::future::join_all(targets.into_iter().map(read)).await {
            if let Err(error) = read {
                tracing::debug!("not read again: {error:#}");
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
            return Ok(refusal(StatusCode::GONE, "Expired"));
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
        let mut known = Known::new(answer, body);
        if parts.method == Method::GET {
            known = self.recall(target, call, known);
        }
        let mut answer = Response::new(whole(known.body));
        *answer.status_mut() = known.status;
        *answer.headers_mut() = known.headers;
        Ok(answer)
    }

    /// What a read shows: what there is, or as long as reads are stale what there was, at the time
    /// that it is now.
    fn recall(&self, target: String, call: &Call, now: Known) -> Known {
        let on = |fault| self.script.is_on(fault);
        let stale = match self.side {
            Side::Seed(_) => {
                (on(Fault::StaleReads) && call.name.is_some()) || on(Fault::StaleStart)
            }
            Side::Shoot => on(Fault::StaleLeases) && call.resource == "leases",
        };
        let mut known = self.known();
        if !stale {
            known.insert(target, now.clone());
            return now;
        }
        let Some(mut old) = known.get(&target).cloned() else {
            return now;
        };
        if let Some(date) = now.headers.get(DATE) {
            old.headers.insert(DATE, date.clone());
        }
        old
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

/// As an API server says no.
fn refusal(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the script", "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(whole(status.to_string().into()));
    *answer.status_mut() = code;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// Passes the events of a watch on, as long as the script lets it.
async fn pump(
    mut watched: kube::client::Body,
    mut sender: mpsc::Sender<io::Result<Bytes>>,
    script: Arc<Script>,
) {
    let mut modes = script.modes();
    loop {
        let ends = |fault: &Fault| matches!(fault, Fault::WatchesCut | Fault::WatchesGone);
        let last = tokio::select! {
            biased;
            _ = modes.wait_for(|modes| modes.iter().any(ends)) => None,
            frame = watched.frame() => match frame {
                Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => return,
                None => return,
            },
        };
        let Some(events) = last else {
            // The operator may be gone already.
            let _ = sender.send(end(&script)).await;
            let _ = sender.send(Err(cut())).await;
            return;
        };
        let late = |fault: &Fault| matches!(fault, Fault::WatchesLate | Fault::SeedSilent);
        let _ = modes.wait_for(|modes| !modes.iter().any(late)).await;
        if sender.send(Ok(events)).await.is_err() {
            return;
        }
    }
}

/// The last that a watch tells: half an event, or that it is too old.
fn end(script: &Script) -> io::Result<Bytes> {
    if !script.is_on(Fault::WatchesGone) {
        return Ok(Bytes::from_static(
            br#"{"type":"MODIFIED","object":{"kind":"#,
        ));
    }
    let gone = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    }});
    Ok(Bytes::from(format!("{gone}\n")))
}
