//! Connections between two processes that carry messages in both directions.

use std::os::fd::OwnedFd;

use crate::channel;
use crate::failure::TrialError;
use crate::record::Granted;
use crate::spec::{Channel, ChannelSizes};
use fastpipe::pipe::page_size;
use pipespeed_base::size;

pub use crate::channel::eventfd::BYTES as EVENTFD_BYTES;

/// The largest message, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// The channels that are measured by default.
pub const USUAL: [Channel; 5] = [
    Channel::PIPE,
    Channel::Socketpair,
    Channel::Tcp,
    Channel::Ring,
    Channel::Eventfd,
];

/// A new connection in both directions. If it had a name, the name has been removed.
#[derive(Debug)]
pub struct Connection {
    /// The sender's descriptors: what it reads from and what it writes to, or one for both.
    pub sender: Vec<OwnedFd>,
    /// The echo's.
    pub echo: Vec<OwnedFd>,
    /// The capacity of one direction, in words.
    pub capacity: String,
}

/// Opens a connection for messages of this size. Pipes get a capacity of
/// `pipe_bytes`.
///
/// # Errors
/// [`TrialError::NotRun`] if the channel can't carry such messages.
pub fn open(
    channel: Channel,
    size: usize,
    pipe_bytes: Option<usize>,
) -> Result<Connection, TrialError> {
    let sizes = ChannelSizes::for_round_trips(size, pipe_bytes);
    let out = channel::open(channel, sizes)?;
    let capacity = describe_capacity(channel, sizes, &out.granted);
    let (sender, echo) = if channel.is_duplex() {
        (vec![out.write_end], vec![out.read_end])
    } else {
        let back = channel::open(channel, sizes)?;
        (
            vec![back.read_end, out.write_end],
            vec![out.read_end, back.write_end],
        )
    };
    Ok(Connection {
        sender,
        echo,
        capacity,
    })
}

/// The capacity of one direction, in words.
fn describe_capacity(channel: Channel, sizes: ChannelSizes, granted: &Granted) -> String {
    let bytes = |granted: Option<usize>| size::format(granted.unwrap_or(0) as u64);
    match channel {
        Channel::Eventfd => "an eventfd counts to 2^64 - 2".to_owned(),
        Channel::Mqueue => {
            let messages = granted.queue_messages.unwrap_or(0);
            format!("a queue holds {messages} messages")
        }
        _ if channel.is_duplex() => format!(
            "a socket's send buffer is {} (SO_SNDBUF, bookkeeping included), its receive buffer {}",
            bytes(granted.send_buffer_bytes),
            bytes(granted.receive_buffer_bytes)
        ),
        _ if channel.is_ring() => {
            let capacity = Some(sizes.ring_bytes.next_multiple_of(page_size()));
            format!("each ring holds {}", bytes(capacity))
        }
        _ => format!("each pipe holds {}", bytes(granted.pipe_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;
    use fastpipe::pipe;
    use pipespeed_base::Named;

    #[test]
    fn an_eventfd_carries_one_number() {
        let error = open(Channel::Eventfd, 9, None).unwrap_err();
        let TrialError::NotRun(not_run) = error else {
            panic!("{error}")
        };
        assert_eq!(not_run.kind, NotRunKind::Limit);
        assert!(not_run.reason.contains("8 bytes"), "{not_run}");
        assert!(open(Channel::Eventfd, 8, None).is_ok());
    }

    #[test]
    fn pipes_get_the_size_asked_for_and_rings_room_for_two_messages() {
        for kind in Channel::VALUES
            .iter()
            .copied()
            .filter(|kind| kind.is_pipe())
        {
            let connection = open(kind, 8, Some(16 << 10)).unwrap();
            assert_eq!(connection.capacity, "each pipe holds 16KiB");
            assert_eq!(pipe::capacity(&connection.sender[0]).unwrap(), 16 << 10);
            assert_eq!(pipe::capacity(&connection.echo[0]).unwrap(), 16 << 10);
        }
        let connection = open(Channel::Ring, 100_000, None).unwrap();
        assert_eq!(connection.capacity, "each ring holds 196KiB");
    }
}
