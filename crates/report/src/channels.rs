//! The suite channels: a table for each way of waiting, with a row for each channel and
//! size, and the best channel for each size of messages.

use itertools::Itertools as _;
use pipespeed_base::{Named, size};
use pipespeed_measure::record::{CaseResult, Estimate, Run, Verdict, comparisons};
use pipespeed_measure::rounds::rounds_for_verdicts;
use pipespeed_measure::spec::{Channel, Waiting};

use super::blocks::TableBlock;
use super::cases::{cpu_ms, level, number, reason};
use super::chart::lines::{LineChart, LineSeries, Panel};
use super::chart::palette;
use super::conditions::{self, has_intervals, marks_of_run, rounds_of_points, subtitle};
use super::findings::is_below;
use super::format::{grouped, interval, pluralize, ratio, significant};
use super::steps::{cases_without_twin, fastest, hidden_reason, measured};
use super::table::{Column, Table};

/// The ways of waiting, and their headings.
const WAYS: [(Waiting, &str); 2] = [
    (Waiting::Block, "Blocking: an end that has to wait sleeps"),
    (
        Waiting::Spin,
        "Spinning: an end that has to wait tries again at once; each occupies a processor",
    ),
];

/// How a ring blocks.
pub(super) const RING_POLLS: &str = "a ring's end polls for about a microsecond before it sleeps, so two ends \
                          in step seldom sleep";

/// Whether a ring is among the channels that sleep.
fn rings_block(run: &Run) -> bool {
    waiting(run, Waiting::Block).any(|case| {
        case.summary.is_some() && case.configuration.channel().is_some_and(Channel::is_ring)
    })
}

/// The cases of one way of waiting, without the null control's twin.
pub(super) fn waiting(run: &Run, wait: Waiting) -> impl Iterator<Item = &CaseResult> {
    cases_without_twin(run).filter(move |case| case.configuration.wait == Some(wait))
}

/// The channel of a case, or its name if it is none of the suite's.
pub(super) fn channel(case: &CaseResult) -> &str {
    case.configuration
        .channel()
        .map_or(&*case.name, |channel| channel.name())
}

/// The size of a case's messages in bytes.
pub(super) fn message(case: &CaseResult) -> usize {
    case.configuration.message_bytes.unwrap_or_default()
}

/// A table for each way of waiting.
pub(super) fn tables(run: &Run) -> Vec<TableBlock> {
    let ways = WAYS.iter().filter_map(|(wait, heading)| {
        let cases: Vec<&CaseResult> = waiting(run, *wait).collect();
        (!cases.is_empty()).then(|| TableBlock::headed(*heading, table(run, &cases)))
    });
    ways.collect()
}

/// The table of some cases.
fn table(run: &Run, cases: &[&CaseResult]) -> Table {
    let mut columns = vec![
        Column::right("message"),
        Column::left("channel"),
        Column::right("GiB/s"),
    ];
    let with_intervals = has_intervals(run);
    columns.extend(with_intervals.then(|| Column::left(level(run)).optional(1)));
    columns.extend([
        Column::right("CPU ms\n/GiB").optional(4),
        Column::right("CPU us\n/message").optional(3),
        Column::left("against").optional(2),
    ]);
    let mut table = Table::new(columns);
    let mut last = None;
    for case in cases {
        // A size is shown in its first row.
        let bytes = message(case);
        let size = match last.replace(bytes) {
            Some(last) if last == bytes => String::new(),
            _ => size::exact(bytes as u64),
        };
        let mut row = vec![size, channel(case).to_owned()];
        let Some(summary) = &case.summary else {
            table.row_with_text(row, reason(case));
            continue;
        };
        row.push(significant(summary.gib_per_s.median));
        row.extend(with_intervals.then(|| interval(summary.gib_per_s.interval)));
        row.extend([
            cpu_ms(summary),
            number(summary.cpu_us_per_message),
            against(run, case).unwrap_or_default(),
        ]);
        table.row(row);
    }
    table
}

/// The ratio to the case that this one is compared with.
fn against(run: &Run, case: &CaseResult) -> Option<String> {
    let (found, other) = case.ratio.zip(case.compared_with.as_deref())?;
    let other = run.case(other).map_or(other, channel);
    let verdict = found.verdict.name();
    let reason = hidden_reason(&found);
    let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
    Some(format!(
        "{other}: {} {verdict}{reason}",
        ratio(found.estimate)
    ))
}

/// Notes on the method, with the buffers and the verification.
pub(super) fn method(run: &Run) -> Vec<String> {
    let mut notes = conditions::method(run);
    notes.extend(rings_block(run).then(|| format!("Sleeping: {RING_POLLS}.")));
    notes.push(verified(run));
    notes.push(buffers(run));
    notes
}

fn verified(run: &Run) -> String {
    let verified = cases_without_twin(run).filter(|case| case.verified_bytes.is_some());
    format!(
        "Verified: every byte of a pass before the first round, in {} of {}.",
        verified.count(),
        pluralize(cases_without_twin(run).count(), "case")
    )
}

/// The best channel for each size of messages.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let sizes = sizes(run).into_iter();
    sizes
        .filter_map(|bytes| recommendation(run, bytes))
        .collect()
}

fn sizes(run: &Run) -> Vec<usize> {
    run.cases.iter().map(message).sorted().dedup().collect()
}

/// The best channels for one size of messages.
fn recommendation(run: &Run, bytes: usize) -> Option<String> {
    let of_size = |wait| waiting(run, wait).filter(move |case| message(case) == bytes);
    let block = || of_size(Waiting::Block);
    let blocking = best(run, block()).map(|best| format!("{best} if the ends sleep"));
    // Ends that may spin may also sleep instead.
    let spinning = fastest(of_size(Waiting::Spin).filter_map(measured));
    let any = match (fastest(block().filter_map(measured)), spinning) {
        (_, None) => None,
        (Some(blocking), Some(spinning)) if blocking.1.median >= spinning.1.median => Some(
            if is_certain(run, blocking, spinning) {
                "spinning is no faster"
            } else {
                "spinning had no higher median"
            }
            .to_owned(),
        ),
        _ => best(run, block().chain(of_size(Waiting::Spin)))
            .map(|best| format!("{best} if they may spin")),
    };
    let parts = [blocking, any].into_iter().flatten().join("; ");
    let size = size::exact(bytes as u64);
    (!parts.is_empty()).then(|| format!("Fastest for messages of {size}: {parts}."))
}

/// A case and its rate.
type Measured<'a> = (&'a CaseResult, &'a Estimate);

/// Whether the run shows that `fast` is the faster one: its interval lies above, and the
/// verdict agrees if the two were compared. Nothing is certain if verdicts are withheld.
fn is_certain(run: &Run, fast: Measured<'_>, slow: Measured<'_>) -> bool {
    let verdict_against = |case: &CaseResult, other: &CaseResult| {
        let is_compared = case.compared_with.as_ref() == Some(&other.name);
        is_compared.then_some(case.ratio?.verdict)
    };
    let agrees = match (
        verdict_against(fast.0, slow.0),
        verdict_against(slow.0, fast.0),
    ) {
        (Some(verdict), _) => verdict == Verdict::Faster,
        (None, Some(verdict)) => verdict == Verdict::Slower,
        (None, None) => true,
    };
    let needed = rounds_for_verdicts(comparisons::count(run), run.settings.confidence);
    agrees && run.settings.rounds_done >= needed && is_below(slow.1, fast.1, run.null_tolerance())
}

/// The case with the highest median, or those between which the run does not decide.
fn best<'a>(run: &Run, cases: impl Iterator<Item = &'a CaseResult>) -> Option<String> {
    let mut found: Vec<Measured<'_>> = cases.filter_map(measured).collect();
    found.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    let (first, others) = found.split_first()?;
    let name = |case: &CaseResult| {
        if case.configuration.wait == Some(Waiting::Spin) {
            format!("{} spinning", channel(case))
        } else {
            channel(case).to_owned()
        }
    };
    let alike = others
        .iter()
        .filter(|other| !is_certain(run, *first, **other));
    let alike: Vec<String> = alike.map(|(case, _)| name(case)).collect();
    let best = format!("{} ({} GiB/s)", name(first.0), significant(first.1.median));
    Some(match alike.split_last() {
        None => best,
        Some(_) if alike.len() == others.len() && alike.len() > 1 => {
            format!("undecided, no other differs with certainty from {best}")
        }
        Some((last, [])) => format!("undecided between {best} and {last}"),
        Some((last, middle)) => {
            format!("undecided between {best}, {} and {last}", middle.join(", "))
        }
    })
}

/// The buffers between the ends, channel by channel.
fn buffers(run: &Run) -> String {
    let buffers = cases_without_twin(run).map(|case| (channel(case), buffer(case)));
    let buffers = buffers.filter(|(_, buffer)| !buffer.is_empty());
    let by_channel = grouped(buffers).into_iter().map(|(name, buffers)| {
        let buffers: Vec<String> = buffers.into_iter().unique().collect();
        let all = match &buffers[..] {
            // The smallest messages come first.
            [first, .., last] => format!("{first} to {last} by the size of the messages"),
            buffers => buffers.concat(),
        };
        (all, name)
    });
    let lines = grouped(by_channel).into_iter();
    let lines = lines.map(|(buffers, names)| format!("{}: {buffers}", names.join(", ")));
    let lines = match lines.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        lines => format!("Initial buffers: {}. ", lines.join("; ")),
    };
    format!(
        "{lines}A reader of a stream asks for at least 64 KiB at a time, a reader of messages for \
         one message."
    )
}

fn buffer(case: &CaseResult) -> String {
    let configuration = &case.configuration;
    let named = |name: &str, bytes: Option<usize>| {
        bytes.map(|bytes| format!("{name}{}", size::format(bytes as u64)))
    };
    let nodelay = configuration.nodelay == Some(true);
    let words = [
        named("", configuration.pipe_bytes),
        named("", configuration.ring_bytes),
        named("SO_SNDBUF ", configuration.send_buffer_bytes),
        named("SO_RCVBUF ", configuration.receive_buffer_bytes),
        nodelay.then(|| "TCP_NODELAY".to_owned()),
        configuration
            .queue_messages
            .map(|n| pluralize(n, "message")),
    ];
    words.into_iter().flatten().join(", ")
}

/// Throughput by the size of messages: a panel for each way of waiting, a line for each
/// channel.
pub(super) fn chart(run: &Run, width: i32) -> String {
    let small = if has_intervals(run) {
        "; intervals no larger than their mark are not drawn"
    } else {
        ""
    };
    let mut below_title = subtitle(run);
    below_title.push(format!(
        "every byte produced by the writer and used by the reader{small}"
    ));
    below_title.extend(rings_block(run).then(|| RING_POLLS.to_owned()));
    below_title.extend(missing(run));
    let panels = WAYS.iter().map(|(wait, title)| {
        let line = |name: &str| LineSeries {
            name: name.to_owned(),
            colour: palette::of_channel(name).1,
            mark: Some(palette::of_channel(name).0),

            points: waiting(run, *wait)
                .filter(|case| channel(case) == name)
                .filter_map(|case| Some((position(message(case)), *measured(case)?.1)))
                .collect(),
        };
        let lines = Channel::values().map(|channel| line(channel.name()));
        Panel {
            title: (*title).to_owned(),
            lines: lines.filter(|line| !line.points.is_empty()).collect(),
            ..Panel::default()
        }
    });
    let chart = LineChart {
        title: "pipespeed: throughput over message size",
        subtitle: below_title,
        panels: panels.filter(|panel| !panel.lines.is_empty()).collect(),
        height: 330,
        ticks: size_ticks(&sizes(run)),
        x_label: "size of a message",
        y_unit: "GiB/s",
        repeated: rounds_of_points(run),
        width,
    };
    chart.draw(&marks_of_run(run))
}

/// The position of a size on a logarithmic axis.
pub(super) fn position(bytes: usize) -> f64 {
    (bytes.max(1) as f64).ln()
}

/// The ticks of an axis of sizes.
pub(super) fn size_ticks(sizes: &[usize]) -> Vec<(f64, String)> {
    let tick = |bytes: &usize| (position(*bytes), size::exact(*bytes as u64));
    sizes.iter().map(tick).collect()
}

/// A channel, the size of its messages, and why it is not shown, if so.
type Shown<'a> = (&'a str, usize, Option<&'a str>);

/// The channels and sizes that were not measured, with reasons, by way of waiting.
fn missing(run: &Run) -> Vec<String> {
    let of_way = |wait| {
        let case = |case| (channel(case), message(case), reason_not_shown(case));
        let cases: Vec<Shown<'_>> = waiting(run, wait).map(case).collect();
        match cases.iter().map(|case| case.2).max().flatten() {
            Some(why) if cases.iter().all(|case| case.2.is_some()) => Some(format!("all ({why})")),
            _ => not_shown(&cases),
        }
    };
    let missing = [of_way(Waiting::Block), of_way(Waiting::Spin)];
    let ways = if missing.iter().all_equal() {
        vec![""]
    } else {
        vec![" of blocking", " of spinning"]
    };
    ways.into_iter()
        .zip(missing)
        .filter_map(|(way, missing)| Some(format!("not shown{way}: {}", missing?)))
        .collect()
}

/// Why a case is not shown; `None` if it is.
fn reason_not_shown(case: &CaseResult) -> Option<&'static str> {
    if case.summary.is_some() {
        return None;
    }
    let not_run = case.not_run.as_ref();
    Some(not_run.map_or("not measured", |not_run| not_run.kind.name()))
}

/// The cases that are not shown, with reasons, by channel and size: "mqueue from 16KiB on
/// (limit)". `None` if all are shown.
pub(super) fn not_shown(cases: &[Shown<'_>]) -> Option<String> {
    let names = cases.iter().map(|case| case.0).unique();
    let missing = names
        .filter_map(|name| sizes_not_shown(name, cases))
        .join(", ");
    (!missing.is_empty()).then_some(missing)
}

fn sizes_not_shown(name: &str, cases: &[Shown<'_>]) -> Option<String> {
    let own = || cases.iter().filter(|case| case.0 == name);
    let missing: Vec<usize> = own()
        .filter(|case| case.2.is_some())
        .map(|case| case.1)
        .sorted()
        .collect();
    let first = *missing.first()?;
    let reasons = own().filter_map(|case| case.2).sorted().dedup().join(", ");
    let bytes = |bytes: usize| size::exact(bytes as u64);
    let shown = own().filter(|case| case.2.is_none()).map(|case| case.1);
    let sizes = match shown.max() {
        None => String::new(),
        Some(last) if last < first && missing.len() > 1 => format!(" from {} on", bytes(first)),
        Some(_) => format!(" of {}", missing.into_iter().map(bytes).join(" and ")),
    };
    Some(format!("{name}{sizes} ({reasons})"))
}

#[cfg(test)]
mod tests;
