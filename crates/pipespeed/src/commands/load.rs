//! The look at the machine before the first trial.

use crate::step::is_step;
use pipespeed_base::failure::say;
use pipespeed_base::size;
use pipespeed_host::placement::Chosen;
use pipespeed_host::{Available, Busy, Root, Warning, available_memory};

/// With less memory than this the kernel may end one of our processes, which can't tell of it then. In a control
/// group, some runs were ended below 20 MiB.
const MIN_MEMORY: u64 = 24 << 20;

/// Looks for 0.3 s whether others use these processors, or any if none are given. If so, says
/// so at once, and returns the warning for the record of the run. Says, too, if memory is scarce.
///
/// A step of `report` says nothing: the report does.
pub(super) fn look(cpus: &[usize], quiet: bool) -> Option<Warning> {
    let available = available_memory(&Root::default());
    if let Some(text) = available.and_then(scarcity).filter(|_| !is_step()) {
        say(&text);
    }
    let busy = Busy::look(cpus)?;
    if !quiet && !is_step() {
        say(&busy.announcement());
    }
    Some(busy.warning())
}

/// What may happen where memory is scarce.
fn scarcity(available: Available) -> Option<String> {
    (available.bytes < MIN_MEMORY).then(|| {
        format!(
            "{} of memory left ({}): the kernel may end this without a word; make room, or raise the limit",
            size::format(available.bytes),
            available.limit
        )
    })
}

/// The processors of both ends; none if the scheduler may choose any.
pub(super) fn processors(chosen: &Chosen) -> Vec<usize> {
    match (chosen.writer, chosen.reader) {
        (Some(writer), Some(reader)) => vec![writer, reader],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scarce_memory_is_told() {
        let of = |bytes| {
            scarcity(Available {
                bytes,
                limit: "memory.max",
            })
        };
        assert_eq!(of(MIN_MEMORY), None);
        let text = of(12 << 20).unwrap();
        assert!(
            text.starts_with("12MiB of memory left (memory.max)"),
            "{text}"
        );
    }
}
