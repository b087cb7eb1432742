//! Channels compared: the same messages through each of them, every byte
//! produced by the writer and used by the reader.
//!
//! A message is what one call of the writer carries. Each channel is compared
//! with a plain pipe at the same size and in the same way of waiting. Buffers in
//! the kernel are as large as they are by default.

use std::fmt;

use super::{DataRule, Definition, FEW_ROUNDS, LADDER, Lengths, Overrides, SizeRule};
use crate::spec::{Case, Channel, Durations};
use pipespeed_base::{Named, size};
use pipespeed_stats::MIN_SAMPLES;

/// Which channels and sizes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// These channels; the usual ones if empty.
    pub channels: Vec<Channel>,
    /// Sizes of messages in bytes; the usual ones if empty.
    pub sizes: Vec<usize>,
    /// All channels and sizes, where none are named.
    pub all: bool,
}

/// The channel that all others are compared with.
const REFERENCE: Channel = Channel::PIPE;

/// The channels of a run that names none.
const USUAL: [Channel; 6] = [
    Channel::PIPE,
    Channel::VMSPLICE,
    Channel::Ring,
    Channel::Socketpair,
    Channel::Seqpacket,
    Channel::Tcp,
];

/// What a case of this suite measures; shown as its name: `ring_copy_1m_spin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaseId {
    /// The channel.
    pub channel: Channel,
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
            self.channel,
            size::short(self.message_bytes)
        )
    }
}

impl CaseId {
    /// The case that somebody named on a command line.
    pub fn parse(name: &str) -> Option<CaseId> {
        let plain = name.strip_suffix(SPIN);
        let (channel, bytes) = plain.unwrap_or(name).rsplit_once('_')?;
        let message_bytes = size::parse(bytes).ok()?;
        let channel = channel.parse().ok()?;
        let exists = message_bytes <= MAX_BYTES && channel != Channel::Eventfd;
        exists.then_some(CaseId {
            channel,
            message_bytes,
            spins: plain.is_some(),
        })
    }

    /// The choice of this channel and size.
    pub fn selection(self) -> Selection {
        Selection {
            channels: vec![self.channel],
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

pub(super) const SUITE: Definition = Definition {
    cases,
    data_rule: DataRule::Used,
    null_control: Some("pipe_64k"),
    // Nine times as many cases as the ladder; a third fewer in a quick run.
    full: Lengths {
        verifying: Some(Durations::new(0.002, 0.010)),
        ..Lengths::new(0.010, 0.100, 170.0, FEW_ROUNDS)
    },
    quick: Lengths {
        verifying: Some(Durations::new(0.001, 0.004)),
        min_rounds_in_time: MIN_SAMPLES,
        ..Lengths::new(0.004, 0.020, 26.0, FEW_ROUNDS)
    },
    quick_omits: |overrides| {
        let selection = &overrides.selection;
        (selection.sizes.is_empty() && !selection.all).then_some("fewer message sizes")
    },
    options: &["--channel", "--all", "--size"],
    sizes: Some(SizeRule {
        what: "message",
        refusal: |bytes| {
            let max = size::format(MAX_BYTES as u64);
            (bytes > MAX_BYTES).then(|| format!("a message must have from 1 byte to {max}"))
        },
    }),
    ..LADDER
};

fn cases(overrides: &Overrides) -> Vec<Case> {
    let selection = &overrides.selection;
    let chosen = |channel: &Channel| {
        if selection.channels.is_empty() {
            selection.all || USUAL.contains(channel)
        } else {
            selection.channels.contains(channel)
        }
    };
    let mut chosen_channels = Channel::with_data();
    chosen_channels.retain(chosen);
    let mut sizes = match (selection.sizes.is_empty(), selection.all) {
        (false, _) => selection.sizes.clone(),
        (true, false) if overrides.quick => QUICK_SIZES.to_vec(),
        (true, false) => USUAL_SIZES.to_vec(),
        (true, true) => ALL_SIZES.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    // The pipe is the first of all, so it is the first of those chosen too.
    let reference = chosen_channels.first().copied().unwrap_or(REFERENCE);
    let mut cases = Vec::new();
    for spins in [false, true] {
        for &message_bytes in &sizes {
            let id = |channel| CaseId {
                channel,
                message_bytes,
                spins,
            };
            for &channel in &chosen_channels {
                let case = case(id(channel), overrides);
                cases.push(if channel == reference {
                    case
                } else {
                    case.against(&id(reference).to_string(), channel.name())
                });
            }
        }
    }
    cases
}

fn case(id: CaseId, overrides: &Overrides) -> Case {
    let mut case = Case::of_messages(&id.to_string(), id.message_bytes, id.channel)
        .described(id.channel.about());
    if let Some(bytes) = overrides.pipe_bytes
        && id.channel.is_pipe()
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
