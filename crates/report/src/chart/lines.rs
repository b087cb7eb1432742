//! Line charts: one or several panels with a common horizontal axis, a logarithmic vertical
//! axis, and the lines' names beside their last points.

use std::ops::Range;

use pipespeed_stats::Estimate;

use super::svg::{
    Anchor, Colour, GRID, INK, MARGIN, MUTED, SMALL, Scale, Svg, TEXT, WIDTH, length, offset,
    spread, text_width,
};

const HEADING: i32 = 48;
const AXIS: i32 = 46;
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
}

/// Lines, and vertical lines at `markers`.
#[derive(Default)]
pub(crate) struct Panel {
    pub title: String,
    pub lines: Vec<Line>,
    pub markers: Vec<(f64, String)>,
}

pub(crate) struct Line {
    pub name: String,
    pub colour: Colour,
    /// The shape of its marks; `None` for a dashed horizontal line at the value of its only
    /// point.
    pub mark: Option<usize>,
    /// Positions in ascending order, with their values.
    pub points: Vec<(f64, Estimate)>,
}

impl LineChart<'_> {
    /// Draws the chart.
    pub fn draw(&self) -> String {
        let mut svg = Svg::new(self.title, &self.subtitle);
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let widest = lines().map(|line| text_width(&line.name, SMALL)).max();
        let x = MARGIN + 52..WIDTH - MARGIN - LEADER - 16 - widest.unwrap_or(0);
        let points = lines().flat_map(|line| &line.points);
        let values = points.fold((f64::MAX, 1e-9), |(low, high), (_, estimate)| {
            let ends = estimate.ends();
            (f64::min(low, ends.0), f64::max(high, ends.1))
        });
        let values = (values.0.clamp(1e-9, values.1) / 1.2, values.1 * 1.2);
        for panel in &self.panels {
            svg.bold(&panel.title, (MARGIN, svg.y + 16), TEXT);
            let y = svg.y + HEADING..svg.y + HEADING + self.height;
            let vertical = Scale {
                values,
                pixels: (y.end, y.start),
                logarithmic: true,
            };
            self.draw_panel(&mut svg, panel, &x, &vertical);
            svg.y = y.end + AXIS;
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
        let (across, others): (Vec<&Line>, Vec<&Line>) =
            panel.lines.iter().partition(|line| line.mark.is_none());
        let mut ends = Vec::new();
        for (at, line) in across.iter().enumerate() {
            let Some((_, estimate)) = line.points.first() else {
                continue;
            };
            let height = vertical.at(estimate.median);
            svg.dashes(x, height, line.colour);
            let beside = x.end - (length(across.len() - at) + 1) * LEVEL_GAP;
            // A dot shows which line the interval belongs to.
            svg.dot((beside, height), 2, line.colour);
            interval(svg, beside, estimate, vertical, line.colour);
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
        draw_names(svg, ends, x.end, &y);
    }

    /// Returns the last point.
    fn draw_line(
        &self,
        svg: &mut Svg,
        line: &Line,
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
            interval(svg, at.0, estimate, vertical, colour);
            let has_mark = self.ticks.iter().any(|tick| tick.0 == *x);
            if let Some(mark) = line.mark.filter(|_| has_mark) {
                svg.mark(*at, mark, colour);
            }
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
fn draw_names(svg: &mut Svg, mut ends: Vec<((i32, i32), &Line)>, right: i32, y: &Range<i32>) {
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
