//! Connections between two processes that carry messages in both directions.

use std::os::fd::OwnedFd;

use anyhow::Context;
use fastpipe::ring;

use crate::channel::ring::check_file_limit;
use crate::channel::{self, OpenChannel};
use crate::failure::{TrialError, open_error};
use crate::spec::{ChannelKind, Transport};
use pipespeed_base::size;

pub use crate::channel::eventfd::BYTES as EVENTFD_BYTES;

/// The largest message, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// The minimum capacity of a ring, in bytes: that of a pipe by default.
const MIN_RING_BYTES: usize = 64 << 10;

/// The channels that are measured by default.
pub const USUAL: [Transport; 5] = [
    Transport::Pipe,
    Transport::Socketpair,
    Transport::Tcp,
    Transport::Ring,
    Transport::Eventfd,
];

/// A new connection in both directions. If it had a name, the name has been removed.
#[derive(Debug)]
pub struct Connection {
    /// The sender's end.
    pub sender: Ends,
    /// The echo's end.
    pub echo: Ends,
    /// The capacity of one direction, in words.
    pub capacity: String,
}

/// The descriptors of one process: two, or one for both directions.
#[derive(Debug)]
pub struct Ends {
    /// What it reads from.
    pub input: OwnedFd,
    /// What it writes to, unless it is `input`.
    pub output: Option<OwnedFd>,
}

/// Opens a connection for messages of this size. Pipes get a capacity of
/// `pipe_bytes`.
///
/// # Errors
/// [`TrialError::NotRun`] if the channel can't carry such messages.
pub fn open(
    transport: Transport,
    size: usize,
    pipe_bytes: Option<usize>,
) -> Result<Connection, TrialError> {
    let (kind, ..) = transport.parts();
    if kind == ChannelKind::Ring {
        // Room for two messages, so that one can be produced while the other is used.
        let bytes = MIN_RING_BYTES.max(2 * size);
        check_file_limit(size, bytes)?;
        let capacity = size::format(bytes.next_power_of_two() as u64);
        let capacity = format!("each ring holds {capacity}");
        return over_two(ring(bytes)?, ring(bytes)?, capacity);
    }
    let one = channel::open(kind, size, pipe_bytes)?;
    let bytes = |granted: Option<usize>| size::format(granted.unwrap_or(0) as u64);
    if one.granted.send_buffer_bytes.is_some() {
        let capacity = format!(
            "a socket's send buffer is {} (SO_SNDBUF, bookkeeping included), its receive buffer {}",
            bytes(one.granted.send_buffer_bytes),
            bytes(one.granted.receive_buffer_bytes)
        );
        return over_one(one, capacity);
    }
    let capacity = match one.granted.queue_messages {
        _ if kind == ChannelKind::Eventfd => "an eventfd counts to 2^64 - 2".to_owned(),
        Some(messages) => format!("a queue holds {messages} messages"),
        None => format!("each pipe holds {}", bytes(one.granted.pipe_bytes)),
    };
    over_two(one, channel::open(kind, size, pipe_bytes)?, capacity)
}

fn ring(bytes: usize) -> Result<OpenChannel, TrialError> {
    const RING: &str = "a ring in shared memory";
    let (producer, consumer) = ring::pair(bytes).map_err(open_error(RING))?;
    Ok(OpenChannel {
        write_end: Some(producer.into_fd().map_err(open_error(RING))?),
        read_end: Some(consumer.into_fd().map_err(open_error(RING))?),
        ..OpenChannel::default()
    })
}

/// A connection of two channels, one in each direction.
fn over_two(
    out: OpenChannel,
    back: OpenChannel,
    capacity: String,
) -> Result<Connection, TrialError> {
    let ends = |input: Option<OwnedFd>, output| {
        let input = input.context("a channel with one end")?;
        anyhow::Ok(Ends { input, output })
    };
    Ok(Connection {
        sender: ends(back.read_end, out.write_end)?,
        echo: ends(out.read_end, back.write_end)?,
        capacity,
    })
}

/// A connection of one channel that carries messages in both directions.
fn over_one(channel: OpenChannel, capacity: String) -> Result<Connection, TrialError> {
    let half = |end| OpenChannel {
        read_end: end,
        ..OpenChannel::default()
    };
    over_two(half(channel.read_end), half(channel.write_end), capacity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;
    use fastpipe::pipe;
    use pipespeed_base::Named;

    #[test]
    fn an_eventfd_carries_one_number() {
        let error = open(Transport::Eventfd, 9, None).unwrap_err();
        let TrialError::NotRun(not_run) = error else {
            panic!("{error}")
        };
        assert_eq!(not_run.kind, NotRunKind::Limit);
        assert!(not_run.reason.contains("8 bytes"), "{not_run}");
        assert!(open(Transport::Eventfd, 8, None).is_ok());
    }

    #[test]
    fn pipes_get_the_size_asked_for_and_rings_room_for_two_messages() {
        for kind in Transport::VALUES
            .iter()
            .copied()
            .filter(|kind| kind.is_pipe())
        {
            let connection = open(kind, 8, Some(16 << 10)).unwrap();
            assert_eq!(connection.capacity, "each pipe holds 16KiB");
            assert_eq!(pipe::capacity(&connection.sender.input).unwrap(), 16 << 10);
            assert_eq!(pipe::capacity(&connection.echo.input).unwrap(), 16 << 10);
        }
        let connection = open(Transport::Ring, 100_000, None).unwrap();
        assert_eq!(connection.capacity, "each ring holds 256KiB");
    }
}
