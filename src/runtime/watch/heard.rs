//! When a watch has last shown that it is up to date.
//!
//! The stream of a watcher tells of changes alone. That there are none shows by the bookmarks of the API server,
//! and by the next request for the watch, at the latest every [`WATCH_SECONDS`](super::WATCH_SECONDS).

use http::Request;
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

use super::WatchState;
use crate::runtime::wire::verb;

/// The same client, by which this watch is followed.
pub(crate) fn followed(client: &Client, state: &WatchState) -> Client {
    let namespace = client.default_namespace().to_owned();
    let (client, state) = (client.clone(), state.clone());
    let send = move |request: Request<Body>| {
        let (client, state) = (client.clone(), state.clone());
        async move {
            let is_watch = verb(&request) == "watch";
            let answer = client.send(request).await.map_err(BoxError::from)?;
            let state = Some(state).filter(|_| is_watch && answer.status().is_success());
            let hear = move || {
                if let Some(state) = &state {
                    state.hear();
                }
            };
            hear();
            Ok::<_, BoxError>(answer.map(|body| {
                body.map_frame(move |frame| {
                    hear();
                    frame
                })
            }))
        }
    };
    Client::new(service_fn(send), namespace)
}
