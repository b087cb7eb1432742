//! The channels that can be measured, and the system calls of their ends.

use serde::{Deserialize, Serialize};

use super::names::words;
use super::pages::Reuse;
use pipespeed_base::{Named, named};

/// A channel by its name in options and records: what connects the two ends, and which
/// calls they make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// write(2) and read(2).
    Pipe,
    /// vmsplice(2), pages written again.
    Vmsplice,
    /// vmsplice(2), pages never written again; for throughput only.
    VmspliceFresh,
    /// A ring, data made and used in place.
    Ring,
    /// A ring, data copied.
    RingCopy,
    /// mkfifo(3).
    Fifo,
    /// socketpair(2), a stream.
    Socketpair,
    /// socketpair(2), messages in order.
    Seqpacket,
    /// socketpair(2), datagrams.
    Datagram,
    /// A unix socket bound to a name.
    Unix,
    /// TCP.
    Tcp,
    /// mq_overview(7).
    Mqueue,
    /// A pipe by io_uring.
    Uring,
    /// eventfd(2): a counter, no data; for round trips only.
    Eventfd,
}

named!(Transport {
    Pipe = "pipe": "pipe, write and read",
    Vmsplice = "vmsplice": "pipe, vmsplice and read; memory written again once it left the pipe",
    VmspliceFresh = "vmsplice_fresh": "pipe, vmsplice and read; memory never written again",
    Ring = "ring": "ring in shared memory, data made and used in place",
    RingCopy = "ring_copy": "ring in shared memory, data copied in and out",
    Fifo = "fifo": "FIFO, write and read",
    Socketpair = "socketpair": "unix socket pair, stream",
    Seqpacket = "seqpacket": "unix socket pair, messages in order (SOCK_SEQPACKET)",
    Datagram = "datagram": "unix socket pair, datagrams",
    Unix = "unix": "unix socket bound to a name, stream",
    Tcp = "tcp": "TCP over loopback, TCP_NODELAY",
    Mqueue = "mqueue": "POSIX message queue",
    Uring = "uring": "pipe, write and read by io_uring, one at a time",
    Eventfd = "eventfd": "eventfd: a counter, 8 bytes",
});

impl Transport {
    /// Channels whose throughput can be measured.
    pub fn with_data() -> Vec<Transport> {
        all_but(Transport::Eventfd)
    }

    /// Channels whose round trips can be measured. One-way channels are used in pairs.
    pub fn with_round_trips() -> Vec<Transport> {
        all_but(Transport::VmspliceFresh)
    }

    /// What connects the ends, and what each of them calls.
    pub(crate) fn parts(self) -> (ChannelKind, SinkTechnique, SourceTechnique) {
        use ChannelKind as Kind;
        use SinkTechnique as To;
        use SourceTechnique as From;
        match self {
            Transport::Pipe => (Kind::Pipe, To::Write, From::Read),
            Transport::Vmsplice | Transport::VmspliceFresh => {
                (Kind::Pipe, To::Vmsplice, From::Read)
            }
            Transport::Ring => (Kind::Ring, To::RingLend, From::RingPeek),
            Transport::RingCopy => (Kind::Ring, To::RingWrite, From::RingRead),
            Transport::Fifo => (Kind::Fifo, To::Write, From::Read),
            Transport::Socketpair => (Kind::SocketPair, To::Send, From::Recv),
            Transport::Seqpacket => (Kind::SeqPacket, To::Send, From::Recv),
            Transport::Datagram => (Kind::Datagram, To::Send, From::Recv),
            Transport::Unix => (Kind::Unix, To::Send, From::Recv),
            Transport::Tcp => (Kind::Tcp, To::Send, From::Recv),
            Transport::Mqueue => (Kind::MessageQueue, To::QueueSend, From::QueueReceive),
            Transport::Uring => (Kind::Pipe, To::UringWrite, From::UringRead),
            Transport::Eventfd => (Kind::Eventfd, To::Write, From::Read),
        }
    }

    /// When vmspliced pages may be written again.
    pub(crate) fn reuse(self) -> Reuse {
        if self == Transport::VmspliceFresh {
            Reuse::Fresh
        } else {
            Reuse::Drained
        }
    }

    /// Channels whose calls move bytes by copying them, so that one call may receive less
    /// than a message. The others deliver complete messages or refer to memory.
    pub fn with_short_reads() -> Vec<Transport> {
        let all = Transport::VALUES.iter().copied();
        all.filter(|transport| match transport {
            Transport::Pipe
            | Transport::Fifo
            | Transport::Socketpair
            | Transport::Unix
            | Transport::Tcp => true,
            Transport::Vmsplice
            | Transport::VmspliceFresh
            | Transport::Ring
            | Transport::RingCopy
            | Transport::Seqpacket
            | Transport::Datagram
            | Transport::Mqueue
            | Transport::Uring
            | Transport::Eventfd => false,
        })
        .collect()
    }

    /// Whether it is a pipe or FIFO, whose capacity can be set.
    pub fn is_pipe(self) -> bool {
        matches!(self.parts().0, ChannelKind::Pipe | ChannelKind::Fifo)
    }

    /// Whether a message is still read from the sender's memory after the send call has
    /// returned.
    pub(crate) fn refers_to_memory(self) -> bool {
        self == Transport::Vmsplice
    }
}

fn all_but(excluded: Transport) -> Vec<Transport> {
    let others = Transport::VALUES.iter().filter(|kind| **kind != excluded);
    others.copied().collect()
}

/// What connects the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelKind {
    /// pipe(2).
    #[default]
    Pipe,
    /// A pipe with a name: mkfifo(3).
    Fifo,
    /// socketpair(2), a stream.
    SocketPair,
    /// socketpair(2), messages in order.
    SeqPacket,
    /// socketpair(2), datagrams.
    Datagram,
    /// A unix socket bound to a name, a stream.
    Unix,
    /// A connection over the loopback device.
    Tcp,
    /// A POSIX message queue: mq_overview(7).
    MessageQueue,
    /// `fastpipe::ring`: memory that both ends have mapped.
    Ring,
    /// eventfd(2): a counter, no data.
    Eventfd,
}

words!(ChannelKind {
    Pipe = "pipe",
    Fifo = "fifo",
    SocketPair = "socketpair",
    SeqPacket = "seqpacket",
    Datagram = "datagram",
    Unix = "unix",
    Tcp = "tcp",
    MessageQueue = "message queue",
    Ring = "ring",
    Eventfd = "eventfd",
});

impl ChannelKind {
    /// Whether message boundaries are kept; else messages merge into a stream.
    pub fn keeps_messages(self) -> bool {
        matches!(
            self,
            ChannelKind::SeqPacket | ChannelKind::Datagram | ChannelKind::MessageQueue
        )
    }
}

/// How the writer hands data to the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkTechnique {
    /// write(2).
    Write,
    /// vmsplice(2).
    Vmsplice,
    /// fastpipe's `Writer`, with the data produced in the memory that it lends.
    Fastpipe(Policy),
    /// fastpipe's `Writer` as an `io::Write`, which copies the data.
    FastpipeIo,
    /// The standard library's `BufWriter` on standard output.
    BufWriter,
    /// send(2).
    Send,
    /// mq_send(3).
    QueueSend,
    /// write by io_uring.
    UringWrite,
    /// The message is produced in a ring in shared memory.
    RingLend,
    /// The message is copied into a ring.
    RingWrite,
}

words!(SinkTechnique {
    Write = "write",
    Vmsplice = "vmsplice",
    Fastpipe(Policy::Auto) = "fastpipe, auto",
    Fastpipe(Policy::Fresh) = "fastpipe, fresh",
    Fastpipe(Policy::Drained) = "fastpipe, drained",
    Fastpipe(Policy::CowChecked) = "fastpipe, cow_checked",
    FastpipeIo = "fastpipe as io::Write, auto",
    BufWriter = "BufWriter",
    Send = "send",
    QueueSend = "mq_send",
    UringWrite = "io_uring write",
    RingLend = "lend, commit",
    RingWrite = "write to a ring",
});

/// How a `Writer` sends pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// By the fastest safe method, found while sending.
    Auto,
    /// Pages are never written again.
    Fresh,
    /// Pages are written again once they have left the pipe.
    Drained,
    /// Pages are written again once the kernel has checked that nothing else refers to
    /// them.
    CowChecked,
}

words!(Policy {
    Auto = "auto",
    Fresh = "fresh",
    Drained = "drained",
    CowChecked = "cow_checked",
});

/// How the reader takes data from the channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceTechnique {
    /// read(2).
    Read,
    /// splice(2) to /dev/null.
    Splice,
    /// splice(2) into a second pipe, and read(2) from that.
    SpliceThrough,
    /// recv(2).
    Recv,
    /// mq_receive(3).
    QueueReceive,
    /// read by io_uring.
    UringRead,
    /// The data is used in a ring in shared memory.
    RingPeek,
    /// The data is copied out of a ring.
    RingRead,
}

words!(SourceTechnique {
    Read = "read",
    Splice = "splice",
    SpliceThrough = "splice, read",
    Recv = "recv",
    QueueReceive = "mq_receive",
    UringRead = "io_uring read",
    RingPeek = "peek, release",
    RingRead = "read from a ring",
});

impl SourceTechnique {
    /// Whether it uses splice(2).
    pub fn splices(self) -> bool {
        matches!(
            self,
            SourceTechnique::Splice | SourceTechnique::SpliceThrough
        )
    }
}
