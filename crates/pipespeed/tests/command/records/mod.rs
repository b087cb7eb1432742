//! Records of invented runs: what they hold, `compare` and `report`.

mod compare;
mod keys;
mod report;
mod snapshot;
mod unlike;
