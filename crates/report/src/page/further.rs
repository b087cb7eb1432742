//! What else was measured: round trips, side experiments, and tested statements about pipes.

use itertools::Itertools as _;
use maud::{Markup, html};
use pipespeed_base::Named as _;
use pipespeed_explain::check::{CheckRecord, CheckVerdict, Checked};
use pipespeed_measure::latency::record::LatencyRecord;
use pipespeed_measure::latency::spec::Naive;
use pipespeed_measure::record::{CaseResult, Run};
use pipespeed_measure::spec::Suite;

use super::claim::{ClaimBasis, ClaimSentence, Found};
use super::figure::{bytes, count, us, us_of};
use super::records::Records;
use super::{Section, chart, claims, details, missing, table_of_names};
use crate::cases::{table_of_cases, table_of_comparisons};
use crate::format::grouped;
use crate::published::{statements, trend_within};
use crate::run::chart_of_width;
use crate::steps::cases_without_twin;
use crate::{checks, latency, memory};

/// The sections on them.
pub(super) fn sections(records: &Records) -> Vec<Section> {
    vec![
        Section {
            id: "latency",
            title: "Round trips, and a deadlock",
            body: round_trips(records),
        },
        Section {
            id: "further",
            title: "Side experiments",
            body: further(records),
        },
        Section {
            id: "promises",
            title: "What pipes promise",
            body: match records.check() {
                Some(record) => promises(record),
                None => missing(
                    "the tested statements about pipes",
                    "check --json check.json",
                ),
            },
        },
    ]
}

fn round_trips(records: &Records) -> Markup {
    html! {
        p {
            "A rate tells nothing about how long one message takes. Here a process sends a message \
            and another one sends it back; the times are those of both ways together."
        }
        @match records.latency(false) {
            Some(record) => (times(record)),
            None => (missing(
                "round trips", "latency pipe socketpair ring --size 64,64K --json latency.json",
            )),
        }
        @match records.latency(true) {
            Some(record) => (deadlocks(record)),
            None => (missing(
                "the deadlock of messages that are larger than the pipe",
                "latency pipe --size 65537,128K --naive --json deadlock.json",
            )),
        }
    }
}

fn times(record: &LatencyRecord) -> Markup {
    let measured = record
        .cases
        .iter()
        .filter_map(|case| Some((case, case.summary?)));
    let channels = grouped(measured.map(|measured| (measured.0.channel, measured)));
    html! {
        p {
            "Half of the round trips take at most the first time, and all but one in a hundred at \
            most the second one:"
        }
        ul {
            @for (channel, cases) in channels {
                li {
                    (channel.name()) ": "
                    @for (at, (case, summary)) in cases.iter().enumerate() {
                        @if at > 0 { "; " }
                        (bytes(case.size)) " in " (us_of(&summary.p50_us)) " and "
                        (us(summary.p99_us.median))
                    }
                }
            }
        }
        (chart(
            |width| latency::latency_chart_of_width(record, width),
            "How long round trips take; to the right the slowest ones.",
            &[("Times in microseconds.", latency::table(record))],
        ))
    }
}

fn deadlocks(record: &LatencyRecord) -> Markup {
    let explained = record
        .cases
        .iter()
        .filter_map(|case| Some((case, case.explain_deadlock()?)));
    // The first of each kind of exchange; the table has all.
    let explained: Vec<_> = explained
        .unique_by(|(case, _)| case.naive().map(Naive::name))
        .collect();
    let exchange = |naive| match naive {
        Some(Naive::ShortReads) => "one read(2) taken for the whole message",
        _ => "both sides writing first",
    };
    html! {
        h3 { "The deadlock" }
        p {
            "If a process takes what one read(2) returns for the whole message, or if both sides \
            write before they read, messages above the capacity of the pipe end in a deadlock: each \
            side sleeps in its write until the other one reads."
        }
        @if explained.is_empty() { p { "In this run there was no deadlock." } }
        @for (case, how) in explained {
            p {
                "Messages of " (bytes(case.size)) " over " (case.channel.name()) ", "
                (exchange(case.naive())) ": " q { (how) }
            }
        }
        (details("All exchanges", "exchanges that can deadlock", &[("", latency::table(record))]))
    }
}

/// Statements that matter to most programs.
const IMPORTANT: [&str; 7] = [
    "default-capacity",
    "largest-capacity",
    "user-page-limits",
    "atomic-writes",
    "short-read",
    "end-of-file-child",
    "outlives-drain",
];

/// A verdict before its statement.
fn word(verdict: CheckVerdict) -> &'static str {
    match verdict {
        CheckVerdict::Pass => "holds",
        CheckVerdict::Seen => "here",
        CheckVerdict::Fail | CheckVerdict::Refused | CheckVerdict::Error => verdict.mark(),
    }
}

fn promises(record: &CheckRecord) -> Markup {
    let of = |verdict| record.summary.count(verdict);
    let (refused, errors) = (of(CheckVerdict::Refused), of(CheckVerdict::Error));
    let mut shown: Vec<&Checked> = record.checks.iter().collect();
    shown.retain(|checked| match checked.outcome.verdict {
        CheckVerdict::Fail | CheckVerdict::Error | CheckVerdict::Refused => true,
        CheckVerdict::Pass | CheckVerdict::Seen => IMPORTANT.contains(&&*checked.name),
    });
    html! {
        p {
            (count(record.summary.checks)) " statements about pipes were tested on this system: "
            (count(of(CheckVerdict::Pass))) " hold, " (count(of(CheckVerdict::Fail))) " failed, and "
            (count(of(CheckVerdict::Seen))) " record how this system behaves"
            @if refused > 0 { "; " (count(refused)) " refused here" }
            @if errors > 0 { "; " (count(errors)) " not testable" }
            ". Those that matter to most programs, and any that failed or were refused:"
        }
        ul {
            @for checked in shown {
                li {
                    strong { (word(checked.outcome.verdict)) } ": " (checked.statement) ": "
                    (checked.outcome.seen)
                }
            }
        }
        (details("All statements", "statements about pipes", &[("", checks::table(record))]))
    }
}

/// Runs of other suites, each with what it found.
fn further(records: &Records) -> Markup {
    let suites = [Suite::Options, Suite::Pages, Suite::Volumes, Suite::Memory];
    let runs: Vec<&Run> = suites
        .iter()
        .filter_map(|suite| records.run(*suite))
        .collect();
    html! {
        @if records.run(Suite::Options).is_none() {
            (missing(
                "the published side experiments (untouched, gifted, locked and shared buffers, poll)",
                "bench options --json options.json",
            ))
        }
        @for run in runs {
            h3 { "The suite " (run.suite.name()) ": " (run.suite.about()) }
            (side_experiment(run))
            (chart(
                |width| chart_of_width(run, width),
                &format!("The suite {}.", run.suite),
                &[
                    ("Rates, processor time and context switches.",
                     table_of_cases(run, &run.cases)),
                    ("Each case against the one that differs in one factor.",
                     table_of_comparisons(run)),
                    ("What the names mean.", table_of_names(run)),
                ],
            ))
        }
    }
}

/// The claims on a run, those on refused cases folded, and what else it found.
fn side_experiment(run: &Run) -> Markup {
    let found = if run.suite == Suite::Options {
        on_options(run)
    } else {
        let cases = cases_without_twin(run);
        cases.map(|case| side_claim(run, case)).collect()
    };
    let found = found.into_iter().flatten();
    let (refused, decided): (Vec<ClaimSentence>, Vec<ClaimSentence>) =
        found.partition(|claim| claim.outcome == ClaimBasis::Refused);
    let further = match run.suite {
        Suite::Volumes => trend_within(run).into_iter().collect(),
        Suite::Memory => memory::of_memory(run),
        _ => Vec::new(),
    };
    html! {
        (claims(decided.into_iter().map(Some)))
        @for sentence in further { p { (sentence) } }
        @if !refused.is_empty() {
            details {
                summary { "Not measured here (" (refused.len()) ")" }
                (claims(refused.into_iter().map(Some)))
            }
        }
    }
}

/// The claims on the published options, and on the others.
fn on_options(run: &Run) -> Vec<Option<ClaimSentence>> {
    let name = |case: &CaseResult| format!("options-{}", case.name);
    let published = statements(run);
    let is_published = |case: &&CaseResult| {
        published
            .iter()
            .any(|statement| statement.step.case.name == case.name)
    };
    let others = cases_without_twin(run).filter(|case| !is_published(case));
    let others = others.map(|case| side_claim(run, case));
    let published = published.iter().map(|statement| {
        let case = statement.step.case;
        Some(Found::new(run, &case.name)?.claim_on(name(case), statement))
    });
    published.chain(others).collect()
}

/// A volume in bytes.
fn whole(volume: u64) -> Markup {
    html! { (bytes(usize::try_from(volume).unwrap_or(usize::MAX))) }
}

/// The claim on a case of a side experiment.
fn side_claim(run: &Run, case: &CaseResult) -> Option<ClaimSentence> {
    let found = Found::new(run, &case.name)?;
    let (factor, base) = (case.factor.as_deref()?, found.base?);
    let volume = |case: &CaseResult| case.configuration.volume_bytes;
    let change = match volume(case).zip(volume(base)) {
        Some((volume, of_base)) => {
            html! { (whole(volume)) " transferred instead of " (whole(of_base)) }
        }
        None => html! {
            em { (factor) } " (" code { (case.name) } ", not " code { (base.name) } ")"
        },
    };
    Some(found.claim(format!("{}-{}", run.suite.name(), case.name), change))
}
