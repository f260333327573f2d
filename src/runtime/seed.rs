//! The seed: how it is found, and the budgets of requests to it.

mod budget;
mod error;

use std::{
    error::Error as _, future::poll_fn, path::Path, pin::pin, sync::Arc, task::Poll, time::Duration,
};

use self::budget::Budget;
pub(crate) use self::error::{is_for_lack_of_rights, told, with_causes};
pub use self::{budget::Rate, error::CallError};
use super::leader::Leadership;
use kube::{
    Api, Client, Config, Resource,
    api::{ApiResource, DynamicObject},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::time::timeout;

use super::metrics::RequestMetrics;
use crate::util::text::clean;

/// Name under which the operator owns the fields that it writes on the seed.
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

/// Most characters that are repeated of what the seed says when it refuses something, or of what cannot be read.
const MAX_REFUSAL: usize = 1_000;

/// Finds the seed: by the kubeconfig, if one is given, else as kubectl would, else as a pod.
///
/// # Errors
///
/// If none of these leads to a usable configuration.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, String> {
    let mut config = match kubeconfig {
        Some(path) => {
            let options = KubeConfigOptions::default();
            let read = async {
                Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await
            };
            let unusable = |error| unusable(&path.display().to_string(), &error);
            read.await.map_err(unusable)?
        }
        None => Config::infer().await.map_err(|error| {
            match error.source().and_then(|it| it.downcast_ref()) {
                Some(parse @ KubeconfigError::Parse(_)) => unusable("that kubectl would use", parse),
                _ => format!(
                    "no kubeconfig and no ServiceAccount was found; give --kubeconfig, set KUBECONFIG, or run in \
                     a pod: {}",
                    clean(&error.to_string(), MAX_REFUSAL)
                ),
            }
        })?,
    };
    // Whoever asks knows better when to ask again.
    config.default_retry = false;
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Ok(config)
}

/// Says why a kubeconfig cannot be used. What is wrong in it is not quoted: it may be a token.
fn unusable(path: &str, error: &KubeconfigError) -> String {
    let KubeconfigError::Parse(error) = error else {
        let why = clean(&error.to_string(), MAX_REFUSAL);
        return format!("the kubeconfig {path} cannot be used: {why}");
    };
    let place = error.location();
    let (line, column) = place.map_or((0, 0), |at| (at.line(), at.column()));
    format!(
        "the kubeconfig {path} cannot be read at line {line}, column {column}: it must be YAML or JSON of kind \
         Config (v1)"
    )
}

/// A client of the seed, and how many requests may go through it, as long as this process leads.
/// Watches go past it: they are few, must not wait, and change nothing. Clones share the budgets.
#[derive(Clone)]
pub struct Seed {
    client: Client,
    /// The budget that requests are taken from; `None` without a limit.
    budget: Option<Arc<Budget>>,
    /// The budget of what is done.
    acting: Option<Arc<Budget>>,
    leadership: Leadership,
}

impl Seed {
    /// Returns a seed whose requests go through this client, at this rate unless they [act](Self::acting); `metrics`
    /// show how long they wait.
    pub fn new(client: Client, reporting: Rate, metrics: &RequestMetrics) -> Self {
        Self::within(client, Rate::ACTING, reporting, metrics)
    }

    /// Returns the same at these rates.
    pub fn within(client: Client, acting: Rate, reporting: Rate, metrics: &RequestMetrics) -> Self {
        let budget = |rate, name| Some(Arc::new(Budget::new(rate, metrics.waits(name))));
        Self {
            budget: budget(reporting, "reporting"),
            acting: budget(acting, "acting"),
            ..Self::unlimited(client)
        }
    }

    /// Returns a seed whose requests go through this client without a limit.
    pub fn unlimited(client: Client) -> Self {
        Self {
            client,
            budget: None,
            acting: None,
            leadership: Leadership::unopposed(),
        }
    }

    /// Returns the same seed, for requests that are made only while this leadership is held.
    #[must_use]
    pub fn led_by(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// Returns the same seed, for what is done to dependents and pods, and what that waits for: reports do not delay it.
    #[must_use]
    pub fn acting(&self) -> Self {
        Self {
            budget: self.acting.clone(),
            ..self.clone()
        }
    }

    /// Objects of a kind in any form: not all may be decodable.
    pub(crate) fn objects<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::all_with(self.client().clone(), &ApiResource::erase::<K>(&()))
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
    /// If it is refused, fails, or takes too long, or if this process does not lead.
    pub async fn call<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallError> {
        self.turn().await;
        self.call_at_turn(request).await
    }

    /// Waits until it is a request's turn, in the order in which they ask.
    pub async fn turn(&self) {
        if let Some(budget) = &self.budget {
            budget.turn().await;
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
        let mut request = pin!(timeout(REQUEST_LIMIT, request));
        // Before each step of it: the process may have been frozen since the last, and a request
        // that still waits for its connection would be sent by one that has been replaced.
        let answer = poll_fn(|context| match self.leadership.is_held() {
            true => request.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        });
        match answer.await {
            Some(Ok(Ok(answer))) => Ok(answer),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(_)) => Err(CallError::Late),
            None => Err(CallError::NotLeading),
        }
    }
}

#[cfg(test)]
mod tests;
