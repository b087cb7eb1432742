//! Ways there and back between two processes.

use std::os::fd::OwnedFd;

use fastpipe::{pipe, ring};
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::channel::ring::within_file_limit;
use crate::channel::{Channel, OpenError, cant, fifo, mqueue, over_limit, tcp, unix};
use crate::endpoint::spec::ChannelKind;
use crate::record::NotRun;
use pipespeed_base::size;

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

/// Bytes of an eventfd's value (eventfd(2)).
pub const EVENTFD_BYTES: usize = 8;

/// The largest message, in bytes.
pub const MAX_BYTES: usize = 16 << 20;

/// What a ring holds at least: as much as a pipe does by default.
const RING_BYTES: usize = 64 << 10;

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
    match kind {
        Kind::Pipe | Kind::Vmsplice | Kind::Uring => {
            let pipe = || pipe::create().map_err(cant("a pipe"));
            of_pipes(pipe()?, pipe()?, pipe_bytes)
        }
        Kind::Fifo => {
            let fifo = || fifo::open().map_err(cant("a FIFO"));
            of_pipes(fifo()?, fifo()?, pipe_bytes)
        }
        Kind::Socketpair => of_sockets(unix::open_pair(ChannelKind::SocketPair, size)?),
        Kind::Seqpacket => of_sockets(unix::open_pair(ChannelKind::SeqPacket, size)?),
        Kind::Datagram => of_sockets(unix::open_pair(ChannelKind::Datagram, size)?),
        Kind::Unix => of_sockets(unix::open_named()?),
        Kind::Tcp | Kind::TcpZerocopy => of_sockets(tcp::open()?),
        Kind::Mqueue => {
            let there = mqueue::open(size, false)?;
            let holds = there.granted.queue_messages.unwrap_or(0);
            let holds = format!("a queue holds {holds} messages");
            of_two(there, mqueue::open(size, false)?, holds)
        }
        // Where messages lie goes over the socket; they don't.
        Kind::VmReadv => Ok(Way {
            holds: "the socket holds addresses only".to_owned(),
            ..of_sockets(unix::open_pair(ChannelKind::SeqPacket, 8)?)?
        }),
        Kind::Ring | Kind::RingCopy => of_rings(size),
        Kind::Eventfd => of_eventfds(size),
    }
}

fn of_pipes(
    there: (OwnedFd, OwnedFd),
    back: (OwnedFd, OwnedFd),
    bytes: Option<usize>,
) -> Result<Way, OpenError> {
    if let Some(bytes) = bytes {
        for pipe in [&there, &back] {
            pipe::set_capacity(&pipe.1, bytes)
                .map_err(|error| NotRun::refused(error.to_string()))?;
        }
    }
    let capacity = pipe::capacity(&there.1).map_err(cant("a pipe"))?;
    Ok(Way {
        sender: Ends {
            input: back.0,
            output: Some(there.1),
        },
        echo: Ends {
            input: there.0,
            output: Some(back.1),
        },
        holds: format!("each pipe holds {}", size::format(capacity as u64)),
    })
}

/// Each has room for two messages, so that one can be made while the other is
/// still looked at.
fn of_rings(size: usize) -> Result<Way, OpenError> {
    let bytes = RING_BYTES.max(2 * size);
    within_file_limit(size, bytes)?;
    let ring = || -> Result<(OwnedFd, OwnedFd), OpenError> {
        let cant = || cant("a ring in shared memory");
        let (producer, consumer) = ring::pair(bytes).map_err(cant())?;
        let producer = producer.into_fd().map_err(cant())?;
        Ok((consumer.into_fd().map_err(cant())?, producer))
    };
    let (there, back) = (ring()?, ring()?);
    Ok(Way {
        sender: Ends {
            input: back.0,
            output: Some(there.1),
        },
        echo: Ends {
            input: there.0,
            output: Some(back.1),
        },
        holds: format!(
            "each ring holds {}",
            size::format(bytes.next_power_of_two() as u64)
        ),
    })
}

fn of_two(there: Channel, back: Channel, holds: String) -> Result<Way, OpenError> {
    let missing = || OpenError::Failed(anyhow::anyhow!("a channel with one end"));
    Ok(Way {
        sender: Ends {
            input: back.read_end.ok_or_else(missing)?,
            output: there.write_end,
        },
        echo: Ends {
            input: there.read_end.ok_or_else(missing)?,
            output: back.write_end,
        },
        holds,
    })
}

fn of_sockets(channel: Channel) -> Result<Way, OpenError> {
    let missing = || OpenError::Failed(anyhow::anyhow!("a channel with one end"));
    let bytes = |granted: Option<usize>| size::format(granted.unwrap_or(0) as u64);
    let holds = format!(
        "a socket's send buffer is {} (SO_SNDBUF, bookkeeping included), its receive buffer {}",
        bytes(channel.granted.send_buffer_bytes),
        bytes(channel.granted.receive_buffer_bytes)
    );
    let one = |end: Option<OwnedFd>| -> Result<Ends, OpenError> {
        Ok(Ends {
            input: end.ok_or_else(missing)?,
            output: None,
        })
    };
    Ok(Way {
        sender: one(channel.write_end)?,
        echo: one(channel.read_end)?,
        holds,
    })
}

/// As semaphores, so that each message is read by itself: otherwise one read
/// takes all that were written (eventfd(2)).
fn of_eventfds(size: usize) -> Result<Way, OpenError> {
    if size != EVENTFD_BYTES {
        return Err(over_limit(
            EVENTFD_BYTES,
            "and at least: an eventfd carries one 64-bit number, no data",
        ));
    }
    let make = || {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE);
        made.map_err(cant("an eventfd"))
    };
    let copy = |fd: &OwnedFd| fd.try_clone().map_err(cant("an eventfd"));
    let (there, back) = (make()?, make()?);
    Ok(Way {
        sender: Ends {
            input: copy(&back)?,
            output: Some(copy(&there)?),
        },
        echo: Ends {
            input: there,
            output: Some(back),
        },
        holds: "an eventfd counts to 2^64 - 2".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::NotRunKind;
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
