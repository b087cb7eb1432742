//! The table a run ends with, and the lines below it.

use comfy_table::{CellAlignment, Row, Table, presets};

use pipespeed_measure::record::{CaseResult, NotRun, Run, Verdict};

use super::findings::findings;
use super::format::{interval, percent, significant, wrap};
use super::measured::null_control;
use super::style::{BOLD, DIM, RED, Style, YELLOW};
use super::views::{self, View};

/// The run as text: a row a case, what each case changed, and below them the
/// null control, notes, findings and how it was measured.
pub fn table(run: &Run, style: Style) -> String {
    let view = views::of(run.suite);
    let mut blocks = (view.blocks)(run, style);
    blocks.retain(|block| !block.is_empty());
    blocks.extend(below(run, &view, style));
    let mut text = blocks.join("\n\n");
    text.push('\n');
    text
}

/// A column of the table of cases.
struct Column {
    header: String,
    cell: fn(&CaseResult) -> String,
    align: CellAlignment,
    /// The greater, the sooner it goes when the terminal is narrow; 0 stays.
    spare: u8,
    /// Its name in the note that it is not shown.
    name: &'static str,
}

fn columns(run: &Run) -> Vec<Column> {
    use CellAlignment::{Left, Right};
    let column = |header: &str, cell, align, spare, name| Column {
        header: header.to_owned(),
        cell,
        align,
        spare,
        name,
    };
    let level = format!("{}\ninterval", percent(run.settings.confidence));
    vec![
        column("\ncase", |case| case.name.clone(), Left, 0, "case"),
        column(
            "\nGiB/s",
            |case| summed(case, |s| Some(s.gib_per_s.median)),
            Right,
            0,
            "GiB/s",
        ),
        column(&level, rate_interval, Left, 2, "interval"),
        column(
            "CPU ms\n/GiB",
            |case| summed(case, |s| s.cpu_s_per_gib.map(|seconds| seconds * 1e3)),
            Right,
            3,
            "processor time",
        ),
        column(
            "switches\n/GiB",
            |case| summed(case, |s| s.switches_per_gib),
            Right,
            4,
            "switches",
        ),
        column(
            "KiB\n/call",
            |case| summed(case, |s| s.kib_per_call),
            Right,
            5,
            "KiB per call",
        ),
        column(
            "\ndata",
            |case| case.data.outcome().to_owned(),
            Left,
            1,
            "data",
        ),
    ]
}

/// A number of the summary; empty for a case without samples.
fn summed(
    case: &CaseResult,
    number: fn(&pipespeed_measure::record::Summary) -> Option<f64>,
) -> String {
    match &case.summary {
        Some(summary) => number(summary).map_or_else(|| "-".to_owned(), significant),
        None => String::new(),
    }
}

fn rate_interval(case: &CaseResult) -> String {
    case.summary
        .as_ref()
        .map_or_else(String::new, |summary| interval(summary.gib_per_s.interval))
}

/// The table of cases, with as many columns as fit.
pub(super) fn cases(run: &Run, style: Style) -> String {
    let mut columns = columns(run);
    let mut left_out = Vec::new();
    let (mut grid, mut width) = grid(run, &columns);
    while width > style.width() {
        let Some(index) = (0..columns.len())
            .filter(|&index| columns[index].spare > 0)
            .max_by_key(|&index| columns[index].spare)
        else {
            break;
        };
        left_out.push(columns.remove(index).name);
        (grid, width) = self::grid(run, &columns);
    }
    let mut lines: Vec<String> = grid
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let header = lines.len() - run.cases.len();
    let names = grid
        .column_max_content_widths()
        .first()
        .map_or(0, |&w| usize::from(w));
    for (line, case) in lines[header..].iter_mut().zip(&run.cases) {
        if case.summary.is_none() {
            *line = reason_row(case, names, style);
        }
    }
    for line in &mut lines[..header] {
        *line = style.paint(line, BOLD);
    }
    if !left_out.is_empty() {
        let note = format!("(too narrow to show: {})", left_out.join(", "));
        lines.push(style.paint(&wrap(&note, style.width(), " "), DIM));
    }
    lines.join("\n")
}

/// The laid-out table and its width.
fn grid(run: &Run, columns: &[Column]) -> (Table, usize) {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(columns.iter().map(|column| column.header.as_str()));
    for case in &run.cases {
        grid.add_row(Row::from(columns.iter().map(|column| (column.cell)(case))));
    }
    for (column, laid) in columns.iter().zip(grid.column_iter_mut()) {
        laid.set_cell_alignment(column.align);
        laid.set_padding((0, 2));
    }
    // The last column's padding is trimmed away.
    let width = grid
        .column_max_content_widths()
        .into_iter()
        .map(|width| usize::from(width) + 2);
    let width = width.sum::<usize>().saturating_sub(2);
    (grid, width)
}

/// Why a case has no samples.
pub(super) fn reason(not_run: Option<&NotRun>) -> String {
    not_run.map_or_else(|| "not measured".to_owned(), NotRun::to_string)
}

/// The row of a case without samples: the reason stands across the columns.
fn reason_row(case: &CaseResult, names: usize, style: Style) -> String {
    let room = style.width().saturating_sub(names + 2).max(20);
    let indent = format!("\n{}", " ".repeat(names + 2));
    let reason = wrap(&reason(case.not_run.as_ref()), room, "").replace('\n', &indent);
    format!("{:names$}  {}", case.name, style.paint(&reason, YELLOW))
}

/// The blocks below: the null control and the notes, the findings, the method.
fn below(run: &Run, view: &View, style: Style) -> Vec<String> {
    let lay = |line: String| wrap(&line, style.width(), "  ");
    let mut notes = Vec::new();
    if let Some(control) = &run.null_control
        && let Some(line) = null_control(control)
    {
        let sound = control
            .ratio
            .is_none_or(|ratio| matches!(ratio.verdict, Verdict::Same | Verdict::Undecided));
        let line = lay(line);
        notes.push(if sound { line } else { style.paint(&line, RED) });
    }
    if let Some(reason) = &run.interrupted {
        notes.push(style.paint(&lay(format!("interrupted: {reason}")), YELLOW));
    }
    for warning in &run.warnings {
        notes.push(style.paint(&lay(format!("note: {warning}")), YELLOW));
    }
    // A record carries its findings; one still in the making has none yet.
    let found = if view.findings_are_in_blocks {
        Vec::new()
    } else if run.findings.is_empty() {
        findings(run)
    } else {
        run.findings.clone()
    };
    let found: Vec<String> = found.into_iter().map(lay).collect();
    let method = (view.method)(run);
    let method = style.paint(&lay(method), DIM);
    [notes.join("\n"), found.join("\n"), method]
        .into_iter()
        .filter(|block| !block.is_empty())
        .collect()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
