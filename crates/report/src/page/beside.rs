//! Records of another machine beside those of the page.

use maud::{Markup, html};
use pipespeed_base::Named as _;
use pipespeed_measure::comparison::compare;
use pipespeed_measure::record::Run;
use pipespeed_measure::spec::Suite;

use super::first::{alarms, origin};
use super::records::Records;
use super::section::{Section, figure, list};
use crate::compared;

/// The other machine, and the comparison of each suite that both have.
pub(super) fn section(here: &Records, there: &Records) -> Section {
    let suites = Suite::VALUES.iter();
    let both = suites.filter_map(|suite| Some((here.run(*suite)?, there.run(*suite)?)));
    let both: Vec<(&Run, &Run)> = both.collect();
    Section {
        id: "beside",
        title: "Beside another machine",
        body: html! {
            p {
                "The rest of this page is about one machine alone. Here the new figures are those of \
                another one, and the old figures those of this page, as "
                code { "pipespeed compare" } " shows them. " (compared::METHOD)
            }
            p.origin { "The other machine: " (origin(there)) }
            (alarms(there))
            @if both.is_empty() { p { "No suite was measured on both machines." } }
            @for (run, other) in both { (suite(run, other)) }
        },
    }
}

fn suite(run: &Run, other: &Run) -> Markup {
    let comparison = compare("this machine", run, "the other machine", other);
    let blocks = compared::blocks(&comparison);
    let name = format!("The suite {}", run.suite.name());
    html! {
        h3 { (name) }
        (list(&blocks.findings))
        (figure(&blocks, &format!("{name}: the other machine over this one.")))
    }
}
