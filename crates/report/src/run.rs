//! A run of a suite, as text, as a chart and on a page. What a suite shows is chosen here alone.

use pipespeed_measure::record::Run;
use pipespeed_measure::spec::Suite;

use super::blocks::{Blocks, Conclusion, TableBlock};
use super::cases::{self, bar_chart};
use super::chart::svg::WIDE;
use super::conditions::{self, null_control};
use super::findings::of_steps;
use super::notes::{Note, notes};
use super::style::Style;
use super::{changes, channels, memory, published, sizes, touched};

/// The run as text: its tables, its findings, and notes.
pub fn table(run: &Run, style: Style) -> String {
    let view = view(run);
    let tables = (view.tables)(run).into_iter();
    let mut texts: Vec<String> = tables.map(|table| table.render(style)).collect();
    let findings = (view.findings)(run);
    // A command is easier to find between blank lines.
    let between = if findings.iter().any(|finding| finding.command.is_some()) {
        "\n\n"
    } else {
        "\n"
    };
    let findings = findings.iter().map(|finding| finding.render(style));
    texts.push(findings.collect::<Vec<_>>().join(between));
    let interrupted = run.interrupted.iter();
    let mut all: Vec<Note> = interrupted
        .map(|reason| Note::Alarm(format!("interrupted: {reason}")))
        .chain(Note::warnings(&run.warnings))
        .collect();
    all.extend(run.null_control.as_ref().and_then(null_control));
    all.extend((view.method)(run).into_iter().map(Note::Method));
    texts.push(notes(all, style));
    texts.retain(|text| !text.is_empty());
    texts.join("\n\n") + "\n"
}

/// The chart of a run, as SVG.
pub fn chart(run: &Run) -> String {
    (view(run).chart)(run, WIDE)
}

/// The conclusions of a run, which depend on its suite; none without comparisons.
pub fn findings(run: &Run) -> Vec<String> {
    let findings = (view(run).findings)(run).into_iter();
    findings.map(|finding| finding.sentence).collect()
}

/// The report on a run.
pub(super) fn blocks(run: &Run) -> Blocks<'_> {
    let view = view(run);
    Blocks {
        findings: (view.findings)(run),
        chart: Box::new(move |width| (view.chart)(run, width)),
        tables: (view.tables)(run),
    }
}

/// The contents of the report on a suite.
struct SuiteView {
    tables: fn(&Run) -> Vec<TableBlock>,
    /// The conclusions.
    findings: fn(&Run) -> Vec<Conclusion>,
    /// Notes on the method, the most important first.
    method: fn(&Run) -> Vec<String>,
    /// The chart of this width, as SVG.
    chart: fn(&Run, i32) -> String,
}

/// A row and a bar for each case, and the comparisons.
const OF_CASES: SuiteView = SuiteView {
    tables: cases::tables,
    findings: |run| of_sentences(of_steps(run)),
    method: conditions::method,
    chart: |run, width| bar_chart(run, Vec::new(), width),
};

fn of_sentences(sentences: Vec<String>) -> Vec<Conclusion> {
    sentences.into_iter().map(Conclusion::from).collect()
}

fn view(run: &Run) -> SuiteView {
    match run.suite {
        Suite::Pages => OF_CASES,
        Suite::Ladder => SuiteView {
            findings: |run| of_sentences([of_steps(run), published::findings(run)].concat()),
            ..OF_CASES
        },
        Suite::Touched => SuiteView {
            findings: |run| of_sentences(touched::findings(run)),
            method: touched::method,
            chart: |run, width| bar_chart(run, touched::remarks(run), width),
            ..OF_CASES
        },
        Suite::Options => SuiteView {
            findings: |run| of_sentences(published::findings(run)),
            ..OF_CASES
        },
        Suite::Volumes => SuiteView {
            findings: |run| of_sentences(published::volumes(run)),
            ..OF_CASES
        },
        Suite::Changes => SuiteView {
            tables: changes::tables,
            findings: |run| of_sentences(changes::findings(run)),
            chart: |run, width| bar_chart(run, changes::remarks(run), width),
            ..OF_CASES
        },
        Suite::Channels => SuiteView {
            tables: channels::tables,
            findings: |run| of_sentences(channels::findings(run)),
            method: channels::method,
            chart: channels::chart,
        },
        Suite::Memory => SuiteView {
            tables: memory::tables,
            findings: |run| of_sentences(memory::findings(run)),
            method: memory::method,
            chart: memory::chart,
        },
        // An interrupted run may have no search yet.
        Suite::Sizes if run.search.is_none() => OF_CASES,
        Suite::Sizes => SuiteView {
            tables: sizes::tables,
            findings: sizes::findings,
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
