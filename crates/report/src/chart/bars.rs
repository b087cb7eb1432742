//! The figure of the published experiment for this machine: a bar a case.

use plotters::prelude::RGBColor;

use crate::format::{pluralize, significant, times};
use crate::measured::{medians, processors};
use crate::origin;
use crate::steps::{is_twin, step};
use crate::table::reason;
use pipespeed_measure::record::{CaseResult, DataUse, Interval, Run, Verdict};

use super::canvas::{
    CARD, Canvas, Drawn, Heading, INK, MARGIN, MUTED, SMALL, Side, TEXT, WIDTH, bold, card, plain,
    round_values, tick_label,
};
use super::text::{Cut, bold_width, fitted, length, text_width};

/// The names take no more than this; longer ones are cut short.
const WIDEST_NAME: i32 = 330;
const GAP: i32 = 8;
const LEGEND: i32 = 30;
const AXIS: i32 = 46;

/// Draws a run: a bar a case in the suite's order, as long as its median, with
/// the interval on it and the step it takes beside it. Its colour says what
/// became of the data. Cases that were not run are named with the reason; the null
/// control's twin is left out. `remarks` stand below the title.
pub(crate) fn chart(run: &Run, remarks: Vec<String>) -> String {
    let cases: Vec<&CaseResult> = run
        .cases
        .iter()
        .filter(|case| !is_twin(run, &case.name))
        .collect();
    let row = if cases.len() <= 14 { 30 } else { 22 };
    let body = LEGEND + length(cases.len()) * row + AXIS;
    let mut subtitle = vec![origin(run), method(run)];
    subtitle.extend(remarks);
    let heading = Heading {
        title: &format!("pipespeed: {}", run.suite),
        subtitle: &subtitle,
    };
    card(&heading, body, |canvas, top| {
        let layout = Layout::new(&cases, row, top + LEGEND);
        legend(canvas, &cases, top + LEGEND / 2 - 2)?;
        let bottom = layout.top + length(cases.len()) * row;
        let ticks: Vec<(i32, String)> = round_values(0.0..layout.most, 8)
            .into_iter()
            .map(|value| (layout.x(value), tick_label(value)))
            .collect();
        canvas.axis(
            &ticks,
            layout.left..layout.right,
            layout.top..bottom,
            "GiB/s",
        )?;
        for (index, case) in cases.iter().enumerate() {
            layout.draw(canvas, case, layout.top + length(index) * row + row / 2)?;
        }
        canvas.line((layout.left, layout.top), (layout.left, bottom), MUTED, 1)
    })
}

pub(super) fn method(run: &Run) -> String {
    let settings = &run.settings;
    let mut words = vec![
        pluralize(settings.rounds_done, "round"),
        medians(run),
        processors(run),
    ];
    if run.interrupted.is_some() {
        words.push(format!(
            "interrupted before round {}",
            settings.rounds_done + 1
        ));
    }
    words.join(", ")
}

/// Colours a reader with any colour vision can tell apart, all dark enough for
/// white text on them.
fn colour(data: DataUse) -> RGBColor {
    match data {
        DataUse::Discard => RGBColor(178, 84, 10),
        DataUse::Read => RGBColor(11, 105, 168),
        DataUse::Touch => RGBColor(10, 122, 88),
        DataUse::Verify => RGBColor(122, 79, 163),
    }
}

fn meaning(data: DataUse) -> &'static str {
    match data {
        DataUse::Discard => "data discarded, nobody looks",
        DataUse::Read => "read into memory",
        DataUse::Touch => "touched: produced and consumed",
        DataUse::Verify => "verified: every byte compared",
    }
}

fn legend(canvas: &Canvas<'_>, cases: &[&CaseResult], y: i32) -> Drawn {
    let mut x = MARGIN;
    for data in [
        DataUse::Read,
        DataUse::Discard,
        DataUse::Touch,
        DataUse::Verify,
    ] {
        if !cases.iter().any(|case| case.data == data) {
            continue;
        }
        canvas.rectangle(x..x + 12, y - 6..y + 6, colour(data))?;
        canvas.text(meaning(data), (x + 18, y), Side::Right, plain(SMALL, INK))?;
        x += 18 + text_width(meaning(data), SMALL) + 16;
    }
    Ok(())
}

/// Where the bars lie.
struct Layout {
    left: i32,
    right: i32,
    top: i32,
    bar: i32,
    /// The value at `right`.
    most: f64,
}

impl Layout {
    fn new(cases: &[&CaseResult], row: i32, top: i32) -> Layout {
        let names = cases
            .iter()
            .map(|case| text_width(&case.name, TEXT))
            .max()
            .unwrap_or(0);
        let left = MARGIN + names.min(WIDEST_NAME) + GAP;
        let right = WIDTH - MARGIN;
        // The longest bar leaves room for its value behind its whisker.
        let longest = cases
            .iter()
            .filter_map(|case| reach(case))
            .fold(0.0, f64::max);
        let label = cases.iter().filter_map(|case| value(case));
        let label = label.map(|text| bold_width(&text, TEXT)).max().unwrap_or(0) + 2 * GAP;
        let room = f64::from(right - left);
        let most = if longest > 0.0 {
            longest * room / (room - f64::from(label))
        } else {
            1.0
        };
        Layout {
            left,
            right,
            top,
            bar: row * 3 / 5,
            most,
        }
    }

    fn x(&self, value: f64) -> i32 {
        let share = (value / self.most).clamp(0.0, 1.0);
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    fn draw(&self, canvas: &Canvas<'_>, case: &CaseResult, y: i32) -> Drawn {
        let name = fitted(&case.name, TEXT, WIDEST_NAME, Cut::Middle);
        let Some((summary, value)) = case.summary.as_ref().zip(value(case)) else {
            canvas.text(&name, (self.left - GAP, y), Side::Left, plain(TEXT, MUTED))?;
            return self.reason(canvas, case, y);
        };
        canvas.text(&name, (self.left - GAP, y), Side::Left, plain(TEXT, INK))?;
        let end = self.x(summary.gib_per_s.median);
        canvas.rectangle(
            self.left..end,
            y - self.bar / 2..y + self.bar / 2,
            colour(case.data),
        )?;
        let mut inner = end;
        let mut outer = end;
        if let Some(Interval { low, high, .. }) = summary.gib_per_s.interval {
            (inner, outer) = (self.x(low), self.x(high));
            // One shorter than its own upright ends would be a blot.
            if outer - inner >= 3 {
                canvas.whisker(inner..outer, y, INK)?;
            }
        }
        canvas.text(&value, (outer + GAP, y), Side::Right, bold(TEXT, INK))?;
        let free = outer + GAP + bold_width(&value, TEXT) + GAP;
        self.note(canvas, case, y, inner - GAP, free)
    }

    fn reason(&self, canvas: &Canvas<'_>, case: &CaseResult, y: i32) -> Drawn {
        let reason = reason(case.not_run.as_ref());
        let room = self.right - self.left - GAP;
        let reason = fitted(&reason, SMALL, room, Cut::End);
        canvas.text(
            &reason,
            (self.left + GAP, y),
            Side::Right,
            plain(SMALL, MUTED),
        )
    }

    /// The step, behind the value or, beside a long bar, within it; the longest
    /// wording that fits.
    fn note(&self, canvas: &Canvas<'_>, case: &CaseResult, y: i32, inner: i32, free: i32) -> Drawn {
        for note in notes(case) {
            let width = text_width(&note, SMALL);
            if free + width <= self.right {
                return canvas.text(&note, (free, y), Side::Right, plain(SMALL, MUTED));
            }
            if inner - width >= self.left + GAP {
                return canvas.text(&note, (inner, y), Side::Left, plain(SMALL, CARD));
            }
        }
        Ok(())
    }
}

fn reach(case: &CaseResult) -> Option<f64> {
    let summary = case.summary.as_ref()?;
    Some(summary.gib_per_s.ends().1)
}

fn value(case: &CaseResult) -> Option<String> {
    case.summary
        .as_ref()
        .map(|summary| significant(summary.gib_per_s.median))
}

/// The step in words, the longest wording first.
fn notes(case: &CaseResult) -> Vec<String> {
    let Some(step) = step(case) else {
        return Vec::new();
    };
    let word = match step.ratio.verdict {
        Verdict::Faster | Verdict::Slower => times(step.ratio.estimate.median),
        Verdict::Same => "same as".to_owned(),
        Verdict::Undecided => "undecided against".to_owned(),
    };
    vec![
        format!("{word} {}", step.base_and_factor()),
        format!("{word} {}", step.base),
    ]
}
