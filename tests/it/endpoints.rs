//! What the process serves and logs.

mod admin;
mod logs;
mod metrics;
