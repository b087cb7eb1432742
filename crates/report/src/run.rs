//! A run of a suite, as text and as a chart. No other module of this crate depends on a run's suite.

use pipespeed_measure::record::Run;
use pipespeed_measure::spec::Suite;

use super::cases::{bar_chart, cases, comparisons};
use super::chart::svg::WIDE;
use super::conditions::{self, null_control};
use super::findings::of_steps;
use super::notes::{Note, notes};
use super::style::Style;
use super::{changes, channels, memory, published, sizes, touched};

/// The run as text: its tables, its findings, and notes.
pub fn table(run: &Run, style: Style) -> String {
    let contents = view(run);
    let mut blocks = (contents.blocks)(run, style);
    // A saved record contains its findings; that of a run in progress does not.
    let found = match run.findings.as_slice() {
        _ if contents.blocks_have_findings => Vec::new(),
        [] => findings(run),
        found => found.to_vec(),
    };
    let found: Vec<String> = found.iter().map(|text| style.sentence(text)).collect();
    blocks.push(found.join("\n"));
    let interrupted = run.interrupted.iter();
    let mut all: Vec<Note> = interrupted
        .map(|reason| Note::Alarm(format!("interrupted: {reason}")))
        .chain(Note::warnings(&run.warnings))
        .collect();
    all.extend(run.null_control.as_ref().and_then(null_control));
    all.extend((contents.method)(run).into_iter().map(Note::Method));
    blocks.push(notes(all, style));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

/// The chart of a run, as SVG.
pub fn chart(run: &Run) -> String {
    chart_of_width(run, WIDE)
}

/// The same on a card of this width.
pub(super) fn chart_of_width(run: &Run, width: i32) -> String {
    (view(run).chart)(run, width)
}

/// The conclusions of a run, which depend on its suite; none without comparisons.
pub fn findings(run: &Run) -> Vec<String> {
    (view(run).findings)(run)
}

/// The contents of the report on a suite.
struct SuiteView {
    /// The tables with their texts.
    blocks: fn(&Run, Style) -> Vec<String>,
    /// The conclusions.
    findings: fn(&Run) -> Vec<String>,
    /// Whether the blocks contain the findings.
    blocks_have_findings: bool,
    /// Notes on the method, the most important first.
    method: fn(&Run) -> Vec<String>,
    /// The chart of this width, as SVG.
    chart: fn(&Run, i32) -> String,
}

/// A row and a bar for each case, and the comparisons.
const OF_CASES: SuiteView = SuiteView {
    blocks: |run, style| vec![cases(run, &run.cases, style), comparisons(run, style)],
    findings: of_steps,
    blocks_have_findings: false,
    method: conditions::method,
    chart: |run, width| bar_chart(run, Vec::new(), width),
};

fn view(run: &Run) -> SuiteView {
    match run.suite {
        Suite::Ladder | Suite::Pages => OF_CASES,
        Suite::Touched => SuiteView {
            blocks: touched::blocks,
            findings: touched::findings,
            method: touched::method,
            chart: |run, width| bar_chart(run, touched::remarks(run), width),
            ..OF_CASES
        },
        Suite::Options => SuiteView {
            findings: published::options,
            ..OF_CASES
        },
        Suite::Volumes => SuiteView {
            findings: published::volumes,
            ..OF_CASES
        },
        Suite::Changes => SuiteView {
            blocks: |run, style| vec![cases(run, &run.cases, style), changes::ranking(run, style)],
            findings: changes::findings,
            chart: |run, width| bar_chart(run, changes::remarks(run), width),
            ..OF_CASES
        },
        Suite::Channels => SuiteView {
            blocks: channels::blocks,
            findings: channels::findings,
            method: channels::method,
            chart: channels::chart,
            ..OF_CASES
        },
        Suite::Memory => SuiteView {
            blocks: memory::blocks,
            findings: memory::findings,
            method: memory::method,
            chart: memory::chart,
            ..OF_CASES
        },
        // An interrupted run may have no search yet.
        Suite::Sizes if run.search.is_none() => OF_CASES,
        Suite::Sizes => SuiteView {
            blocks: sizes::blocks,
            findings: sizes::findings,
            blocks_have_findings: true,
            method: sizes::method,
            chart: |run, width| {
                let search = run.search.as_ref();
                search.map_or_else(String::new, |search| sizes::heat::chart(run, search, width))
            },
        },
    }
}

#[cfg(test)]
mod tests;
