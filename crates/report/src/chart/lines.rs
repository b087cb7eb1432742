//! Line charts: one or several panels with a common horizontal axis, a logarithmic vertical
//! axis, and the lines' names beside their last points.

use std::ops::Range;

use pipespeed_stats::Estimate;

use crate::format::{interval as interval_text, significant};

use super::svg::{
    Anchor, Colour, GRID, INK, MARGIN, MUTED, SMALL, Scale, Svg, TEXT, length, offset, spread,
    text_width,
};

/// Room above and below the title of a panel.
const ABOVE_TITLE: i32 = 10;
const BELOW_TITLE: i32 = 25;
const AXIS: i32 = 46;
/// Height of a line of names below a panel, on a narrow card.
const NAMES: i32 = 20;
/// Minimum distance of two names, and of points side by side.
const NAME_GAP: i32 = 16;
const POINT_GAP: i32 = 2;
/// Distance from the last points to the names.
const LEADER: i32 = 26;
/// Distance between the intervals of two horizontal lines.
const LEVEL_GAP: i32 = 8;

/// A chart of lines.
pub(crate) struct LineChart<'a> {
    pub title: &'a str,
    pub subtitle: Vec<String>,
    pub panels: Vec<Panel>,
    /// The height of a panel.
    pub height: i32,
    /// Positions with their labels, in ascending order. Points at a tick have marks.
    pub ticks: Vec<(f64, String)>,
    pub x_label: &'a str,
    pub y_unit: &'a str,
    /// How often each point was measured, in words.
    pub repeated: String,
    /// The width of the card.
    pub width: i32,
}

/// Lines, and vertical lines at `markers`.
#[derive(Default)]
pub(crate) struct Panel {
    pub title: String,
    pub lines: Vec<LineSeries>,
    pub markers: Vec<(f64, String)>,
}

pub(crate) struct LineSeries {
    pub name: String,
    pub colour: Colour,
    /// The shape of its marks; `None` for a dashed horizontal line at the value of its only
    /// point.
    pub mark: Option<usize>,
    /// Positions in ascending order, with their values.
    pub points: Vec<(f64, Estimate)>,
}

impl LineChart<'_> {
    /// Draws the chart with these warnings below its subtitle. On a narrow card the names of the
    /// lines stand below each panel.
    pub fn draw(&self, marks: &[String]) -> String {
        let mut svg = Svg::new(self.title, &self.subtitle, self.width);
        svg.marks(marks);
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let widest = lines().map(|line| text_width(&line.name, SMALL)).max();
        let beside = if svg.is_narrow() {
            0
        } else {
            LEADER + 16 + widest.unwrap_or(0)
        };
        let x = MARGIN + 52..svg.width - MARGIN - beside;
        let points = lines().flat_map(|line| &line.points);
        let values = points.fold((f64::MAX, 1e-9), |(low, high), (_, estimate)| {
            let ends = estimate.ends();
            (f64::min(low, ends.0), f64::max(high, ends.1))
        });
        let values = (values.0.clamp(1e-9, values.1) / 1.2, values.1 * 1.2);
        for panel in &self.panels {
            svg.y += ABOVE_TITLE;
            svg.heading(&panel.title, TEXT);
            let top = svg.y + BELOW_TITLE;
            let y = top..top + self.height;
            let vertical = Scale {
                values,
                pixels: (y.end, y.start),
                logarithmic: true,
            };
            self.draw_panel(&mut svg, panel, &x, &vertical);
            svg.y = y.end + AXIS;
            if svg.is_narrow() {
                list_names(&mut svg, &panel.lines);
            }
        }
        svg.finish()
    }

    fn draw_panel(&self, svg: &mut Svg, panel: &Panel, x: &Range<i32>, vertical: &Scale) {
        let y = vertical.pixels.1..vertical.pixels.0;
        let end = |tick: Option<&(f64, String)>| tick.map_or(0.0, |tick| tick.0);
        let horizontal = Scale {
            values: (end(self.ticks.first()), end(self.ticks.last())),
            // No point lies on the edge.
            pixels: (x.start + 18, x.end - 18),
            logarithmic: false,
        };
        let ticks = self.ticks.iter();
        let ticks = ticks.map(|(at, label)| (horizontal.at(*at), label.clone()));
        svg.y_axis(vertical, x, self.y_unit);
        svg.x_axis(&ticks.collect::<Vec<_>>(), x, &y, self.x_label);
        svg.line((x.start, y.start), (x.start, y.end), MUTED);
        svg.line((x.start, y.end), (x.end, y.end), MUTED);
        for (at, label) in &panel.markers {
            if (horizontal.values.0..=horizontal.values.1).contains(at) {
                let at = horizontal.at(*at);
                svg.line((at, y.start - 4), (at, y.end), MUTED);
                svg.text(label, (at, y.start - 14), Anchor::Middle, SMALL, INK);
            }
        }
        let (across, others): (Vec<&LineSeries>, Vec<&LineSeries>) =
            panel.lines.iter().partition(|line| line.mark.is_none());
        let mut ends = Vec::new();
        for (at, line) in across.iter().enumerate() {
            let Some((_, estimate)) = line.points.first() else {
                continue;
            };
            let height = vertical.at(estimate.median);
            let beside = x.end - (length(across.len() - at) + 1) * LEVEL_GAP;
            svg.hinted(&self.hint(line, None, estimate), |svg| {
                svg.dashes(x, height, line.colour);
                // A dot shows which line the interval belongs to.
                svg.dot((beside, height), 2, line.colour);
                interval(svg, beside, estimate, vertical, line.colour);
            });
            ends.push(((x.end, height), *line));
        }
        for (at, line) in others.iter().enumerate() {
            // Side by side, so that no interval hides another.
            let has_intervals = line.points.iter().any(|point| point.1.interval.is_some());
            let gap = if has_intervals { POINT_GAP } else { 0 };
            let shift = offset(at, others.len(), gap);
            let end = self.draw_line(svg, line, shift, &horizontal, vertical);
            ends.extend(end.map(|end| (end, *line)));
        }
        if svg.is_narrow() {
            number_levels(svg, &ends, x, &y);
        } else {
            draw_names(svg, ends, x.end, &y);
        }
    }

    /// A point in words.
    fn hint(&self, line: &LineSeries, tick: Option<&str>, estimate: &Estimate) -> String {
        let place = tick.map_or_else(String::new, |tick| format!(", {tick}"));
        let (median, ends) = (
            significant(estimate.median),
            interval_text(estimate.interval),
        );
        let value = format!("{median} {} {ends}", self.y_unit);
        let (name, repeated) = (&line.name, &self.repeated);
        format!("{name}{place}: {}, {repeated}", value.trim_end())
    }

    /// Returns the last point.
    fn draw_line(
        &self,
        svg: &mut Svg,
        line: &LineSeries,
        shift: i32,
        horizontal: &Scale,
        vertical: &Scale,
    ) -> Option<(i32, i32)> {
        let colour = line.colour;
        let place = |(x, estimate): &(f64, Estimate)| {
            (horizontal.at(*x) + shift, vertical.at(estimate.median))
        };
        let places: Vec<(i32, i32)> = line.points.iter().map(place).collect();
        svg.polyline(&places, colour, 1);
        for (at, (x, estimate)) in places.iter().zip(&line.points) {
            let tick = self.ticks.iter().find(|tick| tick.0 == *x);
            let hint = tick.map(|(_, tick)| self.hint(line, Some(tick), estimate));
            svg.hinted(&hint.unwrap_or_default(), |svg| {
                interval(svg, at.0, estimate, vertical, colour);
                if let Some(mark) = line.mark.filter(|_| tick.is_some()) {
                    svg.mark(*at, mark, colour);
                }
            });
        }
        places.last().copied()
    }
}

/// The interval of a point, unless its mark hides it.
fn interval(svg: &mut Svg, x: i32, estimate: &Estimate, vertical: &Scale, colour: Colour) {
    if let Some(interval) = estimate.interval {
        let (low, high) = (vertical.at(interval.low), vertical.at(interval.high));
        if low - high > 8 {
            svg.whisker([(x, low), (x, high)], colour, 1);
        }
    }
}

/// Names beside the lines' ends, moved apart where they would touch.
fn draw_names(svg: &mut Svg, mut ends: Vec<((i32, i32), &LineSeries)>, right: i32, y: &Range<i32>) {
    ends.sort_by_key(|(end, _)| end.1);
    let wished: Vec<i32> = ends.iter().map(|(end, _)| end.1).collect();
    let x = right + LEADER;
    for ((end, line), y) in ends.iter().zip(spread(&wished, y, NAME_GAP)) {
        // From a line that ends earlier it would cross the others.
        if end.0 > right - 40 {
            svg.line((end.0 + 6, end.1), (x - 6, y), GRID);
        }
        if let Some(mark) = line.mark {
            svg.mark((x, y), mark, line.colour);
        }
        svg.text(&line.name, (x + 10, y), Anchor::Start, SMALL, line.colour);
    }
}

/// The numbers of horizontal lines, beside their right ends.
fn number_levels(
    svg: &mut Svg,
    ends: &[((i32, i32), &LineSeries)],
    x: &Range<i32>,
    y: &Range<i32>,
) {
    let mut levels: Vec<(usize, (i32, i32), Colour)> = ends
        .iter()
        .filter(|(_, line)| line.mark.is_none())
        .enumerate()
        .map(|(at, (end, line))| (at + 1, *end, line.colour))
        .collect();
    levels.sort_by_key(|(_, end, _)| end.1);
    let wished: Vec<i32> = levels.iter().map(|(_, end, _)| end.1).collect();
    for ((number, _, colour), y) in levels.into_iter().zip(spread(&wished, y, NAME_GAP)) {
        let at = (x.end + 4, y);
        svg.text(&number.to_string(), at, Anchor::Start, SMALL, colour);
    }
}

/// The names of the lines, each behind its mark; those of horizontal lines behind their number.
fn list_names(svg: &mut Svg, lines: &[LineSeries]) {
    let mut x = MARGIN;
    svg.y += NAMES / 2;
    let mut levels = 0;
    for line in lines {
        let name = if line.mark.is_some() {
            line.name.clone()
        } else {
            levels += 1;
            format!("{levels} {}", line.name)
        };
        let width = 14 + text_width(&name, SMALL) + 12;
        if x > MARGIN && x + width > svg.width - MARGIN {
            (x, svg.y) = (MARGIN, svg.y + NAMES);
        }
        let at = (x + 5, svg.y);
        match line.mark {
            Some(mark) => svg.mark(at, mark, line.colour),
            None => svg.line((x, svg.y), (x + 10, svg.y), line.colour),
        }
        svg.text(&name, (x + 14, svg.y), Anchor::Start, SMALL, line.colour);
        x += width;
    }
    svg.y += NAMES;
}
