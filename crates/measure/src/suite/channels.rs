//! Channels compared: the same messages through each of them, every byte
//! produced by the writer and used by the reader.
//!
//! A message is what one call of the writer carries. Each channel is compared
//! with a plain pipe at the same size and in the same way of waiting. Buffers in
//! the kernel are as large as they are by default.

use super::Overrides;
use crate::case::Case;
use crate::endpoint::spec::{ChannelKind, Reuse, SinkTechnique, SourceTechnique};
use crate::record::DataUse;
use pipespeed_base::size;

/// Which channels and sizes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Names of channels; the usual ones if empty.
    pub channels: Vec<String>,
    /// Sizes of messages in bytes; the usual ones if empty.
    pub sizes: Vec<usize>,
    /// All channels and sizes, where none are named.
    pub all: bool,
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

/// A channel: a way to connect two ends, and what each of them calls.
struct Row {
    name: &'static str,
    description: &'static str,
    kind: ChannelKind,
    sink: SinkTechnique,
    source: SourceTechnique,
    /// When vmspliced pages may be written again.
    reuse: Reuse,
    /// Whether it belongs to the default run.
    usual: bool,
}

const fn row(
    name: &'static str,
    description: &'static str,
    kind: ChannelKind,
    sink: SinkTechnique,
    source: SourceTechnique,
    usual: bool,
) -> Row {
    Row {
        name,
        description,
        kind,
        sink,
        source,
        reuse: Reuse::Drained,
        usual,
    }
}

/// The channel that all others are compared with.
const REFERENCE: &str = "pipe";

const ROWS: [Row; 15] = {
    use ChannelKind::{
        Datagram, Fifo, Memory, MessageQueue, Pipe, Ring, SeqPacket, SocketPair, Tcp, Unix,
    };
    use SinkTechnique as To;
    use SourceTechnique as From;
    [
        row(
            REFERENCE,
            "pipe, write and read",
            Pipe,
            To::Write,
            From::Read,
            true,
        ),
        row(
            "vmsplice",
            "pipe, vmsplice and read; memory written again once it left the pipe",
            Pipe,
            To::Vmsplice,
            From::Read,
            true,
        ),
        Row {
            reuse: Reuse::Fresh,
            ..row(
                "vmsplice_fresh",
                "pipe, vmsplice and read; memory never written again",
                Pipe,
                To::Vmsplice,
                From::Read,
                false,
            )
        },
        row(
            "ring",
            "ring in shared memory, data made and used in place",
            Ring,
            To::RingLend,
            From::RingPeek,
            true,
        ),
        row(
            "ring_copy",
            "ring in shared memory, data copied in and out",
            Ring,
            To::RingWrite,
            From::RingRead,
            false,
        ),
        row(
            "fifo",
            "FIFO, write and read",
            Fifo,
            To::Write,
            From::Read,
            false,
        ),
        row(
            "socketpair",
            "unix socket pair, stream",
            SocketPair,
            To::Send,
            From::Recv,
            true,
        ),
        row(
            "seqpacket",
            "unix socket pair, messages in order (SOCK_SEQPACKET)",
            SeqPacket,
            To::Send,
            From::Recv,
            true,
        ),
        row(
            "datagram",
            "unix socket pair, datagrams",
            Datagram,
            To::Send,
            From::Recv,
            false,
        ),
        row(
            "unix",
            "unix socket bound to a name, stream",
            Unix,
            To::Send,
            From::Recv,
            false,
        ),
        row(
            "tcp",
            "TCP over loopback, TCP_NODELAY",
            Tcp,
            To::Send,
            From::Recv,
            true,
        ),
        row(
            "tcp_zerocopy",
            "TCP over loopback, sent with MSG_ZEROCOPY",
            Tcp,
            To::SendZerocopy,
            From::Recv,
            false,
        ),
        row(
            "mqueue",
            "POSIX message queue",
            MessageQueue,
            To::QueueSend,
            From::QueueReceive,
            false,
        ),
        row(
            "vm_readv",
            "process_vm_readv from the writer's memory, told where over a socket pair",
            Memory,
            To::Offer,
            From::Fetch,
            false,
        ),
        row(
            "uring",
            "pipe, write and read by io_uring, one at a time",
            Pipe,
            To::UringWrite,
            From::UringRead,
            false,
        ),
    ]
};

/// The names of all channels.
pub fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name)
}

/// What a channel is, in a few words.
pub fn description(name: &str) -> Option<&'static str> {
    let row = ROWS.iter().find(|row| row.name == name)?;
    Some(row.description)
}

/// The channel of a case, by the case's name.
pub fn channel_of(case: &str) -> Option<&'static str> {
    let case = case.strip_suffix("_spin").unwrap_or(case);
    let (channel, _) = case.rsplit_once('_')?;
    names().find(|name| *name == channel)
}

/// The channel and size that a case's name tells of.
pub fn selection_of(case: &str) -> Option<Selection> {
    let channel = channel_of(case)?;
    let without_wait = case.strip_suffix("_spin").unwrap_or(case);
    let bytes = size::parse(without_wait.strip_prefix(channel)?.strip_prefix('_')?).ok()?;
    (bytes <= MAX_BYTES).then(|| Selection {
        channels: vec![channel.to_owned()],
        sizes: vec![bytes],
        all: false,
    })
}

pub(super) fn cases(overrides: &Overrides) -> Vec<Case> {
    let selection = &overrides.selection;
    let chosen = |row: &&Row| {
        if selection.channels.is_empty() {
            row.usual || selection.all
        } else {
            selection.channels.iter().any(|name| name == row.name)
        }
    };
    let rows: Vec<&Row> = ROWS.iter().filter(chosen).collect();
    let mut sizes = match (selection.sizes.is_empty(), selection.all) {
        (false, _) => selection.sizes.clone(),
        (true, false) => USUAL_SIZES.to_vec(),
        (true, true) => ALL_SIZES.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    // The pipe is the first row, so it is the first of those chosen too.
    let reference = rows.first().map_or(REFERENCE, |row| row.name);
    let mut cases = Vec::new();
    for spins in [false, true] {
        for &bytes in &sizes {
            let name = |channel: &str| {
                let spin = if spins { "_spin" } else { "" };
                format!("{channel}_{}{spin}", size::short(bytes))
            };
            for row in &rows {
                let case = case(row, &name(row.name), bytes, overrides);
                let case = if spins { case.spin() } else { case };
                cases.push(if row.name == reference {
                    case
                } else {
                    case.against(&name(reference), row.name)
                });
            }
        }
    }
    cases
}

fn case(row: &Row, name: &str, bytes: usize, overrides: &Overrides) -> Case {
    let mut case =
        Case::of_messages(name, bytes, row.kind, row.sink, row.source).described(row.description);
    if let Some(writer) = case.subject.writer_mut() {
        writer.reuse = row.reuse;
    }
    if let Some(bytes) = overrides.pipe_bytes
        && matches!(row.kind, ChannelKind::Pipe | ChannelKind::Fifo)
    {
        case = case.with_pipe(bytes);
    }
    case.with_data(overrides.data.unwrap_or(DataUse::Touch))
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
