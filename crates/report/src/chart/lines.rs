//! Throughput over the size of messages: a panel for each way of waiting, a
//! line for each channel, both axes logarithmic.

use std::ops::Range;

use plotters::prelude::RGBColor;

use crate::channels::{RING_LOOKS, channel, message, rings_block, waiting};
use crate::measured::has_intervals;
use crate::origin;
use pipespeed_base::Named;
use pipespeed_base::size;
use pipespeed_measure::endpoint::spec::Waiting;
use pipespeed_measure::record::{CaseResult, Interval, Run, Summary};
use pipespeed_measure::suite::channels::Transport;

use super::bars::method;
use super::canvas::{
    Canvas, Drawn, GRID, Heading, INK, MARGIN, MUTED, SMALL, Side, TEXT, WIDTH, bold, card, plain,
    tick_label,
};
use super::looks::look;
use super::missing::of_channels;
use super::text::{length, text_width};

const PANEL: i32 = 330;
const HEADING: i32 = 48;
const AXIS: i32 = 50;
/// The least distance between two labels beside the lines.
const LABEL: i32 = 16;
/// From the last points to the labels.
const LEADER: i32 = 26;
/// How far points at the same size stand apart, so that none hides another.
pub(super) const APART: i32 = 2;

/// The ways of waiting, and the headings of their panels.
const PANELS: [(Waiting, &str); 2] = [
    (Waiting::Block, "Blocking: an end that has to wait sleeps"),
    (Waiting::Spin, "Spinning: neither end ever sleeps"),
];

/// What stands below the title.
fn subtitle(run: &Run) -> Vec<String> {
    let small = if has_intervals(run) {
        "; intervals no larger than their mark are not drawn"
    } else {
        ""
    };
    let mut lines = vec![
        origin(run),
        method(run),
        format!("every byte produced by the writer and used by the reader{small}"),
    ];
    lines.extend(rings_block(run).then(|| RING_LOOKS.to_owned()));
    lines.extend(of_channels(run));
    lines
}

/// Draws a run of channels. What was refused has no point, and is named.
pub(crate) fn chart(run: &Run) -> String {
    let panels: Vec<(&str, Vec<&CaseResult>)> = PANELS
        .iter()
        .map(|(wait, title)| {
            let measured = waiting(run, *wait).filter(|case| case.summary.is_some());
            (*title, measured.collect())
        })
        .filter(|(_, cases): &(&str, Vec<_>)| !cases.is_empty())
        .collect();
    let heading = Heading {
        title: "pipespeed: throughput over message size",
        subtitle: &subtitle(run),
    };
    let body = length(panels.len()) * (HEADING + PANEL + AXIS);
    card(&heading, body, |canvas, top| {
        let all: Vec<&CaseResult> = panels
            .iter()
            .flat_map(|(_, cases)| cases)
            .copied()
            .collect();
        let scale = Scale::new(&all);
        for (at, (title, cases)) in panels.iter().enumerate() {
            let top = top + length(at) * (HEADING + PANEL + AXIS);
            let heading = (MARGIN, top + 16);
            canvas.text(title, heading, Side::Right, bold(TEXT, INK))?;
            let top = top + HEADING;
            scale.draw(canvas, cases, top..top + PANEL)?;
        }
        Ok(())
    })
}

/// Where sizes and rates lie, the same in all panels.
pub(super) struct Scale {
    left: i32,
    right: i32,
    sizes: Vec<usize>,
    rates: Range<f64>,
}

/// What a line is called, at its last point.
pub(super) struct Label<'a> {
    pub at: (i32, i32),
    pub name: &'a str,
    /// The mark of its points, where it has any.
    pub mark: Option<usize>,
    pub colour: RGBColor,
}

impl Scale {
    fn new(cases: &[&CaseResult]) -> Scale {
        let mut sizes: Vec<usize> = cases.iter().map(|case| message(case)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let names = cases.iter().map(|case| channel(case));
        Scale::over(sizes, cases.iter().copied(), names)
    }

    /// For these sizes (ascending), the rates of these cases, and labels of
    /// these names.
    pub fn over<'a>(
        sizes: Vec<usize>,
        cases: impl IntoIterator<Item = &'a CaseResult>,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Scale {
        let ends = |case: &CaseResult| {
            let summary = case.summary.as_ref()?;
            Some(summary.gib_per_s.ends())
        };
        let ends: Vec<(f64, f64)> = cases.into_iter().filter_map(ends).collect();
        let low = ends.iter().map(|(low, _)| *low).fold(f64::MAX, f64::min);
        let high = ends.iter().map(|(_, high)| *high).fold(1e-9, f64::max);
        let low = low.clamp(1e-9, high);
        let labels = names.into_iter().map(|name| text_width(name, SMALL));
        Scale {
            left: MARGIN + 52,
            right: WIDTH - MARGIN - LEADER - 16 - labels.max().unwrap_or(0),
            sizes,
            rates: low / 1.15..high * 1.15,
        }
    }

    fn x(&self, bytes: usize) -> i32 {
        let log = |bytes: usize| (bytes.max(1) as f64).ln();
        let (first, last) = match (self.sizes.first(), self.sizes.last()) {
            (Some(&first), Some(&last)) if first < last => (log(first), log(last)),
            _ => return i32::midpoint(self.left, self.right),
        };
        // No point on the edge.
        let (left, right) = (self.left + 18, self.right - 18);
        let share = (log(bytes) - first) / (last - first);
        left + (share * f64::from(right - left)).round() as i32
    }

    /// Where a size lies, if it is not beyond the sizes shown.
    pub fn within(&self, bytes: usize) -> Option<i32> {
        let (first, last) = (*self.sizes.first()?, *self.sizes.last()?);
        (first..=last).contains(&bytes).then(|| self.x(bytes))
    }

    /// From the left edge to the right.
    pub fn across(&self) -> Range<i32> {
        self.left..self.right
    }

    pub fn y(&self, rate: f64, y: &Range<i32>) -> i32 {
        let Range { start, end } = self.rates;
        let share = (rate.max(start) / start).ln() / (end / start).ln();
        y.end - (share.clamp(0.0, 1.0) * f64::from(y.end - y.start)).round() as i32
    }

    fn draw(&self, canvas: &Canvas<'_>, cases: &[&CaseResult], y: Range<i32>) -> Drawn {
        self.grid(canvas, &y, "size of a message")?;
        let mut present: Vec<&str> = Transport::VALUES.iter().map(|it| it.name()).collect();
        present.retain(|name| cases.iter().any(|case| channel(case) == *name));
        let mut labels = Vec::new();
        for (at, name) in present.iter().enumerate() {
            let own: Vec<(usize, &Summary)> = cases
                .iter()
                .filter(|case| channel(case) == *name)
                .filter_map(|case| Some((message(case), case.summary.as_ref()?)))
                .collect();
            let (kind, colour) = look(name);
            let shift = (length(at) * 2 - length(present.len()) + 1) * APART / 2;
            let at = self.line(canvas, &own, &y, (kind, colour, shift))?;
            labels.push(Label {
                at,
                name,
                mark: Some(kind),
                colour,
            });
        }
        self.labels(canvas, labels, &y)
    }

    /// The points of one line, with sizes in bytes, and the lines between them.
    /// Returns the last point.
    pub fn line(
        &self,
        canvas: &Canvas<'_>,
        rates: &[(usize, &Summary)],
        y: &Range<i32>,
        (kind, colour, shift): (usize, RGBColor, i32),
    ) -> Result<(i32, i32), plotters::prelude::DrawingAreaErrorKind<std::io::Error>> {
        let mut before: Option<(i32, i32)> = None;
        let mut points = Vec::new();
        for (bytes, summary) in rates {
            let at = (self.x(*bytes) + shift, self.y(summary.gib_per_s.median, y));
            if let Some(from) = before {
                canvas.line(from, at, colour, 1)?;
            }
            if let Some(Interval { low, high, .. }) = summary.gib_per_s.interval {
                let (low, high) = (self.y(low, y), self.y(high, y));
                // One hidden by its mark would be a blot.
                if low - high > 8 {
                    canvas.upright_whisker(at.0, high..low, colour)?;
                }
            }
            points.push(at);
            before = Some(at);
        }
        for at in &points {
            canvas.mark(*at, kind, colour)?;
        }
        Ok(points.last().copied().unwrap_or((self.right, y.end)))
    }

    /// The names of the lines beside their last points, pushed apart where they
    /// would touch.
    pub fn labels(&self, canvas: &Canvas<'_>, mut labels: Vec<Label<'_>>, y: &Range<i32>) -> Drawn {
        labels.sort_by_key(|label| label.at.1);
        let wished: Vec<i32> = labels.iter().map(|label| label.at.1).collect();
        let x = self.right + LEADER;
        for (label, place) in labels.iter().zip(apart(&wished, y)) {
            let Label {
                at,
                name,
                mark,
                colour,
            } = label;
            // From a line that ends earlier it would cross the others.
            if at.0 > self.right - 36 {
                canvas.line((at.0 + 6, at.1), (x - 6, place), GRID, 1)?;
            }
            if let Some(kind) = mark {
                canvas.mark((x, place), *kind, *colour)?;
            }
            canvas.text(name, (x + 10, place), Side::Right, plain(SMALL, *colour))?;
        }
        Ok(())
    }

    pub fn grid(&self, canvas: &Canvas<'_>, y: &Range<i32>, of_what: &str) -> Drawn {
        for value in rate_ticks(&self.rates) {
            let at = self.y(value, y);
            canvas.line((self.left, at), (self.right, at), GRID, 1)?;
            let label = tick_label(value);
            canvas.text(&label, (self.left - 8, at), Side::Left, plain(SMALL, MUTED))?;
        }
        let mut free = 0;
        for &bytes in &self.sizes {
            let at = self.x(bytes);
            canvas.line((at, y.start), (at, y.end), GRID, 1)?;
            let label = size::format(bytes as u64);
            let half = text_width(&label, SMALL) / 2 + 3;
            // Sizes close to each other share a place: the first is named.
            if at - half >= free {
                canvas.text(&label, (at, y.end + 12), Side::Middle, plain(SMALL, MUTED))?;
                free = at + half;
            }
        }
        let unit = (self.left - 8, y.start - 12);
        canvas.text("GiB/s", unit, Side::Left, plain(SMALL, INK))?;
        let middle = i32::midpoint(self.left, self.right);
        canvas.text(
            of_what,
            (middle, y.end + 30),
            Side::Middle,
            plain(SMALL, INK),
        )?;
        canvas.line((self.left, y.start), (self.left, y.end), MUTED, 1)?;
        canvas.line((self.left, y.end), (self.right, y.end), MUTED, 1)
    }
}

/// Round rates within a range: 1, 2 and 5 in every decade, or only 1 where
/// there are many.
pub(super) fn rate_ticks(range: &Range<f64>) -> Vec<f64> {
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let within: &[f64] = if decades.end() - decades.start() > 4 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    decades
        .flat_map(|decade| within.iter().map(move |digit| digit * 10f64.powi(decade)))
        .filter(|value| range.contains(value))
        .collect()
}

/// Ascending places near `wished` (ascending too), at least a label apart and,
/// where there is room, within `range`.
pub(super) fn apart(wished: &[i32], range: &Range<i32>) -> Vec<i32> {
    let mut places = wished.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + LABEL);
    }
    let over = places.last().map_or(0, |last| (last - range.end).max(0));
    if let Some(last) = places.last_mut() {
        *last -= over;
    }
    for at in (1..places.len()).rev() {
        places[at - 1] = places[at - 1].min(places[at] - LABEL);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_that_have_room_stay_where_they_are() {
        assert_eq!(apart(&[10, 50, 90], &(0..100)), [10, 50, 90]);
        assert_eq!(apart(&[10, 12, 14], &(0..100)), [10, 26, 42]);
        assert_eq!(apart(&[90, 95, 99], &(0..100)), [68, 84, 100]);
    }

    proptest! {
        #[test]
        fn labels_never_touch_and_keep_their_order(
            mut wished in prop::collection::vec(0..330_i32, 1..16),
        ) {
            wished.sort_unstable();
            let places = apart(&wished, &(0..330));
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL));
            prop_assert!(places.iter().all(|place| (0..=330).contains(place)));
        }
    }
}
