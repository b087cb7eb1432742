//! Comparisons of saved runs, as text and as a chart.

mod many;

use std::fmt::Display;

use itertools::Itertools as _;
use pipespeed_base::text::escape;
use pipespeed_host::Difference;
use pipespeed_measure::comparison::{ComparedCase, Comparison};
use pipespeed_measure::record::{Ratio, Verdict};

use super::blocks::{Blocks, Conclusion, TableBlock};
use super::cases::{number, verdict_colour};
use super::chart::bars::{Bar, BarChart, BarGroup};
use super::chart::palette;
use super::chart::svg::WIDE;
use super::format::{ratio, ratio_interval, times};
use super::notes::{Note, notes};
use super::style::{RED, Style, YELLOW};
use super::table::{Cell, Column, Table};

/// More comparisons than these are summed up, by case.
const MAX_SIDE_BY_SIDE: usize = 4;

/// The differences of the runs' conditions, then a row for each case.
pub fn comparison_table(comparisons: &[Comparison], style: Style) -> String {
    if comparisons.len() > MAX_SIDE_BY_SIDE {
        return many::summary(comparisons, style);
    }
    let many = comparisons.len() > 1;
    let origins = comparisons
        .iter()
        .map(|comparison| origin(comparison, many, style));
    let mut blocks: Vec<String> = origins.collect();
    let table = match comparisons {
        [one] => single(one),
        many => matrix(many),
    };
    blocks.push(table.render(style));
    let mut all = vec![Note::Method(METHOD.to_owned())];
    for comparison in comparisons {
        let file = if many {
            format!("{}: ", short(&comparison.new.file))
        } else {
            String::new()
        };
        for note in &comparison.notes {
            let text = format!("note: {file}{note}");
            all.push(if comparison.doubts.contains(note) {
                Note::Run(text)
            } else {
                Note::Caution(text)
            });
        }
    }
    blocks.push(notes(all, style));
    blocks.join("\n\n") + "\n"
}

/// The report on one comparison: how the conditions of the runs differ, a row for each case,
/// and notes but those that the chart is marked with.
pub(super) fn blocks(comparison: &Comparison) -> Blocks<'_> {
    let differences = comparison.differences.iter().map(difference);
    let incomparable = comparison.incomparable.iter().map(incomparable);
    let notes = comparison.notes.iter();
    let notes = notes.filter(|note| !comparison.doubts.contains(note));
    Blocks {
        findings: differences
            .chain(incomparable)
            .chain(notes.cloned())
            .map(Conclusion::from)
            .collect(),
        chart: Box::new(|width| chart(std::slice::from_ref(comparison), width)),
        tables: vec![TableBlock::new("", single(comparison))],
    }
}

/// The method of all comparisons.
pub(super) const METHOD: &str = "\
    Unpaired: ratios of the medians of consecutive rounds (Hodges-Lehmann), corrected for the number \
    of cases. Faster and slower mean a whole interval beyond 5 %. Changes of the machine between the \
    runs count too.";

/// A bar for each case with its interval, by newer run; of many runs, a bar for each case.
pub fn comparison_chart(comparisons: &[Comparison]) -> String {
    if comparisons.len() > MAX_SIDE_BY_SIDE {
        many::chart(comparisons)
    } else {
        chart(comparisons, WIDE)
    }
}

fn chart(comparisons: &[Comparison], width: i32) -> String {
    let many = comparisons.len() > 1;
    let row = |comparison: &Comparison, case: &ComparedCase| BarGroup {
        name: if many {
            format!("{} {}", short(&comparison.new.file), case.name)
        } else {
            case.name.clone()
        },
        bars: match case.ratio {
            Some(ratio) => Ok(vec![bar(&ratio)]),
            None => Err(format!("no ratio: {}", outcome(comparison, case))),
        },
    };
    let rows = comparisons.iter().flat_map(|comparison| {
        let cases = comparison.cases.iter();
        cases.map(move |case| row(comparison, case))
    });
    let subtitle = comparisons.iter().map(|comparison| {
        let (new, old) = (&comparison.new, &comparison.old);
        format!(
            "{} ({}) over {} ({}), unpaired",
            short(&new.file),
            new.started_at,
            short(&old.file),
            old.started_at
        )
    });
    let chart = BarChart {
        title: "pipespeed: compare",
        subtitle: subtitle.collect(),
        legend: Vec::new(),
        rows: rows.collect(),
        of_ratios: true,
        unit: "new rate / old rate",
        width,
    };
    let marks = comparisons.iter().flat_map(|comparison| {
        let file = short(&comparison.new.file);
        let doubts = comparison.doubts.iter();
        doubts.map(move |doubt| {
            if many {
                format!("{file}: {doubt}")
            } else {
                doubt.clone()
            }
        })
    });
    chart.draw(&marks.collect::<Vec<String>>())
}

fn bar(found: &Ratio) -> Bar {
    let colour = palette::of_verdict(found.verdict);
    let verdict = found.verdict.name();
    let value = format!("{} {verdict}", ratio(found.estimate));
    Bar::new(found.estimate, colour, value)
}

fn short(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

/// The files compared, and how their conditions differ.
fn origin(comparison: &Comparison, many: bool, style: Style) -> String {
    let (old, new) = (&comparison.old, &comparison.new);
    let mut lines = Vec::new();
    for (which, side) in [("old", old), ("new", new)] {
        let line = format!(
            "{which}: {} ({}, {}, {} rounds)",
            side.file, side.suite, side.started_at, side.rounds
        );
        lines.push(escape(&line).into_owned());
    }
    if many {
        lines.remove(0);
    }
    let differences = comparison.differences.iter().map(difference);
    lines.extend(differences.map(|line| style.note(&line, YELLOW)));
    let reasons = comparison.incomparable.iter().map(incomparable);
    lines.extend(reasons.map(|line| style.note(&line, RED)));
    lines.join("\n")
}

fn difference(difference: &Difference) -> String {
    let Difference { what, old, new } = difference;
    format!("differs: {what}: {old} -> {new}")
}

fn incomparable(reason: impl Display) -> String {
    format!("not comparable: {reason}")
}

fn single(comparison: &Comparison) -> Table {
    let mut table = Table::new([
        Column::left("case"),
        Column::right("old GiB/s").optional(2),
        Column::right("new GiB/s").optional(3),
        Column::right("ratio"),
        Column::left("interval").optional(1),
    ]);
    for case in &comparison.cases {
        let mut cells = vec![case.name.clone(), number(case.old), number(case.new)];
        if let Some(found) = case.ratio {
            cells.push(times(found.estimate.median));
            cells.push(ratio_interval(found.estimate.interval));
        }
        table.row_with_text(cells, outcome_cell(case, outcome(comparison, case)));
    }
    table
}

fn matrix(comparisons: &[Comparison]) -> Table {
    let mut columns = vec![Column::left("case")];
    if let Some(first) = comparisons.first() {
        let old = format!("{} GiB/s", short(&first.old.file));
        columns.push(Column::right(old).optional(1));
    }
    let files = comparisons
        .iter()
        .map(|comparison| short(&comparison.new.file));
    columns.extend(files.map(Column::left));
    let mut table = Table::new(columns);
    let cases = comparisons.iter().flat_map(|comparison| &comparison.cases);
    for name in cases.map(|case| &*case.name).unique() {
        let find = |comparison: &Comparison| {
            let mut cases = comparison.cases.iter();
            cases.find(|case| case.name == name).cloned()
        };
        let old = comparisons
            .iter()
            .find_map(|comparison| find(comparison)?.old);
        let mut row: Vec<Cell> = vec![name.into(), number(old).into()];
        row.extend(comparisons.iter().map(|comparison| match find(comparison) {
            Some(case) => {
                let shown = case.ratio.map(|found| {
                    format!("{} {}", ratio(found.estimate), verdict(comparison, &found))
                });
                outcome_cell(&case, shown.unwrap_or_else(|| "-".to_owned()))
            }
            None => "-".into(),
        }));
        table.row(row);
    }
    table
}

fn outcome_cell(case: &ComparedCase, text: String) -> Cell {
    match case.ratio.map(|ratio| ratio.verdict) {
        Some(verdict @ (Verdict::Faster | Verdict::Slower)) => {
            Cell::painted(text, verdict_colour(verdict))
        }
        _ => text.into(),
    }
}

/// A verdict. That of a disturbed run, or of one whose null control failed, has a mark.
fn verdict(comparison: &Comparison, found: &Ratio) -> String {
    let name = found.verdict.name();
    if comparison.disturbed().is_some() {
        format!("{name} (disturbed)")
    } else if comparison.has_failed_control() {
        format!("{name} (null control failed)")
    } else {
        name.to_owned()
    }
}

fn outcome(comparison: &Comparison, case: &ComparedCase) -> String {
    match (&case.ratio, &case.note) {
        (Some(ratio), None) => verdict(comparison, ratio),
        (Some(ratio), Some(note)) => format!("{} ({note})", verdict(comparison, ratio)),
        (None, Some(note)) => note.clone(),
        (None, None) => "no samples".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::comparison::compare;
    use pipespeed_measure::fixtures::{ladder, refuse};
    use pipespeed_measure::record::Run;
    use pipespeed_testing::says;

    /// A ladder whose pipe moves data at `factor` times the rate.
    fn changed(factor: f64) -> Run {
        let mut run = ladder();
        refuse(&mut run, "busy_loop_huge", "one processor");
        for sample in &mut run.cases[0].samples {
            sample.gib_per_s *= factor;
        }
        run
    }

    fn compared(factors: &[f64]) -> Vec<Comparison> {
        let run = |(at, factor): (usize, &f64)| {
            let file = format!("results/new{at}.json");
            compare("results/old.json", &ladder(), &file, &changed(*factor))
        };
        factors.iter().enumerate().map(run).collect()
    }

    #[test]
    fn one_comparison_has_a_row_for_each_case() {
        let text = comparison_table(&compared(&[0.7]), Style::of_width(80));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn several_comparisons_stand_side_by_side() {
        let text = comparison_table(&compared(&[0.7, 1.4]), Style::of_width(100));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn many_comparisons_are_summed_up() {
        let mut factors = [1.0; 40];
        factors[3] = 0.7;
        factors[20] = 0.4;
        factors[21] = 1.5;
        let text = comparison_table(&compared(&factors), Style::of_width(100));
        insta::assert_snapshot!(text);
        let svg = comparison_chart(&compared(&factors));
        says(&svg, &[">write_read</text>", "x1.00 (x0.40 to x1.50)"]);
    }

    #[test]
    fn the_chart_has_a_bar_or_reason_for_each_case() {
        let svg = comparison_chart(&compared(&[0.7]));
        says(&svg, &[">write_read</text>", ">no ratio: "]);
    }
}
