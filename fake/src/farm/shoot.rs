//! A shoot in memory, as a test holds it.

use super::{
    RENEWALS_PER_LEASE,
    clock::Micros,
    death::Death,
    kubelets::Kubelets,
    server::Server,
    tls::{DOMAIN, identity},
};
use anyhow::Result;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use std::{
    io,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::io::{DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;

/// Bytes that are under way in each direction of a connection.
const BUFFER: usize = 64 * 1024;

/// A shoot that is reached without a socket. Whoever has a copy of it has the same one.
///
/// All that happens to it by its own methods is dated by the clock that it was given; its [`Server`] has the
/// same with other times, and all else.
#[derive(Clone)]
pub struct Shoot {
    number: usize,
    server: Arc<Server>,
    authority: String,
    acceptor: TlsAcceptor,
}

impl Shoot {
    /// A shoot by its number, with so many nodes whose leases last so many seconds.
    ///
    /// # Errors
    ///
    /// If no certificate can be made.
    pub fn new(
        number: usize,
        nodes: usize,
        lease_seconds: u32,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
    ) -> Result<Self> {
        let (authority, acceptor) = own_identity()?;
        let period = Duration::from_secs(lease_seconds.into()) / RENEWALS_PER_LEASE;
        let kubelets = Kubelets::new(number, nodes, period, clock());
        let server = Server::new(number, nodes, lease_seconds, kubelets, clock);
        Ok(Self {
            number,
            server: Arc::new(server),
            authority,
            acceptor,
        })
    }

    /// Cuts the first so many of its kubelets off. Cuts do not overlap.
    pub fn cut(&self, nodes: usize) {
        let now = self.now();
        self.kubelets().cut(nodes, now);
    }

    /// Lets them back.
    pub fn restore(&self) {
        let now = self.now();
        self.kubelets().restore(now);
    }

    /// Has its API server die.
    pub fn die(&self, how: Death) {
        self.server.die(how, self.now());
    }

    /// Brings its API server back.
    pub fn revive(&self) {
        self.server.revive(self.now());
    }

    /// Where its API server is.
    pub fn host(&self) -> String {
        format!("shoot-{}.{DOMAIN}", self.number)
    }

    /// A kubeconfig, in JSON, by which its API server is read with this token.
    pub fn kubeconfig(&self, token: &str) -> Vec<u8> {
        let authority = BASE64_STANDARD.encode(&self.authority);
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "shoot", "cluster": {
                "server": format!("https://{}", self.host()),
                "certificate-authority-data": authority,
            }}],
            "users": [{"name": "probe", "user": {"token": token}}],
            "contexts": [{"name": "shoot", "context": {"cluster": "shoot", "user": "probe"}}],
            "current-context": "shoot",
        });
        kubeconfig.to_string().into_bytes()
    }

    /// Connects to its API server, which serves the connection in a task of its own.
    ///
    /// # Errors
    ///
    /// If the server refuses connections. To one that swallows them this never ends.
    pub async fn dial(&self) -> io::Result<DuplexStream> {
        let death = *self.death().borrow();
        match death {
            Some(Death::Refuses) => return Err(io::ErrorKind::ConnectionRefused.into()),
            Some(Death::Swallows) => std::future::pending().await,
            _ => {}
        }
        let (client, server) = duplex(BUFFER);
        let serving = Arc::clone(&self.server).serve(server, self.acceptor.clone());
        // A connection that breaks concerns the client.
        tokio::spawn(async move { drop(serving.await) });
        Ok(client)
    }
}

impl Deref for Shoot {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// The identity of all shoots of this process.
fn own_identity() -> Result<(String, TlsAcceptor)> {
    static IDENTITY: OnceLock<(String, TlsAcceptor)> = OnceLock::new();
    let own = match IDENTITY.get() {
        Some(own) => own,
        None => {
            let new = identity()?;
            IDENTITY.get_or_init(|| new)
        }
    };
    Ok(own.clone())
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, Read, TOKEN};
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::{Instant, timeout},
    };
    use tokio_rustls::{
        TlsConnector,
        client::TlsStream,
        rustls::{
            ClientConfig, RootCertStore,
            pki_types::{CertificateDer, ServerName, pem::PemObject as _},
        },
    };

    const START: Micros = 1_800_000_000_000_000;
    const SECOND: Micros = 1_000_000;
    const LONG: Duration = Duration::from_secs(60);
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

    fn shoot() -> (Shoot, Arc<AtomicI64>) {
        let now = Arc::new(AtomicI64::new(START));
        let clock = Arc::clone(&now);
        let shoot = Shoot::new(3, 4, 20, move || clock.load(Ordering::Relaxed));
        (shoot.unwrap(), now)
    }

    async fn connect(shoot: &Shoot) -> io::Result<TlsStream<DuplexStream>> {
        let stream = shoot.dial().await?;
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(shoot.authority.as_bytes());
        roots.add(authority.unwrap()).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(shoot.host()).unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await
    }

    /// The answer to a request, as far as it comes within a minute, and whether more might come.
    async fn ask(shoot: &Shoot, path: &str) -> io::Result<(String, bool)> {
        let Ok(stream) = timeout(LONG, connect(shoot)).await else {
            return Ok((String::new(), true));
        };
        let mut stream = stream?;
        let head = format!("GET {path} HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        let read = async {
            // No close_notify precedes the end of what is truncated.
            while let Ok(1..) = stream.read_buf(&mut answer).await {}
        };
        let is_open = timeout(LONG, read).await.is_err();
        Ok((String::from_utf8_lossy(&answer).into_owned(), is_open))
    }

    #[tokio::test(start_paused = true)]
    async fn each_death_is_met_without_a_socket() {
        let (shoot, _) = shoot();
        assert!(ask(&shoot, "/version").await.unwrap().0.contains("1.36.3"));
        shoot.die(Death::Refuses);
        let refused = ask(&shoot, "/version").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        shoot.revive();
        for death in [Death::Swallows, Death::SaysNothing, Death::AnswersNothing] {
            let begun = Instant::now();
            shoot.die(death);
            let answer = ask(&shoot, "/version").await.unwrap();
            assert_eq!(answer, (String::new(), true), "{death:?}");
            assert!(begun.elapsed() >= LONG);
            shoot.revive();
        }
        shoot.die(Death::Drips);
        let (answer, is_open) = ask(&shoot, "/version").await.unwrap();
        assert!(is_open && answer.starts_with("HTTP/1.1 200 ") && !answer.ends_with('}'));
        shoot.revive();
        assert!(ask(&shoot, "/version").await.unwrap().0.contains("1.36.3"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_kind_of_read_is_answered_wrongly_and_the_others_as_they_should() {
        let cached = format!("{LEASES}?resourceVersion=0");
        let reads = [
            (Read::Cached, cached.as_str()),
            (Read::Consistent, LEASES),
            (Read::Nodes, "/api/v1/nodes"),
            (Read::Version, "/version"),
            (Read::Ready, "/readyz"),
        ];
        for (read, _) in reads {
            for (answer, head, is_open) in [
                (Answer::Html, "HTTP/1.1 200 OK", true),
                (Answer::Refused(403, None), "HTTP/1.1 403 Forbidden", true),
                (
                    Answer::Refused(429, Some(7)),
                    "HTTP/1.1 429 Too Many Requests",
                    true,
                ),
                (Answer::Truncated, "HTTP/1.1 200 OK", false),
                (Answer::Nothing, "", true),
            ] {
                let (shoot, _) = shoot();
                shoot.behave(|it| _ = it.answers.insert(read, answer));
                for (other, path) in reads {
                    let (text, open) = ask(&shoot, path).await.unwrap();
                    if other == read {
                        assert!(
                            text.starts_with(head) && open == is_open,
                            "{answer:?}: {text}"
                        );
                        assert_eq!(text.contains("Retry-After: 7\r\n"), head.contains("429"));
                        assert_eq!(text.contains("<html>"), answer == Answer::Html);
                        assert_eq!(text.is_empty(), answer == Answer::Nothing);
                    } else {
                        assert!(text.starts_with("HTTP/1.1 200 OK") && open, "{other:?}");
                    }
                }
                let count = shoot.count();
                assert_eq!((count.requests(), count.refused), (5, 0), "{read:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_cache_shows_is_as_old_as_that_of_the_instance() {
        let (shoot, _) = shoot();
        shoot.behave(|it| {
            it.cache_ages = vec![0, 30 * SECOND];
            it.lag = 20 * SECOND;
        });
        shoot.kubelets().instances(&[0, 5 * SECOND]);
        let revision = |at| shoot.kubelets().revision(START - at * SECOND);
        let (now, old, older) = (revision(0), revision(20), revision(30));
        assert!(older < old && old < now);
        for (query, revision, date) in [
            ("?resourceVersion=0", now, "08:00:00 GMT"),
            ("?resourceVersion=0", older, "08:00:05 GMT"),
            ("", old, "08:00:00 GMT"),
        ] {
            let (text, _) = ask(&shoot, &format!("{LEASES}{query}")).await.unwrap();
            let expected = format!(r#""metadata":{{"resourceVersion":"{revision}"}}"#);
            assert!(text.contains(&expected) && text.contains(date), "{text}");
        }
    }

    #[test]
    fn what_happens_is_dated_by_the_clock_that_was_given() {
        let (shoot, clock) = shoot();
        let untouched = shoot.kubelets().clone();
        clock.store(START + 100 * SECOND, Ordering::Relaxed);
        shoot.cut(4);
        clock.store(START + 200 * SECOND, Ordering::Relaxed);
        let last: Vec<Micros> = shoot.kubelets().last_written(shoot.now()).collect();
        let before = untouched.last_written(START + 100 * SECOND - 1);
        assert!(last.into_iter().eq(before));
        let kubeconfig: serde_json::Value = serde_json::from_slice(&shoot.kubeconfig("t")).unwrap();
        assert_eq!(
            kubeconfig["clusters"][0]["cluster"]["server"],
            "https://shoot-3.shoots.fake"
        );
    }
}
