//! Memory's rates over the size of the block, both axes logarithmic, with the
//! caches' sizes as upright lines and the ladder's rungs as lines across.

use std::ops::Range;

use crate::memory::{block, caches, of_way, rungs, sizes};
use crate::origin;
use pipespeed_base::size;
use pipespeed_measure::record::{CaseResult, DataUse, Interval, Run, Summary};
use pipespeed_measure::suite::memory::ROWS;

use super::bars::method;
use super::canvas::{Canvas, Drawn, Heading, INK, MUTED, SMALL, Side, card, plain};
use super::lines::{APART, Label, Scale};
use super::looks::COLOURS;
use super::text::length;

const PANEL: i32 = 440;
/// Room for the names of the caches above the panel.
const ABOVE: i32 = 40;
const AXIS: i32 = 50;
/// A dash and the gap behind it.
const DASH: i32 = 6;
/// From one rung's interval to the next's.
const BESIDE: i32 = 8;

/// Draws a run of memory. What was refused has no point.
pub(crate) fn chart(run: &Run) -> String {
    let heading = Heading {
        title: "pipespeed: memory by the size of the block, and the ladder",
        subtitle: &[
            origin(run),
            method(run),
            "one process going over a block; copy: bytes copied, in twice the block; dashed: the \
             ladder's rungs, intervals at the right"
                .to_owned(),
        ],
    };
    card(&heading, ABOVE + PANEL + AXIS, |canvas, top| {
        let y = top + ABOVE..top + ABOVE + PANEL;
        let measured = run.cases.iter().filter(|case| case.summary.is_some());
        let rungs: Vec<(String, &Summary)> = rungs(run)
            .filter_map(|rung| Some((name(rung), rung.summary.as_ref()?)))
            .collect();
        let names = ROWS.iter().map(|row| row.title);
        let names = names.chain(rungs.iter().map(|(name, _)| &**name));
        let scale = Scale::over(sizes(run), measured, names);
        scale.grid(canvas, &y, "size of the block")?;
        cache_lines(run, &scale, canvas, &y)?;
        let mut labels = across(&rungs, &scale, canvas, &y)?;
        for (way, row) in ROWS.iter().enumerate() {
            let points: Vec<(usize, &Summary)> = of_way(run, way)
                .filter_map(|case| Some((block(case), case.summary.as_ref()?)))
                .collect();
            if points.is_empty() {
                continue;
            }
            // Side by side, so that no interval hides another.
            let shift = (length(way) - length(ROWS.len()) / 2) * APART;
            let colour = COLOURS[(way + 1) % COLOURS.len()];
            let last = scale.line(canvas, &points, &y, (way, colour, shift))?;
            labels.push(Label {
                at: last,
                name: row.title,
                mark: Some(way),
                colour,
            });
        }
        scale.labels(canvas, labels, &y)
    })
}

/// An upright line where a cache ends.
fn cache_lines(run: &Run, scale: &Scale, canvas: &Canvas<'_>, y: &Range<i32>) -> Drawn {
    for (cache, bytes) in caches(run) {
        let Some(x) = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| scale.within(bytes))
        else {
            continue;
        };
        canvas.line((x, y.start - 4), (x, y.end), MUTED, 1)?;
        let label = format!("L{} {}", cache.level, size::format(bytes));
        canvas.text(&label, (x, y.start - 14), Side::Middle, plain(SMALL, INK))?;
    }
    Ok(())
}

/// A rung's name, and what tells it from a copy: that nobody has the data.
fn name(rung: &CaseResult) -> String {
    match rung.data {
        DataUse::Discard => format!("{} ({})", rung.name, rung.data.outcome()),
        _ => rung.name.clone(),
    }
}

/// The rungs: dashed lines across, as they have no block, with their intervals
/// at the right, side by side. Returns their labels.
fn across<'a>(
    rungs: &'a [(String, &Summary)],
    scale: &Scale,
    canvas: &Canvas<'_>,
    y: &Range<i32>,
) -> Result<Vec<Label<'a>>, plotters::prelude::DrawingAreaErrorKind<std::io::Error>> {
    let mut labels = Vec::new();
    for (at, (name, summary)) in rungs.iter().enumerate() {
        let height = scale.y(summary.gib_per_s.median, y);
        let x = scale.across();
        for start in x.clone().step_by(DASH as usize * 2) {
            let end = (start + DASH).min(x.end);
            canvas.line((start, height), (end, height), MUTED, 1)?;
        }
        // A dot on the line, so that one sees whose interval it is.
        let beside = x.end - (length(rungs.len() - at) + 1) * BESIDE;
        canvas.dot((beside, height), 2, MUTED)?;
        if let Some(Interval { low, high, .. }) = summary.gib_per_s.interval {
            let whisker = scale.y(high, y)..scale.y(low, y);
            // One hidden by its dot would be a blot.
            if whisker.end - whisker.start > 6 {
                canvas.upright_whisker(beside, whisker, MUTED)?;
            }
        }
        labels.push(Label {
            at: (x.end, height),
            name,
            mark: None,
            colour: MUTED,
        });
    }
    Ok(labels)
}
