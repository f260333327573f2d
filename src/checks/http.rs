//! A request over HTTP, as a kubelet makes it: on a connection of its own, redirections to the same
//! host followed, and of the answer no more read than the kubelet does.

use std::{error::Error as _, net::SocketAddr, pin::pin};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    outcome::Outcome,
    output::bounded,
    redirect::{Next, Place, origin_form},
    resolve::Target,
    tcp,
    tls::Tls,
};
use crate::api::{HttpGetAction, HttpHeader, Scheme};

/// Of an answer no more is read.
const MAX_BODY: usize = 10 * 1024;
/// The head of an answer may have so many bytes.
const MAX_HEAD: usize = 64 * 1024;
/// So many redirections are followed, as Go's client does.
const MAX_REDIRECTIONS: usize = 10;
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
    let mut place = Place {
        scheme: action.scheme,
        target: target.clone(),
        path: action.path.clone(),
    };
    for _ in 0..=MAX_REDIRECTIONS {
        let answer = match ask(addresses, &place, &action.http_headers, tls).await {
            Ok(answer) => answer,
            Err(outcome) => return outcome,
        };
        place = match answer.location.as_deref().map(|to| place.follow(to)) {
            Some(Next::Same(next)) => next,
            // It answers, and what it refers to is another one's health.
            Some(Next::OtherHost) => return Outcome::Success,
            Some(Next::Nowhere) => {
                let status = answer.status.as_u16();
                return Outcome::Failure(format!(
                    "the server answered {status}, and leads to no URL of HTTP"
                ));
            }
            None => return judge(answer.status),
        };
    }
    Outcome::Failure(format!(
        "the server redirected the request more than {MAX_REDIRECTIONS} times"
    ))
}

fn judge(status: StatusCode) -> Outcome {
    match status.as_u16() {
        200..=399 => Outcome::Success,
        status => Outcome::Failure(format!("the server answered {status}")),
    }
}

/// What counts of an answer.
struct Answer {
    status: StatusCode,
    /// Where it leads, if it leads elsewhere.
    location: Option<String>,
}

async fn ask(
    addresses: &[SocketAddr],
    place: &Place,
    headers: &[HttpHeader],
    tls: &Tls,
) -> Result<Answer, Outcome> {
    let request = request(place, headers).ok_or_else(|| {
        Outcome::Unknown(format!(
            "no request can be made for {}",
            bounded(&place.path, MAX_CAUSE)
        ))
    })?;
    let port = place.target.port;
    let addresses: Vec<SocketAddr> = addresses
        .iter()
        .map(|address| SocketAddr::new(address.ip(), port))
        .collect();
    let stream = tcp::connect(&addresses).await?;
    match place.scheme {
        Scheme::Http => exchange(stream, request).await,
        Scheme::Https => {
            let stream = tls.connect(&place.target.host, stream).await;
            let stream = stream.map_err(|error| {
                let cause = bounded(&error.to_string(), MAX_CAUSE);
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
) -> Result<Answer, Outcome> {
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

async fn read(answer: Response<Incoming>) -> Result<Answer, Outcome> {
    let (head, mut body) = answer.into_parts();
    let mut length = 0;
    while length < MAX_BODY
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| broken(&error))?;
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    let redirects = matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = head.headers.get(header::LOCATION).filter(|_| redirects);
    Ok(Answer {
        status: head.status,
        location: location.map(|to| String::from_utf8_lossy(to.as_bytes()).into_owned()),
    })
}

fn broken(error: &hyper::Error) -> Outcome {
    let mut cause = error.to_string();
    if let Some(source) = error.source() {
        cause = format!("{cause}: {source}");
    }
    let cause = bounded(&cause, MAX_CAUSE);
    Outcome::Failure(format!("the server gave no whole answer: {cause}"))
}

fn request(place: &Place, headers: &[HttpHeader]) -> Option<Request<Empty<Bytes>>> {
    let mut request = Request::get(origin_form(&place.path)?)
        .body(Empty::new())
        .ok()?;
    let mut all = HeaderMap::new();
    for HttpHeader { name, value } in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        all.append(name, HeaderValue::from_str(value).ok()?);
    }
    let host = HeaderValue::from_str(&place.target.authority()).ok()?;
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
