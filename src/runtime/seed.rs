//! The seed: how it is found, and a budget of requests to it.

mod connections;
mod error;
mod kubeconfig;
mod reads;
mod turns;

use std::{
    error::Error as _, future::poll_fn, num::NonZeroU32, path::Path, pin::pin, sync::Arc,
    task::Poll, time::Duration,
};

pub(crate) use self::error::{is_for_lack_of_rights, refusal, told, with_causes};
pub use self::{connections::Connections, error::CallError, reads::NotARead};
use self::{connections::Pools, turns::Turns};
use super::{answers::Bounds, leader::Leadership};
use kube::{
    Api, Client, Config, Resource,
    api::{ApiResource, DynamicObject},
    client::{
        ClientBuilder, ConfigExt as _,
        middleware::{AuthLayer, ExtraHeadersLayer},
    },
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::{sync::Semaphore, time::timeout};
use tower::ServiceBuilder;

use super::metrics::{BudgetMetrics, RequestMetrics};
use crate::util::text::clean;

/// Under this name the operator owns the fields that it writes on the seed.
pub const FIELD_MANAGER: &str = "dependency-watchdog";
/// The fewest requests per second that a budget can be given.
pub const LEAST_QPS: f64 = 0.001;
/// The most requests per second that a budget can be given.
pub const MOST_QPS: f64 = 100_000.0;
/// The time that one request may take, once it is its turn.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// A connection on which nothing is answered for this long is given up. Lists and watches have no
/// other limit, and a server that is gone may never say so. A watch ends, or tells something, sooner.
const SILENCE: Duration = Duration::from_secs(300);

/// So many at once are few. Each request takes a connection, which is kept for 90 s with buffers as large
/// as its largest answer, so that a burst would leave as many.
const FEW: usize = 16;

/// So much is repeated of what the seed says when it refuses something, or of what cannot be read, in
/// characters.
const MAX_REFUSAL: usize = 1_000;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig {path} cannot be used: {}", clean(&source.to_string(), MAX_REFUSAL))]
    Kubeconfig {
        /// Its path.
        path: String,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// It cannot be parsed. What is wrong is not quoted: it may be a token.
    #[error(
        "the kubeconfig {path} cannot be read at line {line}, column {column}: it must be YAML or JSON of \
         kind Config (v1)"
    )]
    KubeconfigMalformed {
        /// Its path, or what is known of it.
        path: String,
        /// The line, from 1; 0 if unknown.
        line: u64,
        /// The column, from 1; 0 if unknown.
        column: u64,
    },
    /// There is neither a kubeconfig nor a ServiceAccount.
    #[error(
        "no kubeconfig and no ServiceAccount was found; give --kubeconfig, set KUBECONFIG, or run \
         in a pod: {}",
        clean(&.0.to_string(), MAX_REFUSAL)
    )]
    Infer(InferConfigError),
    /// No client can be made of the configuration.
    #[error("no client can be made of the configuration: {}", with_causes(.0))]
    Build(#[from] kube::Error),
}

impl ClientError {
    fn unusable(path: &Path, source: KubeconfigError) -> Self {
        let path = path.display().to_string();
        match source {
            KubeconfigError::Parse(error) => Self::malformed(path, &error),
            source => Self::Kubeconfig { path, source },
        }
    }

    fn not_inferred(error: InferConfigError) -> Self {
        match error.source().and_then(|it| it.downcast_ref()) {
            Some(KubeconfigError::Parse(error)) => {
                Self::malformed("that kubectl would use".to_owned(), error)
            }
            _ => Self::Infer(error),
        }
    }

    fn malformed(path: String, error: &serde_saphyr::Error) -> Self {
        let location = error.location();
        Self::KubeconfigMalformed {
            path,
            line: location.map_or(0, |at| at.line()),
            column: location.map_or(0, |at| at.column()),
        }
    }
}

/// How many requests a client may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Requests per second in the long run, [`LEAST_QPS`] to [`MOST_QPS`].
    pub qps: f64,
    /// Requests at once.
    pub burst: NonZeroU32,
}

/// Finds the seed: by the kubeconfig, if one is given, else as kubectl would, else as a pod.
///
/// # Errors
///
/// If none of these leads to a usable configuration.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => {
            kubeconfig::is_text(path)?;
            let kubeconfig = Kubeconfig::read_from(path);
            let kubeconfig = kubeconfig.map_err(|source| ClientError::unusable(path, source))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|source| ClientError::unusable(path, source))?
        }
        None => {
            kubeconfig::usable()?;
            Config::infer().await.map_err(ClientError::not_inferred)?
        }
    };
    // Whoever asks knows better when to ask again.
    config.default_retry = false;
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Ok(config)
}

/// Clients that share their connections: one for each kind of request.
#[derive(Clone)]
pub struct Clients {
    ordinary: Client,
    /// Sends a read that is not answered soon a second time; the other only does so with watches.
    urgent: Client,
}

impl Clients {
    /// Clients of these connections. `layered` makes each of them.
    pub fn new<S: Clone>(
        connections: Connections<S>,
        layered: impl Fn(Connections<S>) -> Client,
    ) -> Self {
        Self {
            urgent: layered(connections.urgent()),
            ordinary: layered(connections),
        }
    }
}

/// One client for every kind of request.
impl From<Client> for Clients {
    fn from(client: Client) -> Self {
        Self {
            ordinary: client.clone(),
            urgent: client,
        }
    }
}

/// TLS and login by a configuration, for any number of clients: a login plugin need not run for each.
pub struct Transport {
    config: Config,
    auth: Option<AuthLayer>,
    headers: ExtraHeadersLayer,
    pools: Pools,
}

impl Transport {
    /// Runs the login plugin of the configuration if it has one: once for a token, twice for a certificate.
    ///
    /// # Errors
    ///
    /// If no client can be made of the configuration.
    pub fn new(mut config: Config) -> Result<Self, ClientError> {
        if let Some(proxy) = &config.proxy_url {
            let proxy_url = Box::new(proxy.clone());
            return Err(kube::Error::ProxyProtocolUnsupported { proxy_url }.into());
        }
        let auth = config.auth_layer()?;
        if auth.is_some() {
            // The plugin gave this token, or is not asked. For a certificate it would run once more.
            config.auth_info.exec = None;
        }
        Ok(Self {
            auth,
            headers: config.extra_headers_layer()?,
            pools: connections::pools(&config)?,
            config,
        })
    }

    /// Clients with connections of their own, whose requests are counted and whose answers are bounded.
    pub fn clients(&self, metrics: &RequestMetrics) -> Clients {
        let pools = self.pools.clone();
        Clients::new(Connections::new(move || pools()), |connections| {
            let service = ServiceBuilder::new()
                .layer(self.config.base_uri_layer())
                .option_layer(self.auth.as_ref())
                .layer(self.headers.clone())
                .service(connections);
            ClientBuilder::new(service, self.config.default_namespace.clone())
                .with_layer(&Bounds)
                .with_layer(metrics)
                .build()
        })
    }

    /// A client as above, for requests that are not urgent.
    pub fn client(&self, metrics: &RequestMetrics) -> Client {
        self.clients(metrics).ordinary
    }
}

/// A client by this configuration, for requests that are not urgent.
///
/// # Errors
///
/// If no client can be made of it.
pub fn client(config: &Config, metrics: &RequestMetrics) -> Result<Client, ClientError> {
    Ok(Transport::new(config.clone())?.client(metrics))
}

/// A client of the seed, and how many requests may go through it, as long as this process leads.
/// Watches go past it: they are few, must not wait, and change nothing. Clones share the budget.
#[derive(Clone)]
pub struct Seed {
    clients: Clients,
    turns: Option<Arc<Turns>>,
    /// For requests that are not urgent, while they are under way.
    places: Option<Arc<Semaphore>>,
    urgent: bool,
    leadership: Leadership,
    waits: BudgetMetrics,
}

impl Seed {
    /// Requests go through these clients, within this budget.
    pub fn new(clients: impl Into<Clients>, budget: Budget) -> Self {
        Self {
            turns: Some(Arc::new(Turns::new(budget))),
            ..Self::unlimited(clients)
        }
    }

    /// Requests go through these clients, as many as there are.
    pub fn unlimited(clients: impl Into<Clients>) -> Self {
        Self {
            clients: clients.into(),
            turns: None,
            places: None,
            urgent: false,
            leadership: Leadership::unopposed(),
            waits: BudgetMetrics::default(),
        }
    }

    /// The same seed, for requests that are made only while this leadership is held.
    #[must_use]
    pub fn led_by(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// The same seed, to which nothing but reads is sent: any other request fails at this end.
    #[must_use]
    pub fn reads_only(self) -> Self {
        let Clients { ordinary, urgent } = self.clients;
        let clients = Clients {
            ordinary: reads::reads_only(ordinary),
            urgent: reads::reads_only(urgent),
        };
        Self { clients, ..self }
    }

    /// The same seed, whose requests are counted while they wait for their turn.
    #[must_use]
    pub fn measured(self, waits: BudgetMetrics) -> Self {
        Self { waits, ..self }
    }

    /// The same seed and the same budget, for requests that go before the others which wait for
    /// their turn within it: nine of them before one that can wait.
    #[must_use]
    pub fn urgent(&self) -> Self {
        Self {
            urgent: true,
            ..self.clone()
        }
    }

    /// The same seed and the same budget, for requests that let the [urgent](Self::urgent) ones go
    /// before them.
    #[must_use]
    pub fn leisurely(self) -> Self {
        Self {
            urgent: false,
            ..self
        }
    }

    /// The same seed and the same budget; of its requests that are not urgent, few are under way at once,
    /// whatever its burst. Not for what is done to clusters: one that hangs would hold up the others.
    #[must_use]
    pub fn few_at_once(self) -> Self {
        let places = Some(Arc::new(Semaphore::new(FEW)));
        Self { places, ..self }
    }

    /// Objects of a kind in any form: not all may be decodable.
    pub(crate) fn objects<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::all_with(self.client().clone(), &ApiResource::erase::<K>(&()))
    }

    /// The client, to make requests of, and for watches.
    pub fn client(&self) -> &Client {
        match self.urgent {
            true => &self.clients.urgent,
            false => &self.clients.ordinary,
        }
    }

    /// Carries out a request when it is its turn. To wait for that costs nothing of the request's
    /// own time.
    ///
    /// # Errors
    ///
    /// If it is refused, fails, or takes too long, or if this process does not lead.
    pub async fn call<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        self.turn().await;
        self.call_at_turn(request).await
    }

    /// Waits until it is a request's turn: the urgent ones' first, and among equals in the order in
    /// which they ask.
    pub async fn turn(&self) {
        let Some(turns) = &self.turns else {
            return;
        };
        let _waiting = self.waits.wait();
        if self.urgent {
            turns.urgent().await;
        } else {
            turns.leisurely().await;
        }
    }

    /// Carries out a request whose turn it is.
    ///
    /// # Errors
    ///
    /// If it is refused, fails, or takes too long, or if this process does not lead.
    pub async fn call_at_turn<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        let places = self.places.as_ref().filter(|_| !self.urgent);
        // They are never closed.
        let _place = match places {
            Some(places) => places.acquire().await.ok(),
            None => None,
        };
        let mut request = pin!(timeout(REQUEST_LIMIT, request));
        // Before each step of it: the process may have been frozen since the last, and a request
        // that still waits for its connection would be sent by one that has been replaced.
        let answer = poll_fn(|context| match self.leadership.is_held() {
            true => request.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        });
        let answer = tokio::select! {
            biased;
            // One that is under way is not waited for.
            () = self.leadership.over() => None,
            answer = answer => answer,
        };
        match answer {
            Some(Ok(Ok(answer))) => Ok(answer),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(_)) => Err(CallError::Late),
            None => Err(CallError::NotLeading),
        }
    }
}

#[cfg(test)]
mod tests;
