//! The API server of one shoot, as far as the operator asks it: HTTP/1.1 over TLS, framed as
//! kube-apiserver does.

use super::{
    bodies,
    clock::{self, http_date},
    count::Counters,
    kubelets::Kubelets,
    tls::Counted,
};
use anyhow::{Result, ensure};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// What the kubeconfig of every shoot carries.
pub(crate) const TOKEN: &str = "farm";
/// A connection on which nothing is asked for so long is closed, as by kube-apiserver.
const IDLE: Duration = Duration::from_secs(90);
/// After a connection that was not accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// kube-apiserver sends what is longer in chunks of this size.
const CHUNK: usize = 2048;
/// More than any head that the operator sends.
const LONGEST_HEAD: usize = 64 * 1024;

/// The API server of one shoot.
pub(super) struct Server {
    pub(super) shoot: usize,
    /// How many nodes it has.
    pub(super) nodes: usize,
    /// `leaseDurationSeconds` of its leases.
    pub(super) lease_duration: u64,
    pub(super) counters: Arc<Counters>,
    kubelets: Mutex<Kubelets>,
}

impl Server {
    pub(super) fn new(shoot: usize, nodes: usize, lease_duration: u64, kubelets: Kubelets) -> Self {
        Self {
            shoot,
            nodes,
            lease_duration,
            counters: Arc::default(),
            kubelets: Mutex::new(kubelets),
        }
    }

    /// Its kubelets, to cut them off and let them back.
    pub(super) fn kubelets(&self) -> MutexGuard<'_, Kubelets> {
        self.kubelets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections for ever.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener, acceptor: TlsAcceptor) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = Arc::clone(&self).serve(stream, acceptor.clone());
                    tokio::spawn(async move {
                        if let Err(error) = connection.await {
                            tracing::debug!("a connection ended: {error:#}");
                        }
                    });
                }
                // For want of file descriptors, say, of which others may be given back.
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    sleep(ACCEPT_AGAIN).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream, acceptor: TlsAcceptor) -> Result<()> {
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        stream.set_nodelay(true)?;
        let counted = Counted::new(stream, Arc::clone(&self.counters));
        let mut stream = acceptor.accept(counted).await?;
        self.counters.handshakes.fetch_add(1, Ordering::Relaxed);
        while let Ok(head) = timeout(IDLE, read_head(&mut stream)).await {
            let Some(head) = head? else { break };
            stream.write_all(&self.answer(&head)).await?;
            stream.flush().await?;
        }
        Ok(stream.shutdown().await?)
    }

    /// The whole answer to a request with this head.
    fn answer(&self, head: &str) -> Vec<u8> {
        let at = clock::now();
        let (code, body) = self.body(head, at);
        let reason = match code {
            200 => "OK",
            401 => "Unauthorized",
            _ => "Not Found",
        };
        let mut answer = format!(
            "HTTP/1.1 {code} {reason}\r\n\
             Audit-Id: 5173f2c5-479b-4d92-bcdf-{:012x}\r\n\
             Cache-Control: no-cache, private\r\n\
             Content-Type: application/json\r\n\
             X-Kubernetes-Pf-Flowschema-Uid: af1152ef-842d-40b4-b30d-aa7561b40144\r\n\
             X-Kubernetes-Pf-Prioritylevel-Uid: d6c02071-fc20-414f-b8e4-3a8a16b263d2\r\n\
             Date: {}\r\n",
            at & 0xffff_ffff_ffff,
            http_date(at),
        )
        .into_bytes();
        if body.len() <= CHUNK {
            answer.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            answer.extend_from_slice(body.as_bytes());
            return answer;
        }
        answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.as_bytes().chunks(CHUNK) {
            answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            answer.extend_from_slice(chunk);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        answer
    }

    fn body(&self, head: &str, at: clock::Micros) -> (u16, String) {
        let refuse = |code, reason| {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            (code, bodies::status(code, reason))
        };
        if !has_token(head) {
            return refuse(401, "Unauthorized");
        }
        let target = head
            .strip_prefix("GET ")
            .and_then(|rest| rest.split_once(' '));
        let target = target.map_or("", |(target, _)| target);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let cached = query.split('&').any(|pair| pair == "resourceVersion=0");
        let body = match path {
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" => {
                self.counters.leases(cached, at);
                bodies::leases(self.shoot, &self.kubelets(), self.lease_duration, at)
            }
            "/api/v1/nodes" => {
                self.counters.nodes.fetch_add(1, Ordering::Relaxed);
                let revision = self.kubelets().revision(at);
                bodies::nodes(self.shoot, self.nodes, revision)
            }
            "/readyz" => "ok".to_owned(),
            "/version" => {
                self.counters.version.fetch_add(1, Ordering::Relaxed);
                bodies::version()
            }
            _ => return refuse(404, "NotFound"),
        };
        (200, body)
    }
}

/// The head of the next request, which has no body; none at the end of the connection.
async fn read_head(stream: &mut TlsStream<Counted>) -> Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < LONGEST_HEAD, "a head without an end");
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8(head)?))
}

fn has_token(head: &str) -> bool {
    head.lines().any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            name.eq_ignore_ascii_case("authorization")
                && value.trim().strip_prefix("Bearer ") == Some(TOKEN)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dependency_watchdog::shoot::LeaseList;

    fn server() -> Server {
        let kubelets = Kubelets::new(1, 30, Duration::from_secs(10), clock::now());
        Server::new(1, 30, 40, kubelets)
    }

    fn ask(server: &Server, target: &str, token: &str) -> (String, String) {
        let head = format!("GET {target} HTTP/1.1\r\nauthorization: Bearer {token}\r\n\r\n");
        let answer = String::from_utf8(server.answer(&head)).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The body that these chunks carry.
    fn joined(mut chunks: &str) -> String {
        let mut body = String::new();
        loop {
            let (size, rest) = chunks.split_once("\r\n").unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            assert!(size <= CHUNK);
            let (chunk, rest) = rest.split_at(size);
            body.push_str(chunk);
            chunks = rest.strip_prefix("\r\n").unwrap();
            if size == 0 {
                assert!(chunks.is_empty());
                return body;
            }
        }
    }

    #[test]
    fn leases_come_in_chunks_with_a_date() {
        let server = server();
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let (head, body) = ask(&server, &format!("{path}?resourceVersion=0"), TOKEN);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("\r\nDate: ") && head.contains(" GMT"),
            "{head}"
        );
        let list = LeaseList::decode(joined(&body).as_bytes()).unwrap();
        assert_eq!(list.leases.len(), 30);
        ask(&server, path, TOKEN);
        let count = server.counters.read();
        assert_eq!((count.cached, count.consistent), (1, 1));
        assert_eq!((count.asked.len(), count.refused), (2, 0));
    }

    #[test]
    fn what_a_probe_does_not_ask_for_is_refused() {
        let server = server();
        for (target, token, code) in [
            ("/api/v1/nodes", "other", "401"),
            ("/api/v1/pods", TOKEN, "404"),
            ("/version", TOKEN, "200"),
        ] {
            let (head, body) = ask(&server, target, token);
            assert!(head.starts_with(&format!("HTTP/1.1 {code} ")), "{head}");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())));
        }
        assert_eq!(server.counters.read().refused, 2);
    }
}
