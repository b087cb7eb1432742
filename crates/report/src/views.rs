//! What the reports show of each suite: the only place that asks for a run's
//! suite.

use pipespeed_measure::record::Run;
use pipespeed_measure::suite::Suite;

use super::chart::{bar_chart, channel_chart, memory_chart, size_maps};
use super::comparisons::comparisons;
use super::findings::of_steps;
use super::measured::measured;
use super::style::Style;
use super::table::cases;
use super::{changes, channels, memory, options, sizes, volumes};

/// What is shown of the runs of a suite.
pub(super) struct View {
    /// The tables, and what stands with them.
    pub blocks: fn(&Run, Style) -> Vec<String>,
    /// Sentences on what was found; the number is [`super::findings::doubt`].
    pub findings: fn(&Run, f64) -> Vec<String>,
    /// Whether the blocks have the findings already.
    pub findings_are_in_blocks: bool,
    /// How it was measured.
    pub method: fn(&Run) -> String,
    /// The chart, as SVG.
    pub chart: fn(&Run) -> String,
}

/// A row and a bar a case, and what each case changed.
const OF_CASES: View = View {
    blocks: |run, style| vec![cases(run, style), comparisons(run, style)],
    findings: of_steps,
    findings_are_in_blocks: false,
    method: measured,
    chart: |run| bar_chart(run, Vec::new()),
};

/// The view of a suite.
pub(super) fn of(suite: Suite) -> View {
    match suite {
        Suite::Ladder | Suite::Touched => OF_CASES,
        Suite::Options => View {
            findings: options::findings,
            ..OF_CASES
        },
        Suite::Volumes => View {
            findings: volumes::findings,
            ..OF_CASES
        },
        Suite::Changes => View {
            blocks: |run, style| vec![cases(run, style), changes::ranking(run, style)],
            findings: changes::findings,
            chart: |run| bar_chart(run, changes::remarks(run)),
            ..OF_CASES
        },
        Suite::Channels => View {
            blocks: channels::blocks,
            findings: |run, _| channels::findings(run),
            chart: channel_chart,
            ..OF_CASES
        },
        Suite::Memory => View {
            blocks: memory::blocks,
            findings: memory::findings,
            chart: memory_chart,
            ..OF_CASES
        },
        // A record that lacks the search shows its cases.
        Suite::Sizes => View {
            blocks: |run, style| match &run.search {
                Some(search) => sizes::blocks(run, search, style),
                None => (OF_CASES.blocks)(run, style),
            },
            findings: |run, doubt| match &run.search {
                Some(search) => sizes::findings(run, search),
                None => of_steps(run, doubt),
            },
            findings_are_in_blocks: true,
            method: |run| match &run.search {
                Some(search) => sizes::method(run, search),
                None => measured(run),
            },
            chart: |run| match &run.search {
                Some(search) => size_maps(run, search),
                None => (OF_CASES.chart)(run),
            },
        },
    }
}
