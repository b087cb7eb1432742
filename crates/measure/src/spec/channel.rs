//! The channels that can be measured, and what their ends do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::pages::PageReuse;
use pipespeed_base::{Named, named};

/// What connects two processes, and how they use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// pipe(2), with system calls of the ends' choice.
    Pipe(PipeWriter, PipeReader),
    /// A pipe by io_uring.
    Uring,
    /// mkfifo(3).
    Fifo,
    /// socketpair(2), a stream.
    Socketpair,
    /// socketpair(2), messages in order.
    Seqpacket,
    /// socketpair(2), datagrams.
    Datagram,
    /// A unix socket bound to a name, a stream.
    Unix,
    /// A connection over the loopback device.
    Tcp,
    /// mq_overview(7).
    Mqueue,
    /// `fastpipe::ring`, memory that both ends have mapped: data made and used in place.
    Ring,
    /// The same, data copied.
    RingCopy,
    /// eventfd(2): a counter, no data; for round trips only.
    Eventfd,
}

/// How the writer hands data to a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeWriter {
    /// write(2).
    Write,
    /// vmsplice(2).
    Vmsplice(PageReuse),
    /// fastpipe's `Writer`, with the data produced in the memory that it lends.
    Fastpipe(PageReuse),
    /// fastpipe's `Writer` as an `io::Write`, which copies the data.
    FastpipeIo,
    /// The standard library's `BufWriter` on standard output.
    BufWriter,
}

impl PipeWriter {
    /// The word used in messages and records.
    pub fn name(self) -> &'static str {
        match self {
            PipeWriter::Write => "write",
            PipeWriter::Vmsplice(_) => "vmsplice",
            PipeWriter::Fastpipe(PageReuse::Auto) => "fastpipe, auto",
            PipeWriter::Fastpipe(PageReuse::AutoClone) => "fastpipe, auto_clone",
            PipeWriter::Fastpipe(PageReuse::Fresh) => "fastpipe, fresh",
            PipeWriter::Fastpipe(PageReuse::Drained) => "fastpipe, drained",
            PipeWriter::Fastpipe(PageReuse::CowChecked) => "fastpipe, cow_checked",
            PipeWriter::FastpipeIo => "fastpipe as io::Write, auto",
            PipeWriter::BufWriter => "BufWriter",
        }
    }

    /// Whether it calls vmsplice(2) itself.
    pub fn vmsplices(self) -> bool {
        matches!(self, PipeWriter::Vmsplice(_))
    }

    /// Whether it is a library's.
    pub fn is_library(self) -> bool {
        !matches!(self, PipeWriter::Write | PipeWriter::Vmsplice(_))
    }
}

named! {
    /// How the reader takes data from a pipe.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PipeReader {
        /// read(2).
        Read = "read",
        /// splice(2) to /dev/null.
        Splice = "splice",
        /// splice(2) into a second pipe, and read(2) from that.
        SpliceThrough = "splice, read",
    }
}

impl PipeReader {
    /// Whether it uses splice(2).
    pub fn splices(self) -> bool {
        self != PipeReader::Read
    }
}

impl Channel {
    /// A pipe, by write(2) and read(2).
    pub const PIPE: Channel = Channel::Pipe(PipeWriter::Write, PipeReader::Read);
    /// A pipe, by vmsplice(2) of pages that are written again once they have left it.
    pub const VMSPLICE: Channel =
        Channel::Pipe(PipeWriter::Vmsplice(PageReuse::Drained), PipeReader::Read);
    /// The same, pages never written again; for throughput only.
    pub const VMSPLICE_FRESH: Channel =
        Channel::Pipe(PipeWriter::Vmsplice(PageReuse::Fresh), PipeReader::Read);

    /// Channels whose throughput can be measured.
    pub fn with_data() -> Vec<Channel> {
        Channel::matching(|channel| channel != Channel::Eventfd)
    }

    /// Channels whose round trips can be measured. One-way channels are used in pairs.
    pub fn with_round_trips() -> Vec<Channel> {
        Channel::matching(|channel| channel != Channel::VMSPLICE_FRESH)
    }

    /// Channels whose calls move bytes by copying them, so that one call may receive less
    /// than a message. The others deliver complete messages or refer to memory.
    pub fn with_short_reads() -> Vec<Channel> {
        Channel::matching(|channel| {
            let streams = [Channel::PIPE, Channel::Fifo, Channel::Socketpair];
            streams.contains(&channel) || matches!(channel, Channel::Unix | Channel::Tcp)
        })
    }

    fn matching(predicate: impl Fn(Channel) -> bool) -> Vec<Channel> {
        let all = Channel::values();
        all.filter(|channel| predicate(*channel)).collect()
    }

    /// What the ends do, if they make the system calls of pipes.
    pub fn pipe_ends(self) -> Option<(PipeWriter, PipeReader)> {
        match self {
            Channel::Pipe(writer, reader) => Some((writer, reader)),
            Channel::Fifo => Some((PipeWriter::Write, PipeReader::Read)),
            _ => None,
        }
    }

    /// What the writer does with a pipe.
    pub fn pipe_writer(self) -> Option<PipeWriter> {
        self.pipe_ends().map(|(writer, _)| writer)
    }

    /// What the reader does with a pipe.
    pub fn pipe_reader(self) -> Option<PipeReader> {
        self.pipe_ends().map(|(_, reader)| reader)
    }

    /// When pages are written again, if the writer calls vmsplice(2) itself.
    pub(crate) fn own_reuse(self) -> Option<PageReuse> {
        match self {
            Channel::Pipe(PipeWriter::Vmsplice(reuse), _) => Some(reuse),
            _ => None,
        }
    }

    /// Whether it is a pipe or FIFO, whose capacity can be set.
    pub fn is_pipe(self) -> bool {
        matches!(self, Channel::Pipe(..) | Channel::Uring | Channel::Fifo)
    }

    /// Whether it is a ring in shared memory.
    pub fn is_ring(self) -> bool {
        matches!(self, Channel::Ring | Channel::RingCopy)
    }

    /// Whether one channel carries messages in both directions.
    pub(crate) fn is_duplex(self) -> bool {
        matches!(
            self,
            Channel::Socketpair
                | Channel::Seqpacket
                | Channel::Datagram
                | Channel::Unix
                | Channel::Tcp
        )
    }

    /// Whether message boundaries are kept; else messages merge into a stream.
    pub(crate) fn keeps_messages(self) -> bool {
        matches!(
            self,
            Channel::Seqpacket | Channel::Datagram | Channel::Mqueue
        )
    }

    /// Whether a message is still read from the sender's memory after the send call has
    /// returned.
    pub(crate) fn refers_to_memory(self) -> bool {
        self.own_reuse().is_some()
    }

    /// All channels: those with names, and pipes with other ends.
    pub(crate) fn all() -> impl Iterator<Item = Channel> {
        use PageReuse::{Auto, AutoClone, CowChecked, Drained, Fresh};
        use PipeReader::{Read, Splice, SpliceThrough};
        use PipeWriter::{BufWriter, Fastpipe, FastpipeIo, Vmsplice, Write};
        let own = [Write, Vmsplice(Drained), Vmsplice(Fresh)];
        let library = [Auto, AutoClone, Fresh, Drained, CowChecked].map(Fastpipe);
        let writers = own
            .into_iter()
            .chain(library)
            .chain([FastpipeIo, BufWriter]);
        let pipes = writers.flat_map(|writer| {
            [Read, Splice, SpliceThrough].map(|reader| Channel::Pipe(writer, reader))
        });
        pipes.chain(Channel::values())
    }

    /// The name in options; what it is; and, in the words of records, what connects the
    /// ends, what the writer calls and what the reader calls.
    #[rustfmt::skip]
    fn row(self) -> (&'static str, &'static str, [&'static str; 3]) {
        match self {
            Channel::VMSPLICE => ("vmsplice", "pipe, vmsplice and read; memory written again once it left the pipe", ["pipe", "vmsplice", "read"]),
            Channel::VMSPLICE_FRESH => ("vmsplice_fresh", "pipe, vmsplice and read; memory never written again", ["pipe", "vmsplice", "read"]),
            Channel::Pipe(writer, reader) => ("pipe", "pipe, write and read", ["pipe", writer.name(), reader.name()]),
            Channel::Uring => ("uring", "pipe, write and read by io_uring, one at a time", ["pipe", "io_uring write", "io_uring read"]),
            Channel::Fifo => ("fifo", "FIFO, write and read", ["fifo", "write", "read"]),
            Channel::Socketpair => ("socketpair", "unix socket pair, stream", ["socketpair", "send", "recv"]),
            Channel::Seqpacket => ("seqpacket", "unix socket pair, messages in order (SOCK_SEQPACKET)", ["seqpacket", "send", "recv"]),
            Channel::Datagram => ("datagram", "unix socket pair, datagrams", ["datagram", "send", "recv"]),
            Channel::Unix => ("unix", "unix socket bound to a name, stream", ["unix", "send", "recv"]),
            Channel::Tcp => ("tcp", "TCP over loopback, TCP_NODELAY", ["tcp", "send", "recv"]),
            Channel::Mqueue => ("mqueue", "POSIX message queue", ["message queue", "mq_send", "mq_receive"]),
            Channel::Ring => ("ring", "ring in shared memory, data made and used in place", ["ring", "lend, commit", "peek, release"]),
            Channel::RingCopy => ("ring_copy", "ring in shared memory, data copied in and out", ["ring", "write to a ring", "read from a ring"]),
            Channel::Eventfd => ("eventfd", "eventfd: a counter, 8 bytes", ["eventfd", "write", "read"]),
        }
    }

    /// The name in options and in the record of round trips.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The words of records: what connects the ends, what the writer calls and what the
    /// reader calls.
    pub fn words(self) -> [&'static str; 3] {
        self.row().2
    }
}

impl Named for Channel {
    #[rustfmt::skip]
    const VALUES: &'static [Self] = &[
        Channel::PIPE, Channel::VMSPLICE, Channel::VMSPLICE_FRESH, Channel::Ring, Channel::RingCopy,
        Channel::Fifo, Channel::Socketpair, Channel::Seqpacket, Channel::Datagram, Channel::Unix,
        Channel::Tcp, Channel::Mqueue, Channel::Uring, Channel::Eventfd,
    ];

    fn name(self) -> &'static str {
        self.row().0
    }

    fn about(self) -> &'static str {
        self.row().1
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Channel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Channel::values().find(|channel| channel.name() == name);
        found.ok_or_else(|| format!("unknown value `{name}`"))
    }
}

/// The sizes of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelSizes {
    /// Bytes of a message.
    pub message_bytes: usize,
    /// The capacity of a pipe; `None` for the default.
    pub pipe_bytes: Option<usize>,
    /// The capacity of a ring.
    pub ring_bytes: usize,
}

impl ChannelSizes {
    /// The sizes for throughput, and for round trips. A ring has room for two messages, so
    /// that one can be produced while the other is used, and at least 1 MiB; for round
    /// trips, the capacity of a pipe by default.
    pub fn for_throughput(message_bytes: usize, pipe_bytes: Option<usize>) -> Self {
        ChannelSizes {
            message_bytes,
            pipe_bytes,
            ring_bytes: (2 * message_bytes).max(1 << 20),
        }
    }

    /// See [`for_throughput`](Self::for_throughput).
    pub fn for_round_trips(message_bytes: usize, pipe_bytes: Option<usize>) -> Self {
        ChannelSizes {
            ring_bytes: (2 * message_bytes).max(64 << 10),
            ..Self::for_throughput(message_bytes, pipe_bytes)
        }
    }
}
