//! Channels compared: the same messages through each of them, every byte
//! produced by the writer and used by the reader.
//!
//! A message is what one call of the writer carries. Each channel is compared
//! with a plain pipe at the same size and in the same way of waiting. Buffers in
//! the kernel are as large as they are by default.

use std::fmt;

use super::Overrides;
use crate::case::Case;
use crate::endpoint::spec::{ChannelKind, Reuse, SinkTechnique, SourceTechnique};
use crate::record::{Configuration, DataUse};
use pipespeed_base::{Named, named, size};

/// Which channels and sizes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// These channels; the usual ones if empty.
    pub channels: Vec<Transport>,
    /// Sizes of messages in bytes; the usual ones if empty.
    pub sizes: Vec<usize>,
    /// All channels and sizes, where none are named.
    pub all: bool,
}

/// A channel as this suite compares them: what connects the two ends, and what
/// each of them calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// write(2) and read(2).
    Pipe,
    /// vmsplice(2), pages written again.
    Vmsplice,
    /// vmsplice(2), pages never written again.
    VmspliceFresh,
    /// A ring, data made and used in place.
    Ring,
    /// A ring, data copied.
    RingCopy,
    /// mkfifo(3).
    Fifo,
    /// socketpair(2), a stream.
    SocketPair,
    /// socketpair(2), messages in order.
    SeqPacket,
    /// socketpair(2), datagrams.
    Datagram,
    /// A unix socket bound to a name.
    Unix,
    /// TCP.
    Tcp,
    /// TCP with MSG_ZEROCOPY.
    TcpZerocopy,
    /// mq_overview(7).
    MessageQueue,
    /// process_vm_readv(2).
    VmReadv,
    /// A pipe by io_uring.
    Uring,
}

named!(Transport {
    Pipe = "pipe": "pipe, write and read",
    Vmsplice = "vmsplice": "pipe, vmsplice and read; memory written again once it left the pipe",
    VmspliceFresh = "vmsplice_fresh": "pipe, vmsplice and read; memory never written again",
    Ring = "ring": "ring in shared memory, data made and used in place",
    RingCopy = "ring_copy": "ring in shared memory, data copied in and out",
    Fifo = "fifo": "FIFO, write and read",
    SocketPair = "socketpair": "unix socket pair, stream",
    SeqPacket = "seqpacket": "unix socket pair, messages in order (SOCK_SEQPACKET)",
    Datagram = "datagram": "unix socket pair, datagrams",
    Unix = "unix": "unix socket bound to a name, stream",
    Tcp = "tcp": "TCP over loopback, TCP_NODELAY",
    TcpZerocopy = "tcp_zerocopy": "TCP over loopback, sent with MSG_ZEROCOPY",
    MessageQueue = "mqueue": "POSIX message queue",
    VmReadv = "vm_readv": "process_vm_readv from the writer's memory, told where over a socket pair",
    Uring = "uring": "pipe, write and read by io_uring, one at a time",
});

/// The channel that all others are compared with.
const REFERENCE: Transport = Transport::Pipe;

impl Transport {
    /// What connects the ends, and what each of them calls.
    fn parts(self) -> (ChannelKind, SinkTechnique, SourceTechnique) {
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
            Transport::SocketPair => (Kind::SocketPair, To::Send, From::Recv),
            Transport::SeqPacket => (Kind::SeqPacket, To::Send, From::Recv),
            Transport::Datagram => (Kind::Datagram, To::Send, From::Recv),
            Transport::Unix => (Kind::Unix, To::Send, From::Recv),
            Transport::Tcp => (Kind::Tcp, To::Send, From::Recv),
            Transport::TcpZerocopy => (Kind::Tcp, To::SendZerocopy, From::Recv),
            Transport::MessageQueue => (Kind::MessageQueue, To::QueueSend, From::QueueReceive),
            Transport::VmReadv => (Kind::Memory, To::Offer, From::Fetch),
            Transport::Uring => (Kind::Pipe, To::UringWrite, From::UringRead),
        }
    }

    /// When vmspliced pages may be written again.
    fn reuse(self) -> Reuse {
        if self == Transport::VmspliceFresh {
            Reuse::Fresh
        } else {
            Reuse::Drained
        }
    }

    /// Whether it belongs to the default run.
    fn is_usual(self) -> bool {
        matches!(
            self,
            Transport::Pipe
                | Transport::Vmsplice
                | Transport::Ring
                | Transport::SocketPair
                | Transport::SeqPacket
                | Transport::Tcp
        )
    }

    /// The channel of a case; none if it is not one of this suite.
    pub fn of(configuration: &Configuration) -> Option<Transport> {
        let reuse = configuration.reuse.unwrap_or_default();
        Transport::VALUES.iter().copied().find(|transport| {
            let (channel, writer, reader) = transport.parts();
            configuration.channel == Some(channel)
                && configuration.writer == Some(writer.into())
                && configuration.reader == Some(reader.into())
                && reuse == transport.reuse()
        })
    }
}

/// What a case of this suite measures; shown as its name: `tcp_zerocopy_1m_spin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseId {
    /// The channel.
    pub transport: Transport,
    /// The size of the messages.
    pub message_bytes: usize,
    /// Whether both ends spin.
    pub spins: bool,
}

const SPIN: &str = "_spin";

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spin = if self.spins { SPIN } else { "" };
        write!(
            f,
            "{}_{}{spin}",
            self.transport,
            size::short(self.message_bytes)
        )
    }
}

impl CaseId {
    /// The case that somebody named on a command line.
    pub fn parse(name: &str) -> Option<CaseId> {
        let plain = name.strip_suffix(SPIN);
        let (transport, bytes) = plain.unwrap_or(name).rsplit_once('_')?;
        let message_bytes = size::parse(bytes).ok()?;
        (message_bytes <= MAX_BYTES).then_some(CaseId {
            transport: transport.parse().ok()?,
            message_bytes,
            spins: plain.is_some(),
        })
    }

    /// The choice of this channel and size.
    pub fn selection(self) -> Selection {
        Selection {
            channels: vec![self.transport],
            sizes: vec![self.message_bytes],
            all: false,
        }
    }
}

/// The largest message, in bytes.
pub const MAX_BYTES: usize = 4 << 20;

const USUAL_SIZES: [usize; 6] = [64, 1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20];
const ALL_SIZES: [usize; 11] = [
    1,
    16,
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    MAX_BYTES,
];

pub(super) fn cases(overrides: &Overrides) -> Vec<Case> {
    let selection = &overrides.selection;
    let chosen = |transport: &Transport| {
        if selection.channels.is_empty() {
            transport.is_usual() || selection.all
        } else {
            selection.channels.contains(transport)
        }
    };
    let chosen: Vec<Transport> = Transport::VALUES.iter().copied().filter(chosen).collect();
    let mut sizes = match (selection.sizes.is_empty(), selection.all) {
        (false, _) => selection.sizes.clone(),
        (true, false) => USUAL_SIZES.to_vec(),
        (true, true) => ALL_SIZES.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    // The pipe is the first of all, so it is the first of those chosen too.
    let reference = chosen.first().copied().unwrap_or(REFERENCE);
    let mut cases = Vec::new();
    for spins in [false, true] {
        for &message_bytes in &sizes {
            let id = |transport| CaseId {
                transport,
                message_bytes,
                spins,
            };
            for &transport in &chosen {
                let case = case(id(transport), overrides);
                cases.push(if transport == reference {
                    case
                } else {
                    case.against(&id(reference).to_string(), transport.name())
                });
            }
        }
    }
    cases
}

fn case(id: CaseId, overrides: &Overrides) -> Case {
    let (channel, writer, reader) = id.transport.parts();
    let mut case = Case::of_messages(&id.to_string(), id.message_bytes, channel, writer, reader)
        .described(id.transport.about());
    if let Some(writer) = case.subject.writer_mut() {
        writer.reuse = id.transport.reuse();
    }
    if let Some(bytes) = overrides.pipe_bytes
        && matches!(channel, ChannelKind::Pipe | ChannelKind::Fifo)
    {
        case = case.with_pipe(bytes);
    }
    if id.spins {
        case = case.spin();
    }
    case.with_data(overrides.data.unwrap_or(DataUse::Touch))
}

#[cfg(test)]
mod tests;
