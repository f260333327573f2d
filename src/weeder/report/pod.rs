//! Events on pods and on what controls them: that one was deleted, or why it was not.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{ObjectReference, Pod},
    jiff::SignedDuration,
};

use super::{PodDeed, PodNews, PodOwner};
use crate::status::events::{
    Event,
    kinds::{DELETION_REFUSED, LEFT_ALONE, POD_WEEDED, WOULD_WEED},
    regarding,
};

/// What is told, and on which object: a pod that is deleted is soon forgotten, so what controls it
/// is told of that.
pub(super) fn event(news: &PodNews) -> (ObjectReference, Event) {
    let PodNews {
        pod,
        policy,
        service,
        ..
    } = news;
    let event = match &news.deed {
        PodDeed::Weeded {
            containers,
            ready_for,
        } => {
            let note = format!(
                "pod {pod} was deleted for policy {policy}, so that it restarts at once: service \
                 {service} had been ready for {}, and it was in CrashLoopBackOff in {}",
                seconds(*ready_for),
                names(containers)
            );
            Event::new(&POD_WEEDED, note)
        }
        PodDeed::WouldWeed {
            containers,
            ready_for,
        } => {
            let note = format!(
                "pod {pod} would be deleted for policy {policy} if its mode were Enforce: service \
                 {service} has been ready for {}, and it is in CrashLoopBackOff in {}",
                seconds(*ready_for),
                names(containers)
            );
            Event::new(&WOULD_WEED, note)
        }
        PodDeed::LeftAlone { reason, message } => {
            let note = format!(
                "{message} ({reason}); policy {policy} selects it, and service {service} is ready"
            );
            Event::new(&LEFT_ALONE, note)
        }
        PodDeed::Refused { message } => {
            let note = format!(
                "it is in CrashLoopBackOff although service {service} is ready, and could not be \
                 deleted for policy {policy}: {message}"
            );
            Event::new(&DELETION_REFUSED, note)
        }
    };
    let object = ObjectReference {
        namespace: Some(news.namespace.to_string()),
        ..regarding::<Pod>(pod, Some(&news.uid))
    };
    match (&news.deed, &news.owner) {
        (PodDeed::Weeded { .. } | PodDeed::WouldWeed { .. }, Some(owner)) => {
            let related = Some(Box::new(object));
            (controller(news, owner), Event { related, ..event })
        }
        _ => (object, event),
    }
}

fn controller(news: &PodNews, owner: &PodOwner) -> ObjectReference {
    ObjectReference {
        api_version: Some(owner.api_version.to_string()),
        kind: Some(owner.kind.to_string()),
        name: Some(owner.name.to_string()),
        namespace: Some(news.namespace.to_string()),
        uid: Some(owner.uid.to_string()),
        ..ObjectReference::default()
    }
}

fn seconds(span: Duration) -> String {
    match i64::try_from(span.as_secs()).unwrap_or(i64::MAX) {
        0 => "less than a second".to_owned(),
        seconds => format!("{:#}", SignedDuration::from_secs(seconds)),
    }
}

/// `container a` or `containers a, b`.
fn names(containers: &[Arc<str>]) -> String {
    match containers {
        [container] => format!("container {container}"),
        several => format!("containers {}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::status::events::Kind;

    fn owner() -> PodOwner {
        PodOwner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "api-6b7".into(),
            uid: "uid-rs".into(),
        }
    }

    fn news(deed: PodDeed) -> PodNews {
        PodNews {
            namespace: "shoot".into(),
            pod: "api-6b7-x".into(),
            uid: "uid-pod".into(),
            owner: Some(owner()),
            policy: "etcd".into(),
            service: "etcd-main-client".into(),
            deed,
        }
    }

    fn weeded(containers: &[&str], seconds: u64) -> PodDeed {
        PodDeed::Weeded {
            containers: containers.iter().copied().map(Arc::from).collect(),
            ready_for: Duration::from_secs(seconds),
        }
    }

    fn would_weed() -> PodDeed {
        PodDeed::WouldWeed {
            containers: vec!["a".into()],
            ready_for: Duration::from_millis(300),
        }
    }

    fn left_alone() -> PodDeed {
        PodDeed::LeftAlone {
            reason: "NoController",
            message: "nothing would bring it back".to_owned(),
        }
    }

    fn refused() -> PodDeed {
        PodDeed::Refused {
            message: "pods is forbidden".to_owned(),
        }
    }

    #[rstest]
    #[case::weeded(
        weeded(&["a", "b"], 62), &POD_WEEDED, "ReplicaSet api-6b7 uid-rs",
        "pod api-6b7-x was deleted for policy etcd, so that it restarts at once: service \
         etcd-main-client had been ready for 1m 2s, and it was in CrashLoopBackOff in containers a, b"
    )]
    #[case::would_weed(
        would_weed(), &WOULD_WEED, "ReplicaSet api-6b7 uid-rs",
        "pod api-6b7-x would be deleted for policy etcd if its mode were Enforce: service \
         etcd-main-client has been ready for less than a second, and it is in CrashLoopBackOff in \
         container a"
    )]
    #[case::left_alone(
        left_alone(), &LEFT_ALONE, "Pod api-6b7-x uid-pod",
        "nothing would bring it back (NoController); policy etcd selects it, and service \
         etcd-main-client is ready"
    )]
    #[case::refused(
        refused(), &DELETION_REFUSED, "Pod api-6b7-x uid-pod",
        "it is in CrashLoopBackOff although service etcd-main-client is ready, and could not be \
         deleted for policy etcd: pods is forbidden"
    )]
    fn what_is_told_and_where(
        #[case] deed: PodDeed,
        #[case] kind: &Kind,
        #[case] on: &str,
        #[case] note: &str,
    ) {
        let (object, event) = event(&news(deed));
        let text = |text: &Option<String>| text.clone().unwrap();
        let told = [text(&object.kind), text(&object.name), text(&object.uid)];
        assert_eq!(told.join(" "), on);
        assert_eq!(object.namespace.as_deref(), Some("shoot"));
        assert_eq!((event.kind, &*event.note), (kind, note));
    }

    /// Else pods of one ReplicaSet would be counted as one event, with the words of the first.
    #[test]
    fn what_controls_several_pods_is_told_of_each() {
        let (object, event) = event(&news(weeded(&["a"], 1)));
        assert_eq!(object.api_version.as_deref(), Some("apps/v1"));
        let related = event.related.unwrap();
        assert_eq!(related.kind.as_deref(), Some("Pod"));
        assert_eq!(related.uid.as_deref(), Some("uid-pod"));
    }
}
