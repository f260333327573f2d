//! What every part may use, and what uses none of them.

pub mod now;
pub mod since;
pub mod text;
