//! Stories of the weeder over a scripted seed.

mod mishaps;
mod rights;
mod scale;
mod windows;
