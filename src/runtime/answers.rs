//! Bounds on what the seed answers: a layer around its client.
//!
//! The client reads an answer as a whole, and of a watch each event, before anything of it is
//! looked at. What has no end, or is larger than anything that an API server holds, would take all
//! memory; here it is an error that says so. So is an answer that does not begin: it may have been
//! asked for on a connection that is dead, of which nobody tells.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::timeout;
use tower::{BoxError, Layer, Service};

/// The largest answer of the seed, in bytes: all Machines of one cluster, of which 5,000 have some
/// 20 MB, and a page of the largest objects that there can be. The client needs several times that
/// while it reads it.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The largest object in an answer, in bytes. etcd takes none of more than 1.5 MiB, and JSON makes it
/// longer: what is in base64 by a third, line breaks twofold.
const MAX_OBJECT_BYTES: usize = 3 * 1024 * 1024;

/// So many objects that may be of any size are in one page of a list.
pub const LARGE_OBJECTS_PER_PAGE: u32 = 20;

const _: () = assert!(LARGE_OBJECTS_PER_PAGE as usize * MAX_OBJECT_BYTES <= MAX_ANSWER_BYTES);

/// The largest event of a watch, in bytes: several times the largest object that etcd takes.
pub const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// A watch begins at once ...
const WATCH_BEGINS: Duration = Duration::from_secs(30);
/// ... and any other answer before an API server would give the request up, which it does after a
/// minute.
pub(super) const ANSWER_BEGINS: Duration = Duration::from_secs(65);

/// Nothing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the seed did not begin to answer within {0:?}")]
pub struct Silent(Duration);

/// An answer beyond all reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// The answer as a whole.
    #[error(
        "the seed's answer is larger than {MAX_ANSWER_BYTES} bytes, and was not read further; check \
         what answers there, and delete objects that were made to no purpose"
    )]
    Answer,
    /// An event of a watch.
    #[error(
        "an event of a watch on the seed is larger than {MAX_EVENT_BYTES} bytes, and was not read \
         further; check what answers there"
    )]
    Event,
}

/// Bounds the answers of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds;

impl<S> Layer<S> for Bounds {
    type Service = BoundedService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BoundedService(inner)
    }
}

/// A client whose answers are bounded.
#[derive(Clone, Debug)]
pub struct BoundedService<S>(S);

impl<S, A, B> Service<Request<A>> for BoundedService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
{
    type Response = Response<Bounded<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let bound = Bound::of(request.uri().query().unwrap_or_default());
        let answer = timeout(bound.begins(), self.0.call(request));
        async move {
            let answer = answer.await.map_err(|_| Silent(bound.begins()))?;
            let answer = answer.map_err(Into::into)?;
            Ok(answer.map(|body| Bounded { body, bound }))
        }
        .boxed()
    }
}

/// Whether a request with this query asks for a watch.
pub(super) fn is_watch(query: Option<&str>) -> bool {
    let mut parameters = query.unwrap_or_default().split('&');
    parameters.any(|it| it == "watch=true" || it == "watch=1")
}

/// What is still taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Answer { left: usize },
    Event { left: usize, most: usize },
}

impl Bound {
    fn of(query: &str) -> Self {
        match is_watch(Some(query)) {
            true => Self::Event {
                left: MAX_EVENT_BYTES,
                most: MAX_EVENT_BYTES,
            },
            false => Self::Answer {
                left: MAX_ANSWER_BYTES,
            },
        }
    }

    /// Until when it has begun.
    fn begins(self) -> Duration {
        match self {
            Self::Event { .. } => WATCH_BEGINS,
            Self::Answer { .. } => ANSWER_BEGINS,
        }
    }

    /// Takes the next bytes.
    fn take(&mut self, data: &[u8]) -> Result<(), TooLarge> {
        match self {
            Self::Answer { left } => {
                *left = left.checked_sub(data.len()).ok_or(TooLarge::Answer)?;
            }
            Self::Event { left, most } => {
                // Each event is a line.
                for line in data.split_inclusive(|byte| *byte == b'\n') {
                    *left = left.checked_sub(line.len()).ok_or(TooLarge::Event)?;
                    if line.ends_with(b"\n") {
                        *left = *most;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The body of an answer, up to its bound.
#[derive(Debug)]
pub struct Bounded<B> {
    body: B,
    bound: Bound,
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let taken = match frame.data_ref() {
            Some(data) => this.bound.take(data.chunk()),
            None => Ok(()),
        };
        Poll::Ready(Some(taken.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, TryStreamExt as _};
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{
        Api, Client,
        api::{ListParams, WatchParams},
        client::ClientBuilder,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::seed::with_causes;

    /// A client of a seed that never stops to send these.
    fn endless(piece: &'static [u8]) -> Client {
        let service = tower::service_fn(move |_: Request<kube::client::Body>| async move {
            let frames = futures::stream::repeat_with(move || {
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(piece)))
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(frames)))
        });
        ClientBuilder::new(service, "default")
            .with_layer(&Bounds)
            .build()
    }

    #[tokio::test]
    async fn an_endless_list_is_given_up() {
        let api: Api<ConfigMap> = Api::all(endless(&[b'\n'; 1 << 20]));
        let error = api.list(&ListParams::default()).await.unwrap_err();
        let told = with_causes(&error);
        assert!(told.contains("larger than 67108864 bytes"), "{told}");
    }

    #[tokio::test]
    async fn an_endless_event_is_given_up_and_an_endless_watch_is_not() {
        let api: Api<ConfigMap> = Api::all(endless(&[b'x'; 1 << 20]));
        let events = api.watch(&WatchParams::default(), "0").await.unwrap();
        let error = events.boxed().try_next().await.unwrap_err();
        let told = with_causes(&error);
        assert!(told.contains("larger than 8388608 bytes"), "{told}");

        let object = serde_json::json!({
            "metadata": {"name": "a", "annotations": {"long": "x".repeat(1 << 20)}},
        });
        let event = serde_json::json!({"type": "ADDED", "object": object});
        let event: &'static [u8] = format!("{event}\n").into_bytes().leak();
        let api: Api<ConfigMap> = Api::all(endless(event));
        let events = api.watch(&WatchParams::default(), "0").await.unwrap();
        let many = 2 * MAX_EVENT_BYTES / event.len();
        let events: Vec<_> = events.boxed().take(many).try_collect().await.unwrap();
        assert_eq!(events.len(), many);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_begin_is_given_up() {
        let service = tower::service_fn(|_: Request<kube::client::Body>| {
            std::future::pending::<Result<Response<kube::client::Body>, Infallible>>()
        });
        let client = ClientBuilder::new(service, "default").with_layer(&Bounds);
        let api: Api<ConfigMap> = Api::all(client.build());
        let error = api.list(&ListParams::default()).await.unwrap_err();
        assert!(with_causes(&error).contains("did not begin to answer within 65s"));
        let watched = api.watch(&WatchParams::default(), "0").await;
        let error = watched.err().unwrap();
        assert!(with_causes(&error).contains("did not begin to answer within 30s"));
    }

    #[test]
    fn a_watch_is_told_by_what_is_asked() {
        let params = WatchParams::default().labels("a=b");
        let request = kube::core::Request::new("/api/v1/pods").watch(&params, "0");
        let request = request.unwrap();
        let bound = |query: &str| matches!(Bound::of(query), Bound::Event { .. });
        assert!(bound(request.uri().query().unwrap()));
        assert!(!bound("labelSelector=a%3Dwatch%3Dtrue&limit=500"));
    }

    proptest! {
        /// However the bytes are cut into frames.
        #[test]
        fn the_line_counts_and_not_the_frame(
            lines in prop::collection::vec(0..60usize, 1..6), cut in 1..60usize
        ) {
            const MOST: usize = 40;
            let fits = lines.iter().all(|length| *length < MOST);
            let mut sent = Vec::new();
            for length in lines {
                sent.resize(sent.len() + length, b'x');
                sent.push(b'\n');
            }
            let mut bound = Bound::Event { left: MOST, most: MOST };
            let taken = sent.chunks(cut).try_for_each(|frame| bound.take(frame));
            prop_assert_eq!(taken, if fits { Ok(()) } else { Err(TooLarge::Event) });
        }
    }
}
