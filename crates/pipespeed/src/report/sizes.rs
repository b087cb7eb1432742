//! What a search for sizes found, and what its measurement afresh says of it.

use comfy_table::{CellAlignment, Table, presets};

use crate::measure::comparisons;
use crate::results::{Best, CaseResult, PanelResult, Ratio, Run, Search, Sizes, Verdict};
use crate::search::judge::{found, leaders};
use crate::size;

use super::columns::{Column, fitting};
use super::findings::doubt;
use super::format::{counted, interval, percent, ratio_interval, significant, times, wrap};
use super::measured::medians;
use super::steps::{doubted, phrase};
use super::style::{BOLD, Style, YELLOW};

/// The table of panels, and what to use for which reader.
pub(super) fn blocks(run: &Run, search: &Search, style: Style) -> Vec<String> {
    let mut blocks = vec![table(run, search, style)];
    blocks.extend(
        search
            .best
            .iter()
            .map(|best| recommended(run, search, best, style)),
    );
    if search.best.is_empty() {
        let line = "The search did not come to its end: what is shown is the fastest so far, of \
                    few trials and not measured afresh.";
        blocks.push(style.paint(&wrap(line, style.width(), "  "), YELLOW));
    }
    blocks
}

type Shown = Column<fn(&Run, &PanelResult) -> String>;

fn columns(run: &Run) -> Vec<Shown> {
    use CellAlignment::{Left, Right};
    let column = |header: &str, cell, align, spare| Shown::new(header, cell, align, spare);
    let level = format!("{}\ninterval", percent(run.settings.confidence));
    vec![
        column("\npanel", |_, panel| panel.name.clone(), Left, 0),
        column(
            "\nbuffer",
            |_, panel| sized(panel, |s| s.buffer_bytes),
            Right,
            0,
        ),
        column(
            "\npipe",
            |_, panel| sized(panel, |s| s.pipe_bytes),
            Right,
            0,
        ),
        column("search\nGiB/s", |_, panel| searched(panel), Right, 3),
        column("afresh\nGiB/s", afresh, Right, 0),
        column(&level, interval_of, Left, 4),
        column("against the\npublished sizes", against, Left, 1),
        column(
            "\nso it is",
            |run, panel| verdict(run, panel).to_owned(),
            Left,
            2,
        ),
    ]
}

/// The sizes found or, before the end of a search, those that lead.
pub(super) fn sizes(panel: &PanelResult) -> Option<Sizes> {
    let leading = || Some(leaders(panel).first()?.sizes);
    panel.winner.or_else(leading)
}

fn sized(panel: &PanelResult, of: fn(Sizes) -> usize) -> String {
    sizes(panel).map_or_else(String::new, |sizes| size::format(of(sizes) as u64))
}

fn searched(panel: &PanelResult) -> String {
    let leading = || leaders(panel).first()?.median;
    let rate = found(panel).or_else(leading);
    rate.map_or_else(String::new, significant)
}

/// The case measured afresh.
fn case<'a>(run: &'a Run, panel: &PanelResult) -> Option<&'a CaseResult> {
    named(run, panel.winner_case.as_deref()?)
}

fn named<'a>(run: &'a Run, name: &str) -> Option<&'a CaseResult> {
    run.cases.iter().find(|case| case.name == name)
}

fn afresh(run: &Run, panel: &PanelResult) -> String {
    let summary = case(run, panel).and_then(|case| case.summary.as_ref());
    summary.map_or_else(|| "-".to_owned(), |summary| significant(summary.median))
}

fn interval_of(run: &Run, panel: &PanelResult) -> String {
    let summary = case(run, panel).and_then(|case| case.summary.as_ref());
    summary.map_or_else(String::new, |summary| interval(summary.low, summary.high))
}

/// The ratio to the published sizes; none where they are the ones found.
fn ratio(run: &Run, panel: &PanelResult) -> Option<Ratio> {
    case(run, panel)?.ratio
}

fn against(run: &Run, panel: &PanelResult) -> String {
    ratio(run, panel).map_or_else(String::new, shown)
}

/// `x1.26 [1.21, 1.30]`.
fn shown(ratio: Ratio) -> String {
    let interval = ratio_interval(ratio.low, ratio.high);
    format!("{} {interval}", times(ratio.median))
        .trim_end()
        .to_owned()
}

/// What the measurement afresh says of the sizes found.
pub(super) fn verdict(run: &Run, panel: &PanelResult) -> &'static str {
    if panel.winner == Some(panel.published) {
        return "the published sizes";
    }
    match ratio(run, panel).map(|ratio| doubted(&ratio, doubt(run))) {
        Some(Verdict::Faster) => "confirmed",
        Some(Verdict::Same) => "not confirmed: the same",
        Some(Verdict::Slower) => "not confirmed: slower",
        Some(Verdict::Undecided) => "not confirmed",
        None => "not measured afresh",
    }
}

fn table(run: &Run, search: &Search, style: Style) -> String {
    let mut lines = fitting(columns(run), style.width(), |columns| {
        laid(run, search, columns)
    });
    // The header's two lines.
    for line in lines.iter_mut().take(2) {
        *line = style.paint(line, BOLD);
    }
    lines.extend(refused(search, style));
    lines.extend(left_out(search, style));
    lines.join("\n")
}

fn laid(run: &Run, search: &Search, columns: &[Shown]) -> (Vec<String>, usize) {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(columns.iter().map(|column| column.header.as_str()));
    for panel in search.panels.iter().filter(|panel| panel.refused.is_none()) {
        grid.add_row(columns.iter().map(|column| (column.cell)(run, panel)));
    }
    for (column, laid) in columns.iter().zip(grid.column_iter_mut()) {
        laid.set_cell_alignment(column.align);
        laid.set_padding((0, 2));
    }
    let lines: Vec<String> = grid
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    let width = lines.iter().map(|line| line.chars().count()).max();
    (lines, width.unwrap_or(0))
}

/// A line for each panel that can't run here.
fn refused(search: &Search, style: Style) -> Vec<String> {
    let line = |panel: &PanelResult| {
        let reason = panel.refused.as_deref()?;
        let line = wrap(
            &format!("{}  refused: {reason}", panel.name),
            style.width(),
            "  ",
        );
        Some(style.paint(&line, YELLOW))
    };
    search.panels.iter().filter_map(line).collect()
}

/// Why ends that spin are not among those on one processor.
fn left_out(search: &Search, style: Style) -> Option<String> {
    let on_one =
        |panel: &&PanelResult| panel.writer_cpu.is_some() && panel.writer_cpu == panel.reader_cpu;
    let mut waits = search.panels.iter().filter(on_one).map(|it| &*it.wait);
    let sleeps = waits.clone().any(|wait| wait == "block");
    (sleeps && waits.all(|wait| wait != "spin")).then(|| {
        let line = "Ends that spin on one processor are left out: each would use up the time \
                    slices in which the other could go on.";
        wrap(line, style.width(), "  ")
    })
}

/// What to use for a kind of reader, and the command line that does it.
fn recommended(run: &Run, search: &Search, best: &Best, style: Style) -> String {
    let mut lines = vec![wrap(&sentence(run, search, best), style.width(), "  ")];
    let panel = search.panels.iter().find(|panel| panel.name == best.panel);
    if let Some(command) = panel.and_then(|panel| panel.command.as_deref()) {
        // A line may end in a bar: it can be copied as it is.
        let command = command.replace(" | ", " |\n      ");
        lines.push(style.paint(&format!("    {command}"), BOLD));
    }
    lines.join("\n")
}

/// A kind of reader in words.
fn kind(best: &Best) -> String {
    let reader = match &*best.reader {
        "splice" => "splices",
        _ => "reads",
    };
    let ends = match &*best.wait {
        "spin" => "both ends spin",
        _ => "the ends sleep",
    };
    format!("where the reader {reader} and {ends}")
}

fn sentence(run: &Run, search: &Search, best: &Best) -> String {
    let panel = search.panels.iter().find(|panel| panel.name == best.panel);
    let what = panel.and_then(|panel| Some((panel, panel.winner?)));
    let mut line = format!("Best {}: ", kind(best));
    if let Some((panel, sizes)) = what {
        line.push_str(&format!(
            "{} and {}, {}, {} buffers, a pipe of {}",
            panel.writer,
            panel.reader,
            place(panel),
            size::format(sizes.buffer_bytes as u64),
            size::format(sizes.pipe_bytes as u64),
        ));
    }
    match named(run, &best.case).and_then(|case| case.summary.as_ref()) {
        Some(summary) => line.push_str(&format!(
            "; {} GiB/s {}",
            significant(summary.median),
            interval(summary.low, summary.high)
        )),
        None => line.push_str("; not measured afresh"),
    }
    let line = line.trim_end().to_owned();
    let doubt = doubt(run);
    let ratios: Vec<String> = best
        .against
        .iter()
        .filter_map(|other| {
            let ratio = other.ratio?;
            let verdict = phrase(doubted(&ratio, doubt));
            Some(format!("{} {verdict} {}", shown(ratio), other.case))
        })
        .collect();
    let end = match (
        confirmed(run, best),
        panel.is_some_and(|p| p.winner == Some(p.published)),
    ) {
        (_, true) => ". These are the published sizes.",
        (Some(true), _) => ". Confirmed.",
        (Some(false), _) => ". Not confirmed to be faster than what is published.",
        (None, _) => ".",
    };
    match ratios.is_empty() {
        true => format!("{line}{end}"),
        false => format!("{line}: {}{end}", ratios.join("; ")),
    }
}

/// Whether it is faster than what it is compared with first: the published
/// sizes in its own panel. None where nothing is known.
fn confirmed(run: &Run, best: &Best) -> Option<bool> {
    let ratio = best.against.first()?.ratio?;
    Some(doubted(&ratio, doubt(run)) == Verdict::Faster)
}

/// Where a panel's ends run, in a few words.
pub(super) fn place(panel: &PanelResult) -> String {
    match (panel.writer_cpu, panel.reader_cpu) {
        (Some(writer), Some(reader)) if writer == reader => "on one processor".to_owned(),
        (Some(_), Some(_)) => "on two processors".to_owned(),
        _ => "wherever the scheduler puts them".to_owned(),
    }
}

/// The best for each kind of reader, as sentences.
pub(super) fn findings(run: &Run, search: &Search) -> Vec<String> {
    let best = search.best.iter();
    best.map(|best| sentence(run, search, best)).collect()
}

/// How it was searched and measured.
pub(super) fn measured(run: &Run, search: &Search) -> String {
    let settings = &run.settings;
    let tried = |panel: &PanelResult| {
        let cells = panel.cells.iter();
        cells.filter(|cell| !cell.trials.is_empty()).count()
    };
    let pairs: Vec<usize> = search.panels.iter().map(tried).collect();
    let cells = search.panels.iter().flat_map(|panel| &panel.cells);
    let trials = cells.flat_map(|cell| &cell.trials);
    let flagged = trials.clone().filter(|trial| !trial.flags.is_empty());
    let lengths = || search.stages.iter().map(|stage| stage.timed_s * 1e3);
    let mut text = format!(
        "Searched: {} of sizes in {} by {}. {} in {}, timed for {:.1} to {:.1} ms each, {:.0} s in \
         all, {} of them flagged as disturbed; seed {}.",
        counted(pairs.iter().sum(), "pair"),
        counted(pairs.iter().filter(|pairs| **pairs > 0).count(), "panel"),
        search.rule,
        counted(trials.count(), "trial"),
        counted(search.stages.len(), "stage"),
        lengths().fold(f64::INFINITY, f64::min),
        lengths().fold(0.0, f64::max),
        search.took_s,
        flagged.count(),
        search.seed,
    );
    if search.short_of_time {
        text.push_str(
            " It had less time than it needs: not every pair had its turn, or fewer than half \
             stayed after a stage, so better sizes may have been missed; a quieter machine or \
             more --time helps.",
        );
    }
    if settings.rounds_done > 0 {
        text.push_str(&format!(
            " Measured afresh: {} of {} of trials of {} s after {} s of warm-up; order {}; {}; \
             {}, ratios paired by round and corrected for {}.",
            settings.rounds_done,
            counted(settings.rounds_planned, "round"),
            settings.timed_s,
            settings.warm_up_s,
            settings.order,
            settings.cpu_relation,
            medians(run),
            counted(comparisons::count(run), "comparison"),
        ));
    }
    text
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
