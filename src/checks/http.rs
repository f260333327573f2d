//! A request over HTTP, on a connection of its own, as a kubelet makes it. A redirection is not followed,
//! and of the answer no more is read than the kubelet reads.

use std::{error::Error as _, net::SocketAddr, pin::pin};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{outcome::Outcome, resolve::Target, tcp, tls::Tls};
use crate::{
    api::{HttpGetAction, HttpHeader, Scheme},
    util::text::clean,
};

/// Of an answer no more is read.
const MAX_BODY: usize = 10 * 1024;
/// The head of an answer may have so many bytes.
const MAX_HEAD: usize = 64 * 1024;
const MAX_CAUSE: usize = 120;
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("dependency-watchdog/", env!("CARGO_PKG_VERSION")));

/// Asks. Whoever has waited for long enough drops it, and the connection with it.
pub(super) async fn get(
    addresses: &[SocketAddr],
    target: &Target,
    action: &HttpGetAction,
    tls: &Tls,
) -> Outcome {
    match ask(addresses, target, action, tls)
        .await
        .map(|it| it.as_u16())
    {
        Ok(200..=399) => Outcome::Success,
        Ok(status) => Outcome::Failure(format!("the server answered {status}")),
        Err(outcome) => outcome,
    }
}

async fn ask(
    addresses: &[SocketAddr],
    target: &Target,
    action: &HttpGetAction,
    tls: &Tls,
) -> Result<StatusCode, Outcome> {
    let request = request(target, action).ok_or_else(|| {
        Outcome::Unknown(format!(
            "no request can be made for {}",
            clean(&action.path, MAX_CAUSE)
        ))
    })?;
    let stream = tcp::connect(addresses).await?;
    match action.scheme {
        Scheme::Http => exchange(stream, request).await,
        Scheme::Https => {
            let stream = tls.connect(&target.host, stream).await;
            let stream = stream.map_err(|error| {
                let cause = clean(&error.to_string(), MAX_CAUSE);
                Outcome::Failure(format!("TLS failed: {cause}"))
            })?;
            exchange(stream, request).await
        }
    }
}

/// One request on a connection that ends with it.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Empty<Bytes>>,
) -> Result<StatusCode, Outcome> {
    let connection = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = connection.await.map_err(|error| broken(&error))?;
    let exchange = async {
        let answer = sender.send_request(request).await;
        read(answer.map_err(|error| broken(&error))?).await
    };
    let (mut exchange, mut connection) = (pin!(exchange), pin!(connection));
    tokio::select! {
        biased;
        answer = &mut exchange => return answer,
        // It tells the exchange how it ended, after all that has come before.
        _ = &mut connection => {}
    }
    exchange.await
}

async fn read(answer: Response<Incoming>) -> Result<StatusCode, Outcome> {
    let status = answer.status();
    let mut body = answer.into_body();
    let mut length = 0;
    while length < MAX_BODY
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| broken(&error))?;
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    Ok(status)
}

fn broken(error: &hyper::Error) -> Outcome {
    let mut cause = error.to_string();
    if let Some(source) = error.source() {
        cause = format!("{cause}: {source}");
    }
    let cause = clean(&cause, MAX_CAUSE);
    Outcome::Failure(format!("the server gave no whole answer: {cause}"))
}

fn request(target: &Target, action: &HttpGetAction) -> Option<Request<Empty<Bytes>>> {
    let mut request = Request::get(&*action.path).body(Empty::new()).ok()?;
    let mut all = HeaderMap::new();
    for HttpHeader { name, value } in &action.http_headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        all.append(name, HeaderValue::from_str(value).ok()?);
    }
    let host = HeaderValue::from_str(&target.authority()).ok()?;
    for (name, value) in [
        (header::HOST, host),
        (header::USER_AGENT, USER_AGENT),
        (header::ACCEPT, HeaderValue::from_static("*/*")),
        (header::CONNECTION, HeaderValue::from_static("close")),
    ] {
        all.entry(name).or_insert(value);
    }
    *request.headers_mut() = all;
    Some(request)
}
