//! Where the time of cases goes: a bar an end, made of costs.

use plotters::prelude::RGBColor;

use crate::format::significant;
use pipespeed_explain::profile::groups::Group;
use pipespeed_explain::profile::pipeline::in_short;
use pipespeed_explain::profile::record::{EndProfile, Profile};

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

/// Draws a profile: two bars a case, the writer's above the reader's, or one a
/// stage, each its end's wall time, shared out to its costs; the time itself
/// stands beside it, since the rungs' differ a hundredfold.
pub fn profile_chart(profile: &Profile) -> String {
    let rows = rows(profile);
    let bars_are = match profile.pipeline {
        Some(_) => "shares of each stage's wall time; beside them ns per 4 KiB, or seconds",
        None => "shares of wall time, writer above reader; beside them ns per 4 KiB",
    };
    let command = profile
        .pipeline
        .as_ref()
        .map(|pipeline| in_short(&pipeline.command, 200));
    let shown: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| {
            let mut ends = rows.iter().flat_map(|(_, ends)| ends);
            ends.any(|end| end.share(*group) >= 0.005)
        })
        .collect();
    let name = match profile.pipeline {
        Some(_) => Group::name_in_pipeline,
        None => Group::name,
    };
    let legend = places(&shown, name);
    let lines = legend.last().map_or(0, |(_, _, line)| line + 1);
    let body = lines * LEGEND_LINE + 12 + length(rows.len()) * CASE + AXIS;
    let release = &profile.header.machine.kernel.release;
    let heading = Heading {
        title: "pipespeed profile: where each end's time goes",
        subtitle: &[
            format!(
                "{bars_are}; sampled by {}, Linux {}",
                profile.settings.event,
                release.as_deref().unwrap_or("of unknown release")
            ),
            command.unwrap_or_else(|| profile.settings.placement.clone()),
        ],
    };
    card(&heading, body, |canvas, top| {
        for (group, x, line) in &legend {
            let y = top + line * LEGEND_LINE + LEGEND_LINE / 2;
            canvas.rectangle(*x..x + 12, y - 6..y + 6, colour(*group))?;
            canvas.text(name(*group), (x + 18, y), Side::Right, plain(SMALL, INK))?;
        }
        let top = top + lines * LEGEND_LINE + 12;
        let names = rows.iter().map(|(name, _)| text_width(name, TEXT)).max();
        let left = MARGIN + names.unwrap_or(0).min(WIDEST_NAME) + GAP;
        let right = WIDTH - MARGIN - bold_width("00000 ns", TEXT) - GAP;
        let bottom = top + length(rows.len()) * CASE;
        let ticks: Vec<(i32, String)> = (0..=5)
            .map(|fifth| {
                (
                    left + (right - left) * fifth / 5,
                    format!("{} %", fifth * 20),
                )
            })
            .collect();
        canvas.axis(&ticks, left..right, top..bottom, "share of wall time")?;
        for (index, (name, ends)) in rows.iter().enumerate() {
            let y = top + length(index) * CASE + CASE / 2;
            let name = fitted(name, TEXT, WIDEST_NAME, Cut::Middle);
            canvas.text(&name, (left - GAP, y), Side::Left, plain(TEXT, INK))?;
            let count = length(ends.len());
            for (at, end) in ends.iter().enumerate() {
                let middle = y + (2 * length(at) - (count - 1)) * (BAR + 2) / 2;
                bar(canvas, end, left..right, middle)?;
            }
        }
        canvas.line((left, top), (left, bottom), MUTED, 1)
    })
}

/// The bars' names and ends, from above.
fn rows(profile: &Profile) -> Vec<(&str, Vec<&EndProfile>)> {
    let cases = profile.cases.iter().filter(|case| case.not_run.is_none());
    let cases = cases.map(|case| (&*case.name, case.ends.iter().collect()));
    let stages = profile
        .pipeline
        .iter()
        .flat_map(|pipeline| &pipeline.stages);
    let stages = stages.map(|stage| (&*stage.end.role, vec![&stage.end]));
    cases.chain(stages).collect()
}

/// Where the legend's entries begin: x and line.
fn places(shown: &[Group], name: fn(Group) -> &'static str) -> Vec<(Group, i32, i32)> {
    let (mut x, mut line) = (MARGIN, 0);
    let mut places = Vec::new();
    for group in shown {
        let width = 18 + text_width(name(*group), SMALL) + 14;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, line) = (MARGIN, line + 1);
        }
        places.push((*group, x, line));
        x += width;
    }
    places
}

fn bar(canvas: &Canvas<'_>, end: &EndProfile, x: std::ops::Range<i32>, y: i32) -> Drawn {
    let all = end.sum_of_shares().max(f64::MIN_POSITIVE);
    let place = |sum: f64| x.start + (sum / all * f64::from(x.end - x.start)).round() as i32;
    let mut sum = 0.0;
    for group in Group::ALL {
        let from = place(sum);
        sum += end.share(group);
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
    let wall_s = end.usage.wall_s;
    let wall = match end.usage.ns_per_page(wall_s) {
        Some(ns) => format!("{} ns", significant(ns)),
        None => format!("{} s", significant(wall_s)),
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::profile::sample;
    use pipespeed_measure::record::NotRun;

    /// The texts of a picture, and the widths of its filled rectangles by colour.
    fn parts(svg: &str) -> (Vec<String>, Vec<(String, f64)>) {
        let document = roxmltree::Document::parse(svg).expect("well-formed XML");
        let named = |name| {
            document
                .descendants()
                .filter(move |node| node.tag_name().name() == name)
        };
        let texts = named("text").filter_map(|node| Some(node.text()?.trim().to_owned()));
        let rectangles = named("rect").filter_map(|node| {
            let width = node.attribute("width")?.parse().ok()?;
            Some((node.attribute("fill")?.to_owned(), width))
        });
        (texts.collect(), rectangles.collect())
    }

    fn fill(group: Group) -> String {
        let RGBColor(r, g, b) = colour(group);
        format!("#{r:02X}{g:02X}{b:02X}")
    }

    #[test]
    fn a_bars_parts_are_as_wide_as_their_shares() {
        let mut profile = sample::ladder();
        profile.cases.truncate(1);
        let (texts, rectangles) = parts(&profile_chart(&profile));
        let width = |group: Group| -> f64 {
            let parts = rectangles
                .iter()
                .filter(|(fill_is, _)| *fill_is == fill(group));
            // Less the legend's.
            parts.map(|(_, width)| width).sum::<f64>() - 12.0
        };
        // The writer copies for 48 % of its time; its reader sleeps for 50 %, it for 20 %.
        let ratio = width(Group::CopyToKernel) / width(Group::Asleep);
        assert!((ratio - 0.48 / 0.7).abs() < 0.02, "{ratio}");
        assert!(texts.iter().any(|text| text == "48 %"), "{texts:?}");
        assert!(texts.iter().any(|text| text == "1000 ns"), "{texts:?}");
        assert!(texts.iter().any(|text| text == "write_read"), "{texts:?}");
    }

    #[test]
    fn the_legend_has_what_is_there_in_the_usual_order() {
        let (texts, _) = parts(&profile_chart(&sample::ladder()));
        let place = |group: Group| texts.iter().position(|text| text == group.name());
        let shown: Vec<usize> = Group::ALL.into_iter().filter_map(place).collect();
        assert!(shown.len() > 4 && shown.is_sorted(), "{texts:?}");
        assert_eq!(place(Group::Spinning), None);
    }

    #[test]
    fn a_case_that_was_not_run_has_no_bar() {
        let mut profile = sample::ladder();
        profile.cases[1].not_run = Some(NotRun::refused("why"));
        let (texts, _) = parts(&profile_chart(&profile));
        assert!(
            !texts.iter().any(|text| text == "vmsplice_read"),
            "{texts:?}"
        );
    }

    #[test]
    fn commands_of_any_kind_are_escaped() {
        let mut profile = sample::pipeline();
        let pipeline = profile.pipeline.as_mut().unwrap();
        pipeline.command = "sed 's/<&>//' | \"x\"".to_owned();
        pipeline.stages[0].end.role = "1: sed 's/<&>//'".to_owned();
        let (texts, _) = parts(&profile_chart(&profile));
        for text in [
            "1: sed 's/<&>//'",
            "sed 's/<&>//' | \"x\"",
            "1.02 s",
            "10000 ns",
        ] {
            assert!(texts.iter().any(|is| is == text), "{text}: {texts:?}");
        }
    }

    #[test]
    fn every_group_has_a_colour_of_its_own() {
        let mut colours: Vec<String> = Group::ALL.into_iter().map(fill).collect();
        colours.sort();
        colours.dedup();
        assert_eq!(colours.len(), Group::ALL.len());
    }
}
