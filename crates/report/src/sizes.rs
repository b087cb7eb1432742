//! The sizes found by a search, and their confirmation by rounds.

pub(super) mod heat;

use pipespeed_base::size;
use pipespeed_measure::record::{
    BestSizes, CaseResult, Estimate, NotRun, PanelResult, Run, Search, Sizes, Verdict,
};
use pipespeed_measure::search::FINALISTS;
use pipespeed_measure::spec::{PipeReader, Waiting};

use super::blocks::{Conclusion, TableBlock};
use super::cases::{level, number};
use super::conditions;
use super::format::{fixed, gib_per_s, grouped, interval, pluralize, ratio};
use super::steps::measured;
use super::style::YELLOW;
use super::table::{Cell, Column, Table};

/// The table of the best sizes.
pub(super) fn tables(run: &Run) -> Vec<TableBlock> {
    let name = "The best sizes of each case";
    let table = |search| TableBlock::new(name, table(run, search));
    run.search.iter().map(table).collect()
}

/// The fastest panel for each kind of reader: it reads or splices, and the ends sleep or spin. By the
/// rounds, if it was measured in them; the search has few trials.
fn best_of_kinds<'a>(run: &Run, search: &'a Search) -> Vec<&'a PanelResult> {
    let median = |panel: &PanelResult| {
        let of_search = || panel.leader().and_then(|leader| leader.median);
        let measured = measured_rate(run, panel).map(|rate| rate.median);
        measured.or_else(of_search).unwrap_or(0.0)
    };
    let found = search.panels.iter().filter(|panel| panel.best.is_some());
    let by_kind = found.map(|panel| {
        let configuration = &panel.configuration;
        ((configuration.pipe_reader(), configuration.wait), panel)
    });
    let by_kind = grouped(by_kind).into_iter();
    let best = by_kind.filter_map(|(_, panels)| {
        panels
            .into_iter()
            .rev()
            .max_by(|a, b| median(a).total_cmp(&median(b)))
    });
    best.collect()
}

/// The best sizes; before the end of a search, the fastest so far.
pub(super) fn best_sizes(panel: &PanelResult) -> Option<Sizes> {
    panel.leader().map(|cell| cell.sizes)
}

/// One of the best sizes, as text.
fn best_size(panel: &PanelResult, of: fn(Sizes) -> usize) -> String {
    best_sizes(panel).map_or_else(String::new, |sizes| size::format(of(sizes) as u64))
}

/// The case with the best sizes, measured in rounds.
pub(super) fn measured_case<'a>(run: &'a Run, panel: &PanelResult) -> Option<&'a CaseResult> {
    let BestSizes { case, .. } = panel.best.as_ref()?;
    run.cases.iter().find(|result| result.name == *case)
}

/// The rate measured in rounds.
fn measured_rate(run: &Run, panel: &PanelResult) -> Option<Estimate> {
    Some(*measured(measured_case(run, panel)?)?.1)
}

/// The ratio to the published sizes; empty if there is none.
fn ratio_to_published(run: &Run, panel: &PanelResult) -> String {
    let found = measured_case(run, panel).and_then(|case| case.ratio);
    found.map_or_else(String::new, |found| ratio(found.estimate))
}

/// The outcome of the rounds for the best sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizesOutcome {
    /// They are the published sizes.
    Published,
    /// They are faster than the published sizes.
    Confirmed,
    /// Another verdict on them.
    Unconfirmed(Verdict),
    /// They were not measured in rounds.
    NoRounds,
}

impl SizesOutcome {
    fn new(run: &Run, panel: &PanelResult) -> SizesOutcome {
        let best = panel.best.as_ref();
        if best.is_some_and(|best| best.sizes == panel.published()) {
            return SizesOutcome::Published;
        }
        let ratio = measured_case(run, panel).and_then(|case| case.ratio);
        match ratio.map(|ratio| ratio.verdict) {
            Some(Verdict::Faster) => SizesOutcome::Confirmed,
            Some(verdict) => SizesOutcome::Unconfirmed(verdict),
            None => SizesOutcome::NoRounds,
        }
    }

    fn name(self) -> &'static str {
        match self {
            SizesOutcome::Published => "published",
            SizesOutcome::Confirmed => "confirmed",
            SizesOutcome::Unconfirmed(verdict) => verdict.name(),
            SizesOutcome::NoRounds => "not confirmed",
        }
    }
}

/// Sizes are recommended only if the ends of the rate's interval differ by less than this
/// factor.
const MAX_SPREAD: f64 = 2.0;

/// Whether the rate of a panel's best sizes is too uncertain for a recommendation.
fn is_uncertain(run: &Run, panel: &PanelResult) -> bool {
    let interval = measured_rate(run, panel).and_then(|rate| rate.interval);
    interval.is_none_or(|ends| ends.high >= MAX_SPREAD * ends.low)
}

/// Whether the best sizes are confirmed, or the published ones, by figures that are certain
/// enough to be used.
fn is_recommended(run: &Run, panel: &PanelResult) -> bool {
    match SizesOutcome::new(run, panel) {
        SizesOutcome::Published | SizesOutcome::Confirmed => !is_uncertain(run, panel),
        SizesOutcome::Unconfirmed(_) | SizesOutcome::NoRounds => false,
    }
}

/// A row for each case that was searched.
fn table(run: &Run, search: &Search) -> Table {
    let mut table = Table::new([
        Column::left("case"),
        Column::right("buffer"),
        Column::right("pipe"),
        Column::right("GiB/s"),
        Column::left(level(run)).optional(1),
        Column::left("against the\npublished sizes"),
        Column::left("result"),
    ]);
    for panel in &search.panels {
        let rate = measured_rate(run, panel);
        table.row([
            panel.case.clone(),
            best_size(panel, |sizes| sizes.buffer_bytes),
            best_size(panel, |sizes| sizes.pipe_bytes),
            number(rate.map(|rate| rate.median)),
            rate.map_or_else(String::new, |rate| interval(rate.interval)),
            ratio_to_published(run, panel),
            SizesOutcome::new(run, panel).name().to_owned(),
        ]);
    }
    for (case, why) in not_run(run) {
        table.row_with_text([case], Cell::painted(why.to_string(), YELLOW));
    }
    table
}

/// Cases that were not run, and why.
fn not_run(run: &Run) -> impl Iterator<Item = (&str, &NotRun)> {
    let cases = run.cases.iter();
    cases.filter_map(|case| Some((&*case.name, case.not_run.as_ref()?)))
}

/// Why sizes are not recommended, though their verdict would allow it.
const UNCERTAIN: &str = "the rate is too uncertain for a recommendation: use more --time or a \
                        quieter machine.";

/// The best case for a kind of reader, in words.
fn sentence(run: &Run, panel: &PanelResult) -> String {
    let configuration = &panel.configuration;
    let reader = if configuration.pipe_reader() == Some(PipeReader::Splice) {
        "splices"
    } else {
        "reads"
    };
    let ends = if configuration.wait == Some(Waiting::Spin) {
        "both ends spin"
    } else {
        "the ends sleep"
    };
    let sizes = format!(
        "{} buffers, a pipe of {}",
        best_size(panel, |sizes| sizes.buffer_bytes),
        best_size(panel, |sizes| sizes.pipe_bytes)
    );
    let mut line = format!(
        "Fastest found if the reader {reader} and {ends}: {}, {}, {sizes}",
        technique(panel),
        place(panel)
    );
    if let Some(rate) = measured_rate(run, panel) {
        line += &format!("; {}", gib_per_s(&rate));
    }
    let ratio = ratio_to_published(run, panel);
    line += &match SizesOutcome::new(run, panel) {
        SizesOutcome::Published if is_uncertain(run, panel) => {
            format!(". These are the published sizes, but {UNCERTAIN}")
        }
        SizesOutcome::Published => ". These are the published sizes.".to_owned(),
        SizesOutcome::Confirmed if is_uncertain(run, panel) => {
            format!(", {ratio} faster than the published sizes there, but {UNCERTAIN}")
        }
        SizesOutcome::Confirmed => {
            format!(", {ratio} faster than the published sizes there. Confirmed.")
        }
        SizesOutcome::Unconfirmed(verdict) => format!(
            ". Not confirmed: {ratio} against the published sizes there, {}.",
            verdict.name()
        ),
        SizesOutcome::NoRounds => ". Not confirmed: there were no rounds.".to_owned(),
    };
    line
}

/// The techniques of a panel's ends: `vmsplice and read`.
pub(super) fn technique(panel: &PanelResult) -> String {
    let words = panel.configuration.words();
    let [writer, reader] = [words.writer, words.reader].map(Option::unwrap_or_default);
    format!("{writer} and {reader}")
}

/// The placement of a panel's ends.
pub(super) fn place(panel: &PanelResult) -> &'static str {
    let configuration = &panel.configuration;
    match (configuration.writer_cpu, configuration.reader_cpu) {
        (Some(writer), Some(reader)) if writer == reader => "on one processor",
        (Some(_), Some(_)) => "on two processors",
        _ => "wherever the scheduler puts them",
    }
}

/// The best case for each kind of reader, with its command if it is recommended.
pub(super) fn findings(run: &Run) -> Vec<Conclusion> {
    let best = run
        .search
        .iter()
        .flat_map(|search| best_of_kinds(run, search));
    let best = best.map(|panel| Conclusion {
        sentence: sentence(run, panel),
        command: panel
            .best
            .as_ref()
            .and_then(|best| best.command.clone())
            .filter(|_| is_recommended(run, panel)),
    });
    let mut findings: Vec<Conclusion> = best.collect();
    if findings.is_empty() {
        let line = "The search was not completed: the sizes shown are the fastest so far, from few \
                    trials, and not confirmed.";
        findings.push(line.to_owned().into());
    }
    findings
}

/// How the search and the rounds were made.
pub(super) fn method(run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    if run.settings.rounds_done > 0 {
        notes = conditions::method(run);
    }
    let Some(search) = &run.search else {
        return notes;
    };
    let cells = search.panels.iter().flat_map(|panel| &panel.cells);
    let tried = cells.filter(|cell| cell.median.is_some()).count();
    notes.extend(missing_pairs(search));
    notes.push(format!(
        "Searched: {} of sizes of {} in random order, then the best {FINALISTS} of each case again, \
         of which the highest median is taken; {} of {} ms, {} of them disturbed; {} s in all.",
        pluralize(tried, "pair"),
        pluralize(search.panels.len(), "case"),
        pluralize(search.trials(), "trial"),
        fixed(search.timed_s * 1e3, 0),
        search.flagged,
        fixed(search.took_s, 0),
    ));
    notes
}

/// A note on the pairs of sizes for which a search had no time, if there are any.
pub(super) fn missing_pairs(search: &Search) -> Option<String> {
    let cells = search.panels.iter().flat_map(|panel| &panel.cells);
    let missing = cells.filter(|cell| cell.median.is_none() && cell.not_run.is_none());
    let missing = missing.count();
    (missing > 0).then(|| {
        format!(
            "There was no time for {}, so better sizes may have been missed; use more --time or a \
             quieter machine.",
            pluralize(missing, "pair")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shown;
    use pipespeed_measure::fixtures;
    use pipespeed_testing::{fits, says};

    #[test]
    fn a_completed_search_is_shown() {
        insta::assert_snapshot!(shown(&fixtures::sizes(), 100));
    }

    #[test]
    fn a_narrow_terminal_keeps_sizes_rates_and_results() {
        let text = shown(&fixtures::sizes(), 80);
        let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        fits(&rows.join("\n"), 80);
        for word in ["vmsplice_splice_huge_same ", "256KiB", "confirmed"] {
            assert!(rows.iter().any(|line| line.contains(word)), "{text}");
        }
    }

    #[test]
    fn only_confirmed_sizes_have_a_command_line_to_paste() {
        let mut run = fixtures::sizes();
        let panel = run.search.as_ref().unwrap().panels[8].clone();
        let name = panel.best.as_ref().unwrap().case.clone();
        let command = "--read-with-splice --busy-loop";
        for (found, low, high, result, end) in [
            (Verdict::Faster, 1.2, 1.3, "confirmed", "Confirmed."),
            (
                Verdict::Undecided,
                0.9,
                1.2,
                "undecided",
                "there, undecided.",
            ),
            (Verdict::Same, 0.99, 1.01, "same", "there, same."),
            (Verdict::Slower, 0.7, 0.8, "slower", "there, slower."),
        ] {
            let case = run.cases.iter_mut().find(|case| case.name == name).unwrap();
            let ratio = case.ratio.as_mut().unwrap();
            ratio.verdict = found;
            ratio.estimate = fixtures::estimate(low, ratio.estimate.median, high);
            assert_eq!(SizesOutcome::new(&run, &panel).name(), result);
            assert!(sentence(&run, &panel).ends_with(end));
            let text = shown(&run, 1000);
            assert_eq!(text.contains(command), found == Verdict::Faster, "{text}");
        }
    }

    #[test]
    fn uncertain_rates_have_no_command_line_to_paste() {
        let mut run = fixtures::sizes();
        let panel = run.search.as_ref().unwrap().panels[8].clone();
        let name = panel.best.as_ref().unwrap().case.clone();
        let command = panel.best.as_ref().unwrap().command.clone().unwrap();
        let reader = command.split(" | ").nth(1).unwrap();
        assert!(shown(&run, 1000).contains(reader));
        let case = run.cases.iter_mut().find(|case| case.name == name).unwrap();
        case.summary.as_mut().unwrap().gib_per_s = fixtures::estimate(0.01, 22.7, 46.4);
        for published in [false, true] {
            let mut panel = panel.clone();
            if published {
                panel.best.as_mut().unwrap().sizes = panel.published();
            }
            run.search.as_mut().unwrap().panels[8] = panel.clone();
            let line = sentence(&run, &panel);
            assert!(line.starts_with("Fastest found if the reader"), "{line}");
            says(&line, &["too uncertain for a recommendation"]);
            assert!(!shown(&run, 1000).contains(reader), "{line}");
        }
    }

    #[test]
    fn an_interrupted_search_shows_the_fastest_sizes_so_far() {
        use pipespeed_measure::search::fake::{Fake, plan, whole_run};
        let runner = Fake {
            signal_at: Some(300),
            ..Fake::default()
        };
        let (run, _) = whole_run(fixtures::ladder(), &plan(60.0), runner);
        let text = shown(&run, 100);
        says(
            &text,
            &[
                "interrupted: SIGINT",
                "not completed",
                "no time for",
                "not confirmed",
            ],
        );
        assert!(!text.contains("Fastest found if"), "{text}");
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let text = shown(&fixtures::sizes(), 60);
        let mut lines = text
            .lines()
            .skip_while(|line| !line.contains("pipespeed write"));
        assert!(lines.next().unwrap().ends_with(" |"));
        assert!(lines.next().unwrap().contains("pipespeed read"));
    }
}
