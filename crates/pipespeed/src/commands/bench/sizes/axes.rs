//! The sizes that a search goes through, in the time there is for it.

use fastpipe::pipe;

use super::plan::standing;
use crate::cli::BenchArgs;
use crate::commands::bench::lengths::Lengths;
use crate::failure::usage;
use crate::report::counted;
use crate::results::{Warning, WarningKind};
use crate::search::budget::SEARCH;
use crate::search::halving;
use crate::search::walk::TRIAL_OVERHEAD_S;
use crate::search::{Axes, Panel};
use crate::size;

/// What a search takes at least of what it would like to.
const SHORT: f64 = 0.7;

/// All powers of two where there is time for them, else every second one.
pub(super) fn axes(
    args: &BenchArgs,
    panels: &[Panel],
    (budget_s, usable_s): (f64, f64),
    lengths: &Lengths,
) -> anyhow::Result<Axes> {
    let setup = &args.measure.setup;
    let with = |every| {
        let page = pipe::page_size();
        Axes::new(
            every,
            page,
            setup.buffer_size,
            setup.pipe_size,
            pipe_refused,
        )
    };
    let runnable = panels
        .iter()
        .filter(|panel| panel.refused.is_none())
        .count();
    if let (0, Some(panel)) = (runnable, panels.first()) {
        let reason = panel.refused.clone().unwrap_or_default();
        return Err(anyhow::anyhow!("every panel is refused here: {reason}"));
    }
    let least_s = |axes: &Axes| {
        halving::least_s(
            runnable * halving::trials(axes.runnable(), 1),
            TRIAL_OVERHEAD_S,
        )
    };
    let search_s = SEARCH * usable_s;
    let all = with(1);
    if !args.measure.quick && least_s(&all) <= search_s {
        return Ok(all);
    }
    let some = with(2);
    // Of each panel the published sizes and those found, and the null control.
    let rounds_s = lengths.of_rounds(lengths.least_in_time, 2 * runnable + 1);
    // Where time is short, hardly more than each pair's first trial.
    let needed = (SHORT * least_s(&some) / SEARCH).max(SHORT * least_s(&some) + rounds_s);
    if args.measure.time.is_some() && needed > budget_s {
        return Err(usage(format!(
            "--time {budget_s}: a search of {} and {} of measuring take {:.0} s: allow more, \
             name fewer panels by --case, or fix a size by --buffer-size or --pipe-size",
            counted(runnable, "panel"),
            counted(lengths.least_in_time, "round"),
            // Less than that would not do.
            needed.ceil(),
        )));
    }
    Ok(some)
}

/// The pipes that are missing, and why.
pub(super) fn refused_pipes(axes: &Axes) -> Option<Warning> {
    let (_, reason) = axes.refused.first_key_value()?;
    let sizes: Vec<String> = axes
        .refused
        .keys()
        .map(|bytes| size::format(*bytes as u64))
        .collect();
    Some(standing(
        WarningKind::Configuration,
        &format!("pipes of {} are refused here: {reason}", sizes.join(", ")),
    ))
}

/// Why a pipe of this size can't be had here.
pub(super) fn pipe_refused(bytes: usize) -> Option<String> {
    let (_, end) = pipe::create().ok()?;
    let error = pipe::set_capacity(end, bytes).err()?;
    Some(error.to_string())
}
