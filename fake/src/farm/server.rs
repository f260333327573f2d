//! The API server of one shoot, as far as the operator asks it: HTTP/1.1 over TLS, framed as
//! kube-apiserver does.

use super::{
    behaviour::{Answer, Behaviour, Read},
    bodies::{self, Encoding},
    clock::{Micros, http_date},
    count::{Count, Counters},
    death::{DRIP, Death},
    framing::Body,
    kubelets::Kubelets,
    lease, node,
    tls::Counted,
    wire::PROTOBUF,
};
use anyhow::{Result, ensure};
use http::StatusCode;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

/// What the kubeconfig of every shoot carries at first.
pub const TOKEN: &str = "farm";
/// A connection on which nothing is asked for so long is closed, as by kube-apiserver.
const IDLE: Duration = Duration::from_secs(90);
/// More than any head that the operator sends.
const LONGEST_HEAD: usize = 64 * 1024;

/// The API server of one shoot.
pub struct Server {
    shoot: usize,
    /// How many nodes it has.
    nodes: usize,
    /// `leaseDurationSeconds` of its leases.
    lease_duration: u32,
    clock: Box<dyn Fn() -> Micros + Send + Sync>,
    counters: Arc<Counters>,
    kubelets: Mutex<Kubelets>,
    token: Mutex<String>,
    behaviour: Mutex<Behaviour>,
    death: watch::Sender<Option<Death>>,
}

impl Server {
    /// The one of a shoot by its number, with so many nodes, whose leases last so many seconds.
    pub fn new(
        shoot: usize,
        nodes: usize,
        lease_duration: u32,
        kubelets: Kubelets,
        clock: impl Fn() -> Micros + Send + Sync + 'static,
    ) -> Self {
        Self {
            shoot,
            nodes,
            lease_duration,
            clock: Box::new(clock),
            counters: Arc::default(),
            kubelets: Mutex::new(kubelets),
            token: Mutex::new(TOKEN.to_owned()),
            behaviour: Mutex::default(),
            death: watch::Sender::new(None),
        }
    }

    /// Its kubelets, to cut them off and let them back.
    pub fn kubelets(&self) -> MutexGuard<'_, Kubelets> {
        self.kubelets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is dead from now on, and from then on nobody writes to it.
    pub fn die(&self, how: Death, at: Micros) {
        self.kubelets().die(at);
        self.death.send_replace(Some(how));
    }

    /// It lives from now on, and is written to from then on.
    pub fn revive(&self, at: Micros) {
        self.kubelets().revive(at);
        self.death.send_replace(None);
    }

    /// From now on whoever comes with another token is refused.
    pub fn accept_only(&self, token: String) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Changes how it answers from now on.
    pub fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.behaviour());
    }

    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        let behaviour = self.behaviour.lock();
        behaviour.unwrap_or_else(PoisonError::into_inner)
    }

    /// The present, by the clock that it was given.
    pub fn now(&self) -> Micros {
        (self.clock)()
    }

    /// Whether it is dead, and how, as long as it lives and dies.
    pub fn death(&self) -> watch::Receiver<Option<Death>> {
        self.death.subscribe()
    }

    /// What it was asked for so far.
    pub fn count(&self) -> Count {
        self.counters.read()
    }

    /// Serves a client until it goes, or this server refuses connections.
    ///
    /// # Errors
    ///
    /// If the connection breaks, or the client does not speak TLS or HTTP.
    pub async fn serve(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        acceptor: TlsAcceptor,
    ) -> Result<()> {
        let connections = self.counters.connections.fetch_add(1, Ordering::Relaxed);
        let instance = usize::try_from(connections).unwrap_or_default();
        let mut death = self.death.subscribe();
        let says_nothing = *death.borrow() == Some(Death::SaysNothing);
        if says_nothing {
            return closed(stream).await;
        }
        let counted = Counted::new(stream, Arc::clone(&self.counters));
        let mut stream = acceptor.accept(counted).await?;
        self.counters.handshakes.fetch_add(1, Ordering::Relaxed);
        loop {
            let refuses = |death: &Option<Death>| *death == Some(Death::Refuses);
            let head = tokio::select! {
                _ = death.wait_for(refuses) => return Ok(()),
                head = timeout(IDLE, read_head(&mut stream)) => head,
            };
            let Ok(Some(head)) = head.unwrap_or(Ok(None)) else {
                break;
            };
            let dead = *death.borrow();
            if !matches!(dead, None | Some(Death::Drips)) {
                return closed(stream).await;
            }
            let answer = self.answer(&head, instance);
            if dead.is_some() {
                return drip(&mut stream, &answer).await;
            }
            match self.misanswer(&head) {
                Some(Answer::Nothing) => return closed(stream).await,
                Some(Answer::Truncated) => {
                    let half = answer.len() / 2;
                    stream
                        .write_all(answer.get(..half).unwrap_or_default())
                        .await?;
                    return Ok(stream.flush().await?);
                }
                _ => {}
            }
            stream.write_all(&answer).await?;
            stream.flush().await?;
        }
        Ok(stream.shutdown().await?)
    }

    /// The whole answer to a request with this head.
    fn answer(&self, head: &str, instance: usize) -> Vec<u8> {
        let at = self.now();
        let (code, body) = self.body(head, instance, at);
        let (code, body, retry) = match self.misanswer(head) {
            Some(Answer::Html) if code == 200 => (code, bodies::html(), None),
            Some(Answer::Refused(other, after)) if code == 200 => {
                (other, bodies::refusal(other), after)
            }
            _ => (code, body, None),
        };
        let retry = retry.map_or(String::new(), |it| format!("Retry-After: {it}\r\n"));
        let reason = phrase(code);
        let mut answer = format!(
            "HTTP/1.1 {code} {reason}\r\n\
             Audit-Id: 5173f2c5-479b-4d92-bcdf-{:012x}\r\n\
             Cache-Control: no-cache, private\r\n\
             Content-Type: {}\r\n\
             X-Kubernetes-Pf-Flowschema-Uid: af1152ef-842d-40b4-b30d-aa7561b40144\r\n\
             X-Kubernetes-Pf-Prioritylevel-Uid: d6c02071-fc20-414f-b8e4-3a8a16b263d2\r\n\
             Date: {}\r\n{retry}",
            at & 0xffff_ffff_ffff,
            body.content_type,
            http_date(self.kubelets().server_clock(instance, at)),
        )
        .into_bytes();
        let chunks = body.chunks();
        if chunks.is_empty() {
            let length = format!("Content-Length: {}\r\n\r\n", body.bytes.len());
            answer.extend_from_slice(length.as_bytes());
            answer.extend_from_slice(&body.bytes);
            return answer;
        }
        answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in chunks {
            answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            answer.extend_from_slice(chunk);
            answer.extend_from_slice(b"\r\n");
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        answer
    }

    /// What is answered instead to a request with this head, if anything is.
    fn misanswer(&self, head: &str) -> Option<Answer> {
        let (path, is_cached) = target(head);
        let read = read(path, is_cached)?;
        self.behaviour().answers.get(&read).copied()
    }

    /// The code and the body by which an instance answers a request with this head then, if it answers as it
    /// should.
    pub fn body(&self, head: &str, instance: usize, at: Micros) -> (u16, Body) {
        let refuse = |code| {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            (code, bodies::refusal(code))
        };
        let authorization = headers(head, "authorization").next();
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let known = authorization.and_then(|it| it.strip_prefix("Bearer ")) == Some(token.as_str());
        drop(token);
        if !known {
            return refuse(401);
        }
        let (path, is_cached) = target(head);
        let Some(read) = read(path, is_cached) else {
            return refuse(404);
        };
        let body = match (read, accepted(head)) {
            (Read::Ready, _) => {
                self.counters.ready.fetch_add(1, Ordering::Relaxed);
                bodies::ready()
            }
            // As a real one, which knows no message for it.
            (_, None) | (Read::Version, Some(Encoding::Protobuf)) => {
                return refuse(406);
            }
            (Read::Version, _) => {
                self.counters.version.fetch_add(1, Ordering::Relaxed);
                bodies::version()
            }
            (Read::Cached | Read::Consistent, Some(encoding)) => {
                self.counters.leases(is_cached, at);
                let (behaviour, kubelets) = (self.behaviour(), self.kubelets());
                lease::leases(
                    encoding,
                    self.shoot,
                    &kubelets,
                    self.lease_duration,
                    behaviour.is_stamping,
                    at - behaviour.age(read, instance),
                )
            }
            (Read::Nodes, Some(encoding)) => {
                self.counters.nodes.fetch_add(1, Ordering::Relaxed);
                let revision = self.kubelets().revision(at);
                let changed = &self.behaviour().nodes;
                node::nodes(encoding, self.shoot, self.nodes, revision, changed)
            }
        };
        (200, body)
    }
}

/// Reads, and says nothing, until the client has closed the connection.
async fn closed(mut stream: impl AsyncRead + Unpin) -> Result<()> {
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Sends the head of an answer at once, and the rest byte by byte.
async fn drip(stream: &mut (impl AsyncWrite + Unpin), answer: &[u8]) -> Result<()> {
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n");
    let (head, body) = answer.split_at(head.map_or(0, |at| at + 4));
    stream.write_all(head).await?;
    for byte in body {
        stream.write_all(&[*byte]).await?;
        stream.flush().await?;
        sleep(DRIP).await;
    }
    Ok(())
}

/// The path of a request, and whether it may be answered from the cache.
fn target(head: &str) -> (&str, bool) {
    let rest = head.strip_prefix("GET ");
    let target = rest.and_then(|rest| rest.split_once(' '));
    let target = target.map_or("", |(target, _)| target);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (
        path,
        query.split('&').any(|pair| pair == "resourceVersion=0"),
    )
}

/// What is read at a path, if the server has it.
fn read(path: &str, is_cached: bool) -> Option<Read> {
    Some(match path {
        "/readyz" => Read::Ready,
        "/version" => Read::Version,
        "/api/v1/nodes" => Read::Nodes,
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" if is_cached => {
            Read::Cached
        }
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" => Read::Consistent,
        _ => return None,
    })
}

/// What HTTP says beside a code.
fn phrase(code: u16) -> &'static str {
    let code = StatusCode::from_u16(code).ok();
    code.and_then(|it| it.canonical_reason())
        .unwrap_or_default()
}

/// The encoding that a request prefers of those that there are; none if it accepts neither.
fn accepted(head: &str) -> Option<Encoding> {
    let mut types = headers(head, "accept")
        .flat_map(|value| value.split(','))
        .map(|one| one.split(';').next().unwrap_or_default().trim())
        .peekable();
    if types.peek().is_none() {
        return Some(Encoding::Json);
    }
    types.find_map(|one| match one {
        "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
        PROTOBUF => Some(Encoding::Protobuf),
        _ => None,
    })
}

/// The values of a header.
fn headers<'a>(head: &'a str, wanted: &str) -> impl Iterator<Item = &'a str> {
    head.lines().filter_map(move |line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then_some(value.trim())
    })
}

/// The head of the next request, which has no body; none at the end of the connection.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < LONGEST_HEAD, "a head without an end");
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(String::from_utf8(head)?))
}
