//! What each case of a run changed, below the table of cases.

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_measure::record::{Run, Verdict};

use super::format::{ratio_interval, times, wrap};
use super::steps::{Step, phrase, steps};
use super::style::{DIM, GREEN, RED, Style};

/// A comparison's last column is broken to no fewer characters than this;
/// below it stands on lines of its own.
const LEAST_AGAINST: usize = 32;

/// What each case changed: in columns, of which the last is broken where it has
/// to be, or in a narrow terminal below each other.
pub(super) fn comparisons(run: &Run, style: Style) -> String {
    let steps = steps(run);
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    for step in &steps {
        let shown = ratio_interval(step.ratio.low, step.ratio.high);
        grid.add_row([step.case.to_owned(), times(step.ratio.median), shown]);
    }
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index == 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let rows = grid.lines().zip(&steps).map(|(line, step)| {
        let begin = line.chars().count();
        if begin + LEAST_AGAINST <= style.width() {
            let below = format!("\n{}", " ".repeat(begin));
            line + &against(step, style.width() - begin, style).replace('\n', &below)
        } else {
            let room = style.width().saturating_sub(2);
            let below = against(step, room, style).replace('\n', "\n  ");
            format!("{}\n  {below}", line.trim_end())
        }
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// The verdict, the other case and the factor, broken to a width. The verdict
/// is painted after that, for its escape sequences take no room.
fn against(step: &Step<'_>, room: usize, style: Style) -> String {
    let verdict = phrase(step.ratio.verdict);
    let text = wrap(&format!("{verdict} {}", step.base_and_factor()), room, "");
    let painted = style.paint(verdict, verdict_colour(step.ratio.verdict));
    text.replacen(verdict, &painted, 1)
}

fn verdict_colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => GREEN,
        Verdict::Slower => RED,
        Verdict::Same | Verdict::Undecided => DIM,
    }
}
