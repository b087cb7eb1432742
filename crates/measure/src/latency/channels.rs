//! Ways there and back between two processes.

use std::os::fd::OwnedFd;

use anyhow::anyhow;
use fastpipe::ring;
use serde::{Deserialize, Serialize};

use crate::channel::ring::within_file_limit;
use crate::channel::{Channel, OpenError, cant, eventfd, open_kind, unix};
use crate::endpoint::spec::ChannelKind;
use pipespeed_base::size;

pub use crate::channel::eventfd::BYTES as EVENTFD_BYTES;

/// What messages go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Two pipes.
    Pipe,
    /// Two pipes, by vmsplice(2): they refer to the sender's memory.
    Vmsplice,
    /// Two pipes, by io_uring.
    Uring,
    /// Two FIFOs.
    Fifo,
    /// A unix socket pair, stream.
    Socketpair,
    /// A unix socket pair, messages in order (SOCK_SEQPACKET).
    Seqpacket,
    /// A unix socket pair, datagrams.
    Datagram,
    /// A unix socket bound to a name, stream.
    Unix,
    /// TCP over loopback, TCP_NODELAY.
    Tcp,
    /// The same with MSG_ZEROCOPY.
    TcpZerocopy,
    /// Two POSIX message queues.
    Mqueue,
    /// The receiver copies from the sender's memory (process_vm_readv).
    VmReadv,
    /// Two rings in shared memory, used in place.
    Ring,
    /// Two rings in shared memory, by copying in and out.
    RingCopy,
    /// Two eventfds: a counter each, no data (8 bytes).
    Eventfd,
}

pipespeed_base::named!(Kind {
    Pipe = "pipe": "two pipes",
    Vmsplice = "vmsplice": "two pipes, by vmsplice(2)",
    Uring = "uring": "two pipes, by io_uring",
    Fifo = "fifo": "two FIFOs",
    Socketpair = "socketpair": "a unix socket pair, stream",
    Seqpacket = "seqpacket": "a unix socket pair, SOCK_SEQPACKET",
    Datagram = "datagram": "a unix socket pair, datagrams",
    Unix = "unix": "a unix socket bound to a name, stream",
    Tcp = "tcp": "TCP over loopback, TCP_NODELAY",
    TcpZerocopy = "tcp_zerocopy": "the same with MSG_ZEROCOPY",
    Mqueue = "mqueue": "two POSIX message queues",
    VmReadv = "vm_readv": "the receiver copies by process_vm_readv",
    Ring = "ring": "two rings in shared memory, used in place",
    RingCopy = "ring_copy": "two rings in shared memory, copying",
    Eventfd = "eventfd": "two eventfds: a counter each, 8 bytes",
});

/// The largest message, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// The least capacity of a ring, in bytes: that of a pipe by default.
const MIN_RING_BYTES: usize = 64 << 10;

impl Kind {
    /// Those of a run that names none.
    pub const USUAL: [Kind; 5] = [
        Kind::Pipe,
        Kind::Socketpair,
        Kind::Tcp,
        Kind::Ring,
        Kind::Eventfd,
    ];

    /// Whether it goes through pipes, whose size can be set.
    pub fn is_of_pipes(self) -> bool {
        matches!(self, Kind::Pipe | Kind::Vmsplice | Kind::Uring | Kind::Fifo)
    }

    /// Whether a message that was sent is still taken from the sender's memory.
    pub(super) fn refers_to_memory(self) -> bool {
        matches!(self, Kind::Vmsplice | Kind::TcpZerocopy | Kind::VmReadv)
    }
}

/// A way there and back that nobody uses yet. Whatever name it had is gone
/// already.
#[derive(Debug)]
pub struct Way {
    /// The sender's end.
    pub sender: Ends,
    /// The echo's end.
    pub echo: Ends,
    /// What one direction holds, in words.
    pub holds: String,
}

/// What one process reads from and writes to: two descriptors, or one for
/// both.
#[derive(Debug)]
pub struct Ends {
    /// What it reads from.
    pub input: OwnedFd,
    /// What it writes to, unless it is the same.
    pub output: Option<OwnedFd>,
}

/// Opens a way for messages of this size; with pipes of `pipe_bytes`, where it
/// has any.
///
/// # Errors
/// [`OpenError`]: refused where it can't carry such messages.
pub fn open(kind: Kind, size: usize, pipe_bytes: Option<usize>) -> Result<Way, OpenError> {
    let channel = match kind {
        Kind::Pipe | Kind::Vmsplice | Kind::Uring => ChannelKind::Pipe,
        Kind::Fifo => ChannelKind::Fifo,
        Kind::Socketpair => ChannelKind::SocketPair,
        Kind::Seqpacket => ChannelKind::SeqPacket,
        Kind::Datagram => ChannelKind::Datagram,
        Kind::Unix => ChannelKind::Unix,
        Kind::Tcp | Kind::TcpZerocopy => ChannelKind::Tcp,
        Kind::Mqueue => ChannelKind::MessageQueue,
        // Where messages lie goes over the socket; they don't.
        Kind::VmReadv => {
            let socket = unix::open_pair(ChannelKind::SeqPacket, 8)?;
            return both_ways(socket, "the socket holds addresses only".to_owned());
        }
        Kind::Ring | Kind::RingCopy => {
            // Room for two messages, so that one can be made while the other is
            // still looked at.
            let bytes = MIN_RING_BYTES.max(2 * size);
            within_file_limit(size, bytes)?;
            let holds = size::format(bytes.next_power_of_two() as u64);
            let holds = format!("each ring holds {holds}");
            return one_way_each(ring(bytes)?, ring(bytes)?, holds);
        }
        Kind::Eventfd => {
            let holds = "an eventfd counts to 2^64 - 2".to_owned();
            return one_way_each(eventfd::open(size)?, eventfd::open(size)?, holds);
        }
    };
    let one = open_kind(channel, size, pipe_bytes)?;
    let bytes = |granted: Option<usize>| size::format(granted.unwrap_or(0) as u64);
    if one.granted.send_buffer_bytes.is_some() {
        let holds = format!(
            "a socket's send buffer is {} (SO_SNDBUF, bookkeeping included), its receive buffer {}",
            bytes(one.granted.send_buffer_bytes),
            bytes(one.granted.receive_buffer_bytes)
        );
        return both_ways(one, holds);
    }
    let holds = match one.granted.queue_messages {
        Some(messages) => format!("a queue holds {messages} messages"),
        None => format!("each pipe holds {}", bytes(one.granted.pipe_bytes)),
    };
    one_way_each(one, open_kind(channel, size, pipe_bytes)?, holds)
}

fn ring(bytes: usize) -> Result<Channel, OpenError> {
    let cant = || cant("a ring in shared memory");
    let (producer, consumer) = ring::pair(bytes).map_err(cant())?;
    Ok(Channel {
        write_end: Some(producer.into_fd().map_err(cant())?),
        read_end: Some(consumer.into_fd().map_err(cant())?),
        ..Channel::default()
    })
}

/// A way of two channels, each of which goes one way.
fn one_way_each(there: Channel, back: Channel, holds: String) -> Result<Way, OpenError> {
    let ends = |input: Option<OwnedFd>, output| {
        let input = input.ok_or_else(|| OpenError::Failed(anyhow!("a channel with one end")))?;
        Ok::<_, OpenError>(Ends { input, output })
    };
    Ok(Way {
        sender: ends(back.read_end, there.write_end)?,
        echo: ends(there.read_end, back.write_end)?,
        holds,
    })
}

/// A way of one channel that goes both ways.
fn both_ways(channel: Channel, holds: String) -> Result<Way, OpenError> {
    let there = Channel {
        read_end: channel.read_end,
        ..Channel::default()
    };
    let back = Channel {
        read_end: channel.write_end,
        ..Channel::default()
    };
    one_way_each(there, back, holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;
    use fastpipe::pipe;
    use pipespeed_base::Named;

    #[test]
    fn an_eventfd_carries_one_number() {
        let error = open(Kind::Eventfd, 9, None).unwrap_err();
        let OpenError::NotRun(not_run) = error else {
            panic!("{error}")
        };
        assert_eq!(not_run.kind, NotRunKind::Limit);
        assert!(not_run.reason.contains("8 bytes"), "{not_run}");
        assert!(open(Kind::Eventfd, 8, None).is_ok());
    }

    #[test]
    fn pipes_get_the_size_asked_for_and_rings_room_for_two_messages() {
        for kind in Kind::VALUES
            .iter()
            .copied()
            .filter(|kind| kind.is_of_pipes())
        {
            let way = open(kind, 8, Some(16 << 10)).unwrap();
            assert_eq!(way.holds, "each pipe holds 16KiB");
            assert_eq!(pipe::capacity(&way.sender.input).unwrap(), 16 << 10);
            assert_eq!(pipe::capacity(&way.echo.input).unwrap(), 16 << 10);
        }
        let way = open(Kind::Ring, 100_000, None).unwrap();
        assert_eq!(way.holds, "each ring holds 256KiB");
    }
}
