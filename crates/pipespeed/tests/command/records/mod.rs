//! Records of invented runs: what they hold, and `compare`.

mod compare;
mod snapshot;
mod unlike;
