//! What to do under each reason of a ClusterHealth.

/// Returns what to do under this reason; `None` if there is nothing to do, or its message says it.
pub fn remedy(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "Outage" => "see why the nodes are silent: their network, their zone",
        "Suspect" | "FactsOutdated" | "TooManyRequests" => "wait",
        "NoWrites" => "see whether the shoot's etcd accepts writes",
        "TooFewSilent" | "Recovering" => "see why the nodes are silent",
        "LeasesUnknown" => "wait after a start; later, see the renewTime of leases, and its pace",
        "NoCandidates" => "see the nodes' leases and conditions, and Machines' label node",
        "SecretMissing" | "SecretKeyMissing" | "Unauthorized" => "fix the kubeconfig Secret",
        "KubeconfigInvalid" | "KubeconfigRefused" => "put certificates and token into it inline",
        "Forbidden" => "apply manifests/shoot to the shoot, which grants the right",
        "NameNotResolved" | "TlsFailed" | "Unreachable" | "Timeout" | "ServerError" => {
            "see whether the shoot's API server runs, then the NetworkPolicies on the way to it"
        }
        "Unreadable" | "UnknownOperation" => "look for a newer operator",
        "SeedUnreadable" | "ScalingForbidden" => "grant the right that the message names",
        "ClusterInvalid" | "PolicyInvalid" => "correct what the message names",
        "Suspended" => "set spec.suspend of the policy to false",
        "ScalingLate" => "see why its pods do not go or come",
        "DependentMissing" => "create it, or set optional: true in the policy",
        "RecordUnreadable" => "correct the annotation, or remove it to restore the last number",
        "KindUnknown" | "NotScalable" => "correct ref, or have the kind served with its scale",
        "ScalingConflicts" => "find out who else scales it",
        "MarkRemoved" | "IgnoredAtZero" => "scale it back by hand",
        "ProtectedUnprobed" => "end what keeps it from being probed, or restore it by hand",
        _ => return None,
    })
}
