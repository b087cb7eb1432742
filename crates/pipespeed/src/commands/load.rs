//! The look at the machine before the first trial.

use crate::step::is_step;
use pipespeed_base::failure::say;
use pipespeed_host::placement::Chosen;
use pipespeed_host::{Busy, Warning};

/// Looks for 0.3 s whether others use these processors, or any if none are given. If so, says
/// so at once, and returns the warning for the record of the run.
///
/// A step of `report` says nothing: the report does.
pub(super) fn look(cpus: &[usize], quiet: bool) -> Option<Warning> {
    let busy = Busy::look(cpus)?;
    if !quiet && !is_step() {
        say(&busy.announcement());
    }
    Some(busy.warning())
}

/// The processors of both ends; none if the scheduler may choose any.
pub(super) fn processors(chosen: &Chosen) -> Vec<usize> {
    match (chosen.writer, chosen.reader) {
        (Some(writer), Some(reader)) => vec![writer, reader],
        _ => Vec::new(),
    }
}
