//! Stories of the prober over a scripted seed and scripted shoots.

mod checks;
mod connections;
mod fleet;
mod holds;
mod kinds;
mod letting_go;
mod levels;
mod marks;
mod mishaps;
mod nodes;
mod observer;
mod reads;
mod restores;
mod rights;
mod secrets;
mod standby;
