//! What every part may use, and what uses none of them.

pub(crate) mod columns;
pub mod mono_time;
pub mod now;
pub mod since;
pub mod text;
