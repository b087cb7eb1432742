//! Round trips as text: a table, and what has to be said of it.

use comfy_table::{CellAlignment, Table, presets};

use super::channels::copied_all_the_same;
use super::format::{interval, pluralize, significant, wrap};
use super::style::{BOLD, RED, Style, YELLOW};
use pipespeed_base::size;
use pipespeed_host::Warning;
use pipespeed_measure::latency::channels::Kind;
use pipespeed_measure::latency::record::{CaseRecord, Record, Summary};
use pipespeed_measure::latency::spec::{Length, Mode, Wait};

/// Below so many round trips in a launch its p99.9 is its longest.
const FOR_P999: u64 = 1000;
/// The share of a rate that must be reached for it to have been kept.
const KEPT: f64 = 0.95;

const HEADINGS: [&str; 9] = [
    "channel", "size", "p50", "[95 %]", "p90", "p99", "p99.9", "max", "MiB/s",
];

/// The table with its notes.
pub fn latency_table(record: &Record, style: Style) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(HEADINGS);
    for case in &record.cases {
        table.add_row(row(case));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if !matches!(index, 0 | 3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column.set_padding((0, 2));
    }
    let title = match record.settings.mode {
        Mode::Open(_) => "Round trip from when the message was due, in us",
        Mode::Closed | Mode::Naive => "Round trip, in us",
    };
    let mut text = style.paint(title, BOLD) + "\n";
    for (line, case) in table.lines().zip(heading_first(&record.cases)) {
        let line = line.trim_end();
        match case.and_then(|case| case.not_run.as_ref()) {
            Some(not_run) => text.push_str(&wrap(
                &format!("{line}  {not_run}"),
                style.width(),
                "                    ",
            )),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text + "\n" + &latency_notes(record, style)
}

fn heading_first(cases: &[CaseRecord]) -> impl Iterator<Item = Option<&CaseRecord>> {
    std::iter::once(None).chain(cases.iter().map(Some))
}

fn row(case: &CaseRecord) -> [String; 9] {
    let name = case.channel.name().to_owned();
    let size = size::exact(case.size as u64);
    let Some(summary) = &case.summary else {
        let what = match (&case.not_run, &case.deadlock, case.failed) {
            (Some(_), _, _) => "-",
            (None, Some(_), _) => "deadlock",
            (None, None, 0) => "not run",
            (None, None, _) => "failed",
        };
        let mut row: [String; 9] = Default::default();
        row[0] = name;
        row[1] = size;
        row[2] = what.to_owned();
        return row;
    };
    [
        name,
        size,
        significant(summary.p50_us.median),
        interval(summary.p50_us.interval),
        significant(summary.p90_us.median),
        significant(summary.p99_us.median),
        significant(summary.p999_us.median),
        significant(summary.max_us),
        significant(summary.mib_per_s.median),
    ]
}

/// What has to be said of the figures.
pub fn latency_notes(record: &Record, style: Style) -> String {
    let mut text = String::new();
    for case in &record.cases {
        let name = case.name();
        if let Some(how) = &case.deadlock {
            let line = wrap(&format!("{name}: {how}"), style.width(), "  ");
            text.push_str(&style.paint(&line, RED));
            text.push('\n');
        }
        if let (Mode::Open(rate), Some(summary)) = (record.settings.mode, &case.summary) {
            for note in of_rate(&name, rate, summary) {
                text.push_str(&wrap(&note, style.width(), "  "));
                text.push('\n');
            }
        }
    }
    text.extend(zerocopy(record).map(|line| wrap(&line, style.width(), "  ") + "\n"));
    let few = record.cases.iter().filter_map(|case| case.summary);
    let notes = few
        .map(|summary| summary.least_count)
        .min()
        .filter(|count| *count < FOR_P999)
        .map(|count| {
            format!(
                "a launch had as few as {}: its p99.9 is its longest (--time or --count takes more)",
                pluralize(count as usize, "round trip")
            )
        });
    if let Some(signal) = &record.interrupted {
        text.push_str(&style.paint(&format!("interrupted: {signal}"), YELLOW));
        text.push('\n');
    }
    let ring = ring_looks_first(record);
    let warnings = record.warnings.iter().map(Warning::to_string);
    for note in ring.into_iter().chain(notes).chain(warnings) {
        text.push_str(&wrap(&format!("note: {note}"), style.width(), "  "));
        text.push('\n');
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text + &wrap(&method(record), style.width(), "  ") + "\n"
}

/// What became of sends with MSG_ZEROCOPY.
fn zerocopy(record: &Record) -> Option<String> {
    let told = || record.cases.iter().filter_map(|case| case.zerocopy);
    let completed: u64 = told().map(|counts| counts.completed).sum();
    let copied: u64 = told().map(|counts| counts.copied).sum();
    (completed > 0).then(|| copied_all_the_same(copied, completed))
}

/// Whether a rate was kept.
fn of_rate(name: &str, rate: f64, summary: &Summary) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.per_s.median < rate * KEPT {
        notes.push(format!(
            "{name}: the rate was not kept: {} of {} messages a second came back, so each waits longer than the one \
             before",
            significant(summary.per_s.median),
            significant(rate)
        ));
    }
    if summary.unanswered > 0 {
        notes.push(format!(
            "{name}: {} had not come back when the launch was given up; they count with the time they had waited",
            pluralize(summary.unanswered as usize, "message")
        ));
    }
    notes
}

/// How many launches of each case there were: of those asked for, if not all.
pub(super) fn launches(record: &Record) -> String {
    let asked = record.settings.rounds;
    let measured = || {
        let cases = record.cases.iter().map(|case| case.launches.len());
        cases.filter(|launches| *launches > 0)
    };
    let (least, most) = (measured().min().unwrap_or(0), measured().max().unwrap_or(0));
    let all = match asked {
        1 => "1 launch".to_owned(),
        many => format!("{many} launches"),
    };
    match (least, most) {
        (least, _) if least >= asked => all,
        (least, most) if least == most => format!("{least} of {all}"),
        (least, most) => format!("{least} to {most} of {all}"),
    }
}

/// Rings that don't sleep at once, where a report says that the processes do.
pub(super) fn ring_looks_first(record: &Record) -> Option<String> {
    let is_ring = |case: &CaseRecord| matches!(case.channel, Kind::Ring | Kind::RingCopy);
    let measured = |case: &&CaseRecord| case.summary.is_some();
    let sleeping = record.settings.wait == Wait::Block;
    let any = record.cases.iter().filter(measured).any(is_ring);
    (sleeping && any).then(|| {
        "a ring looks for about a microsecond before it sleeps; two ends in step never do"
            .to_owned()
    })
}

/// What the figures are.
fn method(record: &Record) -> String {
    let settings = &record.settings;
    let exchange = match settings.mode {
        Mode::Closed => "one message at a time, sent when the last has come back".to_owned(),
        Mode::Open(rate) => format!(
            "{} messages a second on a fixed schedule, each counted from when it was due",
            significant(rate)
        ),
        Mode::Naive => "both processes write first and read then".to_owned(),
    };
    let waiting = match settings.wait {
        Wait::Block => "sleeping",
        Wait::Spin => "spinning",
        Wait::Adaptive => "spinning for 50 us, then sleeping",
    };
    let pipes = match settings.pipe_bytes {
        Some(bytes) => format!("; pipes of {}", size::format(bytes as u64)),
        None => String::new(),
    };
    let length = match settings.length {
        Length::Count(count) => pluralize(count as usize, "round trip"),
        Length::Time(ns) => format!("{} s", significant(ns as f64 / 1e9)),
    };
    let place = match settings.cpus {
        [Some(sender), Some(echo)] => {
            format!(
                "sender on processor {sender}, echo on {echo} ({})",
                settings.relation
            )
        }
        _ => settings.relation.clone(),
    };
    let interval = of_intervals(record);
    format!(
        "Measured: {exchange}; there and back, not halved; {waiting}{pipes}; {place}; {} of {length} after a warm-up, \
         order from seed {}. Percentiles: median over launches, {interval}; max: the longest of all. \
         MiB/s: round trips a second times the size, each message counted once though it travels twice.",
        launches(record),
        settings.seed
    )
}

/// What is said of the intervals of medians.
fn of_intervals(record: &Record) -> &'static str {
    let mut summaries = record.cases.iter().filter_map(|case| case.summary);
    if summaries.any(|summary| summary.p50_us.interval.is_some()) {
        "p50 with its 95 % interval"
    } else {
        "too few of them for intervals"
    }
}

#[cfg(test)]
#[path = "latency_tests.rs"]
pub(crate) mod tests;
