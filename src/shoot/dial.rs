//! Connections to the API servers of shoots.

use std::{io, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use http::Uri;
use hyper_util::{
    client::legacy::connect::{HttpConnector, dns::Name},
    rt::TokioIo,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tower::{BoxError, ServiceExt as _, service_fn, util::BoxCloneSyncService};

use crate::runtime::names::Names;

/// Longest time for a connection to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Longest time until the other side acknowledges what is sent; its kernel does that however slow its API server is.
/// After this time the connection is given up as lost. Meanwhile the packet is sent again three or four times. The
/// time is shorter than a suspect's read may take with ordinary kubelets, 3.3 s: if a name has several addresses and
/// one is dead, another is tried within that read.
#[cfg(target_os = "linux")]
const LOST: Duration = Duration::from_secs(3);

/// A connection, below TLS.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

type Dialled = Result<Box<dyn Wire>, BoxError>;

/// Makes connections: over TCP by default, or as a test says.
#[derive(Clone)]
pub struct Dial(pub(super) Arc<dyn Fn(Uri) -> BoxFuture<'static, Dialled> + Send + Sync>);

impl Dial {
    /// Makes connections by this function, to the host and port of a URI.
    pub fn by<F>(connect: impl Fn(Uri) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Dialled> + Send + 'static,
    {
        Self(Arc::new(move |uri| connect(uri).boxed()))
    }
}

impl Default for Dial {
    fn default() -> Self {
        let tcp = tcp();
        Self::by(move |server| {
            let stream = tcp.clone().oneshot(server);
            async { Ok(Box::new(stream.await?.into_inner()) as Box<dyn Wire>) }
        })
    }
}

/// Makes connections over TCP. Names are looked up apart from those of checks, and addresses of before are as good: TLS
/// says who answers.
fn tcp() -> BoxCloneSyncService<Uri, TokioIo<TcpStream>, BoxError> {
    let names = Arc::new(Names::default());
    let resolver = service_fn(move |name: Name| {
        let names = names.clone();
        async move {
            let found = names.look_up_or_last(name.as_str()).await?;
            Ok::<_, io::Error>(Vec::from(&*found).into_iter())
        }
    });
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(LOST));
    connector.set_nodelay(true);
    BoxCloneSyncService::new(connector.map_err(Into::into))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_connection_whose_way_is_lost_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = format!("https://{address}").parse::<Uri>().unwrap();
        let stream = tcp().oneshot(server).await.unwrap().into_inner();
        let stream = socket2::SockRef::from(&stream);
        assert_eq!(stream.tcp_user_timeout().unwrap(), Some(LOST));
    }
}
