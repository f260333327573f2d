//! Clients of the seed, each with a budget of requests.

use std::{
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{Layer, Service};

/// The most requests per second that a budget can be given.
pub const MOST_QPS: f64 = 100_000.0;

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

/// A client of the seed with a budget of its own.
///
/// # Errors
///
/// If the configuration's certificates do not make a TLS client.
pub fn client(config: Config, budget: Budget) -> Result<Client, ClientError> {
    let builder = ClientBuilder::try_from(config)?;
    Ok(builder.with_layer(&RateLimit::new(budget)).build())
}

/// Has requests wait for their turn.
#[derive(Clone)]
struct RateLimit(Option<Arc<DefaultDirectRateLimiter>>);

/// A service whose requests wait for their turn.
struct RateLimited<S> {
    inner: S,
    limiter: Option<Arc<DefaultDirectRateLimiter>>,
}

impl RateLimit {
    fn new(budget: Budget) -> Self {
        let period = std::time::Duration::from_secs_f64(1.0 / budget.qps.min(MOST_QPS));
        let quota = Quota::with_period(period).map(|quota| quota.allow_burst(budget.burst));
        Self(quota.map(|quota| Arc::new(RateLimiter::direct(quota))))
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimited {
            inner,
            limiter: self.0.clone(),
        }
    }
}

impl<S, R> Service<R> for RateLimited<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
    S::Response: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // Nothing is sent before the future is polled.
        let answer = self.inner.call(request);
        let limiter = self.limiter.clone();
        Box::pin(async move {
            if let Some(limiter) = limiter {
                limiter.until_ready().await;
            }
            answer.await
        })
    }
}
