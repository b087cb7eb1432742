//! The table of stages.

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_pipeline::observe::{Observation, ObservedLink};
use pipespeed_pipeline::sample::{Observed, Shares};

use crate::format::{list, significant};
use crate::style::{BOLD, DIM, Style};
use crate::table::{Cell, Column, Table};

/// A column for the share of time in a state.
struct StateColumn {
    header: &'static str,
    share: fn(&Shares) -> f64,
    /// Shown only if a stage was in this state.
    is_optional: bool,
    /// Whether it depends on how much threads do at once.
    is_of_threads: bool,
}

const STATES: [StateColumn; 6] = [
    StateColumn {
        header: "runs",
        share: |shares| shares.runs,
        is_optional: false,
        is_of_threads: true,
    },
    StateColumn {
        header: "queued",
        share: |shares| shares.queued,
        is_optional: true,
        is_of_threads: true,
    },
    StateColumn {
        header: "disk",
        share: |shares| shares.disk,
        is_optional: true,
        is_of_threads: false,
    },
    StateColumn {
        header: "blocked",
        share: |shares| shares.blocked,
        is_optional: false,
        is_of_threads: false,
    },
    StateColumn {
        header: "starved",
        share: |shares| shares.starved,
        is_optional: false,
        is_of_threads: false,
    },
    StateColumn {
        header: "elsewhere",
        share: |shares| shares.elsewhere + shares.stopped,
        is_optional: false,
        is_of_threads: false,
    },
];

/// The number of columns at the end of [`STATES`] that are divided by samples: how a process waits.
const WAITS: usize = 3;
/// A process of whose time less is known waits in a way that no sample has seen.
const MAX_UNKNOWN: f64 = 0.9;
/// This number of stages is named below a table.
const MAX_NAMED: usize = 3;
/// The shares of what was seen for a smaller share of the look are not those of the look.
const MIN_SEEN: f64 = 0.8;
/// A smaller share is shown as none.
const MIN_SHOWN: f64 = 0.005;

/// The table of these stages.
pub(super) fn table(observation: &Observation, stages: &[&Observed], style: Style) -> String {
    let is_used = |state: &&StateColumn| {
        let mut shares = stages.iter().map(|stage| (state.share)(&stage.shares));
        !state.is_optional || shares.any(|share| share >= MIN_SHOWN)
    };
    let states: Vec<&StateColumn> = STATES.iter().filter(is_used).collect();
    let mut columns = vec![Column::right("pid"), Column::left("stage")];
    columns.extend(states.iter().map(|state| Column::right(state.header)));
    columns.push(Column::right("MiB/s").optional(1));
    columns.push(Column::left("output").optional(2));
    let mut table = Table::new(columns);
    let edges = observation.edges();
    for observed in stages {
        let pid = observed.process.id.pid;
        let outputs = edges.iter().filter(|(from, ..)| *from == pid);
        let outputs = outputs.map(|(.., pipe)| *pipe).unique();
        let outputs: Vec<&ObservedLink> = outputs.filter_map(|id| observation.link(id)).collect();
        table.row(row(observed, &states, &outputs));
    }
    let notes = [estimates(stages), seen_in_part(observation, stages)];
    let notes = notes.into_iter().flatten();
    std::iter::once(table.render(style))
        .chain(notes.map(|text| style.note(&text, DIM)))
        .join("\n")
}

/// Which stages began or ended within the look.
fn seen_in_part(observation: &Observation, stages: &[&Observed]) -> Option<String> {
    let most = MIN_SEEN * observation.seconds;
    let is_part = |stage: &&&Observed| stage.counted_s > 0.0 && stage.counted_s < most;
    let parts = stages.iter().filter(is_part).map(|stage| {
        let seconds = significant(stage.counted_s);
        format!("{} ({seconds} s)", stage.process.name)
    });
    let known = some_of(parts.unique().collect())?;
    Some(format!("shares of part of the look: {known}"))
}

/// The first of these, with a mark if there are more.
fn some_of(all: Vec<String>) -> Option<String> {
    let more = if all.len() > MAX_NAMED { " ..." } else { "" };
    (!all.is_empty()).then(|| format!("{}{more}", list(all.into_iter().take(MAX_NAMED))))
}

/// What the mark at estimated shares means, if a stage has one.
fn estimates(stages: &[&Observed]) -> Option<String> {
    let between = |stage: &&Observed| {
        let [least, most] = stage.runs_between?;
        let name = &stage.process.name;
        Some(format!(
            "{name} runs {:.0} to {}",
            least * 100.0,
            percent(most)
        ))
    };
    let known = some_of(stages.iter().filter_map(between).unique().collect())?;
    Some(format!("~ estimated, as threads may run at once: {known}"))
}

fn row(observed: &Observed, states: &[&StateColumn], outputs: &[&ObservedLink]) -> Vec<Cell> {
    let shares: Vec<f64> = states
        .iter()
        .map(|state| (state.share)(&observed.shares))
        .collect();
    // The largest share is what the stage mainly did.
    let most = shares.iter().copied().fold(MIN_SHOWN, f64::max);
    let mut cells = vec![
        observed.process.id.pid.to_string().into(),
        observed.process.name.clone().into(),
    ];
    // What was too short for the samples is not known to be none.
    let is_waiting = |at: usize| at >= states.len().saturating_sub(WAITS);
    let is_known = observed.shares.sum() > MAX_UNKNOWN;
    let is_estimated = |at: usize| states[at].is_of_threads && observed.runs_between.is_some();
    let text = |at: usize, share: f64| {
        let about = if is_estimated(at) { "~" } else { "" };
        format!("{about}{}", percent(share))
    };
    cells.extend(shares.iter().enumerate().map(|(at, share)| match *share {
        share if share < MIN_SHOWN && is_waiting(at) && !is_known => "?".into(),
        share if share < MIN_SHOWN => "-".into(),
        share if share == most => Cell::painted(text(at, share), BOLD),
        share => text(at, share).into(),
    }));
    cells.push(
        outputs
            .iter()
            .map(|pipe| rate(pipe.bytes_per_s))
            .join("; ")
            .into(),
    );
    let sizes = outputs.iter().filter_map(|pipe| size_and_fill(pipe));
    cells.push(sizes.collect::<Vec<String>>().join("; ").into());
    cells
}

/// A rate in MiB/s.
pub(crate) fn rate(bytes_per_s: Option<f64>) -> String {
    match bytes_per_s.map(|rate| rate / f64::from(1 << 20)) {
        None => "?".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 0.001 => "<0.001".to_owned(),
        Some(rate) => significant(rate),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `64KiB, 97 % full`.
pub(super) fn size_and_fill(pipe: &ObservedLink) -> Option<String> {
    let (capacity, fill) = (pipe.capacity?, pipe.fill?);
    Some(format!(
        "{}, {} full",
        size::format(capacity),
        percent(fill)
    ))
}
