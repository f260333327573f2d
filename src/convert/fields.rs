//! The fields of the tool's configuration, of all its versions that had one like today's, and what
//! becomes of each.

use super::Part;

/// What tells a configuration of the prober.
pub(super) const PROBER_MARKS: [&str; 4] = [
    "dependentResourceInfos",
    "kubeConfigSecretName",
    "internalKubeConfigSecretName",
    "kcmNodeMonitorGraceDuration",
];
/// What tells a configuration of the weeder.
pub(super) const WEEDER_MARKS: [&str; 1] = ["servicesAndDependantSelectors"];
/// What a text speaks of that was meant as a configuration, though it is no YAML.
pub(super) const MARKS: [&str; 2] = ["dependentResourceInfos", "servicesAndDependantSelectors"];

/// A mapping of the tool.
pub(super) struct Object {
    pub(super) fields: &'static [Field],
    /// What is written where the tool assumed it.
    pub(super) assumed: &'static [(&'static str, Assumed)],
    /// What must be there, and what to do if it is not.
    pub(super) required: &'static [(&'static str, &'static str)],
}

/// A value that the tool assumed.
#[derive(Clone, Copy)]
pub(super) enum Assumed {
    False,
    Zero,
}

/// A field of the tool.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) becomes: Becomes,
}

/// What becomes of a field.
pub(super) enum Becomes {
    /// A field of the same name.
    Same(&'static Shape),
    /// A field of another name.
    Renamed(&'static str, &'static Shape),
    /// A boolean of another name that says the opposite.
    Opposite(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

/// What a field holds.
pub(super) enum Shape {
    Text,
    Word(&'static [&'static str]),
    Duration,
    Number,
    Integer,
    Bool,
    List(&'static Shape),
    Map(&'static Shape),
    Object(&'static Object),
}

/// The fields of a part's configuration.
pub(super) fn of(part: Part) -> &'static Object {
    match part {
        Part::Prober => &PROBER,
        Part::Weeder => &WEEDER,
    }
}

const fn same(name: &'static str, shape: &'static Shape) -> Field {
    Field {
        name,
        becomes: Becomes::Same(shape),
    }
}

const fn nothing(name: &'static str, reason: &'static str) -> Field {
    Field {
        name,
        becomes: Becomes::Nothing(reason),
    }
}

const BACKOFF: &str = "a probe that fails is repeated by a schedule of its own, see \
                       docs/concepts.md#suspicion-and-proof";

const PROBER: Object = Object {
    fields: &[
        same("kubeConfigSecretName", &Shape::Text),
        Field {
            name: "internalKubeConfigSecretName",
            becomes: Becomes::Renamed("kubeConfigSecretName", &Shape::Text),
        },
        nothing(
            "externalKubeConfigSecretName",
            "nothing is probed by way of the internet: the leases of the nodes tell whether they \
             reach the API server, see docs/concepts.md#how-it-is-read",
        ),
        same("probeInterval", &Shape::Duration),
        same("initialDelay", &Shape::Duration),
        same("probeTimeout", &Shape::Duration),
        same("successThreshold", &Shape::Integer),
        same("failureThreshold", &Shape::Integer),
        nothing("apiServerProbeFailureBackoffDuration", BACKOFF),
        nothing("internalProbeFailureBackoffDuration", BACKOFF),
        same("backoffJitterFactor", &Shape::Number),
        same("kcmNodeMonitorGraceDuration", &Shape::Duration),
        same("nodeLeaseFailureFraction", &Shape::Number),
        Field {
            name: "leaseFailureThresholdFraction",
            becomes: Becomes::Renamed("nodeLeaseFailureFraction", &Shape::Number),
        },
        same(
            "dependentResourceInfos",
            &Shape::List(&Shape::Object(&DEPENDENT)),
        ),
    ],
    assumed: &[],
    required: &[
        (
            "kubeConfigSecretName",
            "name the Secret with the kubeconfig of the shoot",
        ),
        (
            "kcmNodeMonitorGraceDuration",
            "write what the kube-controller-managers of the shoots are run with: by default 40s, \
             and 50s since Kubernetes 1.32",
        ),
        ("dependentResourceInfos", "list what is to be scaled down"),
    ],
};

const DEPENDENT: Object = Object {
    fields: &[
        same("ref", &Shape::Object(&REFERENCE)),
        same("optional", &Shape::Bool),
        Field {
            name: "shouldExist",
            becomes: Becomes::Opposite("optional"),
        },
        same("scaleUp", &Shape::Object(&SCALE)),
        same("scaleDown", &Shape::Object(&SCALE)),
    ],
    assumed: &[("optional", Assumed::False)],
    required: &[("ref", "name the resource by apiVersion, kind and name")],
};

const REFERENCE: Object = Object {
    fields: &[
        same("apiVersion", &Shape::Text),
        same("kind", &Shape::Text),
        same("name", &Shape::Text),
    ],
    assumed: &[],
    required: &[
        ("apiVersion", "write group and version, such as apps/v1"),
        ("kind", "write the kind, such as Deployment"),
        ("name", "write the name of the resource"),
    ],
};

const SCALE: Object = Object {
    fields: &[
        same("level", &Shape::Integer),
        same("initialDelay", &Shape::Duration),
        same("timeout", &Shape::Duration),
        nothing(
            "replicas",
            "what is scaled down goes to 0, and back to the number it had, see \
             docs/concepts.md#acting",
        ),
    ],
    assumed: &[("level", Assumed::Zero)],
    required: &[],
};

const WEEDER: Object = Object {
    fields: &[
        same("watchDuration", &Shape::Duration),
        same(
            "servicesAndDependantSelectors",
            &Shape::Map(&Shape::Object(&DEPENDANTS)),
        ),
    ],
    assumed: &[],
    required: &[(
        "servicesAndDependantSelectors",
        "list the services to watch",
    )],
};

const DEPENDANTS: Object = Object {
    fields: &[same(
        "podSelectors",
        &Shape::List(&Shape::Object(&SELECTOR)),
    )],
    assumed: &[],
    required: &[("podSelectors", "select the pods that need the service")],
};

const SELECTOR: Object = Object {
    fields: &[
        same("matchLabels", &Shape::Map(&Shape::Text)),
        same(
            "matchExpressions",
            &Shape::List(&Shape::Object(&EXPRESSION)),
        ),
    ],
    assumed: &[],
    required: &[],
};

const EXPRESSION: Object = Object {
    fields: &[
        same("key", &Shape::Text),
        same(
            "operator",
            &Shape::Word(&["In", "NotIn", "Exists", "DoesNotExist"]),
        ),
        same("values", &Shape::List(&Shape::Text)),
    ],
    assumed: &[],
    required: &[
        ("key", "write the key of a label"),
        ("operator", "write In, NotIn, Exists or DoesNotExist"),
    ],
};
