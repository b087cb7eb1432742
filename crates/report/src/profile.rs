//! Where the time of a case goes, as text.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_explain::profile::account::{FEW_BYTES, PAGE};
use pipespeed_explain::profile::groups::Group;
use pipespeed_explain::profile::record::{CaseProfile, EndProfile, Profile};
use pipespeed_explain::profile::tree::tree;
use pipespeed_host::Warning;
use pipespeed_measure::record::GIB;

use super::format::{in_parts, significant, wrap};
use super::style::{BOLD, DIM, Style};

/// The widest name of a group.
const NAME: usize = 35;
/// The longest bar.
const BAR: usize = 40;
/// Changes that a step up the ladder names for each end.
const CHANGES: usize = 3;
/// Functions of "other kernel" that are named below the tables.
const OTHERS: usize = 5;
/// Changes smaller than this share of the earlier wall time are none.
const CHANGE: f64 = 0.02;

/// One case: a bar a cost for each end, and the call tree below the system
/// call, without what is below `threshold`, a share of the end's samples.
pub fn profile_case(profile: &Profile, threshold: f64, style: Style) -> String {
    let mut text = String::new();
    for case in &profile.cases {
        let heading = wrap(&heading(case), style.width(), "  ");
        line(&mut text, &style.paint(&heading, BOLD));
        for end in &case.ends {
            line(&mut text, "");
            bars(&mut text, &end.role, end, Group::name, style);
        }
        for end in &case.ends {
            line(&mut text, "");
            call_tree(&mut text, end, threshold, style);
        }
    }
    below(&mut text, profile, &[OF_TRIALS, &ends(profile)], style);
    text
}

/// How the figures of cases come about.
const OF_TRIALS: &str = "wall time, running and waiting for a processor are the scheduler's account of trials that \
                         were not sampled; asleep is the rest; samples of as many other trials share out the \
                         running time";

fn ends(profile: &Profile) -> String {
    format!("ends: {}", profile.settings.placement)
}

/// The call chains of an end below the system call.
pub(super) fn call_tree(text: &mut String, end: &EndProfile, threshold: f64, style: Style) {
    let title = format!(
        "{}: running time by call chains ({} samples, below {:.1} % left out)",
        end.role,
        end.samples,
        threshold * 100.0
    );
    let title = wrap(&title, style.width(), "  ");
    line(text, &style.paint(&title, BOLD));
    for branch in tree(&end.stacks).lines(threshold) {
        // Below the first function's name.
        let name = branch.find('%').map_or(0, |at| at + 3);
        // In a file a line stays in one piece, to be searched for.
        let width = style.width.unwrap_or(usize::MAX);
        line(text, &wrap(&branch, width, &" ".repeat(name)));
    }
}

/// Cases side by side, and what each step up the ladder saves.
pub fn profile_ladder(profile: &Profile, style: Style) -> String {
    let mut text = String::new();
    for role in ["writer", "reader"] {
        let title = format!("{role}: nanoseconds per 4 KiB, by where they go");
        line(&mut text, &style.paint(&title, BOLD));
        let ends = ends_of(profile, role);
        let table = in_parts(ends.len(), style.width(), |some| side_by_side(&ends[some]));
        line(&mut text, &table);
        line(&mut text, "");
    }
    line(
        &mut text,
        &style.paint("What each step changes, in ns per 4 KiB", BOLD),
    );
    for step in steps(profile) {
        line(&mut text, &wrap(&step, style.width(), "    "));
    }
    let unknown = unknown(profile);
    if !unknown.is_empty() {
        line(&mut text, "");
        let said = format!("  other kernel, the biggest of each end's samples: {unknown}");
        line(&mut text, &wrap(&said, style.width(), "    "));
    }
    for case in &profile.cases {
        if let Some(not_run) = &case.not_run {
            let said = format!("  {}: {not_run}", case.name);
            line(&mut text, &wrap(&said, style.width(), "    "));
        }
    }
    below(&mut text, profile, &[OF_TRIALS, &ends(profile)], style);
    text
}

fn heading(case: &CaseProfile) -> String {
    // Both ends pass the same bytes in the same time.
    let wall = PAGE / (case.gib_per_s_unsampled * GIB) * 1e9;
    format!(
        "{}: {} GiB/s, {} ns per 4 KiB ({} GiB/s while sampled)",
        case.name,
        significant(case.gib_per_s_unsampled),
        significant(wall),
        significant(case.gib_per_s)
    )
}

/// A bar a cost, the biggest first, and their sum; in seconds where no bytes are
/// known, or too few to tell of pages.
pub(super) fn bars(
    text: &mut String,
    title: &str,
    end: &EndProfile,
    name: fn(Group) -> &'static str,
    style: Style,
) {
    let in_pages = end.usage.bytes >= FEW_BYTES;
    let unit = if in_pages { "ns/page" } else { "seconds" };
    let head = format!("{title:NAME$}  {unit}   share");
    line(text, &style.paint(&head, BOLD));
    let room = style.width().saturating_sub(NAME + 19).min(BAR);
    let mut costs = end.costs.clone();
    costs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for cost in costs {
        let bar = "#".repeat((cost.share * room as f64).round() as usize);
        let row = format!(
            "{:NAME$} {:>8} {:>5.1} %  {bar}",
            name(cost.group),
            significant(
                cost.ns_per_page
                    .filter(|_| in_pages)
                    .unwrap_or(cost.seconds)
            ),
            cost.share * 100.0
        );
        line(text, row.trim_end());
    }
    let wall_s = end.usage.wall_s;
    let (wall, unit) = match end.usage.ns_per_page(wall_s).filter(|_| in_pages) {
        Some(ns) => (ns, "ns"),
        None => (wall_s, "s"),
    };
    let sum = end.sum_of_shares();
    let row = format!(
        "{:NAME$} {:>8} {:>5.1} %  of {} {unit} wall time",
        "sum",
        significant(wall * sum),
        sum * 100.0,
        significant(wall)
    );
    let row = wrap(&row, style.width(), "    ");
    line(text, &style.paint(&row, DIM));
    if !end.others.is_empty() {
        let others = format!(
            "  other kernel ({:.1} % of samples): {}",
            end.other_share_of_samples() * 100.0,
            others(end)
        );
        line(
            text,
            &style.paint(&wrap(&others, style.width(), "    "), DIM),
        );
    }
}

fn others(end: &EndProfile) -> String {
    let named: Vec<String> = end
        .others
        .iter()
        .map(|function| format!("{} {:.1} %", function.name, function.share * 100.0))
        .collect();
    named.join(", ")
}

/// What makes up "other kernel" over all cases, the biggest first.
fn unknown(profile: &Profile) -> String {
    let ends = profile
        .cases
        .iter()
        .flat_map(|case| case.ends.iter().map(move |end| (case, end)));
    let mut all: Vec<(f64, String)> = ends
        .flat_map(|(case, end)| {
            end.others.iter().map(move |function| {
                let share = function.share * 100.0;
                let whose = format!(
                    "{} {share:.1} % ({}, {})",
                    function.name, case.name, end.role
                );
                (function.share, whose)
            })
        })
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = all.into_iter().take(OTHERS).map(|(_, said)| said).collect();
    named.join(", ")
}

/// The ends of that role, with the names of their cases; refused ones have none.
fn ends_of<'a>(profile: &'a Profile, role: &str) -> Vec<(&'a str, &'a EndProfile)> {
    let end = |case: &'a CaseProfile| {
        let end = case.ends.iter().find(|end| end.role == role)?;
        Some((&*case.name, end))
    };
    profile.cases.iter().filter_map(end).collect()
}

fn side_by_side(ends: &[(&str, &EndProfile)]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let names = ends.iter().map(|(name, _)| name.replace('_', "\n"));
    table.set_header(std::iter::once(String::new()).chain(names));
    let mut row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        table.add_row(std::iter::once(name.to_owned()).chain(cells));
    };
    for group in Group::ALL {
        if ends.iter().all(|(_, end)| end.ns_per_page(group) == 0.0) {
            continue;
        }
        row(
            group.name(),
            &mut ends.iter().map(|(_, end)| match end.ns_per_page(group) {
                0.0 => "-".to_owned(),
                ns => tenths(ns),
            }),
        );
    }
    let sum = |end: &EndProfile| end.sum_ns_per_page();
    let wall = |end: &EndProfile| end.usage.wall_ns_per_page();
    row("sum", &mut ends.iter().map(|(_, end)| tenths(sum(end))));
    row(
        "wall time",
        &mut ends.iter().map(|(_, end)| tenths(wall(end))),
    );
    let other = |end: &EndProfile| format!("{:.1} %", end.other_share_of_samples() * 100.0);
    row(
        "other, of the samples",
        &mut ends.iter().map(|(_, end)| other(end)),
    );
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// Nanoseconds, all of a column with the same decimals.
fn tenths(ns: f64) -> String {
    if ns < 0.05 {
        "0.0".to_owned()
    } else {
        format!("{ns:.1}")
    }
}

/// A sentence a step: how much the wall time shrank, and which costs did.
fn steps(profile: &Profile) -> Vec<String> {
    let find = |name: &str| profile.cases.iter().find(|case| case.name == name);
    let mut said = Vec::new();
    for case in &profile.cases {
        let Some((from, factor)) = &case.compared_with else {
            continue;
        };
        let Some(from) = find(from).filter(|from| from.not_run.is_none()) else {
            continue;
        };
        if case.not_run.is_some() {
            continue;
        }
        let mut parts = Vec::new();
        for end in &case.ends {
            let Some(before) = from.ends.iter().find(|before| before.role == end.role) else {
                continue;
            };
            parts.push(change(before, end));
        }
        said.push(format!(
            "  {} -> {} ({factor}): {}",
            from.name,
            case.name,
            parts.join("; ")
        ));
    }
    said
}

fn change(before: &EndProfile, after: &EndProfile) -> String {
    let (old, new) = (
        before.usage.wall_ns_per_page(),
        after.usage.wall_ns_per_page(),
    );
    let mut changes: Vec<(Group, f64)> = Group::ALL
        .into_iter()
        .map(|group| (group, after.ns_per_page(group) - before.ns_per_page(group)))
        .filter(|(_, change)| change.abs() >= CHANGE * old)
        .collect();
    changes.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let named: Vec<String> = changes
        .iter()
        .take(CHANGES)
        .map(|(group, change)| {
            let sign = if *change < 0.0 { "-" } else { "+" };
            format!("{} {sign}{}", group.name(), significant(change.abs()))
        })
        .collect();
    let named = if named.is_empty() {
        "nothing by 2 % or more".to_owned()
    } else {
        named.join(", ")
    };
    format!(
        "{} {} to {}: {named}",
        after.role,
        significant(old),
        significant(new)
    )
}

/// What has to be known to read the figures: first `general`, then the notes.
pub(super) fn below(text: &mut String, profile: &Profile, general: &[&str], style: Style) {
    line(text, "");
    let warnings: Vec<String> = profile.warnings.iter().map(Warning::to_string).collect();
    let warnings = warnings.iter().map(String::as_str);
    for note in general.iter().copied().chain(warnings) {
        let note = wrap(&format!("note: {note}"), style.width(), "      ");
        line(text, &style.paint(&note, DIM));
    }
}

pub(super) fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all");
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
