//! Events on pods and on what controls them: that one was deleted, or why it was not.

use std::time::Duration;

use k8s_openapi::{
    api::core::v1::{ObjectReference, Pod},
    jiff::SignedDuration,
};

use crate::{
    report::events::{
        Event,
        kinds::{DELETION_REFUSED, LEFT_ALONE, POD_WEEDED, WOULD_WEED},
        regarding,
    },
    weeder::case::{Case, Deed},
};

/// Returns the event, and on which object it is: a pod that is deleted is soon forgotten, so what controls it
/// is told of that.
pub(super) fn event(case: &Case, deed: &Deed) -> (ObjectReference, Event) {
    let (pod, policy, service) = (&case.pod.name, &case.policy.name, &case.service);
    let ready_for = seconds(case.ready_since.elapsed());
    let containers = names(&case.pod.containers);
    let event = match deed {
        Deed::Weeded => {
            let note = format!(
                "pod {pod} was deleted for policy {policy}, so that it restarts at once: service \
                 {service} had been ready for {ready_for}, and it was in CrashLoopBackOff in {containers}"
            );
            Event::new(&POD_WEEDED, note)
        }
        Deed::WouldWeed => {
            let note = format!(
                "pod {pod} would be deleted for policy {policy} if its mode were Enforce: service \
                 {service} has been ready for {ready_for}, and it is in CrashLoopBackOff in {containers}"
            );
            Event::new(&WOULD_WEED, note)
        }
        Deed::LeftAlone(reason) => {
            let (message, reason) = (reason.message(), reason.as_str());
            let note = format!(
                "{message} ({reason}); policy {policy} selects it, and service {service} is ready"
            );
            Event::new(&LEFT_ALONE, note)
        }
        Deed::Refused(message) => {
            let note = format!(
                "it is in CrashLoopBackOff although service {service} is ready, and could not be \
                 deleted for policy {policy}: {message}"
            );
            Event::new(&DELETION_REFUSED, note)
        }
    };
    let namespace = Some(case.namespace.to_string());
    let object = ObjectReference {
        namespace: namespace.clone(),
        ..regarding::<Pod>(pod, Some(&case.pod.uid))
    };
    match (deed, &case.pod.controller) {
        (Deed::Weeded | Deed::WouldWeed, Some(owner)) => {
            let related = Some(Box::new(object));
            let controller = ObjectReference {
                api_version: Some(owner.api_version.clone()),
                kind: Some(owner.kind.clone()),
                name: Some(owner.name.clone()),
                namespace,
                uid: Some(owner.uid.clone()),
                ..ObjectReference::default()
            };
            (controller, Event { related, ..event })
        }
        _ => (object, event),
    }
}

fn seconds(span: Duration) -> String {
    match i64::try_from(span.as_secs()).unwrap_or(i64::MAX) {
        0 => "less than a second".to_owned(),
        seconds => format!("{:#}", SignedDuration::from_secs(seconds)),
    }
}

/// `container a` or `containers a, b`.
fn names(containers: &[String]) -> String {
    match containers {
        [container] => format!("container {container}"),
        several => format!("containers {}", several.join(", ")),
    }
}
#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use rstest::rstest;

    use super::*;
    use crate::weeder::{pod::Reason, report::fixtures::case};

    #[rstest]
    #[case::weeded(
        Deed::Weeded,
        "PodWeeded",
        "ReplicaSet api-6b7 uid-rs",
        "pod api-6b7-x was deleted for policy etcd, so that it restarts at once: service \
         etcd-main-client had been ready for 1m 2s, and it was in CrashLoopBackOff in containers a, b"
    )]
    #[case::would_weed(
        Deed::WouldWeed,
        "WouldWeed",
        "ReplicaSet api-6b7 uid-rs",
        "pod api-6b7-x would be deleted for policy etcd if its mode were Enforce: service \
         etcd-main-client has been ready for 1m 2s, and it is in CrashLoopBackOff in containers a, b"
    )]
    #[case::left_alone(
        Deed::LeftAlone(Reason::NoController),
        "LeftAlone",
        "Pod api-6b7-x uid-pod",
        "it is in CrashLoopBackOff, but no controller owns it: nothing would create it anew, so it is not \
         deleted (NoController); policy etcd selects it, and service etcd-main-client is ready"
    )]
    #[case::refused(
        Deed::Refused("pods is forbidden".to_owned()), "DeletionRefused", "Pod api-6b7-x uid-pod",
        "it is in CrashLoopBackOff although service etcd-main-client is ready, and could not be \
         deleted for policy etcd: pods is forbidden"
    )]
    #[tokio::test(start_paused = true)]
    async fn what_is_told_and_where(
        #[case] deed: Deed,
        #[case] reason: &str,
        #[case] on: &str,
        #[case] note: &str,
    ) {
        let case = case(&["a", "b"]);
        tokio::time::advance(Duration::from_secs(62)).await;
        let (object, event) = event(&case, &deed);
        let name = |it: &ObjectReference| {
            let text = |text: &Option<String>| text.clone().unwrap();
            [text(&it.kind), text(&it.name), text(&it.uid)].join(" ")
        };
        assert_eq!(name(&object), on);
        assert_eq!(object.namespace.as_deref(), Some("shoot"));
        assert_eq!((&*event.reason, &*event.note), (reason, note));
        // Else pods of one ReplicaSet would be counted as one event, with the words of the first.
        let is_of_pod = on.starts_with("Pod ");
        let related = event.related.map(|it| name(&it));
        assert_eq!(
            related,
            (!is_of_pod).then(|| "Pod api-6b7-x uid-pod".to_owned())
        );
    }
}
