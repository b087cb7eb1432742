//! The echo process for measuring wake-ups.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use rustix::time::{ClockId, clock_gettime};

/// The argument of the hidden subcommand that runs it.
pub const ROLE: &str = "wake-up";

/// The time at which the message was sent and, in a reply, the latency of the request;
/// both in nanoseconds.
pub type Message = [u8; 16];

/// CLOCK_MONOTONIC in nanoseconds, which is the same in all processes.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Encodes a message.
pub fn encode(sent_ns: u64, latency_ns: u64) -> Message {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&sent_ns.to_ne_bytes());
    bytes[8..].copy_from_slice(&latency_ns.to_ne_bytes());
    bytes
}

/// Decodes a message into the send time and the latency.
pub fn decode(message: Message) -> (u64, u64) {
    let both = u128::from_ne_bytes(message);
    let (low, high) = (both as u64, (both >> 64) as u64);
    if cfg!(target_endian = "little") {
        (low, high)
    } else {
        (high, low)
    }
}

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
        let arrived = now_ns();
        let (sent, _) = decode(message);
        output.write_all(&encode(arrived, arrived.saturating_sub(sent)))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_encoding() {
        assert_eq!(decode(encode(1, u64::MAX - 1)), (1, u64::MAX - 1));
    }
}
