//! Answers as they go over the wire.

use crate::store::Refusal;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{
    HeaderValue, Response,
    header::{CONTENT_TYPE, DATE, RETRY_AFTER},
};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use jiff::Timestamp;
use serde_json::Value;
use std::{io, pin::Pin, time::Duration};
use tokio::{task::yield_now, time::sleep};

/// The body of an answer; that of a watch goes on.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;
/// The lines of a watch.
pub(super) type Lines = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// An answer.
pub(crate) struct Answer {
    code: u16,
    content_type: &'static str,
    retry_after: Option<u32>,
    content: Content,
}

enum Content {
    Whole(Bytes),
    /// What ends in the middle.
    Part(Bytes),
    Lines(Lines),
}

impl Answer {
    pub(crate) fn of(answered: Result<(u16, Value), Refusal>) -> Self {
        let (code, content_type, retry_after, body) = match answered {
            Ok((code, body)) => (code, "application/json", None, body.to_string().into()),
            Err(refusal) => {
                let content_type = match refusal.reason {
                    "" => "text/plain; charset=utf-8",
                    _ => "application/json",
                };
                let body = refusal.body();
                (refusal.code, content_type, refusal.retry_after, body)
            }
        };
        Self {
            code,
            content_type,
            retry_after,
            content: Content::Whole(body.into()),
        }
    }

    pub(crate) fn html() -> Self {
        Self::whole("text/html", b"<html>Sign in</html>".to_vec())
    }

    /// A body of any kind.
    pub(crate) fn whole(content_type: &'static str, body: Vec<u8>) -> Self {
        Self {
            content_type,
            content: Content::Whole(body.into()),
            ..Self::of(Ok((200, Value::Null)))
        }
    }

    /// The same byte by byte, with a second after each.
    pub(crate) fn dripping(self) -> Self {
        let Content::Whole(body) = self.content else {
            return self;
        };
        let bytes = futures::stream::iter(body).then(async |byte| {
            sleep(Duration::from_secs(1)).await;
            Ok(Bytes::copy_from_slice(&[byte]))
        });
        Self {
            content: Content::Lines(bytes.boxed()),
            ..self
        }
    }

    pub(super) fn lines(lines: Lines) -> Self {
        Self {
            content: Content::Lines(lines),
            ..Self::of(Ok((200, Value::Null)))
        }
    }

    pub(super) fn code(&self) -> u16 {
        self.code
    }

    /// The first half of it.
    pub(crate) fn truncated(self) -> Self {
        let content = match self.content {
            Content::Whole(body) => Content::Part(body.slice(..body.len() / 2)),
            Content::Lines(_) => Content::Part(Bytes::from_static(super::watch::HALF)),
            part @ Content::Part(_) => part,
        };
        Self { content, ..self }
    }

    pub(crate) fn response(self, now: Timestamp) -> Response<Body> {
        let lines: Lines = match self.content {
            Content::Whole(body) => futures::stream::iter([Ok(body)]).boxed(),
            Content::Part(body) => {
                let end = async {
                    // What was sent goes out first.
                    yield_now().await;
                    // As hyper says it of a connection that is closed between two chunks.
                    let words = "unexpected EOF during chunk size line";
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, words))
                };
                let body = futures::stream::iter([Ok(body)]);
                body.chain(futures::stream::once(end)).boxed()
            }
            Content::Lines(lines) => lines,
        };
        let body = StreamBody::new(lines.map(|line| line.map(Frame::data)));
        let mut response = Response::new(body.boxed_unsync());
        *response.status_mut() = http::StatusCode::from_u16(self.code).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        let date = now.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(date) = HeaderValue::try_from(date) {
            headers.insert(DATE, date);
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
