//! Tables and bars of cases, which the reports on most suites have.

use pipespeed_measure::record::{CaseResult, Estimate, NotRun, Run, Summary, Verdict};
use pipespeed_measure::spec::DataUse;

use super::blocks::TableBlock;
use super::chart::bars::{Bar, BarChart, BarGroup};
use super::chart::palette;
use super::conditions::{marks_of_run, subtitle};
use super::format::{self, gib_per_s, interval, pluralize, ratio_interval, significant, times};
use super::steps::{cases_without_twin, hidden_reason, phrase, step, steps};
use super::style::{DIM, GREEN, RED, YELLOW};
use super::table::{Cell, Column, Table};

/// The header of a column of intervals.
pub(super) fn level(run: &Run) -> String {
    format!("{}\ninterval", format::level(run.settings.confidence))
}

/// The tables of the cases and of their comparisons.
pub(super) fn tables(run: &Run) -> Vec<TableBlock> {
    vec![cases(run, &run.cases), comparisons(run)]
}

/// The table of some cases.
pub(super) fn cases<'a>(run: &Run, cases: impl IntoIterator<Item = &'a CaseResult>) -> TableBlock {
    TableBlock::new(
        "Rates, processor time and context switches of both ends",
        table_of_cases(run, cases),
    )
}

/// A row for each case, or the reason why it was not run.
fn table_of_cases<'a>(run: &Run, cases: impl IntoIterator<Item = &'a CaseResult>) -> Table {
    let mut table = Table::new([
        Column::left("case"),
        Column::right("GiB/s"),
        Column::left(level(run)).optional(2),
        Column::right("CPU ms\n/GiB").optional(3),
        Column::right("switches\n/GiB").optional(4),
        Column::right("KiB\n/call").optional(5),
        Column::left("data").optional(1),
    ]);
    for case in cases {
        match &case.summary {
            Some(summary) => table.row([
                case.name.clone(),
                significant(summary.gib_per_s.median),
                interval(summary.gib_per_s.interval),
                cpu_ms(summary),
                number(summary.switches_per_gib),
                number(summary.kib_per_call),
                case.data.outcome().to_owned(),
            ]),
            None => table.row_with_text([&*case.name], reason(case)),
        }
    }
    table
}

/// A number, or a dash if it is unknown.
pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), significant)
}

/// Processor time in milliseconds per GiB.
pub(super) fn cpu_ms(summary: &Summary) -> String {
    number(summary.cpu_s_per_gib.map(|seconds| seconds * 1e3))
}

/// Why a case has no samples.
pub(super) fn reason(case: &CaseResult) -> Cell {
    Cell::painted(not_measured(case.not_run.as_ref()), YELLOW)
}

/// The reason for a missing measurement in words.
pub(super) fn not_measured(not_run: Option<&NotRun>) -> String {
    not_run.map_or_else(|| "not measured".to_owned(), NotRun::to_string)
}

/// The comparison of each case.
pub(super) fn comparisons(run: &Run) -> TableBlock {
    let mut table = Table::new([Column::left(""), Column::right(""), Column::left("")])
        .with_html_header(&["case", "ratio", "interval", "against (factor)"]);
    for step in steps(run) {
        let cells = [
            step.case.name.clone(),
            times(step.ratio.estimate.median),
            ratio_interval(step.ratio.estimate.interval),
        ];
        let verdict = step.ratio.verdict;
        let mut text = format!("{} {}", phrase(verdict), step.base_and_factor());
        if let Some(reason) = hidden_reason(&step.ratio) {
            text += &format!(": {reason}");
        }
        table.row_with_text(cells, Cell::painted(text, verdict_colour(verdict)));
    }
    TableBlock::new("Each case against the one it is compared with", table)
}

pub(super) fn verdict_colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => GREEN,
        Verdict::Slower => RED,
        Verdict::Same | Verdict::Undecided => DIM,
    }
}

/// A bar for each case in the suite's order, with its interval and its comparison,
/// coloured by the use of the data. The null control's twin has none. `remarks` are
/// printed below the title.
pub(super) fn bar_chart(run: &Run, remarks: Vec<String>, width: i32) -> String {
    let cases: Vec<&CaseResult> = cases_without_twin(run).collect();
    let uses = [
        DataUse::Read,
        DataUse::Discard,
        DataUse::Touch,
        DataUse::Verify,
    ];
    let uses = uses.into_iter();
    let used = uses.filter(|data| cases.iter().any(|case| case.data == *data));
    let chart = BarChart {
        title: &format!("pipespeed bench {}: GiB/s of each case", run.suite),
        subtitle: [subtitle(run), remarks].concat(),
        legend: used.map(palette::of_data).collect(),
        rows: cases.iter().copied().map(row).collect(),
        of_ratios: false,
        unit: "GiB/s",
        width,
    };
    chart.draw(&marks_of_run(run))
}

fn row(case: &CaseResult) -> BarGroup {
    let hint = |rate: Estimate| {
        let rounds = pluralize(case.samples.len(), "round");
        format!("{}: {}, {rounds}", case.name, gib_per_s(&rate))
    };
    let bar = |rate: Estimate| Bar {
        notes: comparison_labels(case),
        hint: hint(rate),
        ..Bar::new(
            rate,
            palette::of_data(case.data).0,
            significant(rate.median),
        )
    };
    BarGroup {
        name: case.name.clone(),
        bars: match &case.summary {
            Some(summary) => Ok(vec![bar(summary.gib_per_s)]),
            None => Err(not_measured(case.not_run.as_ref())),
        },
    }
}

/// The comparison of a case in words, the longest wording first.
fn comparison_labels(case: &CaseResult) -> Vec<String> {
    let Some(step) = step(case) else {
        return Vec::new();
    };
    let word = match step.ratio.verdict {
        Verdict::Faster | Verdict::Slower => times(step.ratio.estimate.median),
        verdict => phrase(verdict).to_owned(),
    };
    vec![
        format!("{word} {}", step.base_and_factor()),
        format!("{word} {}", step.base),
    ]
}
