//! An API server, shoots and kubelets in memory, by a clock of the caller's.
