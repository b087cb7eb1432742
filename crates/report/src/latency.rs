//! Round trips as text and as a chart.

use itertools::Itertools as _;

use super::blocks::{Blocks, TableBlock};
use super::channels::{RING_POLLS, not_shown};
use super::chart::lines::{LineChart, LineSeries, Panel};
use super::chart::palette;
use super::chart::svg::WIDE;
use super::conditions::{marks, of_record};
use super::format::{interval, pluralize, significant};
use super::notes::{Note, notes};
use super::style::{RED, Style};
use super::table::{Column, Table};
use pipespeed_base::{Named, size};
use pipespeed_measure::latency::record::{CaseRecord, LatencyRecord, LatencySummary};
use pipespeed_measure::latency::spec::{ExchangeMode, Length, Naive};
use pipespeed_measure::spec::Waiting;
use pipespeed_stats::Estimate;

/// With fewer round trips in a launch, its p99.9 is its maximum.
const MIN_FOR_P999: u64 = 1000;
/// Minimum share of a requested rate that counts as kept.
const MIN_KEPT: f64 = 0.95;
/// The percentiles labelled in the chart.
const LABELLED: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// The table, with notes.
pub fn latency_table(record: &LatencyRecord, style: Style) -> String {
    let title = match record.rate() {
        Some(_) => "Round trip from when the message was due, in us",
        None => "Round trip, in us",
    };
    format!(
        "{}\n{}\n\n{}",
        style.heading(title),
        table(record).render(style),
        latency_notes(record, style)
    )
}

/// The report on round trips, with the first deadlock of each exchange.
pub(super) fn blocks(record: &LatencyRecord) -> Blocks<'_> {
    let deadlocks = deadlocks(record).into_iter();
    let deadlocks = deadlocks.filter_map(|(is_first, line)| is_first.then_some(line));
    let notes = remarks(record).into_iter().map(Note::into_text);
    Blocks {
        findings: deadlocks.chain(notes).map(Into::into).collect(),
        chart: Box::new(|width| latency_chart_of_width(record, width)),
        tables: vec![TableBlock::new("Times in microseconds", table(record))],
    }
}

/// A row for each case.
fn table(record: &LatencyRecord) -> Table {
    let is_naive = record.cases.iter().any(|case| case.naive().is_some());
    let exchange = is_naive.then(|| Column::left("exchange"));
    let columns = exchange.into_iter().chain([
        Column::left("channel"),
        Column::right("size"),
        Column::right("p50"),
        Column::left("[95 %]").optional(3),
        Column::right("p90").optional(5),
        Column::right("p99"),
        Column::right("p99.9").optional(1),
        Column::right("max").optional(2),
        Column::right("MiB/s").optional(4),
    ]);
    let mut table = Table::new(columns);
    for case in &record.cases {
        let exchange = case.naive().map(|naive| naive.name().to_owned());
        let name = case.channel.name().to_owned();
        let size = size::exact(case.size as u64);
        let first = exchange.into_iter().chain([name, size]);
        match &case.summary {
            Some(summary) => table.row(first.chain([
                significant(summary.p50_us.median),
                interval(summary.p50_us.interval),
                significant(summary.p90_us.median),
                significant(summary.p99_us.median),
                significant(summary.p999_us.median),
                significant(summary.max_us),
                significant(summary.mib_per_s.median),
            ])),
            None => table.row_with_text(first, missing_reason(case)),
        }
    }
    table
}

/// Why a case has no figures.
fn missing_reason(case: &CaseRecord) -> String {
    match (&case.not_run, &case.deadlock) {
        (Some(not_run), _) => not_run.to_string(),
        (None, Some(deadlock)) => {
            let trips = pluralize(deadlock.round_trips as usize, "round trip");
            format!("{} after {trips}", missing_kind(case))
        }
        (None, None) => missing_kind(case).to_owned(),
    }
}

/// Why a case has no figures, in one or two words.
fn missing_kind(case: &CaseRecord) -> &'static str {
    match (&case.not_run, &case.deadlock) {
        (Some(not_run), _) => not_run.kind.name(),
        (None, Some(_)) => "deadlock",
        (None, None) if case.failed > 0 => "failed",
        (None, None) => "not run",
    }
}

/// The notes on the figures.
pub fn latency_notes(record: &LatencyRecord, style: Style) -> String {
    let interrupted = record.interrupted.iter();
    let mut all: Vec<Note> = interrupted
        .map(|signal| Note::Alarm(format!("interrupted: {signal}")))
        .collect();
    all.extend(remarks(record));
    all.extend(Note::warnings(&record.warnings));
    all.extend(method(record).into_iter().map(Note::Method));
    all.extend(rings_block(record).then(|| Note::Method(format!("note: {RING_POLLS}"))));
    // A deadlock is what the naive exchanges are run for: the first of each is explained
    // in any case, the others as far as there is room.
    let mut text = String::new();
    for (is_first, line) in deadlocks(record) {
        if is_first {
            text += &(style.note(&line, RED) + "\n");
        } else {
            all.push(Note::Caution(line));
        }
    }
    text + &notes(all, style) + "\n"
}

/// The explanation of each deadlock, and whether it is the first of its exchange.
fn deadlocks(record: &LatencyRecord) -> Vec<(bool, String)> {
    let mut explained = Vec::new();
    let deadlocks = record.cases.iter().filter_map(|case| {
        let how = case.explain_deadlock()?;
        let is_first = !explained.contains(&case.naive());
        explained.push(case.naive());
        Some((is_first, format!("{}: {how}", case.name())))
    });
    deadlocks.collect()
}

/// What the figures of a case don't show.
fn remarks(record: &LatencyRecord) -> Vec<Note> {
    let mut all = Vec::new();
    for case in &record.cases {
        let name = case.name();
        if let (ExchangeMode::Open(rate), Some(summary)) = (case.mode, &case.summary) {
            all.extend(rate_notes(&name, rate, summary));
        }
        all.extend(short_reads(case).map(Note::Caution));
    }
    let summaries = record.cases.iter().filter_map(|case| case.summary);
    let least = summaries.map(|summary| summary.min_count).min();
    all.extend(least.filter(|count| *count < MIN_FOR_P999).map(|count| {
        Note::Caution(format!(
            "note: a launch had only {}, so its p99.9 is its maximum (use more --time or --count)",
            pluralize(count as usize, "round trip")
        ))
    }));
    all
}

/// Notes if a requested rate was not kept.
fn rate_notes(name: &str, rate: f64, summary: &LatencySummary) -> Vec<Note> {
    let mut notes = Vec::new();
    if summary.per_s.median < rate * MIN_KEPT {
        notes.push(Note::Run(format!(
            "{name}: the rate was not kept: {} of {} messages per second were answered, so the \
             waiting times grow",
            significant(summary.per_s.median),
            significant(rate)
        )));
    }
    if summary.unanswered > 0 {
        notes.push(Note::Run(format!(
            "{name}: {} still unanswered when the launch was stopped; each counts with the time \
             waited until then",
            pluralize(summary.unanswered as usize, "message")
        )));
    }
    notes
}

/// Notes if reads returned only parts of messages.
fn short_reads(case: &CaseRecord) -> Option<String> {
    let short = case.summary?.short_reads;
    let reads: f64 = case.samples.iter().map(|sample| sample.count as f64).sum();
    (short > 0).then(|| {
        format!(
            "{}: {short} of {} returned only a part of a message: such a round trip is timed, but \
             does not count in MiB/s",
            case.name(),
            pluralize(reads as usize, "read")
        )
    })
}

/// The number of launches per case, and the planned number if it is larger.
fn launches(record: &LatencyRecord) -> String {
    let planned = record.settings.rounds;
    let launches = measured(record).map(|case| case.samples.len());
    let (least, most) = launches.minmax().into_option().unwrap_or((0, 0));
    let all = match planned {
        1 => "1 launch".to_owned(),
        planned => format!("{planned} launches"),
    };
    match (least, most) {
        (least, _) if least >= planned => all,
        (least, most) if least == most => format!("{least} of {all}"),
        (least, most) => format!("{least} to {most} of {all}"),
    }
}

/// Whether a ring is among the channels that sleep.
fn rings_block(record: &LatencyRecord) -> bool {
    let is_ring = |case: &CaseRecord| case.channel.is_ring();
    record.settings.wait == Waiting::Block && measured(record).any(is_ring)
}

/// The kinds of exchange of a run.
fn exchanges(record: &LatencyRecord) -> String {
    let modes = record.cases.iter().map(|case| case.mode).dedup();
    modes.map(exchange).join("; ")
}

fn exchange(mode: ExchangeMode) -> String {
    match mode {
        ExchangeMode::Closed => {
            "one message at a time, sent after the reply to the last".to_owned()
        }
        ExchangeMode::Open(rate) => format!(
            "{} messages per second on a fixed schedule, each timed from when it was due; the sender polls from \
             0.2 ms before that if it has a processor of its own",
            significant(rate)
        ),
        ExchangeMode::Naive(naive) => format!("{naive}: {}", naive.about()),
    }
}

fn waiting(wait: Waiting) -> &'static str {
    match wait {
        Waiting::Block | Waiting::Poll => "sleeping",
        Waiting::Spin | Waiting::Pause | Waiting::Backoff => "spinning",
        Waiting::Adaptive => "spinning for up to 50 us, then sleeping",
    }
}

/// Notes on the method, the most important first.
fn method(record: &LatencyRecord) -> [String; 2] {
    let settings = &record.settings;
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
            let relation = &settings.relation;
            format!("sender on processor {sender}, echo on {echo} ({relation})")
        }
        _ => settings.relation.clone(),
    };
    let mut summaries = record.cases.iter().filter_map(|case| case.summary);
    let intervals = if summaries.any(|summary| summary.p50_us.interval.is_some()) {
        "p50 with its 95 % interval"
    } else {
        "too few of them for intervals"
    };
    [
        format!(
            "Measured: {}; round-trip times, not halved; {}{pipes}; {place}; {} of {length}.",
            exchanges(record),
            waiting(settings.wait),
            launches(record)
        ),
        format!(
            "Percentiles: median over launches, {intervals}; max: over all launches. MiB/s: round \
             trips per second times the size of a message, counted once per round trip. Order from \
             seed {}; each launch begins with a warm-up.",
            settings.seed
        ),
    ]
}

/// The distribution of round trips: a panel for each size of messages, a line of medians
/// over launches for each channel. Each step to the right is ten times rarer, to show the
/// slowest.
pub fn latency_chart(record: &LatencyRecord) -> String {
    latency_chart_of_width(record, WIDE)
}

/// The same on a card of this width.
fn latency_chart_of_width(record: &LatencyRecord, width: i32) -> String {
    let groups = measured(record).map(|case| (case.naive(), case.size));
    let groups = groups.sorted_by_key(|(_, size)| *size).dedup();
    let mut subtitle = vec![
        of_record(&record.header),
        format!(
            "round-trip times, not halved; {}; {} ({})",
            exchanges(record),
            waiting(record.settings.wait),
            record.settings.relation
        ),
        format!(
            "at each percentage: the median over {}, equally weighted",
            launches(record)
        ),
    ];
    subtitle.extend(rings_block(record).then(|| RING_POLLS.to_owned()));
    let interrupted = record.interrupted.iter();
    subtitle.extend(interrupted.map(|signal| format!("interrupted: {signal}")));
    subtitle.extend(missing(record).map(|missing| format!("not shown: {missing}")));
    let panel = |(naive, bytes): (Option<Naive>, usize)| {
        let cases = measured(record).filter(|case| (case.naive(), case.size) == (naive, bytes));
        let exchange = naive.map_or_else(String::new, |naive| format!(", {naive}"));
        Panel {
            title: format!("Messages of {}{exchange}", size::exact(bytes as u64)),
            lines: cases.map(line).collect(),
            ..Panel::default()
        }
    };
    let chart = LineChart {
        title: "pipespeed: round trips",
        subtitle,
        panels: groups.map(panel).collect(),
        height: 250,
        ticks: LABELLED
            .map(|percent| (rarity(percent), percent.to_string()))
            .to_vec(),
        x_label: "% of round trips that were shorter",
        y_unit: "us",
        repeated: launches(record),
        width,
    };
    chart.draw(&marks(&record.warnings))
}

fn line(case: &CaseRecord) -> LineSeries {
    let point = |&(percent, us): &(f64, f64)| {
        let interval = None;
        let estimate = Estimate {
            median: us,
            interval,
        };
        (rarity(percent), estimate)
    };
    let name = case.channel.name();
    LineSeries {
        name: name.to_owned(),
        colour: palette::of_channel(name).1,
        mark: Some(palette::of_channel(name).0),

        points: case.curve.iter().map(point).collect(),
    }
}

fn measured(record: &LatencyRecord) -> impl Iterator<Item = &CaseRecord> {
    record.cases.iter().filter(|case| case.summary.is_some())
}

/// The cases without a line, with reasons.
fn missing(record: &LatencyRecord) -> Option<String> {
    let names = record.cases.iter().map(|case| match case.naive() {
        Some(naive) => format!("{} with {naive}", case.channel),
        None => case.channel.name().to_owned(),
    });
    let names: Vec<String> = names.collect();
    let cases = record.cases.iter().zip(&names).map(|(case, name)| {
        let why = case.summary.is_none().then(|| missing_kind(case));
        (&**name, case.size, why)
    });
    not_shown(&cases.collect::<Vec<_>>())
}

/// The position of a percentile: 1 at 90, 2 at 99.
fn rarity(percent: f64) -> f64 {
    2.0 - (100.0 - percent).log10()
}

#[cfg(test)]
pub(crate) mod tests;
