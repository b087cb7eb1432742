//! Maps of rates over the sizes of buffer and pipe: one a panel, a row of them
//! for each technique.

use std::ops::Range;

use plotters::prelude::RGBColor;

use crate::report::origin;
use crate::report::sizes::{place, sizes};
use crate::results::{CellResult, PanelResult, Run, Search, Sizes};
use crate::size;

use super::canvas::{
    CARD, Canvas, Drawn, Heading, INK, MARGIN, MUTED, SMALL, Side, TEXT, WIDTH, bold, card, plain,
};
use super::marks::{dashed, frame, hatch};
use super::text::{Cut, fitted, length, text_width};

/// Between two maps.
const GAP: i32 = 14;
/// Room for the sizes of buffers at a map's left.
const SIZES: i32 = 32;
/// Height of the name of a technique, of a map's own, and below a map.
const TECHNIQUE: i32 = 26;
const NAME: i32 = 18;
const BELOW: i32 = 38;
const LEGEND: i32 = 50;
/// A cell is no wider than this, and so high.
const WIDEST: i32 = 56;
const CELL: i32 = 18;
/// Text of rates and sizes; the cells of nine maps are small.
const TINY: i32 = 9;
const ROOMY: i32 = 11;
/// Of cells at least so wide.
const ROOM: i32 = 28;
const REASON: i32 = 18;

/// So many times slower than the best of its map is as pale as it gets.
const PALEST: f64 = 8.0;

const FOUND: RGBColor = RGBColor(213, 94, 0);

/// Draws a search: rates as colour and figures, with the sizes found and the
/// published ones marked.
pub fn chart(run: &Run, search: &Search) -> String {
    let rows = rows(search);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let grid = Grid::new(search, length(columns));
    let refused: Vec<String> = refused(search);
    let row = TECHNIQUE + NAME + grid.height() + BELOW;
    let body = LEGEND + length(rows.len()) * row + length(refused.len()) * REASON;
    let last = match search.best.is_empty() {
        true => "the search did not come to its end; the frame is the fastest so far".to_owned(),
        false => "figures are medians of the search, which halves its field again and again: the \
                  best were measured most"
            .to_owned(),
    };
    let mut cells = search.panels.iter().flat_map(|panel| &panel.cells);
    let untried = cells.any(|cell| cell.refused.is_none() && cell.median.is_none());
    let blank = untried.then(|| "blank: not tried".to_owned());
    let subtitle: Vec<String> = [origin(run), last].into_iter().chain(blank).collect();
    let heading = Heading {
        title: "pipespeed bench sizes: GiB/s by the sizes of buffer and pipe",
        subtitle: &subtitle,
    };
    card(&heading, body, |canvas, top| {
        legend(canvas, top)?;
        let mut y = top + LEGEND;
        for panels in &rows {
            if let Some(first) = panels.first() {
                let name = format!(
                    "{} and {}, {} pages",
                    first.writer, first.reader, first.pages
                );
                let at = (MARGIN, y + TECHNIQUE / 2);
                canvas.text(&name, at, Side::Right, bold(TEXT, INK))?;
            }
            for (column, panel) in panels.iter().enumerate() {
                let x = MARGIN + length(column) * (grid.panel_width() + GAP);
                grid.draw(canvas, panel, (x, y + TECHNIQUE))?;
            }
            y += row;
        }
        for reason in &refused {
            let room = WIDTH - 2 * MARGIN;
            let reason = fitted(reason, SMALL, room, Cut::End);
            let at = (MARGIN, y + REASON / 2);
            canvas.text(&reason, at, Side::Right, plain(SMALL, MUTED))?;
            y += REASON;
        }
        Ok(())
    })
}

/// The panels that can run, by technique.
fn rows(search: &Search) -> Vec<Vec<&PanelResult>> {
    let mut rows: Vec<Vec<&PanelResult>> = Vec::new();
    for panel in search.panels.iter().filter(|panel| panel.refused.is_none()) {
        let alike = |row: &&mut Vec<&PanelResult>| {
            let first = row.first();
            first.is_some_and(|it| (&it.writer, &it.reader) == (&panel.writer, &panel.reader))
        };
        match rows.iter_mut().find(alike) {
            Some(row) => row.push(panel),
            None => rows.push(vec![panel]),
        }
    }
    rows
}

/// What is missing, and why.
fn refused(search: &Search) -> Vec<String> {
    let panels = search.panels.iter().filter_map(|panel| {
        let reason = panel.refused.as_deref()?;
        Some(format!("{}: refused: {reason}", panel.name))
    });
    panels.collect()
}

/// The sizes that all maps share, and where they stand in one.
struct Grid<'a> {
    buffers: &'a [usize],
    pipes: &'a [usize],
    cell: i32,
}

impl<'a> Grid<'a> {
    fn new(search: &'a Search, columns: i32) -> Self {
        let width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns - SIZES;
        Grid {
            buffers: &search.buffers,
            pipes: &search.pipes,
            cell: (width / length(search.pipes.len().max(1))).min(WIDEST),
        }
    }

    fn height(&self) -> i32 {
        length(self.buffers.len()) * CELL
    }

    fn panel_width(&self) -> i32 {
        // A map of one column still needs room for its name.
        (SIZES + length(self.pipes.len()) * self.cell).max(200)
    }

    fn text(&self) -> i32 {
        match self.cell >= ROOM {
            true => ROOMY,
            false => TINY,
        }
    }

    fn draw(&self, canvas: &Canvas<'_>, panel: &PanelResult, (x, y): (i32, i32)) -> Drawn {
        let wait = match &*panel.wait {
            "spin" => "spinning",
            _ => "sleeping",
        };
        let name = fitted(
            &format!("{wait}, {}", place(panel)),
            SMALL,
            self.panel_width() - SIZES,
            Cut::End,
        );
        let (left, top) = (x + SIZES, y + NAME);
        canvas.text(
            &name,
            (left, y + NAME / 2 - 2),
            Side::Right,
            plain(SMALL, INK),
        )?;
        self.sizes(canvas, (left, top))?;
        let rates = panel.cells.iter().filter_map(|cell| cell.median);
        let best = rates.fold(0.0, f64::max);
        for cell in &panel.cells {
            if let Some((x, y)) = self.place(cell.sizes, (left, top)) {
                self.cell(canvas, cell, best, x, y)?;
            }
        }
        if let Some((x, y)) = self.place(panel.published, (left, top)) {
            dashed(canvas, x, y)?;
        }
        if let Some((x, y)) = sizes(panel).and_then(|found| self.place(found, (left, top))) {
            frame(canvas, x, y, FOUND, 3)?;
        }
        Ok(())
    }

    /// Where a cell lies; none where its sizes are not of the grid.
    fn place(&self, sizes: Sizes, at: (i32, i32)) -> Option<(Range<i32>, Range<i32>)> {
        let column = self.pipes.iter().position(|it| *it == sizes.pipe_bytes)?;
        let row = self
            .buffers
            .iter()
            .position(|it| *it == sizes.buffer_bytes)?;
        // The largest buffer is on top.
        let row = self.buffers.len() - 1 - row;
        let (x, y) = (at.0 + length(column) * self.cell, at.1 + length(row) * CELL);
        Some((x..x + self.cell, y..y + CELL))
    }

    fn cell(
        &self,
        canvas: &Canvas<'_>,
        cell: &CellResult,
        best: f64,
        x: Range<i32>,
        y: Range<i32>,
    ) -> Drawn {
        let inner = (x.start..x.end - 1, y.start..y.end - 1);
        let (Some(rate), None) = (cell.median, &cell.refused) else {
            canvas.rectangle(inner.0, inner.1, CARD)?;
            return match cell.refused {
                Some(_) => hatch(canvas, x, y),
                None => Ok(()),
            };
        };
        let depth = depth(rate, best);
        canvas.rectangle(inner.0, inner.1, colour(depth))?;
        let ink = if depth > 0.62 { CARD } else { INK };
        let middle = (
            i32::midpoint(x.start, x.end) - 1,
            i32::midpoint(y.start, y.end) - 1,
        );
        let figure = figure(rate);
        match text_width(&figure, self.text()) <= self.cell + 1 {
            true => canvas.text(&figure, middle, Side::Middle, plain(self.text(), ink)),
            false => Ok(()),
        }
    }

    /// The sizes at the map's sides.
    fn sizes(&self, canvas: &Canvas<'_>, (left, top): (i32, i32)) -> Drawn {
        let face = plain(self.text(), MUTED);
        for (at, bytes) in self.buffers.iter().rev().enumerate() {
            let y = top + length(at) * CELL + CELL / 2;
            canvas.text(&letters(*bytes), (left - 4, y), Side::Left, face)?;
        }
        let bottom = top + self.height();
        let widest = text_width("256K", self.text()) + 2;
        let every = if widest <= self.cell { 1 } else { 2 };
        for (at, bytes) in self.pipes.iter().enumerate().step_by(every) {
            let x = left + length(at) * self.cell + self.cell / 2;
            canvas.text(&letters(*bytes), (x, bottom + 8), Side::Middle, face)?;
        }
        let middle = left + length(self.pipes.len()) * self.cell / 2;
        canvas.text(
            "pipe",
            (middle, bottom + 22),
            Side::Middle,
            plain(ROOMY, MUTED),
        )?;
        canvas.text(
            "buffer",
            (left - 4, top - NAME / 2 - 1),
            Side::Left,
            plain(TINY, MUTED),
        )
    }
}

/// How deep a rate's colour is, from 0 to 1: by its logarithm, so that equal
/// ratios are equal steps.
fn depth(rate: f64, best: f64) -> f64 {
    (1.0 + (rate / best).ln() / PALEST.ln()).clamp(0.0, 1.0)
}

/// From near white to a dark blue: darker is faster, in grey too.
fn colour(depth: f64) -> RGBColor {
    const STEPS: [(f64, f64, f64); 3] = [
        (237.0, 243.0, 250.0),
        (92.0, 158.0, 208.0),
        (8.0, 44.0, 98.0),
    ];
    let (from, to, share) = match depth < 0.5 {
        true => (STEPS[0], STEPS[1], depth * 2.0),
        false => (STEPS[1], STEPS[2], depth * 2.0 - 1.0),
    };
    let mix = |a: f64, b: f64| (a + (b - a) * share).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Two digits: `64`, `4.2`, `.76`.
fn figure(rate: f64) -> String {
    match rate {
        _ if rate >= 9.95 => format!("{rate:.0}"),
        _ if rate >= 0.995 => format!("{rate:.1}"),
        _ => format!("{rate:.2}").trim_start_matches('0').to_owned(),
    }
}

/// A size in as few letters as there are: `256K`.
fn letters(bytes: usize) -> String {
    size::short(bytes).to_uppercase()
}

/// Draws a mark over a cell of these extents.
type Mark = fn(&Canvas<'_>, Range<i32>, Range<i32>) -> Drawn;

fn legend(canvas: &Canvas<'_>, top: i32) -> Drawn {
    let y = top + 12;
    let face = plain(SMALL, INK);
    let mut x = MARGIN;
    let shares = ["1/8 or less", "1/4", "1/2", "the map's best"];
    for (at, share) in shares.iter().enumerate() {
        let deep = at as f64 / (shares.len() - 1) as f64;
        canvas.rectangle(x..x + 24, y - 7..y + 7, colour(deep))?;
        canvas.text(share, (x + 30, y), Side::Right, face)?;
        x += 30 + text_width(share, SMALL) + 14;
    }
    let y = y + 22;
    let mut x = MARGIN;
    let marks: [(&str, Mark); 3] = [
        ("found best", |canvas, x, y| frame(canvas, x, y, FOUND, 3)),
        ("published", dashed),
        ("refused", hatch),
    ];
    for (name, mark) in marks {
        mark(canvas, x..x + 24, y - 7..y + 8)?;
        canvas.text(name, (x + 30, y), Side::Right, face)?;
        x += 30 + text_width(name, SMALL) + 14;
    }
    Ok(())
}

#[cfg(test)]
#[path = "heat_tests.rs"]
mod tests;
