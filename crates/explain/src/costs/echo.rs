//! The echo process for measuring wake-ups.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use pipespeed_measure::endpoint::counters::monotonic_ns;

/// The argument of the hidden subcommand that runs it.
pub const ROLE: &str = "wake-up";

/// A request, whose bytes mean nothing, or the time at which it arrived, in nanoseconds
/// of CLOCK_MONOTONIC.
pub type Message = [u8; 8];

/// Runs until its input ends.
///
/// # Errors
/// Those of reading and writing.
pub fn main() -> io::Result<()> {
    // It must not outlive its parent.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Unbuffered: std's standard output would write a reply that contains the byte of
    // a newline in two calls.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut message = Message::default();
    loop {
        match input.read_exact(&mut message) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        output.write_all(&monotonic_ns().to_ne_bytes())?;
    }
}
