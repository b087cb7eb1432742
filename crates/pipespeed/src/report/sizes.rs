//! The sizes a search found, and what the rounds say of them.

use comfy_table::{CellAlignment, Table, presets};

use crate::results::{BestSizes, CaseResult, PanelResult, Ratio, Run, Search, Sizes, Verdict};
use crate::search::FINALISTS;
use crate::size;

use super::columns::{Column, fitting};
use super::findings::doubt;
use super::format::{counted, interval, percent, ratio_interval, significant, times, wrap};
use super::measured::measured;
use super::steps::doubted;
use super::style::{BOLD, Style, YELLOW};

/// The table of cases, and the best for each kind of reader.
pub(super) fn blocks(run: &Run, search: &Search, style: Style) -> Vec<String> {
    let mut blocks = vec![table(run, search, style)];
    for panel in best_of_kinds(search) {
        let mut lines = vec![wrap(&sentence(run, panel), style.width(), "  ")];
        let best = panel.best.as_ref().filter(|_| is_recommended(run, panel));
        if let Some(command) = best.and_then(|best| best.command.as_deref()) {
            // A line may end in a bar: both can be pasted as they are.
            let command = command.replace(" | ", " |\n      ");
            lines.push(style.paint(&format!("    {command}"), BOLD));
        }
        blocks.push(lines.join("\n"));
    }
    if blocks.len() == 1 {
        let line = "The search did not end: the sizes shown are the fastest so far, of few trials \
                    and not confirmed.";
        blocks.push(style.paint(&wrap(line, style.width(), "  "), YELLOW));
    }
    blocks
}

/// The fastest panel by the search, of each kind of reader: it reads or
/// splices, the ends sleep or spin.
fn best_of_kinds(search: &Search) -> Vec<&PanelResult> {
    let kind = |panel: &PanelResult| {
        let configuration = &panel.configuration;
        (configuration.reader.clone(), configuration.wait.clone())
    };
    let mut best: Vec<&PanelResult> = Vec::new();
    for panel in search.panels.iter().filter(|panel| panel.best.is_some()) {
        match best.iter_mut().find(|it| kind(it) == kind(panel)) {
            Some(other) if searched(panel) > searched(other) => *other = panel,
            Some(_) => {}
            None => best.push(panel),
        }
    }
    best
}

type Shown = Column<fn(&Run, &PanelResult) -> String>;

fn columns(run: &Run) -> Vec<Shown> {
    use CellAlignment::{Left, Right};
    let column = |header: &str, cell, align, spare| Shown::new(header, cell, align, spare);
    let level = format!("{}\ninterval", percent(run.settings.confidence));
    let buffer = |_: &Run, panel: &PanelResult| sized(panel, |sizes| sizes.buffer_bytes);
    let pipe = |_: &Run, panel: &PanelResult| sized(panel, |sizes| sizes.pipe_bytes);
    let rate = |_: &Run, panel: &PanelResult| searched(panel).map_or_else(String::new, significant);
    vec![
        column("\ncase", |_, panel| panel.case.clone(), Left, 0),
        column("\nbuffer", buffer, Right, 0),
        column("\npipe", pipe, Right, 0),
        column("search\nGiB/s", rate, Right, 3),
        column(
            "rounds\nGiB/s",
            |run, panel| measured_rate(run, panel).0,
            Right,
            0,
        ),
        column(&level, |run, panel| measured_rate(run, panel).1, Left, 4),
        column("against the\npublished sizes", against, Left, 1),
        column("\nresult", result, Left, 2),
    ]
}

/// The best sizes or, before the end of a search, the fastest so far.
pub(super) fn best_sizes(panel: &PanelResult) -> Option<Sizes> {
    let leading = || panel.ranking().first().map(|cell| cell.sizes);
    panel.best.as_ref().map(|best| best.sizes).or_else(leading)
}

fn sized(panel: &PanelResult, of: fn(Sizes) -> usize) -> String {
    best_sizes(panel).map_or_else(String::new, |sizes| size::format(of(sizes) as u64))
}

/// The median of the best sizes in the search.
fn searched(panel: &PanelResult) -> Option<f64> {
    panel.ranking().first()?.median
}

/// The case with the best sizes, as measured in rounds.
fn measured_case<'a>(run: &'a Run, panel: &PanelResult) -> Option<&'a CaseResult> {
    let BestSizes { case, .. } = panel.best.as_ref()?;
    run.cases.iter().find(|it| it.name == *case)
}

/// The median of the rounds and its interval, as shown.
fn measured_rate(run: &Run, panel: &PanelResult) -> (String, String) {
    let summary = measured_case(run, panel).and_then(|case| case.summary.as_ref());
    summary.map_or_else(
        || ("-".to_owned(), String::new()),
        |it| (significant(it.median), interval(it.low, it.high)),
    )
}

fn against(run: &Run, panel: &PanelResult) -> String {
    let ratio = measured_case(run, panel).and_then(|case| case.ratio);
    ratio.map_or_else(
        String::new,
        |Ratio {
             median, low, high, ..
         }| {
            let interval = ratio_interval(low, high);
            format!("{} {interval}", times(median))
                .trim_end()
                .to_owned()
        },
    )
}

fn is_published(panel: &PanelResult) -> bool {
    best_sizes(panel) == Some(panel.published())
}

/// The verdict of the rounds on the best sizes against the published ones; none
/// if there is no ratio.
fn verdict(run: &Run, panel: &PanelResult) -> Option<Verdict> {
    let ratio = measured_case(run, panel)?.ratio?;
    Some(doubted(&ratio, doubt(run)))
}

/// Whether to use the best sizes: they are confirmed, or the published ones.
fn is_recommended(run: &Run, panel: &PanelResult) -> bool {
    is_published(panel) || verdict(run, panel) == Some(Verdict::Faster)
}

fn result(run: &Run, panel: &PanelResult) -> String {
    let result = match verdict(run, panel) {
        _ if is_published(panel) => "published",
        Some(Verdict::Faster) => "confirmed",
        Some(Verdict::Same) => "the same",
        Some(Verdict::Slower) => "slower",
        Some(Verdict::Undecided) => "undecided",
        None => "not confirmed",
    };
    result.to_owned()
}

fn table(run: &Run, search: &Search, style: Style) -> String {
    let mut lines = fitting(columns(run), style.width(), |columns| {
        lay_out(run, search, columns)
    });
    for line in lines.iter_mut().take(2) {
        *line = style.paint(line, BOLD);
    }
    for (case, reason) in refused(run) {
        let line = wrap(&format!("{case}  refused: {reason}"), style.width(), "  ");
        lines.push(style.paint(&line, YELLOW));
    }
    lines.join("\n")
}

fn lay_out(run: &Run, search: &Search, columns: &[Shown]) -> (Vec<String>, usize) {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(columns.iter().map(|column| column.header.as_str()));
    for panel in &search.panels {
        grid.add_row(columns.iter().map(|column| (column.cell)(run, panel)));
    }
    for (column, laid) in columns.iter().zip(grid.column_iter_mut()) {
        laid.set_cell_alignment(column.align);
        laid.set_padding((0, 2));
    }
    let lines = grid.lines().map(|line| line.trim_end().to_owned());
    let lines: Vec<String> = lines.collect();
    let width = lines.iter().map(|line| line.chars().count()).max();
    (lines, width.unwrap_or(0))
}

/// Cases that can't be run here, and the reasons.
pub(super) fn refused(run: &Run) -> impl Iterator<Item = (&str, &str)> {
    let cases = run.cases.iter();
    cases.filter_map(|case| Some((&*case.name, case.refused.as_deref()?)))
}

/// The best for a kind of reader, in words.
fn sentence(run: &Run, panel: &PanelResult) -> String {
    let configuration = &panel.configuration;
    let reader = match configuration.reader.as_deref() {
        Some("splice") => "splices",
        _ => "reads",
    };
    let ends = match &*configuration.wait {
        "spin" => "both ends spin",
        _ => "the ends sleep",
    };
    let sizes = format!(
        "{} buffers, a pipe of {}",
        sized(panel, |sizes| sizes.buffer_bytes),
        sized(panel, |sizes| sizes.pipe_bytes)
    );
    let mut line = format!(
        "Best where the reader {reader} and {ends}: {}, {}, {sizes}",
        technique(panel),
        place(panel)
    );
    let (rate, interval) = measured_rate(run, panel);
    if rate != "-" {
        line += format!("; {rate} GiB/s {interval}").trim_end();
    }
    let ratio = against(run, panel);
    line += &match verdict(run, panel) {
        _ if is_published(panel) => ". These are the published sizes.".to_owned(),
        Some(Verdict::Faster) => {
            format!(", {ratio} faster than the published sizes there. Confirmed.")
        }
        Some(Verdict::Same) => {
            format!(". Not confirmed: the published sizes are as fast, {ratio}.")
        }
        Some(Verdict::Slower) => {
            format!(". Not confirmed: the published sizes are faster, {ratio}.")
        }
        Some(Verdict::Undecided) => format!(
            ". Undecided: {ratio} against the published sizes shows no difference that is certain; \
             more --time or a quieter machine may."
        ),
        None => ". Not confirmed: there were no rounds.".to_owned(),
    };
    line
}

/// What the ends of a panel do: `vmsplice and read`.
pub(super) fn technique(panel: &PanelResult) -> String {
    let name = |end: &Option<String>| end.clone().unwrap_or_default();
    let configuration = &panel.configuration;
    format!(
        "{} and {}",
        name(&configuration.writer),
        name(&configuration.reader)
    )
}

/// Where the ends of a panel run.
pub(super) fn place(panel: &PanelResult) -> &'static str {
    let configuration = &panel.configuration;
    match (configuration.writer_cpu, configuration.reader_cpu) {
        (Some(writer), Some(reader)) if writer == reader => "on one processor",
        (Some(_), Some(_)) => "on two processors",
        _ => "wherever the scheduler puts them",
    }
}

/// The best for each kind of reader, as sentences.
pub(super) fn findings(run: &Run, search: &Search) -> Vec<String> {
    let best = best_of_kinds(search).into_iter();
    best.map(|panel| sentence(run, panel)).collect()
}

/// How it was searched and measured.
pub(super) fn method(run: &Run, search: &Search) -> String {
    let cells = || search.panels.iter().flat_map(|panel| &panel.cells);
    let tried = cells().filter(|cell| cell.median.is_some()).count();
    let missing = cells().filter(|it| it.median.is_none() && it.refused.is_none());
    let mut text = format!(
        "Searched: {} of sizes of {} in random order, then the best {FINALISTS} of each case again, \
         of which the one with the highest median is taken; {} of {:.0} ms, {} of them disturbed, \
         {:.0} s.",
        counted(tried, "pair"),
        counted(search.panels.len(), "case"),
        counted(search.trials(), "trial"),
        search.timed_s * 1e3,
        search.flagged,
        search.took_s,
    );
    let missing = missing.count();
    if missing > 0 {
        text += &format!(
            " There was no time for {}: better sizes may have been missed; more --time or a \
             quieter machine helps.",
            counted(missing, "pair")
        );
    }
    if run.settings.rounds_done > 0 {
        text = format!("{text} {}", measured(run));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn at(width: usize) -> Style {
        Style {
            width: Some(width),
            colour: false,
        }
    }

    fn shown(run: &Run, width: usize) -> String {
        crate::report::table(run, at(width))
    }

    #[test]
    fn a_search_as_it_is_shown() {
        insta::assert_snapshot!(shown(&sample::sizes(), 100));
    }

    #[test]
    fn a_narrow_terminal_keeps_sizes_rates_and_results() {
        let text = shown(&sample::sizes(), 80);
        let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert!(rows.iter().all(|line| line.chars().count() <= 80), "{text}");
        for word in ["vmsplice_splice_huge_same ", "256KiB", "confirmed"] {
            assert!(rows.iter().any(|line| line.contains(word)), "{text}");
        }
    }

    #[test]
    fn only_confirmed_sizes_have_a_command_line_to_paste() {
        let mut run = sample::sizes();
        let panel = run.search.as_ref().unwrap().panels[8].clone();
        let name = panel.best.as_ref().unwrap().case.clone();
        let command = "--read-with-splice --busy-loop";
        for (found, low, high, result, sentence) in [
            (Verdict::Faster, 1.2, 1.3, "confirmed", "Confirmed."),
            (Verdict::Undecided, 0.9, 1.2, "undecided", "Undecided: "),
            (
                Verdict::Same,
                0.99,
                1.01,
                "the same",
                "Not confirmed: the published sizes are as",
            ),
            (
                Verdict::Slower,
                0.7,
                0.8,
                "slower",
                "Not confirmed: the published sizes are faster",
            ),
        ] {
            let case = run.cases.iter_mut().find(|case| case.name == name).unwrap();
            let ratio = case.ratio.as_mut().unwrap();
            (ratio.verdict, ratio.low, ratio.high) = (found, Some(low), Some(high));
            assert_eq!(super::result(&run, &panel), result);
            assert!(super::sentence(&run, &panel).contains(sentence));
            let text = shown(&run, 1000);
            assert_eq!(text.contains(command), found == Verdict::Faster, "{text}");
        }
    }

    #[test]
    fn a_difference_within_the_null_controls_is_undecided() {
        let mut run = sample::sizes();
        let panel = run.search.as_ref().unwrap().panels[8].clone();
        assert_eq!(result(&run, &panel), "confirmed");
        let control = run.null_control.as_mut().unwrap().ratio.as_mut().unwrap();
        (control.verdict, control.low, control.high) = (Verdict::Undecided, Some(0.6), Some(1.1));
        assert_eq!(result(&run, &panel), "undecided");
    }

    #[test]
    fn an_interrupted_search_shows_what_leads_and_says_so() {
        use crate::search::tests::{Fake, plan, whole_run};
        let runner = Fake {
            signal_at: Some(300),
            ..Fake::default()
        };
        let (run, _) = whole_run(sample::ladder(), &plan(60.0), runner);
        let text = shown(&run, 100);
        for words in [
            "interrupted: SIGINT",
            "did not end",
            "no time for",
            "not confirmed",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("Best where"), "{text}");
    }

    #[test]
    fn a_command_line_can_be_pasted_as_it_stands() {
        let text = shown(&sample::sizes(), 60);
        let mut lines = text
            .lines()
            .skip_while(|line| !line.contains("pipespeed write"));
        assert!(lines.next().unwrap().ends_with(" |"));
        assert!(lines.next().unwrap().contains("pipespeed read"));
    }
}
