//! What lies between two processes: one file a channel, with a sink at the
//! writing end and a source at the reading end.

pub mod pipe;
