//! Stories of the weeder over a scripted seed.

mod mishaps;
mod scale;
mod windows;
