//! The messages of Kubernetes, as far as the operator reads them.

/// A field that is read: its number, its name in JSON, and what it holds.
pub(super) struct Field(pub(super) u32, pub(super) &'static str, pub(super) Kind);

#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A text that is UTF-8.
    Text,
    /// A text that need not be.
    Lossy,
    /// As that; once it has said something it cannot take it back.
    Sticky,
    Number,
    Time,
    /// A message whose only field is JSON.
    Json,
    Message(&'static [Field]),
    List(&'static [Field]),
    Map,
}

pub(super) const LEASES: &[Field] = &[LIST_META, Field(2, "items", Kind::List(LEASE))];
pub(super) const NODES: &[Field] = &[LIST_META, Field(2, "items", Kind::List(NODE))];
const LIST_META: Field = Field(
    1,
    "metadata",
    Kind::Message(&[
        Field(2, "resourceVersion", Kind::Text),
        Field(3, "continue", Kind::Sticky),
    ]),
);
const LEASE: &[Field] = &[
    Field(
        1,
        "metadata",
        Kind::Message(&[
            Field(1, "name", Kind::Text),
            Field(5, "uid", Kind::Text),
            Field(6, "resourceVersion", Kind::Text),
            Field(17, "managedFields", Kind::List(MANAGER)),
        ]),
    ),
    Field(
        2,
        "spec",
        Kind::Message(&[
            Field(2, "leaseDurationSeconds", Kind::Number),
            Field(4, "renewTime", Kind::Time),
        ]),
    ),
];
const MANAGER: &[Field] = &[
    Field(4, "time", Kind::Time),
    Field(7, "fieldsV1", Kind::Json),
];
const NODE: &[Field] = &[
    Field(
        1,
        "metadata",
        Kind::Message(&[
            Field(1, "name", Kind::Text),
            Field(11, "labels", Kind::Map),
            Field(12, "annotations", Kind::Map),
        ]),
    ),
    Field(
        3,
        "status",
        Kind::Message(&[Field(4, "conditions", Kind::List(CONDITION))]),
    ),
];
const CONDITION: &[Field] = &[
    Field(1, "type", Kind::Lossy),
    Field(2, "status", Kind::Lossy),
    Field(5, "reason", Kind::Lossy),
];
