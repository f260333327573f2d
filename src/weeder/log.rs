//! What the log says: each service that recovers, windows that close, and each pod.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::news::{Closing, News, Opening, Pair};
use crate::weeder::report::{PodDeed, PodNews};

/// Of so many windows that open or close at once, the services are named.
const NAMED: usize = 5;

/// Windows that open or close at the same moment, of the same policy and for the same reason.
type Together<'a, Why> = BTreeMap<(&'a Arc<str>, Why), Vec<&'a Pair>>;

/// Says what has happened at one moment.
pub(super) fn happened(news: &[News]) {
    let mut found: Together<'_, Opening> = BTreeMap::new();
    let mut no_windows: Together<'_, ()> = BTreeMap::new();
    let mut closed: Together<'_, Closing> = BTreeMap::new();
    for news in news {
        match news {
            News::Opened {
                pair,
                policy,
                why: Opening::FoundReady,
                ..
            } => {
                let key = (policy, Opening::FoundReady);
                found.entry(key).or_default().push(pair);
            }
            News::Opened {
                pair,
                policy,
                why,
                lasts,
            } => tracing::info!(
                namespace = &*pair.namespace,
                service = &*pair.service,
                policy = &**policy,
                reason = why.as_str(),
                seconds = lasts.as_secs_f64(),
                "the service is ready: a window opens"
            ),
            News::NoWindow { pair, policy } => {
                no_windows.entry((policy, ())).or_default().push(pair);
            }
            News::Closed { pair, policy, why } => {
                closed.entry((policy, *why)).or_default().push(pair);
            }
            News::Pod { news, looped_for } => pod(news, *looped_for),
        }
    }
    for ((policy, why), pairs) in found {
        tracing::info!(
            policy = &**policy,
            reason = why.as_str(),
            windows = pairs.len(),
            services = names(&pairs),
            "services are found ready: windows open"
        );
    }
    for ((policy, ()), pairs) in no_windows {
        tracing::info!(
            policy = &**policy,
            windows = pairs.len(),
            services = names(&pairs),
            "nothing says that services became ready within watchDuration: no windows open"
        );
    }
    for ((policy, why), pairs) in closed {
        tracing::info!(
            policy = &**policy,
            reason = why.as_str(),
            windows = pairs.len(),
            services = names(&pairs),
            "windows close"
        );
    }
}

fn pod(news: &PodNews, looped_for: Duration) {
    let owner = news.owner.as_ref();
    let owner = owner.map(|owner| format!("{}/{}", owner.kind, owner.name));
    macro_rules! say {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                namespace = &*news.namespace,
                pod = &*news.pod,
                owner,
                service = &*news.service,
                policy = &*news.policy,
                $($field = $value,)*
                $message
            )
        };
    }
    match &news.deed {
        PodDeed::Weeded {
            containers,
            ready_for,
        } => say!(
            info,
            "the pod was deleted, to restart at once",
            containers = containers.join(","),
            looping_seconds = looped_for.as_secs_f64(),
            ready_seconds = ready_for.as_secs_f64()
        ),
        PodDeed::WouldWeed {
            containers,
            ready_for,
        } => say!(
            info,
            "the pod would be deleted, were the mode not DryRun",
            containers = containers.join(","),
            looping_seconds = looped_for.as_secs_f64(),
            ready_seconds = ready_for.as_secs_f64()
        ),
        PodDeed::LeftAlone { reason, message } => say!(
            info,
            "the pod is left alone",
            reason = reason,
            why = message
        ),
        PodDeed::Refused { message } => say!(
            warn,
            "the pod was not deleted; it is tried again",
            error = message
        ),
    }
}

/// The first few services.
fn names(pairs: &[&Pair]) -> String {
    let named = pairs.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|Pair { namespace, service }| format!("{namespace}/{service}"))
        .collect();
    let more = if pairs.len() > NAMED { ", ..." } else { "" };
    named.join(", ") + more
}
