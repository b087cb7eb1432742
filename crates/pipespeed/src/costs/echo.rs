//! The other process of a wake-up: sends back each byte it gets.

use std::io::{self, Read, Write};

/// The argument of the hidden subcommand under which it runs.
pub const ROLE: &str = "echo";

/// Runs until its input ends.
///
/// # Errors
/// Those of reading and writing.
pub fn main() -> io::Result<()> {
    // It never outlives who started it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut byte = [0];
    loop {
        match input.read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                output.write_all(&byte)?;
                output.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
