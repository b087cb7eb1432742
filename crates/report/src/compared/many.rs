//! Many runs against one, as those of a fleet: what stands out, and in which runs.

use std::collections::BTreeMap;

use itertools::Itertools as _;
use pipespeed_base::text::escape;
use pipespeed_measure::comparison::{ComparedCase, Comparison};
use pipespeed_measure::record::Verdict;

use super::{METHOD, short};
use crate::cases::number;
use crate::chart::bars::{Bar, BarChart, BarGroup, Part};
use crate::chart::palette;
use crate::chart::svg::WIDE;
use crate::format::{pluralize, times};
use crate::notes::{Note, notes};
use crate::style::{Style, YELLOW};
use crate::table::{Column, Table};

/// Maximum number of runs that a sentence names.
const MAX_NAMED: usize = 8;

/// A row for each case, then the runs that are slower or faster in it, and what differs in how
/// many of the runs.
pub(super) fn summary(comparisons: &[Comparison], style: Style) -> String {
    let blocks = [
        runs(comparisons, style),
        table(comparisons).render(style),
        standing_out(comparisons, style),
        doubts(comparisons, style),
    ];
    let blocks = blocks.iter().filter(|block| !block.is_empty());
    blocks.map(|block| block.trim_end()).join("\n\n") + "\n"
}

/// The runs, and the properties in which some differ from the older one.
fn runs(comparisons: &[Comparison], style: Style) -> String {
    let mut lines = Vec::new();
    if let Some(old) = comparisons.first().map(|first| &first.old) {
        let (file, rounds) = (&old.file, old.rounds);
        let line = format!(
            "old: {file} ({}, {}, {rounds} rounds)",
            old.suite, old.started_at
        );
        lines.push(escape(&line).into_owned());
    }
    let starts = comparisons
        .iter()
        .map(|comparison| &comparison.new.started_at);
    if let Some((first, last)) = starts.minmax().into_option() {
        let count = pluralize(comparisons.len(), "run");
        lines.push(format!("new: {count}, begun from {first} to {last}"));
    }
    let differences = comparisons.iter().flat_map(|comparison| {
        let of_run = comparison.differences.iter();
        of_run.map(move |difference| (&*difference.what, comparison))
    });
    let reasons = comparisons.iter().flat_map(|comparison| {
        let of_run = comparison.incomparable.iter();
        of_run.map(move |reason| (&**reason, comparison))
    });
    for (what, files) in grouped(differences) {
        lines.push(style.note(&format!("differs in {}: {what}", named(&files)), YELLOW));
    }
    for (reason, files) in grouped(reasons) {
        let line = format!("not comparable in {}: {reason}", named(&files));
        lines.push(style.note(&line, YELLOW));
    }
    lines.join("\n")
}

/// A bar for each case: the median of the ratios, with the range of all as its interval.
pub(super) fn chart(comparisons: &[Comparison]) -> String {
    let rows = names(comparisons).map(|name| BarGroup {
        name: name.to_owned(),
        bars: match RatioRange::new(comparisons, name) {
            Some(RatioRange {
                lowest,
                median,
                highest,
            }) => Ok(vec![Bar {
                parts: vec![Part {
                    length: median,
                    colour: palette::of_verdict(Verdict::Undecided),
                    ..Part::default()
                }],
                interval: Some((lowest, highest)),
                value: format!(
                    "{} ({} to {})",
                    times(median),
                    times(lowest),
                    times(highest)
                ),
                ..Bar::default()
            }]),
            None => Err("no ratio".to_owned()),
        },
    });
    let runs = pluralize(comparisons.len(), "run");
    let old = comparisons
        .first()
        .map_or("", |first| short(&first.old.file));
    let chart = BarChart {
        title: "pipespeed: compare",
        subtitle: vec![format!(
            "{runs} over {old}, unpaired: medians of the ratios, and their range"
        )],
        legend: Vec::new(),
        rows: rows.collect(),
        of_ratios: true,
        unit: "new rate / old rate",
        width: WIDE,
    };
    let disturbed = comparisons.iter().filter(|run| !mark(run).is_empty());
    let disturbed = match disturbed.count() {
        0 => Vec::new(),
        count => vec![format!(
            "{} disturbed, or with a failed null control",
            pluralize(count, "run")
        )],
    };
    chart.draw(&disturbed)
}

/// The ratios of one case.
struct RatioRange {
    lowest: f64,
    median: f64,
    highest: f64,
}

impl RatioRange {
    fn new(comparisons: &[Comparison], name: &str) -> Option<RatioRange> {
        let ratios = of_name(comparisons, name).filter_map(|(_, case)| case.ratio);
        let medians: Vec<f64> = ratios.map(|ratio| ratio.estimate.median).collect();
        let (lowest, highest) = medians
            .iter()
            .copied()
            .minmax_by(f64::total_cmp)
            .into_option()?;
        let median = pipespeed_stats::median(&medians)?;
        Some(RatioRange {
            lowest,
            median,
            highest,
        })
    }
}

fn table(comparisons: &[Comparison]) -> Table {
    let mut table = Table::new([
        Column::left("case"),
        Column::right("old GiB/s").optional(1),
        Column::right("lowest"),
        Column::right("median ratio"),
        Column::right("highest"),
        Column::right("slower"),
        Column::right("same"),
        Column::right("faster"),
        Column::right("undecided"),
        Column::right("no ratio").optional(2),
    ]);
    for name in names(comparisons) {
        let cases = || of_name(comparisons, name);
        let old = cases().find_map(|(_, case)| case.old);
        let count = |verdict| {
            let ratios = cases().filter_map(|(_, case)| case.ratio);
            ratios.filter(|ratio| ratio.verdict == verdict).count()
        };
        let verdicts = [
            Verdict::Slower,
            Verdict::Same,
            Verdict::Faster,
            Verdict::Undecided,
        ];
        let counts = verdicts.map(count);
        let without = comparisons.len() - counts.iter().sum::<usize>();
        let mut row = vec![name.to_owned(), number(old)];
        match RatioRange::new(comparisons, name) {
            Some(found) => row.extend([found.lowest, found.median, found.highest].map(times)),
            None => row.extend(["-", "-", "-"].map(str::to_owned)),
        }
        row.extend(counts.map(|count| count.to_string()));
        row.push(without.to_string());
        table.row(row);
    }
    table
}

/// The runs with a difference, by case; those that differ most first.
fn standing_out(comparisons: &[Comparison], style: Style) -> String {
    let mut lines = Vec::new();
    for name in names(comparisons) {
        for verdict in [Verdict::Slower, Verdict::Faster] {
            let found = of_name(comparisons, name).filter_map(|(comparison, case)| {
                let ratio = case.ratio.filter(|ratio| ratio.verdict == verdict)?;
                Some((ratio.estimate.median, comparison))
            });
            let by_distance = |(ratio, _): &(f64, &Comparison)| -ratio.ln().abs();
            let runs: Vec<String> = found
                .sorted_by(|a, b| by_distance(a).total_cmp(&by_distance(b)))
                .map(|(ratio, run)| {
                    format!("{} {}{}", short(&run.new.file), times(ratio), mark(run))
                })
                .collect();
            if !runs.is_empty() {
                let verdict = verdict.name();
                lines.push(style.note(&format!("{verdict}, {name}: {}", listed(&runs)), YELLOW));
            }
        }
    }
    lines.join("\n")
}

/// What makes a run's verdicts unreliable.
fn mark(run: &Comparison) -> &'static str {
    if run.disturbed().is_some() {
        " (disturbed)"
    } else if run.has_failed_control() {
        " (null control failed)"
    } else {
        ""
    }
}

fn doubts(comparisons: &[Comparison], style: Style) -> String {
    let count = comparisons.len();
    let mut all = vec![
        Note::Method(METHOD.to_owned()),
        Note::Caution(format!(
            "note: verdicts are corrected for the cases of one run, not for {count} runs, so \
             that a few may be slower or faster by chance"
        )),
    ];
    let of_runs = comparisons.iter().flat_map(|comparison| {
        let notes = comparison.notes.iter();
        notes.map(move |note| (&**note, comparison))
    });
    for (note, files) in grouped(of_runs) {
        all.push(Note::Caution(format!("note: in {}: {note}", named(&files))));
    }
    notes(all, style)
}

/// The runs of which each text is said; what is said of most runs comes first.
fn grouped<'a>(
    said: impl Iterator<Item = (&'a str, &'a Comparison)>,
) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (text, comparison) in said {
        runs.entry(text)
            .or_default()
            .push(short(&comparison.new.file));
    }
    let by_count = |(_, files): &(&str, Vec<&str>)| std::cmp::Reverse(files.len());
    runs.into_iter().sorted_by_key(by_count).collect()
}

fn named(files: &[&str]) -> String {
    format!("{} ({})", pluralize(files.len(), "run"), listed(files))
}

/// The first few, and how many more there are.
fn listed(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(MAX_NAMED).map(AsRef::as_ref).join(", ");
    match names.len().saturating_sub(MAX_NAMED) {
        0 => shown,
        more => format!("{shown}, and {more} more"),
    }
}

fn names(comparisons: &[Comparison]) -> impl Iterator<Item = &str> {
    let cases = comparisons.iter().flat_map(|comparison| &comparison.cases);
    cases.map(|case| &*case.name).unique()
}

fn of_name<'a>(
    comparisons: &'a [Comparison],
    name: &'a str,
) -> impl Iterator<Item = (&'a Comparison, &'a ComparedCase)> {
    comparisons.iter().filter_map(move |comparison| {
        let mut cases = comparison.cases.iter();
        Some((comparison, cases.find(|case| case.name == name)?))
    })
}
