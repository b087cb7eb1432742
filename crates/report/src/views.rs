//! The contents of reports by suite. No other module of this crate depends on a run's
//! suite.

use pipespeed_measure::record::Run;
use pipespeed_measure::suite::Suite;

use super::conditions;
use super::findings::of_steps;
use super::run::{bar_chart, cases, comparisons};
use super::style::Style;
use super::{changes, channels, memory, published, sizes, touched};

/// The contents of the report on a suite.
pub(super) struct View {
    /// The tables with their texts.
    pub blocks: fn(&Run, Style) -> Vec<String>,
    /// The conclusions.
    pub findings: fn(&Run) -> Vec<String>,
    /// Whether the blocks contain the findings.
    pub blocks_have_findings: bool,
    /// Notes on the method, the most important first.
    pub method: fn(&Run) -> Vec<String>,
    /// The chart of this width, as SVG.
    pub chart: fn(&Run, i32) -> String,
}

/// A row and a bar for each case, and the comparisons.
const OF_CASES: View = View {
    blocks: |run, style| vec![cases(run, &run.cases, style), comparisons(run, style)],
    findings: of_steps,
    blocks_have_findings: false,
    method: conditions::method,
    chart: |run, width| bar_chart(run, Vec::new(), width),
};

/// The view of a run's suite.
pub(super) fn of(run: &Run) -> View {
    match run.suite {
        Suite::Ladder | Suite::Pages => OF_CASES,
        Suite::Touched => View {
            blocks: touched::blocks,
            findings: touched::findings,
            method: touched::method,
            chart: |run, width| bar_chart(run, touched::remarks(run), width),
            ..OF_CASES
        },
        Suite::Options => View {
            findings: published::options,
            ..OF_CASES
        },
        Suite::Volumes => View {
            findings: published::volumes,
            ..OF_CASES
        },
        Suite::Changes => View {
            blocks: |run, style| vec![cases(run, &run.cases, style), changes::ranking(run, style)],
            findings: changes::findings,
            chart: |run, width| bar_chart(run, changes::remarks(run), width),
            ..OF_CASES
        },
        Suite::Channels => View {
            blocks: channels::blocks,
            findings: channels::findings,
            method: channels::method,
            chart: channels::chart,
            ..OF_CASES
        },
        Suite::Memory => View {
            blocks: memory::blocks,
            findings: memory::findings,
            method: memory::method,
            chart: memory::chart,
            ..OF_CASES
        },
        // An interrupted run may have no search yet.
        Suite::Sizes if run.search.is_none() => OF_CASES,
        Suite::Sizes => View {
            blocks: sizes::blocks,
            findings: sizes::findings,
            blocks_have_findings: true,
            method: sizes::method,
            chart: sizes::chart,
        },
    }
}
