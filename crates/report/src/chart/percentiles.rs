//! How long round trips take, over the share of them that are shorter: a panel
//! for each size of messages, a line for each channel. The slow few are what
//! matters, so that each step to the right is ten times rarer; time is
//! logarithmic too.

use std::ops::Range;

use crate::latency::{launches, ring_looks_first};
use crate::origin::of_record;
use pipespeed_base::size;
use pipespeed_measure::latency::record::{CaseRecord, Record};
use pipespeed_measure::latency::spec::{Mode, Wait};

use super::canvas::{
    Canvas, Drawn, GRID, Heading, INK, MARGIN, MUTED, SMALL, Side, TEXT, WIDTH, bold, card, plain,
    tick_label,
};
use super::lines::{apart, rate_ticks};
use super::looks::look;
use super::missing::not_shown;
use super::text::{length, text_width};

const PANEL: i32 = 250;
const HEADING: i32 = 48;
const AXIS: i32 = 50;
/// From the last points to the labels.
const LEADER: i32 = 26;
/// The percentiles that are named.
const NAMED: [(f64, &str); 5] = [
    (50.0, "50"),
    (90.0, "90"),
    (99.0, "99"),
    (99.9, "99.9"),
    (99.99, "99.99"),
];

/// Draws the distribution of round trips: the medians over launches.
pub fn latency_chart(record: &Record) -> String {
    let mut sizes: Vec<usize> = measured(record).map(|case| case.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mode = match record.settings.mode {
        Mode::Closed => "one message at a time".to_owned(),
        Mode::Open(rate) => {
            format!("{rate} messages a second, each counted from when it was due")
        }
        Mode::Naive => "both processes write first and read then".to_owned(),
    };
    let wait = match record.settings.wait {
        Wait::Block => "sleeping while they wait",
        Wait::Spin => "spinning",
        Wait::Adaptive => "spinning, then sleeping",
    };
    let place = &record.settings.relation;
    let mut subtitle = vec![
        of_record(&record.header),
        format!("there and back, not halved; {mode}; processes {wait} ({place})"),
        format!(
            "at each percentage the median over {}, which count alike",
            launches(record)
        ),
    ];
    subtitle.extend(ring_looks_first(record));
    if let Some(signal) = &record.interrupted {
        subtitle.push(format!("interrupted: {signal}"));
    }
    subtitle.extend(missing(record).map(|missing| format!("not shown: {missing}")));
    let heading = Heading {
        title: "pipespeed: round trips",
        subtitle: &subtitle,
    };
    let body = length(sizes.len()) * (HEADING + PANEL + AXIS);
    card(&heading, body, |canvas, top| {
        let scale = Scale::new(record);
        for (at, bytes) in sizes.iter().enumerate() {
            let top = top + length(at) * (HEADING + PANEL + AXIS);
            let title = format!("Messages of {}", size::exact(*bytes as u64));
            canvas.text(&title, (MARGIN, top + 16), Side::Right, bold(TEXT, INK))?;
            let cases = measured(record).filter(|case| case.size == *bytes);
            let top = top + HEADING;
            scale.draw(canvas, &cases.collect::<Vec<_>>(), top..top + PANEL)?;
        }
        Ok(())
    })
}

fn measured(record: &Record) -> impl Iterator<Item = &CaseRecord> {
    record.cases.iter().filter(|case| case.summary.is_some())
}

/// What has no line, and why.
fn missing(record: &Record) -> Option<String> {
    let why = |case: &CaseRecord| match (&case.summary, &case.not_run, &case.deadlock) {
        (Some(_), ..) => None,
        (None, Some(not_run), _) => Some(not_run.kind.name()),
        (None, None, Some(_)) => Some("deadlock"),
        (None, None, None) if case.failed > 0 => Some("failed"),
        _ => Some("not measured"),
    };
    let cases = record.cases.iter();
    let cases: Vec<_> = cases
        .map(|case| (case.channel.name(), case.size, why(case)))
        .collect();
    not_shown(&cases)
}

/// How far to the right a percentile lies: 1 at 90, 2 at 99.
fn rarity(percent: f64) -> f64 {
    2.0 - (100.0 - percent).log10()
}

/// Where percentiles and times lie, the same in all panels.
struct Scale {
    left: i32,
    right: i32,
    us: Range<f64>,
}

impl Scale {
    fn new(record: &Record) -> Scale {
        let all = || measured(record).flat_map(|case| case.curve.iter().map(|(_, us)| *us));
        let low = all().fold(f64::MAX, f64::min).max(1e-3);
        let high = all().fold(low, f64::max);
        let labels = measured(record).map(|case| text_width(case.channel.name(), SMALL));
        Scale {
            left: MARGIN + 52,
            right: WIDTH - MARGIN - LEADER - 16 - labels.max().unwrap_or(0),
            us: low / 1.3..high * 1.3,
        }
    }

    fn x(&self, percent: f64) -> i32 {
        let (first, last) = (rarity(50.0), rarity(99.99));
        // No point on the edge.
        let (left, right) = (self.left + 12, self.right - 12);
        let share = (rarity(percent) - first) / (last - first);
        left + (share * f64::from(right - left)).round() as i32
    }

    fn y(&self, us: f64, y: &Range<i32>) -> i32 {
        let Range { start, end } = self.us;
        let share = (us.max(start) / start).ln() / (end / start).ln();
        y.end - (share.clamp(0.0, 1.0) * f64::from(y.end - y.start)).round() as i32
    }

    fn draw(&self, canvas: &Canvas<'_>, cases: &[&CaseRecord], y: Range<i32>) -> Drawn {
        self.grid(canvas, &y)?;
        let mut labels = Vec::new();
        for case in cases {
            labels.push((self.line(canvas, case, &y)?, case.channel));
        }
        labels.sort_by_key(|((_, y), _)| *y);
        let wished: Vec<i32> = labels.iter().map(|((_, y), _)| *y).collect();
        let x = self.right + LEADER;
        for ((at, kind), place) in labels.iter().zip(apart(&wished, &y)) {
            canvas.line((at.0 + 6, at.1), (x - 6, place), GRID, 1)?;
            let (mark, colour) = look(kind.name());
            canvas.mark((x, place), mark, colour)?;
            let face = plain(SMALL, colour);
            canvas.text(kind.name(), (x + 10, place), Side::Right, face)?;
        }
        Ok(())
    }

    /// One channel's line, with marks where the percentiles are named. Returns
    /// its end.
    fn line(
        &self,
        canvas: &Canvas<'_>,
        case: &CaseRecord,
        y: &Range<i32>,
    ) -> Result<(i32, i32), plotters::prelude::DrawingAreaErrorKind<std::io::Error>> {
        let (mark, colour) = look(case.channel.name());
        let points: Vec<(f64, (i32, i32))> = case
            .curve
            .iter()
            .map(|(percent, us)| (*percent, (self.x(*percent), self.y(*us, y))))
            .collect();
        for pair in points.windows(2) {
            canvas.line(pair[0].1, pair[1].1, colour, 1)?;
        }
        let is_named = |percent: f64| NAMED.iter().any(|(named, _)| *named == percent);
        for (_, at) in points.iter().filter(|(percent, _)| is_named(*percent)) {
            canvas.mark(*at, mark, colour)?;
        }
        // There is the median at least.
        Ok(points.last().map_or((self.left, y.end), |(_, at)| *at))
    }

    fn grid(&self, canvas: &Canvas<'_>, y: &Range<i32>) -> Drawn {
        for value in rate_ticks(&self.us) {
            let at = self.y(value, y);
            canvas.line((self.left, at), (self.right, at), GRID, 1)?;
            let label = tick_label(value);
            canvas.text(&label, (self.left - 8, at), Side::Left, plain(SMALL, MUTED))?;
        }
        for (percent, label) in NAMED {
            let at = self.x(percent);
            canvas.line((at, y.start), (at, y.end), GRID, 1)?;
            canvas.text(label, (at, y.end + 12), Side::Middle, plain(SMALL, MUTED))?;
        }
        let unit = (self.left - 8, y.start - 12);
        canvas.text("us", unit, Side::Left, plain(SMALL, INK))?;
        let middle = i32::midpoint(self.left, self.right);
        let what = "percentage of round trips that were shorter";
        canvas.text(what, (middle, y.end + 30), Side::Middle, plain(SMALL, INK))?;
        canvas.line((self.left, y.start), (self.left, y.end), MUTED, 1)?;
        canvas.line((self.left, y.end), (self.right, y.end), MUTED, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_is_a_step_to_the_right() {
        for (at, percent) in [(1.0, 90.0), (2.0, 99.0), (4.0, 99.99)] {
            assert!((rarity(percent) - at).abs() < 1e-6);
        }
    }
}
