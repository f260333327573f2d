//! The fleet at a glance: one row per ClusterHealth, the worst cluster first.
//!
//! [`list()`] reads, and is the only part with a client. [`Fleet::new`] makes rows of what came, and
//! [`table()`] prints them.

mod list;
mod rows;
mod table;

pub use list::{ListError, Listed, list};
pub use rows::{Fleet, Row, Standing};
pub use table::table;
