//! A client that sends nothing but reads: for a replica that does not lead.

use http::{Method, Request, header::UPGRADE};
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

/// The request is not a read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} was not sent: this replica does not lead, and reads only")]
pub struct NotARead(String);

/// The same client, which refuses to send what may change something.
pub(super) fn reads_only(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let client = client.clone();
        async move {
            // A command in a pod is a GET that takes its connection over.
            if request.method() == Method::GET && !request.headers().contains_key(UPGRADE) {
                return client.send(request).await.map_err(BoxError::from);
            }
            let refused = format!("{} {}", request.method(), request.uri().path());
            Err(NotARead(refused).into())
        }
    };
    Client::new(service_fn(send), namespace)
}
