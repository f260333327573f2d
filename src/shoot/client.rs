//! One kept connection to the API server of a shoot.
//!
//! Between two reads nothing is kept but the TLS session, 10 KiB. All that HTTP needs, its buffers, queues
//! and tasks, is several times that, so hyper is put on the connection anew for each read.

use std::{
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderValue, Request, Uri, header, response};
use http_body_util::Empty;
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;

use super::dial::{Dial, Wire};
use super::kubeconfig::Access;

const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("dependency-watchdog/", env!("CARGO_PKG_VERSION")));

/// An API server closes a connection on which nothing was asked for so long, and what stands between
/// may forget it without a word.
const KEPT: Duration = Duration::from_secs(90);
/// The buffer for what is read, and the longest head of an answer: the least that hyper takes. An API
/// server's head has 600 bytes.
const READ_BUFFER: usize = 8 * 1024;

/// The API server of one shoot.
///
/// Reads one after the other share one HTTP/1 connection, which is made at the first of them and
/// kept. A read that is abandoned takes its connection with it, and two at once have one each. Clones
/// share their connections. A connection has no maximum age: frequent reads need no new handshake.
#[derive(Clone)]
pub struct Shoot(Arc<Line>);

/// Where the API server is, and what to show it.
struct Line {
    server: Uri,
    /// Start of each path, without a slash at its end.
    prefix: Box<str>,
    authorization: Option<HeaderValue>,
    tls: TlsConnector,
    tls_name: ServerName<'static>,
    dial: Dial,
    kept: Mutex<Kept>,
}

/// The connection that is kept between two requests.
#[derive(Default)]
struct Kept {
    idle: Option<Idle>,
    /// Rises when connections are given up. None of a former generation is kept.
    generation: u64,
}

/// A connection on which nothing is asked.
struct Idle {
    stream: Box<Stream>,
    since: Instant,
}

type Stream = TlsStream<Box<dyn Wire>>;

/// A connection on which something is asked.
struct Busy {
    sender: SendRequest<Empty<Bytes>>,
    connection: Connection<TokioIo<Box<Stream>>, Empty<Bytes>>,
    ended: bool,
}

/// The body of an answer. Its connection is closed with it, unless it is [kept](Body::keep).
pub(super) struct Body {
    frames: Incoming,
    line: Arc<Line>,
    generation: u64,
    busy: Box<Busy>,
}

impl Shoot {
    /// Prepares a client, whose connections are made like this; no packet is sent before the first read.
    pub fn new(access: Access, dial: &Dial) -> Self {
        let mut tls = access.tls;
        // A connection is kept, and seldom made: what the next handshake would save costs more
        // memory than the rest of the connection.
        tls.resumption = Resumption::disabled();
        Self(Arc::new(Line {
            prefix: access.server.path().trim_end_matches('/').into(),
            server: access.server,
            authorization: access.authorization,
            tls: TlsConnector::from(Arc::new(tls)),
            tls_name: access.tls_name,
            dial: dial.clone(),
            kept: Mutex::default(),
        }))
    }

    /// Returns whether the next read goes over a connection that was kept, if nothing else is read meanwhile.
    /// One that died without a word looks like one that lives.
    pub fn is_connected(&self) -> bool {
        self.0.open().idle.is_some()
    }

    /// Has the next read make a connection, for which the name is looked up anew. What is under way on another
    /// goes on, and that connection is closed afterwards.
    pub fn disconnect(&self) {
        let mut kept = self.0.kept();
        kept.idle = None;
        kept.generation = kept.generation.wrapping_add(1);
    }

    /// Gets what is at this path, over the kept connection if there is one.
    pub(super) async fn get(
        &self,
        path: &str,
        accept: HeaderValue,
    ) -> Result<(response::Parts, Body), Box<dyn Error + Send + Sync>> {
        let request = self.request(path, accept)?;
        let (idle, generation) = {
            let mut kept = self.0.open();
            (kept.idle.take(), kept.generation)
        };
        let stream = match idle {
            Some(idle) => idle.stream,
            None => Box::pin(self.dial()).await?,
        };
        let mut busy = Box::new(Busy::on(stream).await?);
        let answer = busy.sender.send_request(request);
        let (head, frames) = busy.drive(answer).await?.into_parts();
        let body = Body {
            frames,
            line: self.0.clone(),
            generation,
            busy,
        };
        Ok((head, body))
    }

    fn request(&self, path: &str, accept: HeaderValue) -> http::Result<Request<Empty<Bytes>>> {
        let line = &*self.0;
        let mut request = Request::get([&*line.prefix, path].concat()).body(Empty::new())?;
        let headers = request.headers_mut();
        let host = line.server.authority().map_or("", |it| it.as_str());
        headers.insert(header::HOST, HeaderValue::try_from(host)?);
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.insert(header::ACCEPT, accept);
        if let Some(authorization) = &line.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    async fn dial(&self) -> Result<Box<Stream>, Box<dyn Error + Send + Sync>> {
        let line = &*self.0;
        let stream = line.dial.dial(line.server.clone()).await?;
        let stream = line.tls.connect(line.tls_name.clone(), stream);
        Ok(Box::new(stream.await?))
    }
}

impl Line {
    /// The kept connection, unless it was closed in the meantime.
    fn open(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept();
        kept.idle = kept.idle.take().and_then(Idle::open);
        kept
    }

    fn keep(&self, stream: Box<Stream>, generation: u64) {
        let since = Instant::now();
        let mut kept = self.kept();
        if kept.generation == generation {
            kept.idle = Some(Idle { stream, since });
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn open(mut self) -> Option<Self> {
        let open = self.stream.read(&mut [0]).now_or_never().is_none();
        (open && self.since.elapsed() < KEPT).then_some(self)
    }
}

impl Busy {
    async fn on(stream: Box<Stream>) -> hyper::Result<Self> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(READ_BUFFER)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            connection,
            ended: false,
        })
    }

    /// Waits for what comes over the connection, and moves that along.
    async fn drive<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        poll_fn(|context| {
            self.advance(context);
            awaited.as_mut().poll(context)
        })
        .await
    }

    fn advance(&mut self, context: &mut Context<'_>) {
        if !self.ended {
            // What breaks it is told to whoever waits for the answer.
            self.ended = self.connection.poll_without_shutdown(context).is_ready();
        }
    }

    /// Returns what is under the connection, if something else can be asked over it.
    async fn into_stream(mut self) -> Option<Box<Stream>> {
        self.drive(std::future::ready(())).await;
        if self.ended || !self.sender.is_ready() {
            return None;
        }
        let parts = self.connection.into_parts();
        parts.read_buf.is_empty().then(|| parts.io.into_inner())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.busy.advance(context);
        Pin::new(&mut self.frames).poll_frame(context)
    }
}

impl Body {
    /// Keeps the connection of one that has been read to its end for the next request.
    pub(super) async fn keep(self) {
        if let Some(stream) = self.busy.into_stream().await {
            self.line.keep(stream, self.generation);
        }
    }
}
