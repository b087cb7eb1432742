//! Channels compared: a table for each way of waiting, a channel and a size a
//! row, and which channel to use for messages of which size.

mod buffers;

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_base::size;
use pipespeed_measure::endpoint::spec::{ChannelKind, Waiting};
use pipespeed_measure::record::{CaseResult, Run, Summary};
use pipespeed_measure::suite::channels::Transport;

use self::buffers::buffers;
use super::columns::{Column, fitting};
use super::findings::apart;
use super::format::{interval, percent, pluralize, ratio_interval, significant, times, wrap};
use super::measured::has_intervals;
use super::steps::is_twin;
use super::style::{BOLD, DIM, Style, YELLOW};
use super::table::reason;

/// A way of waiting, and what to say of it.
const WAYS: [(Waiting, &str); 2] = [
    (Waiting::Block, "Blocking: an end that has to wait sleeps"),
    (
        Waiting::Spin,
        "Spinning: an end that has to wait tries again at once; each burns a processor",
    ),
];

/// What "sleeps" means of a ring.
pub(super) const RING_LOOKS: &str = "a ring's end looks for about a microsecond before it sleeps, \
                                     so two that keep in step never do";

/// Whether a ring is among the channels that sleep.
pub(super) fn rings_block(run: &Run) -> bool {
    waiting(run, Waiting::Block)
        .any(|case| case.summary.is_some() && case.configuration.channel == Some(ChannelKind::Ring))
}

/// The cases of one way of waiting, less the null control's twin.
pub(super) fn waiting(run: &Run, wait: Waiting) -> impl Iterator<Item = &CaseResult> {
    run.cases
        .iter()
        .filter(move |case| case.configuration.wait == Some(wait) && !is_twin(run, &case.name))
}

/// The channel of a case; its name where it is none of ours.
pub(super) fn channel(case: &CaseResult) -> &str {
    Transport::of(&case.configuration).map_or(&*case.name, |it| it.name())
}

/// The size of a case's messages in bytes.
pub(super) fn message(case: &CaseResult) -> usize {
    case.configuration.message_bytes.unwrap_or_default()
}

/// The tables, and what they were measured with.
pub(super) fn blocks(run: &Run, style: Style) -> Vec<String> {
    let mut blocks: Vec<String> = WAYS
        .iter()
        .filter_map(|(wait, heading)| {
            let cases: Vec<&CaseResult> = waiting(run, *wait).collect();
            let heading = style.paint(&wrap(heading, style.width(), "  "), BOLD);
            (!cases.is_empty()).then(|| format!("{heading}\n{}", table(run, &cases, style)))
        })
        .collect();
    let lay = |line: String| style.paint(&wrap(&line, style.width(), "  "), DIM);
    if rings_block(run) {
        blocks.push(lay(format!("Sleeping: {RING_LOOKS}.")));
    }
    blocks.push(lay(buffers(run)));
    blocks.push(lay(verified(run)));
    blocks
}

type Shown = Column<fn(&Run, &CaseResult, &Summary) -> String>;

fn columns(run: &Run) -> Vec<Shown> {
    use CellAlignment::{Left, Right};
    let column = |header: &str, cell, align, spare| Shown::new(header, cell, align, spare);
    let level = format!("{}\ninterval", percent(run.settings.confidence));
    let intervals = has_intervals(run)
        .then(|| column(&level, |_, _, s| interval(s.gib_per_s.interval), Left, 1));
    let rate = column(
        "\nGiB/s",
        |_, _, s| significant(s.gib_per_s.median),
        Right,
        0,
    );
    let others = [
        column(
            "CPU ms\n/GiB",
            |_, _, s| number(s.cpu_s_per_gib.map(|seconds| seconds * 1e3)),
            Right,
            4,
        ),
        column(
            "CPU us\n/message",
            |_, _, s| number(s.cpu_us_per_message),
            Right,
            3,
        ),
        column("\nagainst", |run, case, _| against(run, case), Left, 2),
    ];
    [rate].into_iter().chain(intervals).chain(others).collect()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), significant)
}

/// The ratio to the channel that all are compared with.
fn against(run: &Run, case: &CaseResult) -> String {
    let Some((ratio, other)) = case.ratio.zip(case.compared_with.as_deref()) else {
        return String::new();
    };
    let other_case = run.cases.iter().find(|case| case.name == other);
    let other = other_case.map_or(other, channel);
    format!(
        "{other}: {} {} {}",
        times(ratio.estimate.median),
        ratio_interval(ratio.estimate.interval),
        ratio.verdict.name()
    )
    .replace("  ", " ")
}

fn table(run: &Run, cases: &[&CaseResult], style: Style) -> String {
    let lines = fitting(columns(run), style.width(), |columns| {
        laid(run, cases, columns, style)
    });
    lines.join("\n")
}

/// The lines of a table, and how wide it is. The reason of a case without samples
/// stands across the columns, broken where it has to be.
fn laid(run: &Run, cases: &[&CaseResult], columns: &[Shown], style: Style) -> (Vec<String>, usize) {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    let mut header = vec!["\nmessage".to_owned(), "\nchannel".to_owned()];
    header.extend(columns.iter().map(|column| column.header.clone()));
    grid.set_header(header);
    let mut last = None;
    for case in cases {
        // A size stands where it begins.
        let bytes = message(case);
        let mut row = vec![
            if last == Some(bytes) {
                String::new()
            } else {
                size::format(bytes as u64)
            },
            channel(case).to_owned(),
        ];
        last = Some(bytes);
        row.extend(columns.iter().map(|column| match &case.summary {
            Some(summary) => (column.cell)(run, case, summary),
            None => String::new(),
        }));
        grid.add_row(row);
    }
    let aligned = [CellAlignment::Right, CellAlignment::Left]
        .into_iter()
        .chain(columns.iter().map(|column| column.align));
    for (column, align) in grid.column_iter_mut().zip(aligned) {
        column.set_cell_alignment(align);
        column.set_padding((0, 2));
    }
    let widths = grid.column_max_content_widths();
    let names: usize = widths.iter().take(2).map(|&w| usize::from(w) + 2).sum();
    let mut lines: Vec<String> = grid
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let width = lines.iter().map(|line| line.chars().count()).max();
    let above = lines.len() - cases.len();
    for (line, case) in lines[above..].iter_mut().zip(cases) {
        if case.summary.is_none() {
            let name = format!("{line:names$}");
            let room = style.width().saturating_sub(names).max(20);
            let indent = format!("\n{}", " ".repeat(names));
            let reason = wrap(&reason(case.not_run.as_ref()), room, "").replace('\n', &indent);
            *line = name + &style.paint(&reason, YELLOW);
        }
    }
    (lines, width.unwrap_or(0))
}

fn verified(run: &Run) -> String {
    let own: Vec<&CaseResult> = run
        .cases
        .iter()
        .filter(|case| !is_twin(run, &case.name))
        .collect();
    let verified = own.iter().filter(|case| case.verified_bytes.is_some());
    format!(
        "Verified: every byte of a pass before the first round, in {} of {}.",
        verified.count(),
        pluralize(own.len(), "case")
    )
}

/// Which channel to use for messages of which size, and what the completions
/// of MSG_ZEROCOPY said.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let mut sizes: Vec<usize> = run.cases.iter().map(message).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut lines: Vec<String> = sizes
        .into_iter()
        .filter_map(|bytes| use_this(run, bytes))
        .collect();
    lines.extend(zerocopy(run));
    lines
}

/// The line of one size.
fn use_this(run: &Run, bytes: usize) -> Option<String> {
    let of_size = |wait| waiting(run, wait).filter(move |case| message(case) == bytes);
    let highest = |wait| of_size(wait).filter_map(rate).max_by(f64::total_cmp);
    let blocking = best(of_size(Waiting::Block)).map(|best| format!("{best} where the ends sleep"));
    // Who may spin need not.
    let any = match (highest(Waiting::Block), highest(Waiting::Spin)) {
        (_, None) => None,
        (Some(blocking), Some(spinning)) if blocking >= spinning => {
            Some("where they may spin, nothing was faster".to_owned())
        }
        _ => best(of_size(Waiting::Block).chain(of_size(Waiting::Spin)))
            .map(|best| format!("{best} where they may spin")),
    };
    let parts: Vec<String> = [blocking, any].into_iter().flatten().collect();
    let size = size::format(bytes as u64);
    (!parts.is_empty()).then(|| format!("Use this for messages of {size}: {}.", parts.join("; ")))
}

/// A case's median, where it was measured.
fn rate(case: &CaseResult) -> Option<f64> {
    case.summary
        .as_ref()
        .map(|summary| summary.gib_per_s.median)
}

/// The case with the highest median, and those whose intervals reach into its
/// own: medians alone would claim more than was found.
fn best<'a>(cases: impl Iterator<Item = &'a CaseResult>) -> Option<String> {
    let mut measured: Vec<(&CaseResult, &Summary)> = cases
        .filter_map(|case| Some((case, case.summary.as_ref()?)))
        .collect();
    measured.sort_by(|a, b| b.1.gib_per_s.median.total_cmp(&a.1.gib_per_s.median));
    let ((case, summary), others) = measured.split_first()?;
    let name = |case: &CaseResult| {
        if case.configuration.wait == Some(Waiting::Spin) {
            format!("{} spinning", channel(case))
        } else {
            channel(case).to_owned()
        }
    };
    let alike: Vec<String> = others
        .iter()
        // Without intervals nothing is told apart.
        .filter(|(_, other)| !apart(&other.gib_per_s, &summary.gib_per_s, 0.0))
        .map(|(case, _)| name(case))
        .collect();
    let rate = significant(summary.gib_per_s.median);
    Some(match alike.len() {
        0 => format!("{} ({rate} GiB/s)", name(case)),
        n if n == others.len() && n > 1 => {
            format!("{} ({rate} GiB/s; no other is told apart)", name(case))
        }
        _ => format!(
            "{} ({rate} GiB/s; not told apart: {})",
            name(case),
            alike.join(", ")
        ),
    })
}

fn zerocopy(run: &Run) -> Option<String> {
    let sum = |get: fn(&CaseResult) -> Option<u64>| run.cases.iter().filter_map(get).sum::<u64>();
    let sends = sum(|case| case.configuration.zerocopy_sends);
    let copied = sum(|case| case.configuration.zerocopy_copied);
    (sends > 0).then(|| copied_all_the_same(copied, sends))
}

/// What the completions of MSG_ZEROCOPY said.
pub(super) fn copied_all_the_same(copied: u64, sends: u64) -> String {
    format!(
        "MSG_ZEROCOPY: the kernel copied {:.1} % of the sends all the same, as their completions \
         say.",
        100.0 * copied as f64 / sends as f64
    )
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
