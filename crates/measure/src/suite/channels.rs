//! Channels compared: the same messages through each of them, every byte
//! produced by the writer and used by the reader.
//!
//! A message is what one call of the writer carries. Each channel is compared
//! with a plain pipe at the same size and in the same way of waiting. Buffers in
//! the kernel are as large as they are by default.

use std::fmt;

use super::Overrides;
use crate::spec::Case;
pub use crate::spec::Transport;
use pipespeed_base::{Named, size};

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

/// The channel that all others are compared with.
const REFERENCE: Transport = Transport::Pipe;

/// The channels of a run that names none.
const USUAL: [Transport; 6] = [
    Transport::Pipe,
    Transport::Vmsplice,
    Transport::Ring,
    Transport::Socketpair,
    Transport::Seqpacket,
    Transport::Tcp,
];

/// What a case of this suite measures; shown as its name: `ring_copy_1m_spin`.
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
        let transport = transport.parse().ok()?;
        let exists = message_bytes <= MAX_BYTES && transport != Transport::Eventfd;
        exists.then_some(CaseId {
            transport,
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
/// Fewer comparisons need fewer rounds for verdicts.
const QUICK_SIZES: [usize; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
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
            selection.all || USUAL.contains(transport)
        } else {
            selection.channels.contains(transport)
        }
    };
    let mut transports = Transport::with_data();
    transports.retain(chosen);
    let mut sizes = match (selection.sizes.is_empty(), selection.all) {
        (false, _) => selection.sizes.clone(),
        (true, false) if overrides.quick => QUICK_SIZES.to_vec(),
        (true, false) => USUAL_SIZES.to_vec(),
        (true, true) => ALL_SIZES.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    // The pipe is the first of all, so it is the first of those chosen too.
    let reference = transports.first().copied().unwrap_or(REFERENCE);
    let mut cases = Vec::new();
    for spins in [false, true] {
        for &message_bytes in &sizes {
            let id = |transport| CaseId {
                transport,
                message_bytes,
                spins,
            };
            for &transport in &transports {
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
        .described(id.transport.about())
        .change_writer(|writer| writer.reuse = id.transport.reuse());
    if let Some(bytes) = overrides.pipe_bytes
        && id.transport.is_pipe()
    {
        case = case.with_pipe(bytes);
    }
    if id.spins {
        case = case.spin();
    }
    case
}

#[cfg(test)]
mod tests;
