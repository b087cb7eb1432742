//! Comparisons of saved runs as text and as a chart.

use std::cmp::Ordering;

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_measure::comparison::{ComparedCase, Comparison};
use pipespeed_measure::record::Verdict;

use super::chart::{DotRow, dot_chart};
use super::format::{ratio_interval, significant, times, wrap};
use super::style::{BOLD, DIM, GREEN, RED, Style, YELLOW};

/// What differs comes first, then a line a case.
pub fn comparison_table(comparisons: &[Comparison], style: Style) -> String {
    let mut blocks = Vec::new();
    for comparison in comparisons {
        blocks.extend(origin(comparison, comparisons.len() > 1, style));
    }
    blocks.push(match comparisons {
        [one] => single(one, style),
        many => matrix(many, style),
    });
    blocks.extend(below(comparisons, style));
    let mut text = blocks.join("\n\n");
    text.push('\n');
    text
}

/// A point with its interval a case, and a chart's block a newer run.
pub fn comparison_chart(comparisons: &[Comparison]) -> String {
    let many = comparisons.len() > 1;
    let rows: Vec<DotRow> = comparisons
        .iter()
        .flat_map(|comparison| {
            comparison.cases.iter().map(move |case| DotRow {
                name: if many {
                    format!("{} {}", short(&comparison.new.file), case.name)
                } else {
                    case.name.clone()
                },
                ratio: case.ratio.map(|ratio| ratio.estimate),
                beyond: match case.ratio.map(|ratio| ratio.verdict) {
                    Some(Verdict::Faster) => Ordering::Greater,
                    Some(Verdict::Slower) => Ordering::Less,
                    _ => Ordering::Equal,
                },
                note: match case.ratio {
                    Some(ratio) => ratio.verdict.name().to_owned(),
                    None => "no ratio".to_owned(),
                },
            })
        })
        .collect();
    let subtitle = comparisons
        .iter()
        .map(|c| {
            format!(
                "{} ({}) over {} ({}), unpaired",
                short(&c.new.file),
                c.new.started_at,
                short(&c.old.file),
                c.old.started_at
            )
        })
        .collect::<Vec<_>>()
        .join("\n");
    dot_chart(
        "pipespeed: compare",
        &subtitle,
        &rows,
        "new rate / old rate",
    )
}

fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn origin(comparison: &Comparison, many: bool, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let (old, new) = (&comparison.old, &comparison.new);
    for (which, side) in [("old", old), ("new", new)] {
        lines.push(format!(
            "{which}: {} ({}, {}, {} rounds)",
            side.file, side.suite, side.started_at, side.rounds
        ));
    }
    if many {
        lines.remove(0);
    }
    for difference in &comparison.differences {
        let line = format!(
            "differs: {}: {} -> {}",
            difference.what, difference.old, difference.new
        );
        lines.push(style.paint(&wrap(&line, style.width(), "  "), YELLOW));
    }
    for reason in &comparison.incomparable {
        let line = format!("makes no sense: {reason}");
        lines.push(style.paint(&wrap(&line, style.width(), "  "), RED));
    }
    vec![lines.join("\n")]
}

fn single(comparison: &Comparison, style: Style) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["case", "old GiB/s", "new GiB/s", "ratio", "interval", ""]);
    for case in &comparison.cases {
        table.add_row([
            case.name.clone(),
            rate(case.old),
            rate(case.new),
            case.ratio
                .map_or_else(|| "-".to_owned(), |r| times(r.estimate.median)),
            case.ratio
                .map_or_else(String::new, |r| ratio_interval(r.estimate.interval)),
            outcome(case),
        ]);
    }
    finish(table, &[1, 2, 3], style)
}

fn matrix(comparisons: &[Comparison], style: Style) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["case".to_owned()];
    if let Some(first) = comparisons.first() {
        header.push(format!("{} GiB/s", short(&first.old.file)));
    }
    header.extend(comparisons.iter().map(|c| short(&c.new.file).to_owned()));
    table.set_header(header);
    let mut names: Vec<&str> = Vec::new();
    for case in comparisons.iter().flat_map(|c| &c.cases) {
        if !names.contains(&case.name.as_str()) {
            names.push(&case.name);
        }
    }
    for name in names {
        let find = |c: &'_ Comparison| c.cases.iter().find(|case| case.name == name).cloned();
        let mut row = vec![name.to_owned()];
        let old = comparisons.iter().find_map(|c| find(c)?.old);
        row.push(rate(old));
        row.extend(comparisons.iter().map(|c| match find(c) {
            Some(ComparedCase {
                ratio: Some(ratio), ..
            }) => format!(
                "{} {} {}",
                times(ratio.estimate.median),
                ratio_interval(ratio.estimate.interval),
                ratio.verdict.name()
            ),
            _ => "-".to_owned(),
        }));
        table.add_row(row);
    }
    finish(table, &[1], style)
}

fn finish(mut table: Table, right: &[usize], style: Style) -> String {
    for (at, column) in table.column_iter_mut().enumerate() {
        let left = if at == 0 { 0 } else { 1 };
        column.set_padding((left, 1));
        if right.contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    text.lines()
        .enumerate()
        .map(|(at, line)| {
            let line = line.trim_end();
            if at == 0 {
                return style.paint(line, BOLD);
            }
            let last = line.rsplit(' ').next().unwrap_or_default();
            match last {
                _ if last == Verdict::Slower.name() => style.paint(line, RED),
                _ if last == Verdict::Faster.name() => style.paint(line, GREEN),
                _ => line.to_owned(),
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn rate(median: Option<f64>) -> String {
    median.map_or_else(|| "-".to_owned(), significant)
}

fn outcome(case: &ComparedCase) -> String {
    match (&case.ratio, &case.note) {
        (Some(ratio), None) => ratio.verdict.name().to_owned(),
        (Some(ratio), Some(note)) => format!("{} ({note})", ratio.verdict.name()),
        (None, Some(note)) => note.clone(),
        (None, None) => "no samples".to_owned(),
    }
}

fn below(comparisons: &[Comparison], style: Style) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for comparison in comparisons {
        for note in &comparison.notes {
            let note = match comparisons.len() {
                1 => format!("note: {note}"),
                _ => format!("note: {}: {note}", short(&comparison.new.file)),
            };
            notes.push(wrap(&note, style.width(), "  "));
        }
    }
    let method = "Unpaired: ratios of the medians of consecutive rounds (Hodges-Lehmann), corrected for \
                  the number of cases. Faster and slower mean a whole interval beyond 5 %. What the \
                  machine did between the runs counts as a change too.";
    let mut blocks = Vec::new();
    if !notes.is_empty() {
        blocks.push(notes.join("\n"));
    }
    blocks.push(style.paint(&wrap(method, style.width(), "  "), DIM));
    blocks
}
