//! The seed: how it is found, and a budget of requests to it.

use std::{num::NonZeroU32, path::Path, sync::Arc, time::Duration};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{sync::Mutex, time::timeout};

/// The most requests per second that a budget can be given.
pub const MOST_QPS: f64 = 100_000.0;
/// The time that one request may take, once it is its turn.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig {path} cannot be used: {source}")]
    Kubeconfig {
        /// Its path.
        path: String,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// There is neither a kubeconfig nor a ServiceAccount.
    #[error(
        "no kubeconfig and no ServiceAccount was found; give --kubeconfig, set KUBECONFIG, or run \
         in a pod: {0}"
    )]
    Infer(#[from] kube::config::InferConfigError),
    /// No client can be made of the configuration.
    #[error("no client can be made of the configuration: {0}")]
    Build(#[from] kube::Error),
}

/// How many requests a client may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Requests per second in the long run, above 0.
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
            let unusable = |source| ClientError::Kubeconfig {
                path: path.display().to_string(),
                source,
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(unusable)?
        }
        None => Config::infer().await?,
    };
    // Whoever asks knows better when to ask again.
    config.default_retry = false;
    Ok(config)
}

/// A client of the seed, and how many requests may go through it. Watches go past it: they are few
/// and must not wait.
#[derive(Clone)]
pub struct Seed {
    client: Client,
    turns: Option<Arc<Turns>>,
}

/// Whoever asks first is served first.
struct Turns {
    queue: Mutex<()>,
    limiter: DefaultDirectRateLimiter,
}

/// A request that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The seed refused it.
    #[error("{} ({})", .0.message, .0.code)]
    Refused(Box<kube::core::Status>),
    /// The seed could not be reached, or its answer cannot be read.
    #[error("{0}")]
    Failed(kube::Error),
    /// It was the request's turn, but no answer came in time.
    #[error("the seed did not answer within {REQUEST_LIMIT:?}")]
    Late,
}

impl CallError {
    /// The HTTP status, if the seed gave one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Failed(_) | Self::Late => None,
        }
    }
}

impl Seed {
    /// Requests go through this client, within this budget.
    pub fn new(client: Client, budget: Budget) -> Self {
        let period = Duration::try_from_secs_f64(1.0 / budget.qps).unwrap_or(Duration::MAX);
        let quota = Quota::with_period(period).map(|quota| quota.allow_burst(budget.burst));
        let turns = quota.map(|quota| Turns {
            queue: Mutex::default(),
            limiter: RateLimiter::direct(quota),
        });
        Self {
            client,
            turns: turns.map(Arc::new),
        }
    }

    /// Requests go through this client, as many as there are.
    pub fn unlimited(client: Client) -> Self {
        Self {
            client,
            turns: None,
        }
    }

    /// The client, to make requests of, and for watches.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Carries out a request when it is its turn. To wait for that costs nothing of the request's
    /// own time.
    ///
    /// # Errors
    ///
    /// If it is refused, fails, or takes too long.
    pub async fn call<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        if let Some(turns) = &self.turns {
            // The queue is fair; those who wait for the limiter itself are served at random.
            let _turn = turns.queue.lock().await;
            turns.limiter.until_ready().await;
        }
        match timeout(REQUEST_LIMIT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(CallError::Refused(status)),
            Ok(Err(error)) => Err(CallError::Failed(error)),
            Err(_) => Err(CallError::Late),
        }
    }
}
