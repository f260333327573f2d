//! What is generated, installed and documented is what the code says.

mod alerts;
mod chart;
mod crds;
mod dashboard;
mod docs;
mod image;
mod layers;
mod monitoring;
mod pictures;
mod recordings;
mod reference;
