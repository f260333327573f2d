//! Connections to the API servers of shoots.

use std::{
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    task::{Context, Poll},
    time::Duration,
    vec,
};

use futures::{FutureExt as _, TryFutureExt as _, future::BoxFuture};
use http::Uri;
use hyper_util::client::legacy::connect::{HttpConnector, dns::Name};
use tokio::io::{AsyncRead, AsyncWrite};
use tower::{Service, ServiceExt as _};

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

type Dialled = Result<Box<dyn Wire>, Box<dyn Error + Send + Sync>>;

/// Makes connections: over TCP by default, or as a test says.
#[derive(Clone)]
pub struct Dial(Arc<dyn Fn(Uri) -> BoxFuture<'static, Dialled> + Send + Sync>);

impl Dial {
    /// Makes connections by this function, to the host and port of a URI.
    pub fn by<F>(connect: impl Fn(Uri) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Dialled> + Send + 'static,
    {
        Self(Arc::new(move |uri| connect(uri).boxed()))
    }

    pub(super) fn dial(&self, server: Uri) -> BoxFuture<'static, Dialled> {
        (self.0)(server)
    }
}

impl Default for Dial {
    fn default() -> Self {
        Self::by(|server| async {
            let stream = TCP.clone().oneshot(server).await?;
            Ok(Box::new(stream.into_inner()) as Box<dyn Wire>)
        })
    }
}

static TCP: LazyLock<HttpConnector<Resolver>> = LazyLock::new(|| {
    let mut connector = HttpConnector::new_with_resolver(Resolver);
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT_LIMIT));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(LOST));
    connector.set_nodelay(true);
    connector
});

/// The names of all shoots. Addresses of before are as good: TLS says who answers.
static NAMES: LazyLock<Names> = LazyLock::new(Names::default);

/// Looks up the names of shoots.
#[derive(Clone)]
struct Resolver;

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = async move { NAMES.look_up_or_last(name.as_str()).await };
        found.map_ok(|it| Vec::from(&*it).into_iter()).boxed()
    }
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
        let stream = TCP.clone().oneshot(server).await.unwrap().into_inner();
        let stream = socket2::SockRef::from(&stream);
        assert_eq!(stream.tcp_user_timeout().unwrap(), Some(LOST));
    }
}
