//! What a run of channels says of the buffers between the ends.

use crate::format::pluralize;
use crate::steps::is_twin;
use pipespeed_base::size;
use pipespeed_measure::record::{CaseResult, Run};

use super::channel;

/// The buffers between the ends, channel by channel.
pub(super) fn buffers(run: &Run) -> String {
    // Of each channel what it had, smallest messages first.
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    for case in run.cases.iter().filter(|case| !is_twin(run, &case.name)) {
        let of_case = buffer(case);
        let name = channel(case);
        match told.iter_mut().find(|(other, _)| *other == name) {
            _ if of_case.is_empty() => {}
            Some((_, had)) if had.contains(&of_case) => {}
            Some((_, had)) => had.push(of_case),
            None => told.push((name, vec![of_case])),
        }
    }
    // Channels that have the same stand together.
    let mut lines: Vec<(String, String)> = Vec::new();
    for (name, had) in told {
        let all = match &had[..] {
            [first, .., last] => format!("{first} to {last} by the size of the messages"),
            had => had.concat(),
        };
        match lines.iter_mut().find(|(_, other)| *other == all) {
            Some((names, _)) => *names = format!("{names}, {name}"),
            None => lines.push((name.to_owned(), all)),
        }
    }
    let lines: Vec<String> = lines
        .into_iter()
        .map(|(names, all)| format!("{names}: {all}"))
        .collect();
    let buffers = if lines.is_empty() {
        String::new()
    } else {
        format!("Buffers, at the start: {}. ", lines.join("; "))
    };
    format!(
        "{buffers}A reader of a stream asks for 64 KiB at a time at least, of messages for one."
    )
}

fn buffer(case: &CaseResult) -> String {
    let configuration = &case.configuration;
    let bytes = |bytes: usize| size::format(bytes as u64);
    let mut words = Vec::new();
    words.extend(configuration.pipe_bytes.map(bytes));
    words.extend(configuration.ring_bytes.map(bytes));
    words.extend(
        configuration
            .send_buffer_bytes
            .map(|b| format!("SO_SNDBUF {}", bytes(b))),
    );
    words.extend(
        configuration
            .receive_buffer_bytes
            .map(|b| format!("SO_RCVBUF {}", bytes(b))),
    );
    if configuration.nodelay == Some(true) {
        words.push("TCP_NODELAY".to_owned());
    }
    words.extend(
        configuration
            .queue_messages
            .map(|n| pluralize(n, "message")),
    );
    words.join(", ")
}
