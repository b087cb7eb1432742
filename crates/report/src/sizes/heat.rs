//! Heat maps of rates by the sizes of buffer and pipe: a map for each case, a row of maps
//! for each technique.

use super::{best_sizes, not_run, place, technique};
use crate::conditions::{marks_of_run, origin};
use crate::format::{fixed, grouped, significant};
use pipespeed_base::size;
use pipespeed_measure::record::{CellResult, PanelResult, Run, Search, Sizes};
use pipespeed_measure::spec::Waiting;

use crate::chart::svg::{
    Anchor, CARD, Colour, Cut, EDGE, INK, MARGIN, MUTED, SMALL, Svg, TEXT, fitted, length,
    text_width,
};

/// The gap between two maps, and the room for buffer sizes on the left of a map.
const GAP: i32 = 14;
const SIZES: i32 = 34;
/// Heights: of a technique's name, a map's name, the room below a map, a cell, and a line
/// on a refused case.
const TECHNIQUE: i32 = 26;
const NAME: i32 = 18;
const BELOW: i32 = 38;
const CELL: i32 = 20;
const REASON: i32 = 18;
/// Font sizes of rates and of sizes.
const RATE: i32 = 11;
const AXIS: i32 = 10;
/// Maximum width of a cell, and minimum width of a map, whose name has to fit.
const MAX_CELL: i32 = 56;
const MIN_MAP: i32 = 200;

/// Rates this many times below the highest of their map have the palest colour.
const PALEST_RATIO: f64 = 8.0;

/// A frame's colour and width.
type Frame = (Colour, i32);

const CHOSEN: [Frame; 1] = [(Colour(213, 94, 0), 3)];
/// Dark and light, to contrast with any cell.
const PUBLISHED: [Frame; 2] = [(INK, 1), (CARD, 1)];

/// Draws a search: the rates of its first stage as colours and figures, with the chosen and
/// the published sizes framed. On a narrow card the maps stand one below the other.
///
/// Figures of the second stage are not drawn: it measured the few chosen from, at another
/// time, so they can't be compared with the others.
pub(crate) fn chart(run: &Run, search: &Search, card_width: i32) -> String {
    let panels = search.panels.iter();
    let rows = grouped(panels.map(|panel| (technique(panel), panel)));
    let ended = search.panels.iter().any(|panel| panel.best.is_some());
    let figures = if ended {
        "figures are medians of the first trials of all pairs; chosen: the highest median in \
         later trials of the four highest"
    } else {
        "the search was not completed; the fastest sizes so far are framed"
    };
    let title = "pipespeed bench sizes: GiB/s by the sizes of buffer and pipe";
    let mut svg = Svg::new(title, &[origin(run), figures.to_owned()], card_width);
    svg.marks(&marks_of_run(run));
    let most = rows.iter().map(|row| row.1.len()).max().unwrap_or(1);
    let in_a_row = if svg.is_narrow() { 1 } else { most.max(1) };
    let columns = length(in_a_row);
    let room = (svg.room() - (columns - 1) * GAP) / columns - SIZES;
    let cell = (room / length(search.pipes.len().max(1))).min(MAX_CELL);
    let width = (SIZES + length(search.pipes.len()) * cell).max(MIN_MAP);
    legend(&mut svg);
    for (technique, panels) in rows {
        let name = format!("{technique}, {} pages", panels[0].configuration.pages);
        svg.bold(&name, (MARGIN, svg.y + TECHNIQUE / 2), TEXT);
        svg.y += TECHNIQUE;
        for panels in panels.chunks(in_a_row) {
            let top = svg.y + NAME;
            for (column, panel) in panels.iter().enumerate() {
                let left = MARGIN + SIZES + length(column) * (width + GAP);
                draw_map(&mut svg, search, panel, cell, (left, top));
            }
            svg.y = top + length(search.buffers.len()) * CELL + BELOW;
        }
    }
    for (case, why) in not_run(run) {
        let line = format!("{case}: {why}");
        let line = fitted(&line, SMALL, svg.room(), Cut::End);
        let at = (MARGIN, svg.y + REASON / 2);
        svg.text(&line, at, Anchor::Start, SMALL, MUTED);
        svg.y += REASON;
    }
    svg.finish()
}

/// Draws a map with the largest buffer at the top.
fn draw_map(
    svg: &mut Svg,
    search: &Search,
    panel: &PanelResult,
    cell: i32,
    (left, top): (i32, i32),
) {
    let (columns, rows) = (length(search.pipes.len()), length(search.buffers.len()));
    let wait = if panel.configuration.wait == Some(Waiting::Spin) {
        "spinning"
    } else {
        "sleeping"
    };
    let name = format!("{wait}, {}", place(panel));
    let name_y = top - NAME / 2 - 2;
    svg.text(&name, (left, name_y), Anchor::Start, SMALL, INK);
    let letters = |bytes: &usize| size::short(*bytes).to_uppercase();
    svg.text("buffer", (left - 4, name_y), Anchor::End, AXIS, MUTED);
    for (at, bytes) in search.buffers.iter().rev().enumerate() {
        let y = top + length(at) * CELL + CELL / 2;
        svg.text(&letters(bytes), (left - 4, y), Anchor::End, AXIS, MUTED);
    }
    let below = top + rows * CELL;
    for (at, bytes) in search.pipes.iter().enumerate() {
        let x = left + length(at) * cell + cell / 2;
        svg.text(&letters(bytes), (x, below + 8), Anchor::Middle, AXIS, MUTED);
    }
    let middle = left + columns * cell / 2;
    svg.text("pipe", (middle, below + 22), Anchor::Middle, AXIS, MUTED);
    let rates = panel.cells.iter().filter_map(CellResult::grid_median);
    let highest = rates.fold(0.0, f64::max);
    for found in &panel.cells {
        let place = |axis: &[usize], bytes| axis.iter().position(|known| *known == bytes);
        let column = place(&search.pipes, found.sizes.pipe_bytes);
        let row = place(&search.buffers, found.sizes.buffer_bytes);
        let Some((column, row)) = column.zip(row) else {
            continue;
        };
        let at = (left + length(column) * cell, below - length(row + 1) * CELL);
        let mut frames: Vec<Frame> = Vec::new();
        if best_sizes(panel) == Some(found.sizes) {
            frames.extend(CHOSEN);
        }
        if panel.published() == found.sizes {
            frames.extend(PUBLISHED);
        }
        let (text, fill, ink) = match found.grid_median() {
            _ if found.not_run.is_some() => ("×".to_owned(), EDGE, MUTED),
            None => (String::new(), CARD, INK),
            Some(rate) => (figure(rate), colour(depth(rate, highest)), INK),
        };
        svg.hinted(&hint(found), |svg| {
            draw_cell(svg, at, (cell - 1, CELL - 1), &frames, fill);
            let middle = (at.0 + cell / 2, at.1 + CELL / 2);
            svg.text(&text, middle, Anchor::Middle, RATE, ink);
        });
    }
}

/// A cell in words.
fn hint(found: &CellResult) -> String {
    let bytes = |bytes| size::format(bytes as u64);
    let Sizes {
        buffer_bytes,
        pipe_bytes,
    } = found.sizes;
    let rate = |rates: &[f64]| pipespeed_stats::median(rates).map(significant);
    let outcome = match (rate(&found.grid), rate(&found.finals), &found.not_run) {
        (.., Some(not_run)) => not_run.to_string(),
        (Some(first), Some(later), None) => {
            format!("{first} GiB/s in the first trials, {later} in the later ones")
        }
        (Some(first), None, None) => format!("{first} GiB/s in the first trials"),
        (None, Some(later), None) => format!("{later} GiB/s in the later trials"),
        (None, None, None) => "not tried".to_owned(),
    };
    let (buffer, pipe) = (bytes(buffer_bytes), bytes(pipe_bytes));
    format!("buffer {buffer}, pipe {pipe}: {outcome}")
}

/// A filled cell in frames, the outermost first.
fn draw_cell(
    svg: &mut Svg,
    (x, y): (i32, i32),
    (width, height): (i32, i32),
    frames: &[Frame],
    fill: Colour,
) {
    let (mut x, mut y) = (x..x + width, y..y + height);
    for (colour, width) in frames {
        svg.rectangle(x.clone(), y.clone(), *colour);
        x = x.start + width..x.end - width;
        y = y.start + width..y.end - width;
    }
    svg.rectangle(x, y, fill);
}

/// The depth of a rate's colour from 0 to 1. It is logarithmic: equal ratios are equal
/// steps.
fn depth(rate: f64, highest: f64) -> f64 {
    (1.0 + (rate / highest).ln() / PALEST_RATIO.ln()).clamp(0.0, 1.0)
}

/// A colour from white to light blue: darker is faster, also in greyscale. Text is readable on
/// all of them, also where a dark page inverts them.
fn colour(depth: f64) -> Colour {
    const PALEST: [f64; 3] = [250.0, 252.0, 254.0];
    const DEEPEST: [f64; 3] = [140.0, 190.0, 232.0];
    let mix = |at: usize| (PALEST[at] + (DEEPEST[at] - PALEST[at]) * depth).round() as u8;
    Colour(mix(0), mix(1), mix(2))
}

/// Two digits: `64`, `4.2`, `.76`.
fn figure(rate: f64) -> String {
    match rate {
        _ if rate >= 9.95 => fixed(rate, 0),
        _ if rate >= 0.995 => fixed(rate, 1),
        _ => format!("{rate:.2}").trim_start_matches('0').to_owned(),
    }
}

fn legend(svg: &mut Svg) {
    let shares = ["1/8 or less", "1/4", "1/2", "the map's highest"];
    let shares = shares.iter().enumerate();
    let colours = shares.map(|(at, share)| (*share, &[][..], colour(at as f64 / 3.0)));
    let frames = [
        ("chosen", &CHOSEN[..], CARD),
        ("published", &PUBLISHED, CARD),
        ("refused", &[], EDGE),
        ("not tried", &[(EDGE, 1)], CARD),
    ];
    for entries in [colours.collect(), frames.to_vec()] {
        let mut x = MARGIN;
        for (name, frames, fill) in entries {
            let width = 30 + text_width(name, SMALL) + 14;
            if x > MARGIN && x + width - 14 > svg.width - MARGIN {
                (x, svg.y) = (MARGIN, svg.y + 22);
            }
            draw_cell(svg, (x, svg.y + 5), (24, 14), frames, fill);
            svg.text(name, (x + 30, svg.y + 12), Anchor::Start, SMALL, INK);
            x += width;
        }
        svg.y += 22;
    }
    svg.y += 6;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::svg::WIDE;
    use pipespeed_measure::fixtures;
    use pipespeed_measure::search::FINALISTS;

    fn texts(run: &Run) -> Vec<String> {
        let svg = chart(run, run.search.as_ref().unwrap(), WIDE);
        crate::testing::texts(&svg)
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
        let mut run = fixtures::sizes();
        assert_eq!(counts(&run), [9, 9 * 36, 9 * 6]);
        let search = run.search.as_mut().unwrap();
        search.panels[2].cells[0].grid.clear();
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
    fn chosen_sizes_are_framed_in_each_map() {
        let run = fixtures::sizes();
        let svg = chart(&run, run.search.as_ref().unwrap(), WIDE);
        let frames = svg.matches(&format!("fill=\"{}\"", CHOSEN[0].0)).count();
        assert_eq!(frames, 9 + 1, "nine maps and the legend");
    }

    #[test]
    fn figures_of_a_map_are_of_the_same_trials() {
        let mut run = fixtures::sizes();
        let search = run.search.as_mut().unwrap();
        search.panels.truncate(1);
        // Somebody else used the machine during the second stage.
        for cell in &mut search.panels[0].cells {
            cell.finals.iter_mut().for_each(|rate| *rate /= 10.0);
            cell.summarise();
        }
        let panel = search.panels[0].clone();
        let chosen = panel.leader().unwrap();
        let first = chosen.grid_median().unwrap();
        let is_above = |cell: &&CellResult| cell.grid_median() > Some(first);
        assert!(panel.cells.iter().filter(is_above).count() < FINALISTS);
        let others = panel.cells.iter().filter(|cell| cell.finals.is_empty());
        let highest = others.filter_map(|cell| cell.median).fold(0.0, f64::max);
        assert!(
            chosen.median.unwrap() < highest,
            "the planted contradiction"
        );
        let texts = texts(&run);
        for cell in panel.cells.iter().filter(|cell| cell.not_run.is_none()) {
            let shown = figure(cell.grid_median().unwrap());
            assert!(texts.contains(&shown), "{shown}");
        }
        assert!(
            !texts.contains(&figure(chosen.median.unwrap())),
            "{texts:?}"
        );
    }

    #[test]
    fn refused_cases_are_named_with_their_reason() {
        let mut run = fixtures::sizes();
        fixtures::refuse(&mut run, "write_read_spin", "spinning needs two processors");
        let line = "write_read_spin: refused: spinning needs two processors";
        assert!(texts(&run).contains(&line.to_owned()));
    }

    #[test]
    fn faster_is_darker_in_grey_too() {
        let grey = (0..=20).map(|step| {
            let Colour(r, g, b) = colour(f64::from(step) / 20.0);
            // ITU-R BT.601.
            0.299 * f64::from(r) + 0.587 * f64::from(g) + 0.114 * f64::from(b)
        });
        let grey: Vec<f64> = grey.collect();
        assert!(grey.windows(2).all(|pair| pair[1] < pair[0] - 3.0));
        assert!((depth(4.0, 8.0) - depth(2.0, 8.0) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn figures_have_two_digits() {
        let shown = [66.4, 9.96, 9.94, 1.0, 0.996, 0.762, 0.05].map(figure);
        assert_eq!(shown, ["66", "10", "9.9", "1.0", "1.0", ".76", ".05"]);
    }
}
