//! What each case of a run changed, below the table of cases.

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_measure::record::{Run, Verdict};

use super::format::{ratio_interval, times, wrap};
use super::steps::{phrase, steps};
use super::style::{DIM, GREEN, RED, Style};

/// A comparison's text is broken to no fewer characters than this;
/// below it stands on lines of its own.
const MIN_TEXT: usize = 32;

/// A comparison: cells in columns, and a text that begins with the verdict.
pub(super) struct Line {
    pub cells: [String; 3],
    pub verdict: Verdict,
    /// The verdict in words.
    pub phrase: String,
    /// What follows it.
    pub text: String,
}

/// What each case changed.
pub(super) fn comparisons(run: &Run, style: Style) -> String {
    let steps = steps(run);
    let lines = steps.iter().map(|step| Line {
        cells: [
            step.case.to_owned(),
            times(step.ratio.estimate.median),
            ratio_interval(step.ratio.estimate.interval),
        ],
        verdict: step.ratio.verdict,
        phrase: phrase(step.ratio.verdict).to_owned(),
        text: format!(" {}", step.base_and_factor()),
    });
    laid_out(&lines.collect::<Vec<_>>(), &[1], style)
}

/// Comparisons in columns, of which those of these numbers are aligned to the
/// right. The text is broken where it has to be; in a narrow terminal it stands
/// below the columns.
pub(super) fn laid_out(lines: &[Line], right: &[usize], style: Style) -> String {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    for line in lines {
        grid.add_row(line.cells.clone());
    }
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let rows = grid.lines().zip(lines).map(|(cells, line)| {
        let begin = cells.chars().count();
        if begin + MIN_TEXT <= style.width() {
            let below = format!("\n{}", " ".repeat(begin));
            cells + &broken(line, style.width() - begin, style).replace('\n', &below)
        } else {
            let room = style.width().saturating_sub(2);
            let below = broken(line, room, style).replace('\n', "\n  ");
            format!("{}\n  {below}", cells.trim_end())
        }
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// The text, broken to a width. The verdict is painted after that, for its
/// escape sequences take no room.
fn broken(line: &Line, room: usize, style: Style) -> String {
    let text = wrap(&format!("{}{}", line.phrase, line.text), room, "");
    let painted = style.paint(&line.phrase, verdict_colour(line.verdict));
    text.replacen(&line.phrase, &painted, 1)
}

fn verdict_colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => GREEN,
        Verdict::Slower => RED,
        Verdict::Same | Verdict::Undecided => DIM,
    }
}
