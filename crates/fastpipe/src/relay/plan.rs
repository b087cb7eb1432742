//! Which techniques fit two ends, the best first.

use super::ends::{Kind, Place};
use super::report::{PassedOver, Technique, Why};

/// From the one that moves most with least, where it fits, to the one that
/// always does.
const BY_MERIT: [Technique; 5] = [
    Technique::Splice,
    Technique::CopyFileRange,
    Technique::Sendfile,
    Technique::SpliceThroughPipe,
    Technique::Copy,
];

/// The techniques to try in turn, [`Technique::Copy`] last, and the others.
pub(super) struct Plan {
    pub(super) techniques: Vec<Technique>,
    pub(super) passed_over: Vec<PassedOver>,
}

impl Plan {
    pub(super) fn new(input: &Place<'_>, output: &Place<'_>, wish: Option<Technique>) -> Self {
        let mut plan = Plan {
            techniques: Vec::new(),
            passed_over: Vec::new(),
        };
        for technique in BY_MERIT {
            let why = match wish {
                _ if technique == Technique::Copy => None,
                Some(wish) if wish != technique => Some(Why::NotAsked),
                _ => match unfit(technique, input, output) {
                    Some(reason) => Some(Why::Unfit(reason)),
                    None if wish.is_none() && copying_is_as_fast(technique, input, output) => {
                        Some(Why::Slower)
                    }
                    None => None,
                },
            };
            match why {
                None => plan.techniques.push(technique),
                Some(why) => plan.passed_over.push(PassedOver { technique, why }),
            }
        }
        plan
    }
}

/// What stands against a technique.
fn unfit(technique: Technique, input: &Place<'_>, output: &Place<'_>) -> Option<&'static str> {
    let a_pipe = input.is_pipe() || output.is_pipe();
    match technique {
        Technique::Splice if !a_pipe => Some("neither end is a pipe"),
        Technique::SpliceThroughPipe if a_pipe => Some("one end is a pipe already"),
        Technique::Splice | Technique::SpliceThroughPipe => {
            unfit_to_splice_from(input).or_else(|| unfit_to_splice_to(output))
        }
        Technique::Sendfile if !input.is_file() => Some("the input is not a file"),
        Technique::Sendfile if output.is_pipe() => Some("the output is a pipe"),
        Technique::Sendfile => unfit_to_splice_to(output),
        Technique::CopyFileRange => match (input.kind, output.kind) {
            (Kind::Regular { .. }, Kind::Regular { .. }) => None,
            _ => Some("not from a regular file to another"),
        },
        Technique::Copy => None,
    }
}

fn unfit_to_splice_from(input: &Place<'_>) -> Option<&'static str> {
    match input.kind {
        Kind::Terminal { .. } | Kind::Other => Some("such an input could sleep in splice"),
        Kind::Messages => Some("the input's messages would be joined"),
        _ => None,
    }
}

fn unfit_to_splice_to(output: &Place<'_>) -> Option<&'static str> {
    match output.kind {
        Kind::Terminal { .. } | Kind::Other => Some("such an output could sleep in splice"),
        Kind::Messages => Some("the output's messages would be cut anew"),
        // SPLICE_F_NONBLOCK says nothing of the socket: a full one sleeps.
        Kind::Stream { .. } if !output.is_nonblocking() => {
            Some("a blocking socket would sleep in the call")
        }
        _ => None,
    }
}

/// Where a technique that fits was measured to be no faster than copying, on
/// Linux 6.18, with ext4 and tmpfs and sockets of the same machine.
fn copying_is_as_fast(technique: Technique, input: &Place<'_>, output: &Place<'_>) -> bool {
    match (technique, input.kind, output.kind) {
        // A few pages of text at most, and several techniques find nothing there.
        (_, Kind::Regular { says_empty: true }, _) => true,
        // A pipeful at a time is too little for the work done for each call: a
        // third to all of what copying gives.
        (Technique::Splice, Kind::Pipe, Kind::Regular { .. } | Kind::Stream { local: false }) => {
            true
        }
        // The same within the noise.
        (Technique::SpliceThroughPipe, Kind::Stream { .. }, Kind::Stream { .. }) => true,
        (Technique::SpliceThroughPipe, Kind::Memory, Kind::Regular { .. }) => true,
        _ => false,
    }
}
