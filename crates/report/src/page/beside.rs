//! Records of another machine beside those of the page.

use itertools::Itertools as _;
use maud::{Markup, html};
use pipespeed_base::{Named as _, size};
use pipespeed_measure::comparison::{self, ComparedCase, Comparison};
use pipespeed_measure::record::{CaseResult, Run};
use pipespeed_measure::spec::Suite;
use pipespeed_measure::suite::touched::BEST;
use pipespeed_stats::Estimate;

use super::practice::best_write;
use super::records::Records;
use super::{Section, alarms, named_table};
use crate::cases::not_measured;
use crate::compared;
use crate::format::{interval, ratio_interval, significant, times};
use crate::steps::measured;
use crate::table::{Column, Table};

/// Both machines, the most important figures, and every case of the suites that both have.
pub(super) fn section(here: &Records, there: &Records) -> Section {
    let suites = Suite::VALUES.iter();
    let both = suites.filter_map(|suite| Some((here.run(*suite)?, there.run(*suite)?)));
    let both: Vec<(&Run, &Run)> = both.collect();
    Section {
        id: "beside",
        title: "Beside another machine",
        body: html! {
            p {
                "The rest of this page is about this machine alone. The two were measured at \
                different times, so ratios are unpaired: medians of one against medians of the \
                other. Faster and slower mean a whole interval beyond five percent."
            }
            (alarms(there))
            (named_table("", "both machines", &overview(here, there)))
            @if both.is_empty() { p { "No suite was measured on both machines." } }
            @for (run, other) in both { (suite(run, other)) }
        },
    }
}

/// The machines, and the figures that the page begins with.
fn overview(here: &Records, there: &Records) -> Table {
    let mut table = Table::new([
        Column::left(""),
        Column::left("this machine"),
        Column::left("the other machine"),
    ]);
    let mut row = |name: &str, of: &dyn Fn(&Records) -> Option<String>| {
        let both = [of(here), of(there)];
        if both.iter().any(Option::is_some) {
            let cells = both.map(|cell| cell.unwrap_or_else(|| "not among the records".to_owned()));
            table.row(std::iter::once(name.to_owned()).chain(cells));
        }
    };
    row("machine and kernel", &|records| {
        Some(records.machines().join("; "))
    });
    row("guest of", &|records| {
        let virtualisation = &records.all().next()?.header().machine.virtualisation;
        Some(
            virtualisation
                .hypervisor
                .clone()
                .unwrap_or_else(|| "-".to_owned()),
        )
    });
    let rates = [
        ("a plain pipe, GiB/s", Suite::Ladder, "write_read"),
        (
            "all published steps, GiB/s",
            Suite::Ladder,
            "busy_loop_huge",
        ),
        ("best plain write, data used, GiB/s", Suite::Touched, BEST),
        (
            "fastpipe's Writer, data used, GiB/s",
            Suite::Touched,
            "fastpipe_auto",
        ),
    ];
    for (name, suite, case) in rates {
        row(name, &|records| rate(records.run(suite)?, case));
    }
    row("sizes of the best plain write", &|records| {
        let sizes = best_write(records.run(Suite::Touched)?)?;
        let bytes = |bytes: usize| size::format(bytes as u64);
        let (buffer, pipe) = (bytes(sizes.buffer_bytes), bytes(sizes.pipe_bytes));
        Some(format!("{buffer} pieces, pipe of {pipe}"))
    });
    row("writing a page, ns", &|records| {
        Some(with_interval(&records.costs()?.write.estimate?))
    });
    row("waking a process on another processor, ns", &|records| {
        Some(with_interval(&records.costs()?.wake_up_other.estimate?))
    });
    let round_trips = here
        .latency(false)
        .filter(|_| there.latency(false).is_some())
        .map_or(&[][..], |record| record.cases.as_slice());
    for case in round_trips {
        let name = format!("half of the round trips, {}, us", case.name());
        row(&name, &|records| {
            let mut cases = records.latency(false)?.cases.iter();
            let found =
                cases.find(|other| (other.channel, other.size) == (case.channel, case.size))?;
            Some(with_interval(&found.summary?.p50_us))
        });
    }
    table
}

fn with_interval(estimate: &Estimate) -> String {
    let (median, ends) = (significant(estimate.median), interval(estimate.interval));
    format!("{median} {ends}").trim_end().to_owned()
}

fn rate(run: &Run, name: &str) -> Option<String> {
    let case = run.cases.iter().find(|case| case.name == name)?;
    Some(rate_of(case))
}

/// The rate of a case, or why there is none.
fn rate_of(case: &CaseResult) -> String {
    match measured(case) {
        Some((_, rate)) => with_interval(rate),
        None => not_measured(case.not_run.as_ref()),
    }
}

/// Every case of a suite on both machines.
fn suite(run: &Run, other: &Run) -> Markup {
    let compared = comparison::compare("this machine", run, "the other machine", other);
    let mut table = Table::new([
        Column::left("case"),
        Column::left("this machine\nGiB/s"),
        Column::left("the other machine\nGiB/s"),
        Column::right("ratio"),
        Column::left("interval"),
        Column::left("the other one is"),
    ]);
    for case in &compared.cases {
        let of = |run: &Run| rate(run, &case.name).unwrap_or_else(|| "not measured".to_owned());
        let cells = [case.name.clone(), of(run), of(other)];
        table.row(cells.into_iter().chain(verdict(&compared, case)));
    }
    let differences = compared.differences.iter();
    let differences = differences.filter(|difference| difference.what != "pipespeed");
    let settings = differences.map(|difference| {
        format!(
            "{}: {} and {}",
            difference.what, difference.old, difference.new
        )
    });
    let settings: Vec<String> = settings.collect();
    let name = run.suite.name();
    html! {
        h3 { "The suite " (name) }
        @if !compared.incomparable.is_empty() {
            p.alarm { "The runs can't be compared well: " (compared.incomparable.iter().join("; ")) "." }
        }
        (named_table("", &format!("the suite {name} on both machines"), &table))
        @if !settings.is_empty() {
            details {
                summary { "What else differs" }
                ul { @for line in &settings { li { (line) } } }
            }
        }
    }
}

/// The ratio of a case, its interval and its verdict.
fn verdict(comparison: &Comparison, case: &ComparedCase) -> [String; 3] {
    match &case.ratio {
        Some(ratio) => [
            times(ratio.estimate.median),
            ratio_interval(ratio.estimate.interval),
            compared::verdict(comparison, ratio),
        ],
        None => ["-".to_owned(), String::new(), "not compared".to_owned()],
    }
}
