//! The API server of one shoot, as far as the operator asks it: HTTP/1.1 over TLS.

use super::{
    behaviour::{Answer, Behaviour, Read},
    clock::Micros,
    count::{Count, Counted, Counter},
    death::Death,
    kubelets::Kubelets,
    lease, node,
    wire::PROTOBUF,
};
use crate::{
    refusal::Refusal,
    server::{Answer as Whole, Body},
};
use anyhow::Result;
use http::{
    Response,
    header::{ACCEPT, AUTHORIZATION},
    request::Parts,
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use std::{
    convert::Infallible,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy, sink},
    sync::watch,
};
use tokio_rustls::TlsAcceptor;

/// What the kubeconfig of every shoot carries at first.
pub const TOKEN: &str = "farm";

/// The API server of one shoot.
pub struct Server {
    shoot: usize,
    /// How many nodes it has.
    nodes: usize,
    /// `leaseDurationSeconds` of its leases.
    lease_duration: u32,
    clock: Box<dyn Fn() -> Micros + Send + Sync>,
    counter: Counter,
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
            counter: Counter::default(),
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
        self.counter.read()
    }

    /// Serves a client until it goes, or this server refuses connections.
    ///
    /// # Errors
    ///
    /// If the connection breaks, or the client does not speak TLS or HTTP.
    pub async fn serve(
        self: Arc<Self>,
        mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        acceptor: TlsAcceptor,
    ) -> Result<()> {
        let mut death = self.death();
        let says_nothing = *death.borrow() == Some(Death::SaysNothing);
        if says_nothing {
            copy(&mut stream, &mut sink()).await?;
            return Ok(());
        }
        let stream = acceptor.accept(Counted(stream, &self.counter)).await?;
        self.counter.note(|count| count.handshakes += 1);
        let service = service_fn(|request| self.answer(request));
        let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            _ = death.wait_for(|it| *it == Some(Death::Refuses)) => {}
            served = served => served?,
        }
        Ok(())
    }

    async fn answer(
        &self,
        request: http::Request<hyper::body::Incoming>,
    ) -> Result<Response<Body>, Infallible> {
        let (head, _) = request.into_parts();
        let dead = *self.death.borrow();
        if !matches!(dead, None | Some(Death::Drips)) {
            return pending().await;
        }
        let at = self.now();
        let answered = self.read(&head).and_then(|read| {
            let answer = self.behaviour().answers.get(&read).copied();
            Ok((self.body(read, &head, at)?, answer))
        });
        let mut answer = match answered {
            Err(code) => {
                self.counter.note(|count| count.refused += 1);
                refusal(code, None)
            }
            Ok((whole, None)) => whole,
            Ok((whole, Some(Answer::Truncated))) => whole.truncated(),
            Ok((_, Some(Answer::Html))) => Whole::html(),
            Ok((_, Some(Answer::Refused(code, after)))) => refusal(code, after),
            Ok((_, Some(Answer::Nothing))) => pending().await,
        };
        if dead.is_some() {
            answer = answer.dripping();
        }
        let date = Timestamp::from_microsecond(self.kubelets().server_clock(at));
        Ok(answer.response(date.unwrap_or(Timestamp::MAX)))
    }

    /// What a request reads, or the code with which it is refused.
    fn read(&self, head: &Parts) -> Result<Read, u16> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let bearer = head.headers.get(AUTHORIZATION);
        let bearer = bearer.and_then(|it| it.to_str().ok()?.strip_prefix("Bearer "));
        if bearer != Some(token.as_str()) {
            return Err(401);
        }
        let query = head.uri.query().unwrap_or_default();
        let is_cached = query.split('&').any(|pair| pair == "resourceVersion=0");
        match head.uri.path() {
            "/readyz" => Ok(Read::Ready),
            "/api/v1/nodes" => Ok(Read::Nodes),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" => match is_cached {
                true => Ok(Read::Cached),
                false => Ok(Read::Consistent),
            },
            _ => Err(404),
        }
    }

    /// The answer to a read as it should be, or the code with which it is refused: whoever wants lists in JSON is.
    fn body(&self, read: Read, head: &Parts, at: Micros) -> Result<Whole, u16> {
        let accepted = head.headers.get(ACCEPT).and_then(|it| it.to_str().ok());
        let accepts_protobuf = accepted.is_some_and(|it| it.contains(PROTOBUF));
        let is_list = matches!(read, Read::Cached | Read::Consistent | Read::Nodes);
        if is_list && !accepts_protobuf {
            return Err(406);
        }
        self.counter.note(|count| count.read(read, at));
        let (kubelets, behaviour) = (self.kubelets(), self.behaviour());
        let leases = |age| lease::leases(self.shoot, &kubelets, self.lease_duration, at - age);
        Ok(match read {
            Read::Ready => Whole::whole("text/plain; charset=utf-8", b"ok".to_vec()),
            Read::Nodes => {
                let nodes = node::nodes(
                    self.shoot,
                    self.nodes,
                    kubelets.revision(at),
                    &behaviour.nodes,
                );
                Whole::whole(PROTOBUF, nodes)
            }
            Read::Cached => Whole::whole(PROTOBUF, leases(behaviour.cache_age)),
            Read::Consistent => Whole::whole(PROTOBUF, leases(behaviour.lag)),
        })
    }
}

fn refusal(code: u16, retry_after: Option<u32>) -> Whole {
    Whole::of(Err(Refusal {
        retry_after,
        ..Refusal::new(code, "the shoot is only played")
    }))
}
