//! Ratios as points with intervals around 1, one row each.

use std::cmp::Ordering;
use std::ops::Range;

use plotters::prelude::RGBColor;

use crate::format::{ratio_interval, times};
use pipespeed_stats::Estimate;

use super::canvas::{
    CARD, Canvas, Drawn, Heading, INK, MARGIN, MUTED, SMALL, Side, TEXT, WIDTH, bold, card, plain,
    round_values, tick_label,
};
use super::text::{Cut, bold_width, fitted, length, text_width};

/// One row of a [`dot_chart`].
#[derive(Debug, Clone, PartialEq)]
pub struct DotRow {
    /// What the ratio is of.
    pub name: String,
    /// The ratio; none where there is none.
    pub ratio: Option<Estimate>,
    /// Whether it is called greater or less than 1: its colour.
    pub beyond: Ordering,
    /// A word on it, such as the verdict, or why there is no ratio.
    pub note: String,
}

const ROW: i32 = 28;
const AXIS: i32 = 46;
const GAP: i32 = 8;
const WIDEST_NAME: i32 = 220;
const WIDEST_NOTE: i32 = 110;

const ABOVE: RGBColor = RGBColor(10, 122, 88);
const BELOW: RGBColor = RGBColor(178, 56, 40);
const NEITHER: RGBColor = RGBColor(110, 119, 129);

/// Draws ratios: a point with its interval a row, spaced by logarithm around a
/// line at 1, so that twice and half lie equally far from it. `unit` is what
/// the axis counts.
pub fn dot_chart(title: &str, subtitle: &str, rows: &[DotRow], unit: &str) -> String {
    let body = 12 + length(rows.len()) * ROW + AXIS;
    let subtitle: Vec<String> = subtitle.lines().map(str::to_owned).collect();
    let heading = Heading {
        title,
        subtitle: &subtitle,
    };
    card(&heading, body, |canvas, top| {
        let scale = Scale::new(rows);
        let top = top + 12;
        let bottom = top + length(rows.len()) * ROW;
        let ticks: Vec<(i32, String)> = ticks(&scale.range)
            .into_iter()
            .map(|value| (scale.x(value), tick_label(value)))
            .collect();
        canvas.axis(&ticks, scale.left..scale.right, top..bottom, unit)?;
        canvas.line((scale.x(1.0), top - 4), (scale.x(1.0), bottom + 4), INK, 1)?;
        for (index, row) in rows.iter().enumerate() {
            scale.draw(canvas, row, top + length(index) * ROW + ROW / 2)?;
        }
        Ok(())
    })
}

/// Where ratios lie.
struct Scale {
    left: i32,
    right: i32,
    range: Range<f64>,
}

impl Scale {
    fn new(rows: &[DotRow]) -> Scale {
        let widest = |texts: &mut dyn Iterator<Item = String>, size| {
            texts.map(|text| text_width(&text, size)).max().unwrap_or(0)
        };
        let names = widest(&mut rows.iter().map(|row| row.name.clone()), TEXT);
        let shown = rows
            .iter()
            .filter_map(shown)
            .map(|text| bold_width(&text, SMALL))
            .max()
            .unwrap_or(0);
        let notes = rows
            .iter()
            .filter(|row| row.ratio.is_some())
            .map(|row| row.note.clone());
        let notes = widest(&mut { notes }, SMALL).min(WIDEST_NOTE);
        let (mut low, mut high) = (0.95_f64, 1.05_f64);
        for (least, most) in rows.iter().filter_map(|row| Some(row.ratio?.ends())) {
            low = low.min(least);
            high = high.max(most);
        }
        // A little air at both ends, so that no cap lies on the edge.
        let air = (high / low).powf(0.06);
        Scale {
            left: MARGIN + names.min(WIDEST_NAME) + 2 * GAP,
            right: WIDTH - MARGIN - shown - notes - 3 * GAP,
            range: low / air..high * air,
        }
    }

    fn x(&self, ratio: f64) -> i32 {
        let Range { start, end } = self.range;
        let share = (ratio / start).ln() / (end / start).ln();
        self.left + (share.clamp(0.0, 1.0) * f64::from(self.right - self.left)).round() as i32
    }

    fn draw(&self, canvas: &Canvas<'_>, row: &DotRow, y: i32) -> Drawn {
        let name = fitted(&row.name, TEXT, WIDEST_NAME, Cut::Middle);
        let place = (self.left - 2 * GAP, y);
        let Some((ratio, shown)) = row.ratio.zip(shown(row)) else {
            canvas.text(&name, place, Side::Left, plain(TEXT, MUTED))?;
            let note = fitted(&row.note, SMALL, WIDTH - MARGIN - self.left - GAP, Cut::End);
            // The lines behind it would go through the words.
            let x = self.left..self.left + 2 * GAP + text_width(&note, SMALL);
            canvas.rectangle(x, y - ROW / 2..y + ROW / 2, CARD)?;
            return canvas.text(
                &note,
                (self.left + GAP, y),
                Side::Right,
                plain(SMALL, MUTED),
            );
        };
        let colour = match row.beyond {
            Ordering::Greater => ABOVE,
            Ordering::Less => BELOW,
            Ordering::Equal => NEITHER,
        };
        canvas.text(&name, place, Side::Left, plain(TEXT, INK))?;
        let (low, high) = ratio.ends();
        canvas.whisker(self.x(low)..self.x(high), y, colour)?;
        canvas.dot((self.x(ratio.median), y), 5, colour)?;
        let column = self.right + 2 * GAP;
        canvas.text(&shown, (column, y), Side::Right, bold(SMALL, INK))?;
        let note = fitted(&row.note, SMALL, WIDEST_NOTE, Cut::End);
        canvas.text(&note, (WIDTH - MARGIN, y), Side::Left, plain(SMALL, colour))
    }
}

fn shown(row: &DotRow) -> Option<String> {
    let ratio = row.ratio?;
    let shown = format!("{} {}", times(ratio.median), ratio_interval(ratio.interval));
    Some(shown.trim_end().to_owned())
}

/// Round ratios within a range, 1 among them: evenly spaced ones where the
/// range is narrow, else 1, 2 and 5 in every decade.
fn ticks(range: &Range<f64>) -> Vec<f64> {
    if range.end / range.start < 3.0 {
        return round_values(range.clone(), 8);
    }
    let decades = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let many = decades.end() - decades.start() > 4;
    let within: &[f64] = if many { &[1.0] } else { &[1.0, 2.0, 5.0] };
    decades
        .flat_map(|decade| within.iter().map(move |digit| digit * 10f64.powi(decade)))
        .filter(|value| range.contains(value))
        .collect()
}
