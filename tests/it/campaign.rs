//! What can go wrong, at every write and in any order, to the whole operator: nothing is lost, nothing is done
//! without evidence, and in the end all is back.

mod draw;
mod pair;
mod points;
mod run;
mod walk;
mod weeding;
