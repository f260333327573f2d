//! Stories of the prober over a scripted seed and scripted shoots.

mod checks;
mod connections;
mod flapping;
mod fleet;
mod flows;
mod holds;
mod kinds;
mod letting_go;
mod marks;
mod max_protection;
mod mishaps;
mod nodes;
mod observer;
mod plan;
mod reads;
mod rights;
mod secrets;
mod standby;
mod turns;
mod writes;
