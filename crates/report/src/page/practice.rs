//! What the published experiment left open, and what follows for programs.

use itertools::Itertools as _;
use maud::{Markup, html};
use pipespeed_base::Named;
use pipespeed_explain::check::{Record as CheckRecord, Verdict};
use pipespeed_measure::channel::transport::Transport;
use pipespeed_measure::endpoint::spec::Waiting;
use pipespeed_measure::latency::record::Record as LatencyRecord;
use pipespeed_measure::record::{CaseResult, PanelResult, Run, Sizes};
use pipespeed_measure::suite::Suite;
use pipespeed_measure::suite::touched::BEST;

use super::claim::{Claim, Found, Outcome};
use super::figure::{bytes, count, ms, ns_of, rate_of as rate_figure, us, us_of};
use super::records::Records;
use super::{Section, chart, claims, details, missing, rate_of};
use crate::changes::{instructions, is_safe, table_of_ranking};
use crate::channels::{self, RING_POLLS, channel, message, waiting};
use crate::findings::null_tolerance;
use crate::published::statements;
use crate::run::{chart_of_width, table_of_cases, table_of_comparisons};
use crate::sizes::{best_of_kinds, is_recommended, not_run, place, technique};
use crate::steps::{cases_without_twin, fastest, measured};
use crate::{checks, latency, sizes};

/// The sections after the published story.
pub(super) fn sections(records: &Records) -> Vec<Section> {
    let of = |suite: Suite, shown: fn(&Run) -> Markup, what: &str, command: &str| {
        let run = records.run(suite);
        run.map_or_else(|| missing(what, command), shown)
    };
    vec![
        Section {
            id: "used",
            title: "Is it true when the data is used?",
            body: of(
                Suite::Touched,
                used,
                "writers whose every byte is produced and used",
                "bench touched --json touched.json",
            ),
        },
        Section {
            id: "sleeping",
            title: "What does sleeping cost?",
            body: sleeping(records),
        },
        Section {
            id: "sizes",
            title: "Which sizes are best?",
            body: of(
                Suite::Sizes,
                best_sizes,
                "the fastest sizes of buffer and pipe",
                "bench sizes --json sizes.json",
            ),
        },
        Section {
            id: "channels",
            title: "Sockets, shared memory, TCP",
            body: of(
                Suite::Channels,
                other_channels,
                "other channels than pipes",
                "bench channels --json channels.json",
            ),
        },
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
        Section {
            id: "programs",
            title: "What it means for your programs",
            body: programs(records),
        },
    ]
}

/// The claim on a case, by its change.
fn claim(run: &Run, case: &str, name: &str, change: Markup) -> Option<Claim> {
    Some(Found::of(run, case)?.claim(name, change))
}

/// The most important results.
pub(super) fn in_short(records: &Records) -> Markup {
    let ladder = records.run(Suite::Ladder);
    let rate = |run: Option<&Run>, name| rate_of(run?, name);
    let touched = records.run(Suite::Touched);
    let choices = [
        touched.and_then(published_sizes),
        touched.and_then(auto),
        records.run(Suite::Changes).and_then(best_change),
        records.run(Suite::Channels).and_then(best_channel),
    ];
    let mut decided: Vec<Claim> = choices.into_iter().flatten().collect();
    let is_any = !decided.is_empty();
    decided.retain(|claim| !matches!(claim.outcome, Outcome::Undecided | Outcome::Refused));
    let is_open = is_any && decided.is_empty();
    html! {
        h2 id="short" { "In short" }
        @if let Some(plain) = rate(ladder, "write_read") {
            p { "A plain pipe, used as in the published experiment, moves " (plain) "." }
        }
        @if let Some(last) = rate(ladder, "busy_loop_huge") {
            p {
                "With all of the published steps it moves " (last)
                ", of data that nobody reads."
            }
        }
        @if let Some(best) = rate(touched, BEST) {
            p {
                "With every byte produced and used, a plain write in the best sizes found here moves "
                (best) "."
            }
        }
        (claims(decided.into_iter().map(Some)))
        @if is_open {
            p {
                "No comparison of the choices of a program came out faster, slower or the same. More \
                time or a quieter machine would narrow the intervals."
            }
        }
        p { a href="#programs" { "What to change in a program" } }
    }
}

/// The sizes of the best plain write of the suite touched.
pub(super) fn best_write(run: &Run) -> Option<Sizes> {
    Some(run.search.as_ref()?.panels.first()?.best.as_ref()?.sizes)
}

fn in_words(sizes: Sizes) -> Markup {
    html! { (bytes(sizes.buffer_bytes)) " pieces into a pipe of " (bytes(sizes.pipe_bytes)) }
}

fn published_sizes(run: &Run) -> Option<Claim> {
    let configuration = &run
        .cases
        .iter()
        .find(|case| case.name == "write_read")?
        .configuration;
    let sizes = Sizes {
        buffer_bytes: configuration.buffer_bytes,
        pipe_bytes: configuration
            .pipe_bytes
            .or(configuration.pipe_bytes_asked)?,
    };
    let change = html! {
        "the published sizes, " (in_words(sizes)) ", instead of the best ones found"
    };
    claim(run, "write_read", "published-sizes", change)
}

fn auto(run: &Run) -> Option<Claim> {
    let change = html! { "fastpipe's " code { "Writer" } " instead of the best plain write" };
    claim(run, "fastpipe_auto", "writer", change)
}

fn used(run: &Run) -> Markup {
    let instead = |what: &str| html! { (what) " instead of the best plain write" };
    let simple = |case, name, what| claim(run, case, name, instead(what));
    let ends = rate_of(run, "produce_alone").zip(rate_of(run, "consume_alone"));
    html! {
        p {
            "In the last published steps nobody reads the bytes. Here the writer produces every byte \
            anew and the reader sums every byte, as programs do that have a use for their data. \
            Everything is compared with a plain write(2), in the best sizes that a short search \
            found"
            @if let Some(sizes) = best_write(run) { ": " (in_words(sizes)) }
            "."
        }
        @if let Some(best) = rate_of(run, BEST) { p { "The best plain write moves " (best) "." } }
        (claims([
            published_sizes(run),
            simple("bufwriter_stdout_64k", "bufwriter", "a BufWriter on standard output"),
            auto(run),
            simple("fastpipe_fresh", "fresh", "a Writer that never writes to a page again"),
            simple(
                "fastpipe_cow_checked",
                "cow-checked",
                "a Writer that reuses a page once nobody holds it",
            ),
        ]))
        p {
            "The next two write to a page again once it has left the pipe. That is wrong if the \
            reader splices the pages onward, as cat, tee and pv may do: the next program then sees \
            the later bytes."
        }
        (claims([
            simple("vmsplice_read_huge", "vmsplice-by-hand", "vmsplice and huge pages by hand"),
            simple(
                "fastpipe_drained",
                "drained",
                "a Writer that reuses a page once it has left the pipe",
            ),
        ]))
        @if let Some((produce, consume)) = ends {
            p {
                "Without any channel, the writer alone produces " (produce)
                " and the reader alone uses " (consume) "."
                @if is_below_both_ends(run) {
                    " The slower of the two limits what any channel can do."
                }
            }
        }
        (chart(
            |width| chart_of_width(run, width),
            "Writers whose every byte is produced and used.",
            &[
                ("Rates, processor time and context switches of both ends.",
                 table_of_cases(run, &run.cases)),
                ("Each case against the best plain write.", table_of_comparisons(run)),
            ],
        ))
    }
}

/// Whether every channel is slower than either end alone. In a disturbed run it may not be.
fn is_below_both_ends(run: &Run) -> bool {
    let is_end = |case: &CaseResult| case.configuration.channel.is_none();
    let (ends, channels): (Vec<_>, Vec<_>) = run
        .cases
        .iter()
        .filter_map(measured)
        .partition(|(case, _)| is_end(case));
    let slower_end = ends
        .iter()
        .map(|it| it.1.median)
        .fold(f64::INFINITY, f64::min);
    channels.iter().all(|it| it.1.median <= slower_end)
}

fn sleeping(records: &Records) -> Markup {
    let costs = records.costs();
    let wake_ups =
        costs.and_then(|costs| Some((costs.wake_up_same.estimate?, costs.wake_up_other.estimate?)));
    html! {
        p {
            "A pipe's end sleeps when it can't go on. Whoever wakes it makes a call into the \
            scheduler, and the sleeper runs only some time later. A larger pipe, smaller pieces, one \
            processor for both ends, or spinning can each avoid some of that."
        }
        @if let Some((same, other)) = &wake_ups {
            p {
                "From the waking call until the sleeper runs, it takes " (ns_of(same))
                " on one processor and " (ns_of(other)) " from one processor to another."
            }
        }
        @match records.run(Suite::Changes) {
            Some(run) => {
                (claims(cases_without_twin(run).map(|case| change_claim(run, case))))
                (chart(
                    |width| chart_of_width(run, width),
                    "A typical pipe, and single changes to it.",
                    &[
                        ("Rates, processor time and context switches of both ends.",
                         table_of_cases(run, &run.cases)),
                        ("The changes, the largest certain gain first.", table_of_ranking(run)),
                    ],
                ))
            }
            None => (missing(
                "single changes to a typical pipe", "bench changes --json changes.json",
            )),
        }
    }
}

/// The claim on a change to the typical pipe.
fn change_claim(run: &Run, case: &CaseResult) -> Option<Claim> {
    let factor = case.factor.as_deref()?;
    let change = html! { em { (factor) } };
    claim(run, &case.name, &format!("change-{}", case.name), change)
}

/// The claim on the safe change with the largest certain gain.
fn best_change(run: &Run) -> Option<Claim> {
    let gained = instructions(run, null_tolerance(run));
    let (case, _) = gained.into_iter().find(|(case, _)| is_safe(case))?;
    let factor = case.factor.as_deref()?;
    let change = html! { em { (factor) } " as a change to a typical pipe" };
    claim(run, &case.name, &format!("change-{}", case.name), change)
}

fn best_sizes(run: &Run) -> Markup {
    let Some(search) = &run.search else {
        return html! { p { "The run was interrupted before its search." } };
    };
    html! {
        p {
            "The published experiment used buffers of 256 KiB, the second-level cache of its \
            processor, and said that other sizes change little. A search tried pairs of sizes \
            here; the best of them were then measured again beside the published ones."
        }
        @for panel in best_of_kinds(search) {
            @if let Some(claim) = size_claim(run, panel) { (claim) }
            (command(run, panel))
        }
        @for (case, why) in not_run(run) {
            p { code { (case) } " was not measured: " q { (why) } "." }
        }
        (chart(
            |width| chart_of_width(run, width),
            "Rates by the sizes of buffer and pipe: darker is faster on a light page, lighter on a \
             dark one.",
            &[("The best sizes of each case.", sizes::table(run, search))],
        ))
    }
}

/// The claim on the best sizes of a case against the published ones.
fn size_claim(run: &Run, panel: &PanelResult) -> Option<Claim> {
    let best = panel.best.as_ref()?;
    let name = format!("sizes-{}", panel.case);
    let ends = html! {
        " (" (technique(panel)) " " (place(panel))
        @if panel.configuration.wait == Some(Waiting::Spin) { ", spinning" }
        ")"
    };
    if best.sizes == panel.published() {
        let rate = rate_of(run, &best.case)?;
        return Some(Claim {
            name,
            outcome: Outcome::Same,
            sentence: html! {
                "The best sizes found" (ends) " are the same as the published ones: " (rate) "."
            },
        });
    }
    let change = html! {
        "buffers of " (bytes(best.sizes.buffer_bytes)) " and a pipe of "
        (bytes(best.sizes.pipe_bytes)) " instead of the published sizes" (ends)
    };
    claim(run, &best.case, &name, change)
}

/// The command line that uses the best sizes, if they are recommended.
fn command(run: &Run, panel: &PanelResult) -> Markup {
    let command = panel.best.as_ref().and_then(|best| best.command.as_deref());
    let command = command.filter(|_| is_recommended(run, panel));
    html! {
        @if let Some(command) = command {
            pre tabindex="0" { code { (command.replace(" | ", " |\n  ")) } }
        }
    }
}

fn other_channels(run: &Run) -> Markup {
    let ways = channels::WAYS.iter().filter_map(|(wait, heading)| {
        let cases: Vec<&CaseResult> = waiting(run, *wait).collect();
        (!cases.is_empty()).then(|| (*heading, channels::table(run, &cases)))
    });
    html! {
        p {
            "The same messages through other channels. A message is what one call of the writer \
            carries, and every byte is produced and used. For each size, this is the fastest channel \
            beside the pipe that is right for every reader and whose ends sleep while they wait."
        }
        (claims(channels::sizes(run).into_iter().map(|bytes| channel_claim(run, bytes))))
        p { "About rings: " (RING_POLLS) "." }
        (chart(
            |width| chart_of_width(run, width),
            "Rates by the size of the messages, with every byte produced and used.",
            &ways.collect::<Vec<_>>(),
        ))
    }
}

/// The fastest channel for messages of a size whose ends sleep, beside the one that all are
/// compared with. Vmspliced pages that are written again are wrong for some readers.
fn fastest_channel(run: &Run, bytes: usize) -> Option<&CaseResult> {
    let cases = waiting(run, Waiting::Block).filter(|case| message(case) == bytes);
    let is_safe =
        |case: &&CaseResult| Transport::of(&case.configuration) != Some(Transport::Vmsplice);
    let compared = cases
        .filter(|case| case.compared_with.is_some())
        .filter(is_safe);
    let all: Vec<&CaseResult> = compared.collect();
    let best = fastest(all.iter().filter_map(|case| measured(case)));
    best.map(|(case, _)| case).or(all.first().copied())
}

/// The claim on the fastest channel for messages of a size.
fn channel_claim(run: &Run, size: usize) -> Option<Claim> {
    let case = fastest_channel(run, size)?;
    let found = Found::of(run, &case.name)?;
    let change = html! {
        (channel(case)) " for messages of " (bytes(size))
        @if let Some(base) = found.base { " instead of " (channel(base)) }
    };
    Some(found.claim(format!("channel-{size}"), change))
}

/// The claim on the size of messages with the largest certain gain.
fn best_channel(run: &Run) -> Option<Claim> {
    let sizes = channels::sizes(run).into_iter();
    let gain = |size: &usize| {
        let found = fastest_channel(run, *size).and_then(|case| case.ratio);
        found.map_or(0.0, |ratio| ratio.estimate.ends().0)
    };
    let best = sizes.max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
    channel_claim(run, best)
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
    html! {
        ul {
            @for (case, summary) in measured {
                li {
                    (case.channel.name()) ", " (bytes(case.size)) ": half of the round trips take at \
                    most " (us_of(&summary.p50_us)) ", all but one in a hundred "
                    (us(summary.p99_us.median)) "."
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
        .unique_by(|(case, _)| case.naive().map(Named::name))
        .collect();
    html! {
        h3 { "The deadlock" }
        p {
            "If a process takes what one read(2) returns for the whole message, or if both sides \
            write before they read, messages above the capacity of the pipe end in a deadlock: each \
            side sleeps in its write until the other one reads."
        }
        @if explained.is_empty() { p { "In this run there was no deadlock." } }
        @for (case, how) in explained { p { (case.name()) ": " q { (how) } } }
        (details("All exchanges", "exchanges that can deadlock", &[("", latency::table(record))]))
    }
}

fn promises(record: &CheckRecord) -> Markup {
    let of = |verdict| record.summary.count(verdict);
    let notable = record.checks.iter().filter(|it| {
        matches!(
            it.outcome.verdict,
            Verdict::Fail | Verdict::Error | Verdict::Refused
        )
    });
    html! {
        p {
            "Statements about pipes that were tested on this system: " (count(record.summary.checks))
            ". Held: " (count(of(Verdict::Pass))) "; failed: " (count(of(Verdict::Fail)))
            "; different from system to system: " (count(of(Verdict::Seen))) "; refused here: "
            (count(of(Verdict::Refused))) "; not testable: " (count(of(Verdict::Error))) "."
        }
        ul {
            @for checked in notable {
                li {
                    strong { (checked.outcome.verdict.mark()) } ": " (checked.statement) ": "
                    (checked.outcome.seen)
                }
            }
        }
        (details("All statements", "statements about pipes", &[("", checks::table(record))]))
    }
}

/// What to change, with lines to paste.
fn programs(records: &Records) -> Markup {
    let touched = records.run(Suite::Touched);
    let changes = records.run(Suite::Changes);
    let channels = records.run(Suite::Channels);
    html! {
        h3 { "Sizes of an ordinary write" }
        @match touched {
            Some(run) => (write_sizes(run)),
            None => (missing("the best sizes of a write", "bench touched --json touched.json")),
        }
        @if let Some(run) = touched {
            h3 { "Zero copy, made safe" }
            (writer(run))
        }
        @if let Some(run) = changes {
            h3 { "Single changes" }
            (single_changes(run))
        }
        h3 { "Another channel" }
        @match channels {
            Some(run) => (channel_choice(run)),
            None => (missing("other channels", "bench channels --json channels.json")),
        }
        h3 { "And first of all" }
        p {
            "A pipe matters only where the programs at its ends are faster than it. "
            code { "pipespeed doctor -- 'a | b'" } " shows which stage of a pipeline sets the pace, \
            and " code { "pipespeed profile -- 'a | b'" } " where its time goes."
        }
    }
}

fn write_sizes(run: &Run) -> Markup {
    let Some(claim) = published_sizes(run) else {
        return html! { p { "This run has fixed sizes, so it compares none." } };
    };
    let advice = match claim.outcome {
        Outcome::Slower => best_write(run),
        Outcome::Faster | Outcome::Same | Outcome::Undecided | Outcome::Refused => None,
    };
    html! {
        (claim)
        @match advice {
            Some(Sizes { buffer_bytes, pipe_bytes }) => {
                p { "So enlarge the pipe once, at either end, and write in such pieces. In C:" }
                pre tabindex="0" { code {
                    "fcntl(fd, F_SETPIPE_SZ, " (pipe_bytes) ");\n\
                    write(fd, data, " (buffer_bytes) ");   /* repeatedly */"
                } }
                p { "In Rust:" }
                pre tabindex="0" { code {
                    "rustix::pipe::fcntl_setpipe_size(&out, " (pipe_bytes) ")?;\n\
                    let mut out = std::io::BufWriter::with_capacity(" (buffer_bytes) ", out);"
                } }
            }
            None => p { "No other sizes are certain to help here." },
        }
    }
}

fn writer(run: &Run) -> Markup {
    let Some(claim) = auto(run) else {
        return html! { p { "This run has no case of the library's writer." } };
    };
    let cpu_s = |name: &str| {
        let case = run.cases.iter().find(|case| case.name == name)?;
        case.summary.as_ref()?.cpu_s_per_gib
    };
    let helps = claim.outcome == Outcome::Faster;
    html! {
        (claim)
        @if let Some((plain, library)) = cpu_s(BEST).zip(cpu_s("fastpipe_auto")) {
            p {
                "Processor time of both ends per GiB: " (ms(plain)) " with the plain write, "
                (ms(library)) " with the library."
            }
        }
        @if helps {
            pre tabindex="0" { code {
                "let mut out = fastpipe::Writer::builder().stdout()?;\n\
                loop {\n    \
                    let mut page = out.lend(0)?;      // memory to produce the data in\n    \
                    let n = generate(&mut page);\n    \
                    page.commit(n)?;                  // sent\n\
                }"
            } }
        } @else {
            p { "No gain is certain here, so a plain write remains the simpler choice." }
        }
    }
}

fn single_changes(run: &Run) -> Markup {
    let mut gained = instructions(run, null_tolerance(run));
    gained.retain(|(case, _)| is_safe(case));
    html! {
        @if gained.is_empty() { p { "No single change is certain to help here." } }
        @for (case, how) in gained {
            @if let Some(claim) = change_claim(run, case) { (claim) }
            p { "How: " (how) "." }
        }
    }
}

fn channel_choice(run: &Run) -> Markup {
    let faster = channels::sizes(run).into_iter().filter_map(|size| {
        let claim = channel_claim(run, size)?;
        let case = fastest_channel(run, size)?;
        (claim.outcome == Outcome::Faster).then_some((size, case))
    });
    let faster: Vec<(usize, &CaseResult)> = faster.collect();
    let names = faster
        .iter()
        .filter_map(|(_, case)| Transport::of(&case.configuration));
    let mut names: Vec<Transport> = names.collect();
    names.dedup();
    html! {
        @if faster.is_empty() {
            p { "No other channel is certain to be an improvement over the pipe whose ends sleep." }
        } @else {
            p { "Where both programs are your own, these are certain to beat a pipe of default size:" }
            ul {
                @for (size, case) in &faster {
                    li {
                        "messages of " (bytes(*size)) ": " (channel(case))
                        @if let Some((_, rate)) = measured(case) { ", " (rate_figure(rate)) }
                    }
                }
            }
            @for name in names { (opening(name)) }
        }
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
            @if run.suite == Suite::Options { (claims(on_options(run))) }
            @else {
                (claims(cases_without_twin(run).map(|case| side_claim(run, case))))
                @if run.suite != Suite::Pages {
                    ul { @for sentence in crate::findings(run) { li { (sentence) } } }
                }
            }
            (chart(
                |width| chart_of_width(run, width),
                &format!("The suite {}.", run.suite),
                &[
                    ("Rates, processor time and context switches.",
                     table_of_cases(run, &run.cases)),
                    ("Each case against the one that differs in one factor.",
                     table_of_comparisons(run)),
                ],
            ))
        }
    }
}

/// The claims on the published options, and on the others.
fn on_options(run: &Run) -> Vec<Option<Claim>> {
    let name = |case: &CaseResult| format!("options-{}", case.name);
    let published = statements(run, null_tolerance(run));
    let is_published =
        |case: &&CaseResult| published.iter().any(|it| it.step.case.name == case.name);
    let others = cases_without_twin(run).filter(|case| !is_published(case));
    let others = others.map(|case| side_claim(run, case));
    let published = published.iter().map(|statement| {
        let case = statement.step.case;
        Some(Found::of(run, &case.name)?.claim_on(name(case), statement))
    });
    published.chain(others).collect()
}

/// A volume in bytes.
fn whole(volume: u64) -> Markup {
    html! { (bytes(usize::try_from(volume).unwrap_or(usize::MAX))) }
}

/// The claim on a case of a side experiment.
fn side_claim(run: &Run, case: &CaseResult) -> Option<Claim> {
    let found = Found::of(run, &case.name)?;
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

/// How to open a channel.
fn opening(channel: Transport) -> Markup {
    let line = match channel {
        Transport::Ring | Transport::RingCopy => {
            "fastpipe::ring, a ring buffer in shared memory: see cargo doc --open -p fastpipe"
        }
        Transport::Socketpair => "socketpair(AF_UNIX, SOCK_STREAM, 0, ends)",
        Transport::Tcp => "a TCP connection to 127.0.0.1, with TCP_NODELAY",
        Transport::Seqpacket => "socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)",
        _ => return html! {},
    };
    html! { p { (channel.name()) ": " code { (line) } } }
}
