//! Records of invented runs: what they hold, `compare` and `report`.

mod compare;
mod report;
mod snapshot;
mod unlike;
