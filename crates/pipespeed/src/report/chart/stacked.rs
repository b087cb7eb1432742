//! Where the time of cases goes: a bar an end, made of costs.

use plotters::prelude::RGBColor;

use crate::profile::groups::Group;
use crate::profile::record::{CaseProfile, EndProfile, Profile};
use crate::report::format::significant;

use super::canvas::{
    CARD, Canvas, Drawn, Heading, INK, MARGIN, MUTED, SMALL, Side, TEXT, WIDTH, bold, card, plain,
};
use super::text::{Cut, bold_width, fitted, length, text_width};

/// The names take no more than this.
const WIDEST_NAME: i32 = 240;
const GAP: i32 = 8;
/// Height of a bar, and of a case with its two.
const BAR: i32 = 16;
const CASE: i32 = 46;
const LEGEND_LINE: i32 = 20;
const AXIS: i32 = 46;
/// Shares are written into parts of at least this width.
const ROOM_FOR_SHARE: i32 = 34;

/// Draws a profile: two bars a case, the writer's above the reader's, each its
/// end's wall time for 4 KiB, shared out to its costs; the time itself stands
/// beside it, since the rungs' differ a hundredfold.
pub fn profile_chart(profile: &Profile) -> String {
    let cases: Vec<&CaseProfile> = profile
        .cases
        .iter()
        .filter(|case| case.refused.is_none())
        .collect();
    let shown: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| {
            let mut ends = cases.iter().flat_map(|case| &case.ends);
            ends.any(|end| end.share(*group) >= 0.005)
        })
        .collect();
    let legend = places(&shown);
    let lines = legend.last().map_or(0, |(_, _, line)| line + 1);
    let body = lines * LEGEND_LINE + 12 + length(cases.len()) * CASE + AXIS;
    let heading = Heading {
        title: "pipespeed profile: where each end's time goes",
        subtitle: &[
            format!(
                "shares of wall time, writer above reader; beside them ns per 4 KiB; sampled by {}, Linux {}",
                profile.event,
                profile.kernel.as_deref().unwrap_or("of unknown release")
            ),
            profile.placement.clone(),
        ],
    };
    card(&heading, body, |canvas, top| {
        for (group, x, line) in &legend {
            let y = top + line * LEGEND_LINE + LEGEND_LINE / 2;
            canvas.rectangle(*x..x + 12, y - 6..y + 6, colour(*group))?;
            canvas.text(group.name(), (x + 18, y), Side::Right, plain(SMALL, INK))?;
        }
        let top = top + lines * LEGEND_LINE + 12;
        let names = cases.iter().map(|case| text_width(&case.name, TEXT)).max();
        let left = MARGIN + names.unwrap_or(0).min(WIDEST_NAME) + GAP;
        let right = WIDTH - MARGIN - bold_width("00000 ns", TEXT) - GAP;
        let bottom = top + length(cases.len()) * CASE;
        let ticks: Vec<(i32, String)> = (0..=5)
            .map(|fifth| {
                (
                    left + (right - left) * fifth / 5,
                    format!("{} %", fifth * 20),
                )
            })
            .collect();
        canvas.axis(&ticks, left..right, top..bottom, "share of wall time")?;
        for (index, case) in cases.iter().enumerate() {
            let y = top + length(index) * CASE + CASE / 2;
            let name = fitted(&case.name, TEXT, WIDEST_NAME, Cut::Middle);
            canvas.text(&name, (left - GAP, y), Side::Left, plain(TEXT, INK))?;
            let count = length(case.ends.len());
            for (at, end) in case.ends.iter().enumerate() {
                let middle = y + (2 * length(at) - (count - 1)) * (BAR + 2) / 2;
                bar(canvas, end, left..right, middle)?;
            }
        }
        canvas.line((left, top), (left, bottom), MUTED, 1)
    })
}

/// Where the legend's entries begin: x and line.
fn places(shown: &[Group]) -> Vec<(Group, i32, i32)> {
    let (mut x, mut line) = (MARGIN, 0);
    let mut places = Vec::new();
    for group in shown {
        let width = 18 + text_width(group.name(), SMALL) + 14;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, line) = (MARGIN, line + 1);
        }
        places.push((*group, x, line));
        x += width;
    }
    places
}

fn bar(canvas: &Canvas<'_>, end: &EndProfile, x: std::ops::Range<i32>, y: i32) -> Drawn {
    let all = end.sum_ns_per_page().max(f64::MIN_POSITIVE);
    let place = |sum: f64| x.start + (sum / all * f64::from(x.end - x.start)).round() as i32;
    let mut sum = 0.0;
    for group in Group::ALL {
        let from = place(sum);
        sum += end.ns_per_page(group);
        let to = place(sum);
        if to <= from {
            continue;
        }
        canvas.rectangle(from..to, y - BAR / 2..y + BAR / 2, colour(group))?;
        if to - from >= ROOM_FOR_SHARE {
            let share = format!("{:.0} %", end.share(group) * 100.0);
            let middle = i32::midpoint(from, to);
            canvas.text(&share, (middle, y), Side::Middle, plain(SMALL, CARD))?;
        }
    }
    let wall = format!("{} ns", significant(end.usage.wall_ns_per_page()));
    canvas.text(&wall, (x.end + GAP, y), Side::Right, bold(TEXT, INK))
}

/// Related costs have related colours; white text can be read on each.
fn colour(group: Group) -> RGBColor {
    match group {
        Group::Asleep => RGBColor(110, 119, 129),
        Group::RunDelay => RGBColor(66, 74, 83),
        Group::Spinning => RGBColor(145, 115, 60),
        Group::CopyToKernel => RGBColor(11, 105, 168),
        Group::CopyToUser => RGBColor(58, 138, 204),
        Group::PageAllocation => RGBColor(178, 84, 10),
        Group::MemoryCgroup => RGBColor(214, 120, 52),
        Group::PagePinning => RGBColor(10, 122, 88),
        Group::PageRelease => RGBColor(74, 160, 110),
        Group::PipeLock => RGBColor(176, 42, 55),
        Group::PipeSlots => RGBColor(122, 79, 163),
        Group::Scheduling => RGBColor(190, 74, 130),
        Group::EntryExit => RGBColor(84, 90, 160),
        Group::PageFaults => RGBColor(130, 110, 20),
        Group::UserCode => RGBColor(20, 125, 135),
        Group::Interrupts => RGBColor(100, 60, 50),
        Group::Sampling => RGBColor(150, 90, 90),
        Group::Other => RGBColor(31, 35, 40),
    }
}
