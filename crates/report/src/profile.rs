//! Profiles of cases, as text and as a chart.

use itertools::Itertools as _;
use pipespeed_base::text::{in_short, pluralize};
use pipespeed_explain::profile::account::{FEW_BYTES, PAGE};
use pipespeed_explain::profile::event::MIN_SAMPLES;
use pipespeed_explain::profile::groups::CostGroup;
use pipespeed_explain::profile::record::{CaseProfile, CostBound, EndProfile, Profile};
use pipespeed_explain::profile::tree::tree;
use pipespeed_measure::record::GIB;

use super::blocks::{Blocks, Conclusion, TableBlock};
use super::chart::bars::{Bar, BarChart, BarGroup, Part};
use super::chart::palette;
use super::chart::svg::WIDE;
use super::conditions::marks;
use super::format::{fixed, percent, resolved, significant, wrap};
use super::notes::{Note, notes};
use super::published;
use super::style::{DIM, Style, YELLOW};
use super::table::{Cell, Column, Table};

/// Width of the column of names.
const NAME_WIDTH: usize = 35;
/// Maximum length of a bar.
const MAX_BAR: usize = 40;
/// Width of all columns but the bars.
const WITHOUT_BARS: usize = NAME_WIDTH + 21;
/// At most this many changes are listed for each end of a comparison.
const MAX_CHANGES: usize = 3;
/// At most this many functions of "other kernel" are listed below the tables.
const MAX_OTHERS: usize = 5;
/// Minimum size of a listed change, as a share of the earlier wall time.
const MIN_CHANGE: f64 = 0.02;
/// Shorter times per page are not spelled out: no sample is that precise.
pub(super) const MIN_NS: f64 = 0.1;
/// Shorter times in seconds are not spelled out.
const MIN_S: f64 = 0.0001;
/// Minimum share of a cost in the chart.
const MIN_CHARTED: f64 = 0.005;

/// Cases one after another: a bar for each cost of each end, and the call trees without
/// branches below `threshold`, a share of the end's samples.
pub fn profile_case(profile: &Profile, threshold: f64, style: Style) -> String {
    let mut blocks = Vec::new();
    for case in &profile.cases {
        blocks.push(style.heading(&heading(case)));
        let ends = || case.ends.iter();
        blocks.extend(ends().map(|end| bars(&end.role, end, CostGroup::name, style)));
        blocks.extend(ends().filter_map(|end| call_tree(end, threshold, style)));
    }
    blocks.push(notes_of_cases(profile, style));
    blocks.join("\n\n") + "\n"
}

fn notes_of_cases(profile: &Profile, style: Style) -> String {
    let ends = format!("ends: {}", profile.settings.placement);
    let method = "wall time, running time and waiting for a processor are the scheduler's, from \
                  trials without sampling; asleep is the rest; the running time is divided by the \
                  samples of as many other trials";
    profile_notes(profile, &[&ends, method], style)
}

/// The warnings, and notes on the method.
pub(super) fn profile_notes(profile: &Profile, method: &[&str], style: Style) -> String {
    let method = method
        .iter()
        .map(|text| Note::Method(format!("note: {text}")));
    let warnings = Note::warnings(&profile.warnings).into_iter();
    notes(warnings.chain(method).collect(), style)
}

/// The call chains of an end below the system call; `None` with too few samples.
pub(super) fn call_tree(end: &EndProfile, threshold: f64, style: Style) -> Option<String> {
    if !end.is_divided() {
        return None;
    }
    let title = format!(
        "{}: running time by call chains ({} samples, below {} left out)",
        end.role,
        end.samples,
        percent(threshold, 1)
    );
    let mut lines = vec![style.heading(&title)];
    for branch in tree(&end.stacks).lines(threshold) {
        // Further lines are aligned with the first function's name.
        let name = branch.find('%').map_or(0, |at| at + 3);
        // In a file lines are not wrapped, so that they can be searched for.
        let width = style.width.unwrap_or(usize::MAX);
        lines.push(wrap(&branch, width, &" ".repeat(name)));
    }
    Some(lines.join("\n"))
}

/// Cases side by side, and the change of costs at each step of the ladder.
pub fn profile_ladder(profile: &Profile, style: Style) -> String {
    let Blocks {
        tables, findings, ..
    } = blocks(profile);
    let mut texts: Vec<String> = tables.iter().map(|table| table.render(style)).collect();
    let findings = findings.iter().map(|finding| finding.render(style));
    texts.push(findings.collect::<Vec<_>>().join("\n"));
    texts.push(notes_of_cases(profile, style));
    texts.join("\n\n") + "\n"
}

/// The report on the cases of a profile.
pub(super) fn blocks(profile: &Profile) -> Blocks<'_> {
    let of_role = |role: &str| {
        let title = format!("{role}: nanoseconds per 4 KiB, by cost");
        TableBlock::headed(title, side_by_side(profile, role))
    };
    let published = "Shares of the writer's samples, as published (Linux 5.17) and here";
    let published = published::shares(profile).map(|table| TableBlock::headed(published, table));
    let not_run = profile.cases.iter().filter_map(|case| {
        let not_run = case.not_run.as_ref()?;
        Some(format!("{}: {not_run}", case.name))
    });
    let findings = steps(profile).chain(unknown(profile)).chain(not_run);
    Blocks {
        findings: findings.map(Conclusion::from).collect(),
        chart: Box::new(|width| profile_chart_of_width(profile, width)),
        tables: ["writer", "reader"]
            .map(of_role)
            .into_iter()
            .chain(published)
            .collect(),
    }
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

/// A bar for each cost, the largest first, and their sum; in seconds if few or no bytes are
/// known.
pub(super) fn bars(
    title: &str,
    end: &EndProfile,
    name: fn(CostGroup) -> &'static str,
    style: Style,
) -> String {
    let in_pages = end.usage.bytes >= FEW_BYTES;
    let mut table = Table::new([
        Column::left(format!("{title:NAME_WIDTH$}")),
        Column::right(if in_pages { "ns/page" } else { "seconds" }),
        Column::right("share"),
        Column::left(""),
    ]);
    let room = style.width().saturating_sub(WITHOUT_BARS).min(MAX_BAR);
    let mut costs = end.costs.clone();
    costs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for cost in costs {
        let figure = match cost.ns_per_page.filter(|_| in_pages) {
            Some(ns) => resolved(ns, MIN_NS),
            None => resolved(cost.seconds, MIN_S),
        };
        table.row([
            name(cost.group).to_owned(),
            figure,
            format!("{}{}", bound_sign(cost.bound), percent(cost.share, 1)),
            "#".repeat((cost.share * room as f64).round() as usize),
        ]);
    }
    let wall_s = end.usage.wall_s;
    let (wall, unit) = match end.usage.ns_per_page(wall_s).filter(|_| in_pages) {
        Some(ns) => (ns, "ns"),
        None => (wall_s, "s"),
    };
    let sum = end.sum_of_shares();
    let cells = ["sum".to_owned(), significant(wall * sum), percent(sum, 1)];
    table.row_with_text(
        cells.map(|text| Cell::painted(text, DIM)),
        Cell::painted(format!("of {} {unit} wall time", significant(wall)), DIM),
    );
    let mut text = table.render(style);
    if let Some(share) = end.other_share_of_samples()
        && !end.others.is_empty()
    {
        let of_samples = percent(share, 1);
        let others = format!("other kernel ({of_samples} of samples): {}", others(end));
        text += &format!("\n{}", style.note(&others, DIM));
    }
    if let Some(due) = end.missing_samples() {
        let missing = format!(
            "{} of {due:.0} samples that were due: the event was not counted all the time",
            end.samples
        );
        text += &format!("\n{}", style.note(&missing, YELLOW));
    }
    if let Some(reason) = why_undivided(end) {
        text += &format!("\n{}", style.note(&reason, DIM));
    }
    text
}

/// Why the running time of a sampled end is not divided.
fn why_undivided(end: &EndProfile) -> Option<String> {
    let is_shown = end.cost(CostGroup::Running).is_some() && end.usage_sampled.wall_s > 0.0;
    is_shown.then(|| {
        format!(
            "not divided: {}, and fewer than {MIN_SAMPLES} give no shares",
            pluralize(end.samples as usize, "sample")
        )
    })
}

/// The sign before a figure that is a bound.
fn bound_sign(bound: CostBound) -> &'static str {
    match bound {
        CostBound::Exact => "",
        CostBound::AtLeast => ">",
        CostBound::AtMost => "<",
    }
}

fn others(end: &EndProfile) -> String {
    let others = end.others.iter();
    let mut others =
        others.map(|function| format!("{} {}", function.name, percent(function.share, 1)));
    others.join(", ")
}

/// The largest functions of "other kernel" over all cases.
fn unknown(profile: &Profile) -> Option<String> {
    let ends = profile
        .cases
        .iter()
        .flat_map(|case| case.ends.iter().map(move |end| (case, end)));
    let functions = ends.flat_map(|(case, end)| {
        let others = end.others.iter();
        others.map(move |function| (function, &case.name, &end.role))
    });
    let largest = functions
        .sorted_by(|a, b| b.0.share.total_cmp(&a.0.share))
        .take(MAX_OTHERS)
        .map(|(function, case, role)| {
            let share = percent(function.share, 1);
            format!("{} {share} ({case}, {role})", function.name)
        })
        .join(", ");
    let what = "other kernel, the largest shares of an end's samples";
    (!largest.is_empty()).then(|| format!("{what}: {largest}"))
}

/// The ends with this role and the names of their cases; refused cases have no ends.
fn ends_of<'a>(profile: &'a Profile, role: &str) -> Vec<(&'a str, &'a EndProfile)> {
    let end = |case: &'a CaseProfile| {
        let end = case.ends.iter().find(|end| end.role == role)?;
        Some((&*case.name, end))
    };
    profile.cases.iter().filter_map(end).collect()
}

/// The costs of the ends with this role, a column for each case.
fn side_by_side(profile: &Profile, role: &str) -> Table {
    let ends = ends_of(profile, role);
    let names = ends
        .iter()
        .map(|(name, _)| Column::right(name.replace('_', "\n")));
    let mut table = Table::new(std::iter::once(Column::left("")).chain(names));
    let mut row = |name: &str, cell: &dyn Fn(&EndProfile) -> String| {
        let cells = ends.iter().map(|(_, end)| cell(end));
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    let is_present = |group: &CostGroup| ends.iter().any(|(_, end)| end.ns_per_page(*group) != 0.0);
    for group in CostGroup::all().filter(is_present) {
        row(group.name(), &|end| match end.cost(group) {
            Some(cost) => format!(
                "{}{}",
                bound_sign(cost.bound),
                tenths(cost.ns_per_page.unwrap_or(0.0))
            ),
            None => "-".to_owned(),
        });
    }
    row("sum", &|end| tenths(end.sum_ns_per_page()));
    row("wall time", &|end| tenths(end.usage.wall_ns_per_page()));
    row("other, of the samples", &|end| {
        let share = end.other_share_of_samples();
        share.map_or_else(|| "-".to_owned(), |share| percent(share, 1))
    });
    table
}

/// Nanoseconds with one decimal, to align a column.
fn tenths(ns: f64) -> String {
    if ns < 0.05 {
        "0.0".to_owned()
    } else {
        fixed(ns, 1)
    }
}

/// For each step, the change of the wall time and of the costs.
fn steps(profile: &Profile) -> impl Iterator<Item = String> {
    let run = || profile.cases.iter().filter(|case| case.not_run.is_none());
    run().filter_map(move |case| {
        let (from, factor) = case.compared_with.as_ref()?;
        let from = run().find(|other| other.name == *from)?;
        let change = |end: &EndProfile| {
            let before = from.ends.iter().find(|before| before.role == end.role)?;
            Some(change(before, end))
        };
        let changes = case.ends.iter().filter_map(change).join("; ");
        Some(format!(
            "{} -> {} ({factor}), ns per 4 KiB: {changes}",
            from.name, case.name
        ))
    })
}

fn change(before: &EndProfile, after: &EndProfile) -> String {
    let wall = |end: &EndProfile| end.usage.wall_ns_per_page();
    let (old, new) = (wall(before), wall(after));
    let changes = CostGroup::all()
        .map(|group| (group, after.ns_per_page(group) - before.ns_per_page(group)))
        .filter(|(_, change)| change.abs() >= MIN_CHANGE * old)
        .sorted_by(|a, b| b.1.abs().total_cmp(&a.1.abs()))
        .take(MAX_CHANGES)
        .map(|(group, change)| {
            let sign = if change < 0.0 { "-" } else { "+" };
            format!("{} {sign}{}", group.name(), significant(change.abs()))
        })
        .join(", ");
    let changes = if changes.is_empty() {
        "nothing by 2 % or more"
    } else {
        &changes
    };
    let (old, new) = (significant(old), significant(new));
    format!("{} {old} to {new}: {changes}", after.role)
}

/// The costs of each end as a stacked bar: for each case the writer's above the reader's,
/// or one for each stage. Bars are shares; the wall time is printed beside each, since
/// those of the rungs differ by a factor of a hundred.
pub fn profile_chart(profile: &Profile) -> String {
    profile_chart_of_width(profile, WIDE)
}

/// The same on a card of this width.
fn profile_chart_of_width(profile: &Profile, width: i32) -> String {
    let cases = profile.cases.iter().filter(|case| case.not_run.is_none());
    let cases = cases.map(|case| (&*case.name, case.ends.iter().collect()));
    let stages = profile
        .pipeline
        .iter()
        .flat_map(|pipeline| &pipeline.stages);
    let stages = stages.map(|stage| (&*stage.end.role, vec![&stage.end]));
    let rows: Vec<(&str, Vec<&EndProfile>)> = cases.chain(stages).collect();
    let ends = || rows.iter().flat_map(|(_, ends)| ends);
    let charted =
        CostGroup::all().filter(|group| ends().any(|end| end.share(*group) >= MIN_CHARTED));
    let (name_of, bars_are, what): (fn(CostGroup) -> &'static str, _, _) = match &profile.pipeline {
        Some(pipeline) => (
            CostGroup::name_in_pipeline,
            "shares of each stage's wall time; at the right ns per 4 KiB, or seconds",
            in_short(&pipeline.command, 200),
        ),
        None => (
            CostGroup::name,
            "shares of wall time, writer above reader; at the right ns per 4 KiB",
            profile.settings.placement.clone(),
        ),
    };
    let release = profile.header.machine.kernel.release.as_deref();
    let how = match profile.settings.event {
        Some(event) => format!("sampled by {event}"),
        None => "not sampled".to_owned(),
    };
    let sampled = format!(
        "{bars_are}; {how}, Linux {}",
        release.unwrap_or("of unknown release")
    );
    let chart = BarChart {
        title: "pipespeed profile: where each end's time goes",
        subtitle: vec![sampled, what],
        legend: charted
            .map(|group| (palette::of_cost(group), name_of(group)))
            .collect(),
        rows: rows
            .iter()
            .map(|(name, ends)| BarGroup {
                name: (*name).to_owned(),
                bars: Ok(ends.iter().map(|end| stacked_bar(end, name_of)).collect()),
            })
            .collect(),
        of_ratios: false,
        unit: "% of wall time",
        width,
    };
    chart.draw(&marks(&profile.warnings))
}

fn stacked_bar(end: &EndProfile, name: fn(CostGroup) -> &'static str) -> Bar {
    let all = end.sum_of_shares().max(f64::MIN_POSITIVE);
    let part = |group: CostGroup| Part {
        length: end.share(group) / all * 100.0,
        colour: palette::of_cost(group),
        label: percent(end.share(group), 0),
        hint: format!(
            "{}, {}: {}",
            end.role,
            name(group),
            percent(end.share(group), 1)
        ),
    };
    let wall_s = end.usage.wall_s;
    Bar {
        parts: CostGroup::all().map(part).collect(),
        value: match end.usage.ns_per_page(wall_s) {
            Some(ns) => format!("{} ns", significant(ns)),
            None => format!("{} s", significant(wall_s)),
        },
        ..Bar::default()
    }
}

#[cfg(test)]
mod tests;
