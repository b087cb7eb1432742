//! What the published experiment left open: data in use, sleeping, sizes, and other channels.

use itertools::Itertools as _;
use maud::{Markup, html};
use pipespeed_measure::record::{CaseResult, PanelResult, Run, Sizes};
use pipespeed_measure::spec::{Channel, Suite, Waiting};
use pipespeed_measure::suite::changes::BASELINE;
use pipespeed_measure::suite::touched::BEST;

use super::claim::{ClaimBasis, ClaimSentence, Found};
use super::figure::{bytes, ns_of};
use super::records::Records;
use super::{Section, chart, claims, lines, missing, rate_of, table_of_names};
use crate::cases::{table_of_cases, table_of_comparisons};
use crate::changes::table_of_ranking;
use crate::channels::{self, RING_POLLS, channel, message, rings_block, waiting};
use crate::run::chart_of_width;
use crate::sizes::{self, is_recommended, not_run, place, technique};
use crate::steps::{cases_without_twin, fastest, measured};

/// The sections on what the published experiment left open.
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
    ]
}

/// The claim on a case, by its change.
fn claim(run: &Run, case: &str, name: &str, change: Markup) -> Option<ClaimSentence> {
    Some(Found::new(run, case)?.claim(name, change))
}

/// The sizes of the best plain write of the suite touched.
pub(super) fn best_write(run: &Run) -> Option<Sizes> {
    Some(run.search.as_ref()?.panels.first()?.best.as_ref()?.sizes)
}

/// Sizes in words: `64 KiB pieces into a pipe of 1 MiB`.
pub(super) fn in_words(sizes: Sizes) -> Markup {
    html! { (bytes(sizes.buffer_bytes)) " pieces into a pipe of " (bytes(sizes.pipe_bytes)) }
}

/// What the readers of the suite touched ask for in one read(2).
pub(super) fn bytes_read(run: &Run) -> Option<usize> {
    let best = run.cases.iter().find(|case| case.name == BEST)?;
    best.configuration.reader_buffer_bytes
}

/// The sizes of a case.
pub(super) fn sizes_of(case: &CaseResult) -> Option<Sizes> {
    let configuration = &case.configuration;
    Some(Sizes {
        buffer_bytes: configuration.buffer_bytes,
        pipe_bytes: configuration
            .pipe_bytes
            .or(configuration.pipe_bytes_asked)?,
    })
}

/// The claim on a plain write in the published sizes.
pub(super) fn published_sizes(run: &Run) -> Option<ClaimSentence> {
    let sizes = sizes_of(run.cases.iter().find(|case| case.name == "write_read")?)?;
    let change = html! {
        "the published sizes, " (in_words(sizes)) ", instead of the best ones found"
        @if let Some(best) = best_write(run) { " (" (in_words(best)) ")" }
    };
    claim(run, "write_read", "published-sizes", change)
}

/// The claim on the library's writer.
pub(super) fn auto(run: &Run) -> Option<ClaimSentence> {
    let change = html! { "the " code { "Writer" } " of fastpipe, a library for Rust, instead of the best plain write" };
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
            @if let Some(best) = rate_of(run, BEST) { " It moves " (best) "." }
            @if let Some(read) = bytes_read(run) {
                " All readers ask for " (bytes(read)) " at a time; this run has no others."
            }
        }
        p {
            "fastpipe is the library of this project, for Rust. Its " code { "Writer" } " begins with \
            write(2) and tries, while it sends, whether vmsplice(2) is faster, with two ways to reuse \
            pages so that every reader gets the right bytes. Both are also measured alone: trials \
            are short, so the writer spends much of one on finding out."
        }
        (claims([
            published_sizes(run),
            simple(
                "bufwriter_stdout_64k",
                "bufwriter",
                "Rust's BufWriter on standard output",
            ),
            auto(run),
            simple("fastpipe_fresh", "fresh", "only fresh pages, never written again,"),
            simple(
                "fastpipe_cow_checked",
                "cow-checked",
                "pages that are reused once nobody holds them",
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
                "the library and pages that are reused once they have left the pipe",
            ),
        ]))
        @if let Some((produce, consume)) = ends {
            p {
                "Without any channel, the writer alone produces " (produce)
                " and the reader alone uses " (consume) "."
            }
        }
        (chart(
            |width| chart_of_width(run, width),
            "Writers whose every byte is produced and used.",
            &[
                ("Rates, processor time and context switches of both ends.",
                 table_of_cases(run, &run.cases)),
                ("Each case against the best plain write.", table_of_comparisons(run)),
                ("What the names mean.", table_of_names(run)),
            ],
        ))
    }
}

fn sleeping(records: &Records) -> Markup {
    let costs = records.costs();
    let wake_ups =
        costs.and_then(|costs| Some((costs.wake_up_same.estimate?, costs.wake_up_other.estimate?)));
    html! {
        p {
            "A pipe's end sleeps when it can't go on. Whoever wakes it makes a call into the \
            scheduler, and the sleeper runs only some time later."
        }
        @if let Some((same, other)) = &wake_ups {
            p {
                "From the waking call until the sleeper runs, it takes " (ns_of(same))
                " on one processor and " (ns_of(other)) " from one processor to another."
            }
        }
        @match records.run(Suite::Changes) {
            Some(run) => {
                (baseline(run, records.run(Suite::Touched)))
                (claims(cases_without_twin(run).map(|case| change_claim(run, case))))
                (chart(
                    |width| chart_of_width(run, width),
                    "A typical pipe, single changes to it, and two together.",
                    &[
                        ("Rates, processor time and context switches of both ends.",
                         table_of_cases(run, &run.cases)),
                        ("The changes, the largest certain gain first.", table_of_ranking(run)),
                        ("What the names mean.", table_of_names(run)),
                    ],
                ))
            }
            None => (missing(
                "single changes to a typical pipe", "bench changes --json changes.json",
            )),
        }
    }
}

/// What the changes are compared with, beside the best plain write of the suite touched.
fn baseline(run: &Run, touched: Option<&Run>) -> Markup {
    let base = run.cases.iter().find(|case| case.name == BASELINE);
    let sizes = base.and_then(sizes_of);
    let panel = touched.and_then(|run| run.search.as_ref()?.panels.first());
    let cells = panel.into_iter().flat_map(|panel| &panel.cells);
    let tried = cells.filter_map(|cell| Some((cell.sizes, cell.median?)));
    let slowest = tried.min_by(|a, b| a.1.total_cmp(&b.1)).map(|cell| cell.0);
    html! {
        @if let Some(sizes) = sizes {
            p {
                "The changes below are each compared with a typical pipe, " (in_words(sizes))
                @if slowest == Some(sizes) {
                    ", the slowest sizes that the search for the best plain write tried, so the \
                    ratios flatter"
                }
                "."
                @if let Some(best) = touched.and_then(|run| rate_of(run, BEST)) {
                    " The best plain write moves " (best) ": a rate below that is no gain for a \
                    program that can choose its sizes."
                }
            }
        }
    }
}

/// The claim on a change to the typical pipe.
pub(super) fn change_claim(run: &Run, case: &CaseResult) -> Option<ClaimSentence> {
    let factor = case.factor.as_deref()?;
    let change = html! { em { (factor) } };
    claim(run, &case.name, &format!("change-{}", case.name), change)
}

fn best_sizes(run: &Run) -> Markup {
    let Some(search) = &run.search else {
        return html! { p { "The run was interrupted before its search." } };
    };
    let recommended = search
        .panels
        .iter()
        .filter(|panel| is_recommended(run, panel));
    let mut commands = recommended.filter_map(|panel| panel.best.as_ref()?.command.as_deref());
    let commands = commands
        .join("\n\n")
        .replace(" | ", " |\n  ")
        .replace(" --buf-size", " \\\n    --buf-size");
    html! {
        p {
            "The published experiment used buffers of 256 KiB, the second-level cache of its \
            processor, and said that other sizes change little. A search tried pairs of sizes \
            here; the best of them were then measured again beside the published ones. The data is \
            moved, but neither produced nor used: with vmsplice, the same few buffers are in the \
            pipe again and again, which is right only as long as nobody writes to them."
        }
        (claims(search.panels.iter().map(|panel| size_claim(run, panel))))
        @for (case, why) in not_run(run) {
            p { code { (case) } " was not measured: " q { (why) } "." }
        }
        (chart(
            |width| chart_of_width(run, width),
            "Rates by the sizes of buffer and pipe: darker is faster on a light page, lighter on a \
             dark one.",
            &[("The best sizes of each case.", sizes::table(run, search))],
        ))
        @if !commands.is_empty() {
            details {
                summary { "Lines to paste, each of which repeats a case and shows its rate" }
                (lines(&commands))
            }
        }
    }
}

/// The claim on the best sizes of a case against the published ones.
fn size_claim(run: &Run, panel: &PanelResult) -> Option<ClaimSentence> {
    let best = panel.best.as_ref()?;
    let name = format!("sizes-{}", panel.case);
    let ends = html! {
        (technique(panel)) " " (place(panel))
        @if panel.configuration.wait == Some(Waiting::Spin) { ", spinning" }
    };
    let published = panel.published();
    if best.sizes == published {
        let rate = rate_of(run, &best.case)?;
        return Some(ClaimSentence {
            name,
            outcome: ClaimBasis::Same,
            sentence: html! {
                "For " (ends) ", the best sizes found are the same as the published ones: " (rate) "."
            },
        });
    }
    let change = html! {
        (ends) ", in buffers of " (bytes(best.sizes.buffer_bytes)) " through a pipe of "
        (bytes(best.sizes.pipe_bytes)) " instead of the published " (bytes(published.buffer_bytes))
        " through " (bytes(published.pipe_bytes))
    };
    claim(run, &best.case, &name, change)
}

fn other_channels(run: &Run) -> Markup {
    let ways = channels::WAYS.iter().filter_map(|(wait, heading)| {
        let cases: Vec<&CaseResult> = waiting(run, *wait).collect();
        (!cases.is_empty()).then(|| (*heading, channels::table(run, &cases)))
    });
    html! {
        p {
            "The same messages through other channels. A message is what one call of the writer \
            carries, and every byte is produced and used. The pipe has its default size here, as \
            most programs leave it, so the ratios say nothing about a pipe in better sizes. For each size of messages, this is the fastest other channel \
            that is right for every reader and whose ends sleep while they wait."
        }
        (claims(channels::sizes(run).into_iter().map(|size| {
            channel_claim(run, fastest_channel(run, size, |_, _| true)?)
        })))
        @if rings_block(run) { p { "Note that " (RING_POLLS) "." } }
        (chart(
            |width| chart_of_width(run, width),
            "Rates by the size of the messages, with every byte produced and used.",
            &ways.collect::<Vec<_>>(),
        ))
    }
}

/// The fastest channel for messages of a size whose ends sleep, of the candidates, beside the
/// one that all are compared with. Vmspliced pages that are written again are wrong for some
/// readers.
pub(super) fn fastest_channel(
    run: &Run,
    bytes: usize,
    is_candidate: fn(&Run, &CaseResult) -> bool,
) -> Option<&CaseResult> {
    let cases = waiting(run, Waiting::Block).filter(|case| message(case) == bytes);
    let is_safe = |case: &&CaseResult| case.configuration.channel() != Some(Channel::VMSPLICE);
    let compared = cases
        .filter(|case| case.compared_with.is_some() && is_candidate(run, case))
        .filter(is_safe);
    let all: Vec<&CaseResult> = compared.collect();
    let best = fastest(all.iter().filter_map(|case| measured(case)));
    best.map(|(case, _)| case).or(all.first().copied())
}

/// Whether the channel is one of the library's.
pub(super) fn needs_library(case: &CaseResult) -> bool {
    case.configuration.channel().is_some_and(Channel::is_ring)
}

/// The channel of a case in words, with its article.
pub(super) fn with_article(case: &CaseResult) -> Markup {
    let pipe_bytes = case.configuration.pipe_bytes;
    let words = match case.configuration.channel() {
        Some(Channel::PIPE) => {
            return html! {
                "a pipe" @if let Some(size) = pipe_bytes { " of " (bytes(size)) }
            };
        }
        Some(Channel::Ring) => "fastpipe's ring in shared memory",
        Some(Channel::RingCopy) => "fastpipe's ring in shared memory, with copies",
        Some(Channel::Fifo) => "a FIFO",
        Some(Channel::Socketpair) => "a socket pair",
        Some(Channel::Seqpacket) => "a socket pair of whole messages",
        Some(Channel::Datagram) => "a socket pair of datagrams",
        Some(Channel::Unix) => "a Unix socket",
        Some(Channel::Tcp) => "TCP",
        Some(Channel::Mqueue) => "a message queue",
        Some(Channel::Uring) => "a pipe by io_uring",
        _ => channel(case),
    };
    html! { (words) }
}

/// The claim on a channel for messages of a size.
pub(super) fn channel_claim(run: &Run, case: &CaseResult) -> Option<ClaimSentence> {
    let found = Found::new(run, &case.name)?;
    let size = message(case);
    let change = html! {
        (with_article(case)) " for messages of " (bytes(size))
        @if let Some(base) = found.base { " instead of " (with_article(base)) }
    };
    Some(found.claim(format!("channel-{size}"), change))
}

/// The channel and the size of messages with the highest rate.
pub(super) fn best_channel(run: &Run) -> Option<&CaseResult> {
    let sizes = channels::sizes(run).into_iter();
    let cases = sizes.filter_map(|size| fastest_channel(run, size, |_, _| true));
    Some(fastest(cases.filter_map(measured))?.0)
}
