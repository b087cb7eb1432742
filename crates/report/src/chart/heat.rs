//! Maps of rates over the sizes of buffer and pipe: a map a case, a row of maps a
//! technique.

use std::ops::Range;

use crate::origin;
use crate::sizes::{best_sizes, not_run, place, technique};
use pipespeed_base::size;
use pipespeed_measure::endpoint::spec::Waiting;
use pipespeed_measure::record::{CellResult, PanelResult, Run, Search, Sizes};

use super::svg::{
    Anchor, CARD, Colour, EDGE, INK, MARGIN, MUTED, SMALL, Svg, TEXT, WIDTH, bold, plain,
};
use super::text::{Cut, fitted, length, text_width};

/// The gap between two maps, and the room for buffer sizes at a map's left.
const GAP: i32 = 14;
const SIZES: i32 = 34;
/// Heights: a technique's name, a map's own, what is below a map, a cell, and a
/// line on a refused case.
const TECHNIQUE: i32 = 26;
const NAME: i32 = 18;
const BELOW: i32 = 38;
const CELL: i32 = 20;
const REASON: i32 = 18;
/// Font sizes of rates and of sizes.
const RATE: i32 = 11;
const AXIS: i32 = 10;
/// A cell is at most this wide, and a map at least: its name has to fit.
const MAX_CELL: i32 = 56;
const MIN_MAP: i32 = 200;

/// A rate this many times below its map's best has the palest colour.
const PALEST: f64 = 8.0;

/// Draws a search: rates as colours and figures, with the best and the
/// published sizes framed.
pub(crate) fn chart(run: &Run, search: &Search) -> String {
    let rows = rows(search);
    let columns = length(rows.iter().map(Vec::len).max().unwrap_or(1));
    let room = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns - SIZES;
    let cell = (room / length(search.pipes.len().max(1))).min(MAX_CELL);
    let ended = search.panels.iter().any(|panel| panel.best.is_some());
    let figures = if ended {
        "figures are medians of the search, in which the second trials of the best few decide"
    } else {
        "the search did not end; framed is the fastest so far"
    };
    let title = "pipespeed bench sizes: GiB/s by the sizes of buffer and pipe";
    let mut svg = Svg::new(title, &[origin(run), figures.to_owned()]);
    legend(&mut svg);
    for panels in &rows {
        let pages = panels[0].configuration.pages;
        let name = format!("{}, {pages} pages", technique(panels[0]));
        let at = (MARGIN, svg.y + TECHNIQUE / 2);
        svg.text(&name, at, Anchor::Start, bold(TEXT, INK));
        let top = svg.y + TECHNIQUE + NAME;
        let width = (SIZES + length(search.pipes.len()) * cell).max(MIN_MAP);
        for (column, panel) in panels.iter().enumerate() {
            let left = MARGIN + SIZES + length(column) * (width + GAP);
            let map = Map {
                search,
                cell,
                left,
                top,
            };
            map.draw(&mut svg, panel);
        }
        svg.y = top + length(search.buffers.len()) * CELL + BELOW;
    }
    for (case, why) in not_run(run) {
        let line = fitted(
            &format!("{case}: {why}"),
            SMALL,
            WIDTH - 2 * MARGIN,
            Cut::End,
        );
        let at = (MARGIN, svg.y + REASON / 2);
        svg.text(&line, at, Anchor::Start, plain(SMALL, MUTED));
        svg.y += REASON;
    }
    svg.finish()
}

/// The panels by technique.
fn rows(search: &Search) -> Vec<Vec<&PanelResult>> {
    let mut rows: Vec<Vec<&PanelResult>> = Vec::new();
    for panel in &search.panels {
        match rows.last_mut() {
            Some(row) if technique(row[0]) == technique(panel) => row.push(panel),
            _ => rows.push(vec![panel]),
        }
    }
    rows
}

/// The place of a map's cells.
struct Map<'a> {
    search: &'a Search,
    /// The width of a cell.
    cell: i32,
    left: i32,
    top: i32,
}

impl Map<'_> {
    fn draw(&self, svg: &mut Svg, panel: &PanelResult) {
        let wait = if panel.configuration.wait == Some(Waiting::Spin) {
            "spinning"
        } else {
            "sleeping"
        };
        let name = format!("{wait}, {}", place(panel));
        let name_y = self.top - NAME / 2 - 2;
        svg.text(&name, (self.left, name_y), Anchor::Start, plain(SMALL, INK));
        self.axes(svg, name_y);
        let rates = panel.cells.iter().filter_map(|cell| cell.median);
        let highest = rates.fold(0.0, f64::max);
        for cell in &panel.cells {
            let Some((x, y)) = self.extents(cell.sizes) else {
                continue;
            };
            let mut inner = (x.start..x.end - 1, y.start..y.end - 1);
            if best_sizes(panel) == Some(cell.sizes) {
                inner = draw_frames(svg, inner, &[BEST]);
            }
            if panel.published() == cell.sizes {
                inner = draw_frames(svg, inner, &PUBLISHED);
            }
            draw_cell(svg, cell, highest, inner);
        }
    }

    /// The extents of a pair of sizes; none if they are not in the grid. The
    /// largest buffer is on top.
    fn extents(&self, sizes: Sizes) -> Option<Extents> {
        let at = |axis: &[usize], bytes| axis.iter().position(|it| *it == bytes);
        let column = length(at(&self.search.pipes, sizes.pipe_bytes)?);
        let row = at(&self.search.buffers, sizes.buffer_bytes)?;
        let row = length(self.search.buffers.len() - 1 - row);
        let (x, y) = (self.left + column * self.cell, self.top + row * CELL);
        Some((x..x + self.cell, y..y + CELL))
    }

    fn axes(&self, svg: &mut Svg, name_y: i32) {
        let face = plain(AXIS, MUTED);
        let letters = |bytes: &usize| size::short(*bytes).to_uppercase();
        let left = self.left - 4;
        svg.text("buffer", (left, name_y), Anchor::End, face);
        for (at, bytes) in self.search.buffers.iter().rev().enumerate() {
            let y = self.top + length(at) * CELL + CELL / 2;
            svg.text(&letters(bytes), (left, y), Anchor::End, face);
        }
        let below = self.top + length(self.search.buffers.len()) * CELL;
        for (at, bytes) in self.search.pipes.iter().enumerate() {
            let x = self.left + length(at) * self.cell + self.cell / 2;
            svg.text(&letters(bytes), (x, below + 8), Anchor::Middle, face);
        }
        let middle = self.left + length(self.search.pipes.len()) * self.cell / 2;
        svg.text("pipe", (middle, below + 22), Anchor::Middle, face);
    }
}

/// The pixels of a cell, from left to right and from top to bottom.
type Extents = (Range<i32>, Range<i32>);

/// A frame's colour and width.
type Frame = (Colour, i32);

const BEST: Frame = (Colour(213, 94, 0), 3);
/// Dark and light, to contrast with any cell.
const PUBLISHED: [Frame; 2] = [(INK, 1), (CARD, 1)];

/// Draws frames, each within the one before, and returns the extents within.
fn draw_frames(svg: &mut Svg, (mut x, mut y): Extents, frames: &[Frame]) -> Extents {
    for (colour, width) in frames {
        svg.rectangle(x.clone(), y.clone(), *colour);
        x = x.start + width..x.end - width;
        y = y.start + width..y.end - width;
    }
    (x, y)
}

fn draw_cell(svg: &mut Svg, cell: &CellResult, highest: f64, (x, y): Extents) {
    let middle = (i32::midpoint(x.start, x.end), i32::midpoint(y.start, y.end));
    let (text, fill, ink) = match cell.median {
        _ if cell.not_run.is_some() => ("×".to_owned(), EDGE, MUTED),
        None => (String::new(), CARD, INK),
        Some(rate) => {
            let depth = depth(rate, highest);
            let ink = if depth > 0.62 { CARD } else { INK };
            (figure(rate), colour(depth), ink)
        }
    };
    svg.rectangle(x, y, fill);
    svg.text(&text, middle, Anchor::Middle, plain(RATE, ink));
}

/// The depth of a rate's colour from 0 to 1, by its logarithm: equal ratios are
/// equal steps.
fn depth(rate: f64, highest: f64) -> f64 {
    (1.0 + (rate / highest).ln() / PALEST.ln()).clamp(0.0, 1.0)
}

/// From near white to a dark blue: darker is faster, in grey too.
fn colour(depth: f64) -> Colour {
    const STEPS: [[f64; 3]; 3] = [
        [237.0, 243.0, 250.0],
        [92.0, 158.0, 208.0],
        [8.0, 44.0, 98.0],
    ];
    let from = if depth < 0.5 { 0 } else { 1 };
    let share = depth * 2.0 - from as f64;
    let mix = |at: usize| {
        let (a, b) = (STEPS[from][at], STEPS[from + 1][at]);
        (a + (b - a) * share).round() as u8
    };
    Colour(mix(0), mix(1), mix(2))
}

/// Two digits: `64`, `4.2`, `.76`.
fn figure(rate: f64) -> String {
    match rate {
        _ if rate >= 9.95 => format!("{rate:.0}"),
        _ if rate >= 0.995 => format!("{rate:.1}"),
        _ => format!("{rate:.2}").trim_start_matches('0').to_owned(),
    }
}

fn legend(svg: &mut Svg) {
    let shares = ["1/8 or less", "1/4", "1/2", "the map's best"];
    let colours = shares.iter().enumerate();
    let colours = colours.map(|(at, share)| (*share, &[][..], colour(at as f64 / 3.0)));
    let frames = [
        ("best", &[BEST][..], CARD),
        ("published", &PUBLISHED, CARD),
        ("refused", &[], EDGE),
        ("not tried", &[(EDGE, 1)], CARD),
    ];
    for entries in [colours.collect::<Vec<_>>(), frames.to_vec()] {
        let (y, mut x) = (svg.y + 12, MARGIN);
        for (name, frames, fill) in entries {
            let inner = draw_frames(svg, (x..x + 24, y - 7..y + 7), frames);
            svg.rectangle(inner.0, inner.1, fill);
            svg.text(name, (x + 30, y), Anchor::Start, plain(SMALL, INK));
            x += 30 + text_width(name, SMALL) + 14;
        }
        svg.y += 22;
    }
    svg.y += 6;
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_measure::sample;

    fn texts(run: &Run) -> Vec<String> {
        let svg = chart(run, run.search.as_ref().unwrap());
        let document = roxmltree::Document::parse(&svg).unwrap();
        let nodes = document.descendants();
        let texts = nodes.filter(|node| node.tag_name().name() == "text");
        let texts = texts.filter_map(|node| Some(node.text()?.trim().to_owned()));
        texts.collect()
    }

    /// The maps, and the cells with a rate and with a cross.
    fn counts(run: &Run) -> [usize; 3] {
        let texts = texts(run);
        let count = |is: fn(&str) -> bool| texts.iter().filter(|text| is(text)).count();
        [
            count(|text| text == "pipe"),
            count(|text| text.parse::<f64>().is_ok()),
            count(|text| text == "×"),
        ]
    }

    #[test]
    fn every_map_has_a_cell_for_each_pair() {
        let mut run = sample::sizes();
        assert_eq!(counts(&run), [9, 9 * 36, 9 * 6]);
        let search = run.search.as_mut().unwrap();
        search.panels[2].cells[0].median = None;
        assert_eq!(counts(&run), [9, 9 * 36 - 1, 9 * 6]);
        let search = run.search.as_mut().unwrap();
        search.panels.truncate(1);
        search.buffers.truncate(1);
        search.pipes.truncate(1);
        search.panels[0].cells.truncate(1);
        assert_eq!(counts(&run), [1, 1, 0]);
        run.search.as_mut().unwrap().panels.clear();
        assert_eq!(counts(&run), [0, 0, 0]);
    }

    #[test]
    fn best_sizes_are_framed_in_each_map() {
        let run = sample::sizes();
        let svg = chart(&run, run.search.as_ref().unwrap());
        let frames = svg.matches(&format!("fill=\"{}\"", BEST.0)).count();
        assert_eq!(frames, 9 + 1, "nine maps and the legend");
    }

    #[test]
    fn refused_cases_are_named_with_their_reason() {
        let mut run = sample::sizes();
        sample::refuse(&mut run, "write_read_spin", "spinning needs two processors");
        let line = "write_read_spin: refused: spinning needs two processors";
        assert!(texts(&run).iter().any(|text| text == line));
    }

    #[test]
    fn faster_is_darker_in_grey_too() {
        let grey = (0..=20).map(|step| {
            let Colour(r, g, b) = colour(f64::from(step) / 20.0);
            // ITU-R BT.601.
            0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
        });
        let grey: Vec<f64> = grey.collect();
        assert!(grey.windows(2).all(|pair| pair[1] < pair[0] - 4.0));
        assert!((depth(4.0, 8.0) - depth(2.0, 8.0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn figures_have_two_digits() {
        let shown = [66.4, 9.96, 9.94, 1.0, 0.996, 0.762, 0.05].map(figure);
        assert_eq!(shown, ["66", "10", "9.9", "1.0", "1.0", ".76", ".05"]);
    }
}
