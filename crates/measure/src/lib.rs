//! Measures how fast data moves between processes: channels, ends, trials, rounds, suites, round trips, and the saved record.
#![deny(unsafe_code)]

pub mod channel;
pub mod comparison;
pub mod data;
pub mod endpoint;
pub mod failure;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod latency;
pub mod plan;
pub mod record;
pub mod rounds;
pub mod search;
pub mod session;
pub mod spec;
pub mod suite;
mod sys;
pub mod trial;

/// Runs this process as an end of a trial and reports to the process that started it.
///
/// # Errors
/// If the report can't be sent.
pub fn serve(role: spec::ProcessRole) -> std::io::Result<()> {
    use spec::ProcessRole;
    match role {
        ProcessRole::Writer | ProcessRole::Reader => endpoint::process::main(role),
        ProcessRole::Sender | ProcessRole::Echo => latency::process::main(role),
    }
}
