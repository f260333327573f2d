//! A plain account of one cluster: is it probed and by which policy, what was seen and done, what is
//! owed, what comes next, what is weeded there, and what the reader can do.
//!
//! [`ask()`] reads, and is the only part with a client. The rest is plain functions of what came: they
//! put the objects before the same index, treatment and plan by which the operator decides, so that
//! what is told is what it would do. [`Account`] is what tools get, [`text()`] what people read.

mod account;
mod ask;
mod commands;
mod dependents;
mod near;
mod next;
mod operator;
mod outlook;
mod policies;
mod probing;
mod record;
mod text;
mod weeding;

pub use account::{Account, State, Threshold, Unread};
pub use ask::{Answers, AskError, Asked, Objects, Refused, SetBy, WeedingObjects, ask};
pub use commands::Command;
pub use dependents::{DependentAccount, DependentState};
pub use operator::{OperatorAccount, OperatorState};
pub use policies::{PolicyAccount, Relation};
pub use probing::Probing;
pub use record::{Record, Trouble};
pub use text::text;
pub use weeding::{Cover, Ready, WeedPolicyAccount, Weeding};
