//! Who waits for whom, as a drawing: a line for each wait, the waiting process on its left.

use pipespeed_pipeline::diagnosis::{Finding, WaitReason, Who};
use pipespeed_pipeline::graph::LinkSide;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::{Language, LinkId};

use super::names::{descriptor, full, stream, written_as};
use super::remedies::{language, reads_another};
use super::unread_bytes;

/// More lines are too many to see anything in them.
const MAX_LINES: usize = 12;

/// A process that waits, and what lies between it and who could end that.
#[derive(PartialEq)]
struct WaitLine {
    waits: String,
    arrow: String,
    other: String,
}

/// The waits in these findings.
pub(super) fn chain(observation: &Observation, findings: &[&Finding]) -> String {
    let mut lines: Vec<WaitLine> = Vec::new();
    for line in findings
        .iter()
        .flat_map(|finding| lines_of(observation, finding))
    {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.len() > MAX_LINES {
        return String::new();
    }
    let width =
        |text: fn(&WaitLine) -> &str| lines.iter().map(|line| text(line).chars().count()).max();
    let left = width(|line| &line.waits).unwrap_or(0);
    let lines = lines
        .iter()
        .map(|line| format!("  {:left$} {} {}", line.waits, line.arrow, line.other));
    lines.collect::<Vec<String>>().join("\n")
}

fn lines_of(observation: &Observation, finding: &Finding) -> Vec<WaitLine> {
    let on = |waits: &Who, link: LinkId, side: LinkSide, other: &Who| WaitLine {
        waits: full(waits),
        arrow: arrow(observation, link, side, waits, other),
        other: full(other),
    };
    match finding {
        Finding::Deadlock(deadlock) => {
            let reasons = deadlock.members.iter().flat_map(|member| {
                let reasons = member.reasons.iter();
                reasons.map(move |reason| (&member.who, reason))
            });
            reasons
                .flat_map(|(who, reason)| match reason {
                    WaitReason::Pipe { on: wait, others } => {
                        let others = others
                            .iter()
                            .filter(|other| *other != who || others.len() == 1);
                        others
                            .map(|other| on(who, wait.pipe, wait.side, other))
                            .collect()
                    }
                    WaitReason::Child { others } => {
                        let others = others.iter();
                        others
                            .map(|other| end_of(observation, who, other))
                            .collect()
                    }
                    WaitReason::FifoPeer { .. } | WaitReason::Continue => Vec::new(),
                })
                .collect()
        }
        Finding::Unread(unread) => {
            let readers = unread.readers.iter();
            let lines = readers.flat_map(|reader| {
                let line = on(&unread.writer, unread.pipe, LinkSide::Room, &reader.who);
                let waits_only = !reads_another(observation, reader, unread);
                let child = reader.child.as_ref().filter(|_| waits_only);
                std::iter::once(line)
                    .chain(child.map(|child| end_of(observation, &reader.who, child)))
            });
            lines.collect()
        }
        Finding::LeakedWriteEnd(leaked) if leaked.is_last => {
            vec![on(
                &leaked.reader,
                leaked.pipe,
                LinkSide::Input,
                &leaked.holder,
            )]
        }
        Finding::MutualWait(mutual) => {
            let sides = mutual.sides.iter();
            sides
                .flat_map(|side| {
                    let writers = side.writers.iter();
                    writers.map(|writer| on(&side.who, side.pipe, LinkSide::Input, writer))
                })
                .collect()
        }
        Finding::Held { .. }
        | Finding::Bottleneck(_)
        | Finding::PingPong { .. }
        | Finding::Unclear { .. }
        | Finding::SmallCalls(_)
        | Finding::FifoPeer { .. }
        | Finding::UnseenPeer { .. }
        | Finding::LeakedWriteEnd(_)
        | Finding::SmallPipe { .. } => Vec::new(),
    }
}

/// A wait for the end of a child.
fn end_of(observation: &Observation, who: &Who, child: &Who) -> WaitLine {
    // A JVM has a thread that does, whatever it waits for itself.
    let arrow = match language(observation, who) {
        Language::Java => "── has a thread that waits for the end of ──",
        _ => "── waits for the end of ──",
    };
    WaitLine {
        waits: full(who),
        arrow: arrow.to_owned(),
        other: full(child),
    }
}

/// The link, as an arrow in the direction of its data: `── standard error, 64KiB unread ──>`.
fn arrow(
    observation: &Observation,
    link: LinkId,
    side: LinkSide,
    waits: &Who,
    other: &Who,
) -> String {
    let writer = match side {
        LinkSide::Room => waits,
        LinkSide::Input => other,
    };
    let stream = match written_as(observation, link, writer) {
        Some(fd) => descriptor(fd),
        None => stream(None),
    };
    let data = match (side, unread_bytes(observation, link)) {
        (_, Some(bytes)) => format!(", {bytes} unread"),
        _ if link.is_terminal() => ", a terminal".to_owned(),
        (LinkSide::Room, None) => ", full".to_owned(),
        (LinkSide::Input, None) => ", empty".to_owned(),
    };
    match side {
        LinkSide::Room => format!("── {stream}{data} ──>"),
        LinkSide::Input => format!("<── {stream}{data} ──"),
    }
}
