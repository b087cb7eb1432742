//! What follows for programs: the results in short, and what to change, with lines to paste.

use maud::{Markup, html};
use pipespeed_measure::record::{CaseResult, PanelResult, Run, Sizes};
use pipespeed_measure::spec::{Channel, Suite};
use pipespeed_measure::suite::DEFAULT_PIPE;
use pipespeed_measure::suite::changes::Change;
use pipespeed_measure::suite::touched::BEST;

use super::claim::{ClaimBasis, Found};
use super::figure::{bytes, ms, rate_of as rate_figure, ratio_of};
use super::ladder::{case, larger_pipe};
use super::practice::{
    auto, best_channel, best_write, bytes_read, change_claim, channel_claim, fastest_channel,
    in_words, needs_library, published_sizes, sizes_of, with_article,
};
use super::records::Records;
use super::{Section, lines, missing, rate_of};
use crate::changes::{instructions, is_safe};
use crate::channels::{message, sizes};
use crate::steps::measured;

/// The answer in a sentence: how fast a pipe is whose data is used.
pub(super) fn answer(records: &Records) -> Markup {
    let touched = records.run(Suite::Touched);
    let plain =
        touched.and_then(|run| Some((case(run, "write_read")?, rate_of(run, "write_read")?)));
    let library = touched.and_then(|run| rate_of(run, "fastpipe_auto"));
    let ladder = records.run(Suite::Ladder);
    html! {
        @if let Some((case, rate)) = plain {
            p.answer {
                "With every byte produced and used, a plain pipe"
                @if let Some(pipe) = case.configuration.pipe_bytes { " of " (bytes(pipe)) }
                " moves " (rate)
                @if let Some(library) = library {
                    ", and the " code { "Writer" } " of fastpipe " (library)
                }
                "."
            }
        } @else if let Some(rate) = ladder.and_then(|run| rate_of(run, "write_read")) {
            p.answer { "A plain pipe, used as in the published experiment, moves " (rate) "." }
        }
    }
}

/// At most this many changes stand at the beginning of the page.
const MAX_CHANGES: usize = 3;

/// The changes to a program that certainly help, each with its factor.
pub(super) fn changes(records: &Records) -> Markup {
    let touched = records.run(Suite::Touched);
    let candidates = [
        touched.and_then(change_of_sizes),
        touched.and_then(change_of_writer),
        records
            .run(Suite::Channels)
            .and_then(|run| change_of_channel(run, touched)),
        records.run(Suite::Changes).and_then(change_of_pipe),
    ];
    let mut helpful: Vec<Markup> = candidates.into_iter().flatten().collect();
    helpful.truncate(MAX_CHANGES);
    html! {
        h2 id="short" { "What to change in your program" }
        @if helpful.is_empty() {
            p {
                "Of none of the changes that these records compare is it certain that it helps. More \
                time or a quieter machine would narrow the intervals."
            }
        } @else {
            ul { @for change in &helpful { li { (change) } } }
        }
        p { a href="#programs" { "How to do that, with lines to paste" } }
    }
}

fn change_of_sizes(run: &Run) -> Option<Markup> {
    let found = Found::new(run, "write_read")?;
    let factor = found
        .factor()
        .filter(|_| found.outcome == ClaimBasis::Slower)?;
    let (best, published) = (best_write(run)?, sizes_of(found.case)?);
    Some(html! {
        "Write " (in_words(best)) ": " (ratio_of(&factor)) " as fast as " (in_words(published)) "."
    })
}

fn change_of_writer(run: &Run) -> Option<Markup> {
    let found = Found::new(run, "fastpipe_auto")?;
    let factor = found
        .factor()
        .filter(|_| found.outcome == ClaimBasis::Faster)?;
    Some(html! {
        "In Rust, write by fastpipe's " code { "Writer" } ": " (ratio_of(&factor))
        " as fast as the best plain write."
    })
}

/// The fastest channel, if it is faster than a pipe in its best sizes, too.
fn change_of_channel(run: &Run, touched: Option<&Run>) -> Option<Markup> {
    let case = best_channel(run)?;
    let best = touched.and_then(|run| measured(self::case(run, BEST)?));
    if best
        .is_some_and(|(_, best)| measured(case).is_none_or(|found| found.1.median <= best.median))
    {
        return None;
    }
    let found = Found::new(run, &case.name)?;
    let factor = found
        .factor()
        .filter(|_| found.outcome == ClaimBasis::Faster)?;
    Some(html! {
        "Where both programs are your own, send messages of " (bytes(message(case))) " through "
        (with_article(case)) ": " (ratio_of(&factor)) " as fast as "
        @match found.base { Some(base) => (with_article(base)), None => "a pipe" } "."
    })
}

fn change_of_pipe(run: &Run) -> Option<Markup> {
    let found = Found::new(run, Change::LargePipe.name())?;
    let factor = found
        .factor()
        .filter(|_| found.outcome == ClaimBasis::Faster)?;
    Some(html! {
        "Run a pipeline of the shell by " code { "pipespeed boost" } ", which enlarges its pipes: "
        (ratio_of(&factor)) "."
    })
}

/// What to change, with lines to paste.
pub(super) fn section(records: &Records) -> Section {
    Section {
        id: "programs",
        title: "What it means for your programs",
        body: html! {
            (slow_stage())
            (shell_pipeline(records.run(Suite::Ladder), records.run(Suite::Changes)))
            h3 { "A program of your own that writes to a pipe" }
            @match records.run(Suite::Touched) {
                Some(run) => (write_sizes(run)),
                None => (missing("the best sizes of a write", "bench touched --json touched.json")),
            }
            @if let Some(run) = records.run(Suite::Changes) {
                (alternatives(run, records.run(Suite::Touched)))
            }
            @if let Some(run) = records.run(Suite::Touched) {
                h3 { "Or, if it is in Rust: fewer copies" }
                (writer(run))
            }
            h3 { "Or, if both programs are your own: another channel" }
            @match records.run(Suite::Channels) {
                Some(run) => (channel_choice(run, records)),
                None => (missing("other channels", "bench channels --json channels.json")),
            }
            h3 { "Both programs send to each other" }
            p {
                "One read(2) may return a part of a message, so read until all of it is there. And \
                let each side read while it still has to write, with poll(2) or a second thread: if \
                both write first, a message larger than the pipe stops both for good."
            }
        },
    }
}

fn slow_stage() -> Markup {
    html! {
        h3 { "First: is it the pipe?" }
        p {
            "A pipe matters little where the programs at its ends take much longer for each byte. \
            These show, for your pipeline in place of this one, which stage is the bottleneck, and where \
            the time goes:"
        }
        (lines(
            "pipespeed doctor -- 'head -c 4G /dev/zero | gzip -1 | wc -c'\n\
            pipespeed profile -- 'head -c 4G /dev/zero | gzip -1 | wc -c'",
        ))
    }
}

fn shell_pipeline(ladder: Option<&Run>, changes: Option<&Run>) -> Markup {
    const PIPE: &str = Change::LargePipe.words();
    const PROCESSOR: &str = Change::OneProcessor.words();
    let gain = |factor: &str| {
        let mut cases = changes?.cases.iter();
        let case = cases.find(|case| case.factor.as_deref() == Some(factor))?;
        let claim = change_claim(changes?, case)?;
        (claim.outcome == ClaimBasis::Faster).then_some((claim, case.configuration.writer_cpu))
    };
    let larger = gain(PIPE).map(|gained| gained.0);
    let on_one = [
        (format!("{PROCESSOR} + {PIPE}"), "pipespeed boost"),
        (PROCESSOR.to_owned(), "sh -c"),
    ];
    let on_one = on_one.iter().find_map(|(factor, command)| {
        let (claim, cpu) = gain(factor)?;
        let words = "'dd if=/dev/zero bs=64K count=16K status=none | wc -l'";
        Some((claim, format!("taskset -c {} {command} {words}", cpu?)))
    });
    html! {
        h3 { "A pipeline in a shell, of programs that stay as they are" }
        p {
            "Run it with larger pipes: " code { "pipespeed boost" } " does that, and changes nothing \
            else. Programs that write smaller pieces than those measured (head, say), or take \
            longer for them, may gain nothing; " code { "--prove" } " tries it several times with \
            and without. All pipes of a user share the limit in /proc/sys/fs/pipe-user-pages-soft."
        }
        @if let Some(claim) = larger.or_else(|| larger_pipe(ladder?)) { (claim) }
        (lines(
            "pipespeed boost 'dd if=/dev/zero bs=64K count=16K status=none | wc -l'\n\
            pipespeed boost --prove 'dd if=/dev/zero bs=64K count=16K status=none | wc -l'",
        ))
        @if let Some((claim, line)) = on_one {
            p { "Or, if no program in it computes much, run all of it on one processor:" }
            (claim)
            (lines(&line))
        }
    }
}

/// Lines in one language.
pub(super) struct CodeLines {
    language: &'static str,
    /// Those that enlarge a pipe to 1 MiB.
    pub enlarge: &'static str,
    /// Those that write in pieces of 64 KiB.
    pub write: &'static str,
}

pub(super) const C: CodeLines = CodeLines {
    language: "In C:",
    enlarge: include_str!("lines/enlarge.c"),
    write: include_str!("lines/write.c"),
};
pub(super) const PYTHON: CodeLines = CodeLines {
    language: "In Python:",
    enlarge: include_str!("lines/enlarge.py"),
    write: include_str!("lines/write.py"),
};
const RUST: CodeLines = CodeLines {
    language: "In Rust:",
    enlarge: include_str!("lines/enlarge.rs"),
    write: include_str!("lines/write.rs"),
};

impl CodeLines {
    /// The lines with these sizes. A pipe of default size is not enlarged.
    pub fn with_sizes(&self, sizes: Sizes) -> String {
        let pipe = sizes.pipe_bytes;
        let write = (self.write).replace("65536", &sizes.buffer_bytes.to_string());
        if pipe > DEFAULT_PIPE {
            self.enlarge.replace("1048576", &pipe.to_string()) + "\n" + &write
        } else {
            write
        }
    }
}

fn write_sizes(run: &Run) -> Markup {
    let Some(claim) = published_sizes(run) else {
        return html! { p { "This run has fixed sizes, so it compares none." } };
    };
    let advice = match claim.outcome {
        ClaimBasis::Slower => best_write(run),
        ClaimBasis::Faster | ClaimBasis::Same | ClaimBasis::Undecided | ClaimBasis::Refused => None,
    };
    html! {
        (claim)
        @match advice {
            Some(sizes) => {
                p {
                    "So write " (bytes(sizes.buffer_bytes)) " at a time"
                    @if let Some(read) = bytes_read(run) {
                        " (measured with a reader that asks for " (bytes(read)) ")"
                    }
                    ": divide what is longer, as \
                    these lines do, and join in a buffer of that size what is shorter. "
                    @if sizes.pipe_bytes > DEFAULT_PIPE {
                        "And enlarge the pipe once, at either end, to " (bytes(sizes.pipe_bytes)) "."
                    } @else {
                        "The pipe may keep its default size."
                    }
                }
                (near_best(run))
                @for language in [C, PYTHON, RUST] {
                    p { (language.language) }
                    (lines(&language.with_sizes(sizes)))
                }
            }
            None => p { "No other sizes are certain to help here." },
        }
    }
}

/// Rates from this share of the best on are nearly as good: another search might choose them.
const NEAR: f64 = 0.9;

/// The sizes whose rate in the search was nearly the best, if there are any.
fn near_best(run: &Run) -> Markup {
    let panel = run.search.iter().flat_map(|search| &search.panels).next();
    let ranking = panel.map_or(Vec::new(), PanelResult::ranking);
    let cells = ranking.iter().filter_map(|at| panel?.cells.get(*at));
    let mut rates = cells.filter_map(|cell| Some((cell.sizes, cell.median?)));
    let best = rates.next();
    let near = rates.filter(|(_, rate)| best.is_some_and(|best| *rate >= NEAR * best.1));
    let near: Vec<Sizes> = near.map(|(sizes, _)| sizes).collect();
    html! {
        @if !near.is_empty() {
            p {
                "In the search these were within ten percent of that: "
                @for (at, sizes) in near.iter().enumerate() {
                    @if at > 0 { "; " }
                    (in_words(*sizes))
                }
                "."
            }
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
    let helps = claim.outcome == ClaimBasis::Faster;
    html! {
        (claim)
        @if let Some((plain, library)) = cpu_s(BEST).zip(cpu_s("fastpipe_auto")) {
            p {
                "Processor time of both ends per GiB: " (ms(plain)) " with the plain write, "
                (ms(library)) " with the library."
            }
        }
        @if helps {
            p {
                "The library is in pipespeed's repository: "
                code { "cargo add --path PIPESPEED/crates/fastpipe" } "."
            }
            (lines(include_str!("lines/writer.rs")))
        } @else {
            p { "No gain is certain here, so a plain write remains the simpler choice." }
        }
    }
}

/// Changes whose rate is above that of the best plain write, each with its condition.
fn alternatives(run: &Run, touched: Option<&Run>) -> Markup {
    let best = touched.and_then(|run| run.cases.iter().find(|case| case.name == BEST));
    let least = best.and_then(measured).map_or(0.0, |found| found.1.median);
    let gained = instructions(run).into_iter();
    let gained = gained.filter_map(|(case, how, condition)| {
        let (_, rate) = measured(case).filter(|found| is_safe(case) && found.1.median >= least)?;
        Some((rate, how, condition))
    });
    let gained: Vec<_> = gained.collect();
    html! {
        @if !gained.is_empty() {
            p { "Alternatives, measured as changes to a typical pipe:" }
            ul {
                @for (rate, how, condition) in gained {
                    li { "if " (condition) ", " (rate_figure(rate)) ": " (how) }
                }
            }
        }
    }
}

/// The fastest channels among those that beat a pipe of default size: of all, and of those
/// without a library.
fn channel_choice(run: &Run, records: &Records) -> Markup {
    let faster = |size: usize, is_candidate: fn(&Run, &CaseResult) -> bool| {
        let case = fastest_channel(run, size, is_candidate)?;
        let claim = channel_claim(run, case)?;
        (claim.outcome == ClaimBasis::Faster).then_some(case)
    };
    let found = sizes(run).into_iter().filter_map(|size| {
        let any = faster(size, |_, _| true);
        let plain = faster(size, |run, case| {
            let claim = channel_claim(run, case);
            !needs_library(case) && claim.is_some_and(|claim| claim.outcome == ClaimBasis::Faster)
        });
        let plain = plain.filter(|plain| any.is_none_or(|any| any.name != plain.name));
        let both: Vec<&CaseResult> = [any, plain].into_iter().flatten().collect();
        (!both.is_empty()).then_some((size, both))
    });
    let found: Vec<(usize, Vec<&CaseResult>)> = found.collect();
    let cases = found.iter().flat_map(|(_, cases)| cases);
    let mut names: Vec<Channel> = Vec::new();
    for name in cases.filter_map(|case| case.configuration.channel()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    html! {
        @if found.is_empty() {
            p { "No other channel is certain to be an improvement over the pipe whose ends sleep." }
        } @else {
            p { "In this run these were faster than a pipe of default size, with one call for each message:" }
            ul {
                @for (size, cases) in &found {
                    li {
                        "messages of " (bytes(*size)) ": "
                        @for (at, case) in cases.iter().enumerate() {
                            @if at > 0 { "; without a library, " }
                            (with_article(case))
                            @if let Some((_, rate)) = measured(case) { ", " (rate_figure(rate)) }
                        }
                    }
                }
            }
            @if let Some(best) = records.run(Suite::Touched).and_then(|run| rate_of(run, BEST)) {
                p {
                    "A plain write in its best sizes, above, moves " (best) ". Where that is more \
                    than the channel, join messages in a buffer and use the pipe."
                }
            }
            @for name in names { (opening(name)) }
        }
    }
}

/// How to open a channel.
fn opening(channel: Channel) -> Markup {
    let (words, text) = match channel {
        Channel::Ring | Channel::RingCopy => (
            "The ring, in Rust, by the library above:",
            include_str!("lines/ring.rs"),
        ),
        Channel::Socketpair => (
            "The socket pair, in C; as with pipe(2), each process keeps one end:",
            "int ends[2];\nsocketpair(AF_UNIX, SOCK_STREAM, 0, ends);",
        ),
        Channel::Seqpacket => (
            "The socket pair of whole messages, in C; as with pipe(2), each process keeps one end:",
            "int ends[2];\nsocketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends);",
        ),
        Channel::Tcp => (
            "TCP: a connection to 127.0.0.1, with Nagle's algorithm off at both ends; in C:",
            "int on = 1;\nsetsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);",
        ),
        _ => return html! {},
    };
    html! {
        p { (words) }
        (lines(text))
    }
}
