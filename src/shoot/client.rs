//! One kept connection to the API server of a shoot.
//!
//! Between two reads nothing is kept but the TLS session, 10 KiB. All that HTTP needs, its buffers, queues
//! and tasks, is several times that, so hyper is put on the connection anew for each read.

use std::{future::poll_fn, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    future::{Either, select},
};
use http::{HeaderValue, Request, header, response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;
use tower::BoxError;

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

struct Line {
    access: Access,
    dial: Dial,
    kept: Mutex<Kept>,
}

/// The connection that is kept between two requests.
#[derive(Default)]
struct Kept {
    /// A connection on which nothing is asked, and since when.
    idle: Option<(Stream, Instant)>,
    /// Rises when connections are given up. None of a former generation is kept.
    generation: u64,
}

type Stream = Box<TlsStream<Box<dyn Wire>>>;

impl Shoot {
    /// Prepares a client, whose connections are made like this; no packet is sent before the first read.
    pub fn new(access: Access, dial: &Dial) -> Self {
        Self(Arc::new(Line {
            access,
            dial: dial.clone(),
            kept: Mutex::default(),
        }))
    }

    /// Returns whether the next read goes over a connection that was kept, if nothing else is read meanwhile.
    /// One that died without a word looks like one that lives.
    pub fn is_connected(&self) -> bool {
        self.0.kept().idle.is_some()
    }

    /// Has the next read make a connection, for which the name is looked up anew. What is under way on another
    /// goes on, and that connection is closed afterwards.
    pub fn disconnect(&self) {
        let mut kept = self.0.kept();
        kept.idle = None;
        kept.generation = kept.generation.wrapping_add(1);
    }

    /// Gets what is at this path, over the kept connection if there is one, and reads the answer. The connection is
    /// kept if the answer was read to its end, and closed otherwise.
    pub(super) async fn get<T>(
        &self,
        path: &str,
        accept: HeaderValue,
        read: impl AsyncFnOnce(response::Parts, Incoming) -> T,
    ) -> Result<T, BoxError> {
        let line = &*self.0;
        let request = line.request(path, accept)?;
        let (idle, generation) = {
            let mut kept = line.kept();
            (kept.idle.take(), kept.generation)
        };
        let stream = match idle {
            Some((stream, _)) => stream,
            None => line.connect().await?,
        };
        let mut http = http1::Builder::new();
        let http = http.max_buf_size(READ_BUFFER);
        let (mut sender, mut connection) = http.handshake(TokioIo::new(stream)).await?;
        let answer = {
            let exchange = pin!(async {
                let (head, body) = sender.send_request(request).await?.into_parts();
                hyper::Result::Ok(read(head, body).await)
            });
            let ends = poll_fn(|context| connection.poll_without_shutdown(context));
            match select(ends, exchange).await {
                Either::Right((answer, _)) => answer?,
                // The answer, or its absence, tells why the connection ended.
                Either::Left((_, exchange)) => return Ok(exchange.await?),
            }
        };
        let ends = poll_fn(|context| connection.poll_without_shutdown(context));
        if ends.now_or_never().is_none() && sender.is_ready() {
            let parts = connection.into_parts();
            let mut kept = line.kept();
            if parts.read_buf.is_empty() && kept.generation == generation {
                kept.idle = Some((parts.io.into_inner(), Instant::now()));
            }
        }
        Ok(answer)
    }
}

impl Line {
    fn request(&self, path: &str, accept: HeaderValue) -> http::Result<Request<Empty<Bytes>>> {
        let Access {
            server,
            authorization,
            ..
        } = &self.access;
        let prefix = server.path().trim_end_matches('/');
        let mut request = Request::get([prefix, path].concat()).body(Empty::new())?;
        let headers = request.headers_mut();
        let host = server.authority().map_or("", |it| it.as_str());
        headers.insert(header::HOST, HeaderValue::try_from(host)?);
        headers.insert(header::USER_AGENT, USER_AGENT);
        headers.insert(header::ACCEPT, accept);
        let authorization = authorization.clone();
        headers.extend(authorization.map(|it| (header::AUTHORIZATION, it)));
        Ok(request)
    }

    async fn connect(&self) -> Result<Stream, BoxError> {
        let Access { server, tls, .. } = &self.access;
        let stream = (self.dial.0)(server.clone()).await?;
        let stream = tls.connect(self.access.tls_name.clone(), stream);
        Ok(Box::new(stream.await?))
    }

    /// The connection that is kept, unless it was closed in the meantime.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        let mut kept = self.kept.lock();
        kept.idle.take_if(|(stream, since)| {
            since.elapsed() >= KEPT || stream.read(&mut [0]).now_or_never().is_some()
        });
        kept
    }
}
