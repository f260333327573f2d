//! What is generated, installed and documented is what the code says.

mod chart;
mod crds;
mod docs;
mod image;
mod layers;
mod monitoring;
mod reference;
