//! Choice of the techniques that suit two ends, best first.

use super::ends::{Endpoint, FileKind};
use super::report::{PassedOver, Reason, Technique};

/// All techniques, in order of preference; the last one always works.
const BY_PREFERENCE: [Technique; 5] = [
    Technique::Splice,
    Technique::CopyFileRange,
    Technique::Sendfile,
    Technique::SpliceThroughPipe,
    Technique::Copy,
];

/// Techniques to try in turn, [`Technique::Copy`] last, and all others.
pub(super) struct Plan {
    pub(super) techniques: Vec<Technique>,
    pub(super) passed_over: Vec<PassedOver>,
}

impl Plan {
    pub(super) fn new(
        input: &Endpoint<'_>,
        output: &Endpoint<'_>,
        wish: Option<Technique>,
    ) -> Self {
        let mut plan = Plan {
            techniques: Vec::new(),
            passed_over: Vec::new(),
        };
        for technique in BY_PREFERENCE {
            let reason = match wish {
                _ if technique == Technique::Copy => None,
                Some(wish) if wish != technique => Some(Reason::NotAsked),
                _ => match unsuitable(technique, input, output) {
                    Some(reason) => Some(Reason::Unfit(reason)),
                    None if wish.is_none() && copying_is_as_fast(technique, input, output) => {
                        Some(Reason::Slower)
                    }
                    None => None,
                },
            };
            match reason {
                None => plan.techniques.push(technique),
                Some(reason) => plan.passed_over.push(PassedOver { technique, reason }),
            }
        }
        plan
    }
}

/// Returns the reason why a technique does not work between two ends.
fn unsuitable(
    technique: Technique,
    input: &Endpoint<'_>,
    output: &Endpoint<'_>,
) -> Option<&'static str> {
    let a_pipe = input.is_pipe() || output.is_pipe();
    match technique {
        Technique::Splice if !a_pipe => Some("neither end is a pipe"),
        Technique::SpliceThroughPipe if a_pipe => Some("one end is a pipe already"),
        Technique::Splice | Technique::SpliceThroughPipe => {
            unsuitable_to_splice_from(input).or_else(|| unsuitable_to_splice_to(output))
        }
        Technique::Sendfile if !input.is_file() => Some("the input is not a file"),
        Technique::Sendfile if output.is_pipe() => Some("the output is a pipe"),
        Technique::Sendfile => unsuitable_to_splice_to(output),
        Technique::CopyFileRange => match (input.kind, output.kind) {
            (FileKind::Regular { .. }, FileKind::Regular { .. }) => None,
            _ => Some("not from a regular file to another"),
        },
        Technique::Copy => None,
    }
}

fn unsuitable_to_splice_from(input: &Endpoint<'_>) -> Option<&'static str> {
    match input.kind {
        FileKind::Terminal | FileKind::Other => Some("such an input could block in splice"),
        FileKind::Messages => Some("the input's messages would be joined"),
        _ => None,
    }
}

fn unsuitable_to_splice_to(output: &Endpoint<'_>) -> Option<&'static str> {
    match output.kind {
        FileKind::Terminal | FileKind::Other => Some("such an output could block in splice"),
        FileKind::Messages => Some("the output's messages would be split differently"),
        // SPLICE_F_NONBLOCK does not affect sockets: a full one would block.
        FileKind::Stream { .. } if !output.is_nonblocking() => {
            Some("a blocking socket would block in the call")
        }
        _ => None,
    }
}

/// Whether copying was measured to be as fast: on Linux 6.18, with ext4, tmpfs
/// and sockets of the same machine.
fn copying_is_as_fast(technique: Technique, input: &Endpoint<'_>, output: &Endpoint<'_>) -> bool {
    match (technique, input.kind, output.kind) {
        // Short texts of /proc, which several techniques can't read.
        (_, FileKind::Regular { says_empty: true }, _) => true,
        // At most a pipeful per call is too little for the work done in each
        // call: a third of the rate of copying, or the same rate at best.
        (
            Technique::Splice,
            FileKind::Pipe,
            FileKind::Regular { .. } | FileKind::Stream { local: false },
        ) => true,
        // The same rate within the noise.
        (
            Technique::SpliceThroughPipe,
            FileKind::Stream { local: true },
            FileKind::Stream { .. },
        ) => true,
        (
            Technique::SpliceThroughPipe,
            FileKind::Stream { .. },
            FileKind::Stream { local: true },
        ) => true,
        (Technique::SpliceThroughPipe, FileKind::Memory, FileKind::Regular { .. }) => true,
        _ => false,
    }
}
