//! The published story: a plain pipe, and each step that made it faster.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pipespeed_explain::costs::Cost;
use pipespeed_explain::profile::flame;
use pipespeed_explain::profile::record::{CaseProfile, EndProfile, Profile};
use pipespeed_measure::record::{CaseResult, Estimate, Run, Summary};
use pipespeed_measure::spec::Suite;

use super::claim::{ClaimBasis, ClaimSentence, Found, Published};
use super::figure::{bytes, ms, ns_of, percent, plain, published, rate_of};
use super::records::Records;
use super::{
    Section, chart, claims, details, guest_warning, missing, named_table, table_of_names, walk,
};
use crate::cases::{table_of_cases, table_of_comparisons};
use crate::published::Claim as Effect;
use crate::run::chart_of_width;
use crate::steps::measured;
use crate::{costs, profile};

/// The published rates of the plain pipe, in GiB/s.
const PLAIN: (f64, f64) = (3.5, 3.7);

/// A step of the ladder.
struct Rung {
    claim: &'static str,
    case: &'static str,
    /// Completes "With ..., the transfer is faster".
    change: &'static str,
    published: Option<Published>,
}

const fn gain(ratio: f64, shown: &'static str) -> Option<Published> {
    Some(Published {
        claim: Effect::Faster,
        ratio,
        shown,
        is_one_factor: true,
        condition: "",
    })
}

const fn step(claim: &'static str, case: &'static str, change: &'static str) -> Rung {
    Rung {
        claim,
        case,
        change,
        published: None,
    }
}

const LARGER_PIPE: Rung = step("larger-pipe", "write_read_128k", "a larger pipe alone");
const HUGE_COPY: Rung = Rung {
    published: Some(Published {
        claim: Effect::Same,
        ratio: 1.0,
        shown: "no difference",
        is_one_factor: true,
        condition: "",
    }),
    ..step(
        "huge-pages-copied",
        "write_read_huge",
        "huge pages for both buffers of the plain pipe",
    )
};
const VMSPLICE: Rung = Rung {
    published: Some(Published {
        claim: Effect::Faster,
        ratio: 3.5,
        shown: "x3.5",
        is_one_factor: false,
        condition: "together with the larger pipe",
    }),
    ..step("vmsplice", "vmsplice_read", "vmsplice in place of write")
};
const VMSPLICE_HUGE: Rung = step(
    "vmsplice-huge-pages",
    "vmsplice_read_huge",
    "vmsplice from huge pages, and read",
);
const WRITE_SPLICE: Rung = step(
    "write-splice",
    "write_splice",
    "a reader that splices, and a writer \
    that still copies",
);
const SPLICE: Rung = Rung {
    published: gain(2.6, "x2.6"),
    ..step("splice", "vmsplice_splice", "splice in place of read")
};
const HUGE: Rung = Rung {
    published: gain(1.55, "x1.55"),
    ..step(
        "huge-pages",
        "vmsplice_splice_huge",
        "huge pages, vmsplice and splice",
    )
};
const SPINNING: Rung = Rung {
    published: gain(1.25, "x1.25"),
    ..step(
        "spinning",
        "busy_loop_huge",
        "ends that spin instead of sleeping",
    )
};

impl Rung {
    fn claim(&self, run: &Run) -> Option<ClaimSentence> {
        let found = Found::new(run, self.case)?;
        let change = html! { (self.change) };
        Some(match &self.published {
            Some(published) => found.claim_beside(self.claim, change, published),
            None => found.claim(self.claim, change),
        })
    }
}

/// The claim on the larger pipe.
pub(super) fn larger_pipe(run: &Run) -> Option<ClaimSentence> {
    let found = Found::new(run, LARGER_PIPE.case)?;
    let (pipe, of_base) = (&found.case.configuration, &found.base?.configuration);
    let change = html! {
        "a pipe of " (bytes(pipe.pipe_bytes?)) " instead of " (bytes(of_base.pipe_bytes?))
        ", and a program that writes " (bytes(pipe.buffer_bytes)) " at a time"
    };
    Some(found.claim(LARGER_PIPE.claim, change))
}

/// The command that brings the ladder, and what it shows.
const LADDER: (&str, &str) = (
    "the steps of the published experiment",
    "bench --json ladder.json",
);

/// The sections of the published story.
pub(super) fn sections(records: &Records) -> Vec<Section> {
    let run = records.run(Suite::Ladder);
    let steps = |all: &[Rung]| match run {
        Some(run) => claims(all.iter().map(|step| step.claim(run))),
        None => missing(LADDER.0, LADDER.1),
    };
    vec![
        Section {
            id: "plain",
            title: "How fast is a plain pipe here?",
            body: plain_pipe(run),
        },
        Section {
            id: "time",
            title: "Where does its time go?",
            body: time(records, run),
        },
        Section {
            id: "vmsplice",
            title: "vmsplice: one copy less",
            body: html! {
                p {
                    "write(2) copies the data into pages of the kernel. With vmsplice(2) the pipe \
                    refers to the writer's own pages instead; only the reader copies. The published \
                    step also enlarges the pipe, which is measured separately here. A page in the \
                    pipe must not be written to: here the bytes never change, but a program that \
                    produces data needs buffers that together hold more than the pipe, and even \
                    that is safe only if the reader copies."
                }
                (steps(&[LARGER_PIPE, VMSPLICE, VMSPLICE_HUGE]))
            },
        },
        Section {
            id: "splice",
            title: "splice: no copy at all",
            body: html! {
                p {
                    "splice(2) hands the pages in the pipe to a file without a copy to the reader's \
                    memory. The file is /dev/null here, which only drops them; one on a disk would \
                    copy them. Nothing is read either: from here on, the rates of the published \
                    experiment are those of data that is discarded."
                }
                (steps(&[SPLICE, WRITE_SPLICE]))
            },
        },
        Section {
            id: "huge",
            title: "Huge pages: shorter walks",
            body: huge(records, &steps(&[HUGE, HUGE_COPY])),
        },
        Section {
            id: "spinning",
            title: "Spinning: nobody sleeps",
            body: html! {
                p {
                    "An end that finds the pipe full or empty goes to sleep and has to be woken. The \
                    last published step tries again at once instead. Each end then occupies a \
                    processor, also while it waits."
                }
                (steps(&[SPINNING]))
                @if let Some(run) = run { (switches(run)) }
            },
        },
    ]
}

pub(super) fn case<'a>(run: &'a Run, name: &str) -> Option<&'a CaseResult> {
    run.cases.iter().find(|case| case.name == name)
}

fn summary<'a>(run: &'a Run, name: &str) -> Option<&'a Summary> {
    case(run, name)?.summary.as_ref()
}

/// Every step as a picture; nothing without a run of the ladder.
pub(super) fn picture(records: &Records) -> Markup {
    let Some(run) = records.run(Suite::Ladder) else {
        return html! {};
    };
    chart(
        |width| chart_of_width(run, width),
        "Every step of the published experiment on this machine. The colour shows whether the \
             data was read or discarded.",
        &[
            (
                "Rates, processor time and context switches of both ends.",
                table_of_cases(run, &run.cases),
            ),
            (
                "Each case against the one that differs in one factor.",
                table_of_comparisons(run),
            ),
            ("What the names mean.", table_of_names(run)),
        ],
    )
}

fn plain_pipe(run: Option<&Run>) -> Markup {
    let Some(run) = run else {
        return missing(LADDER.0, LADDER.1);
    };
    html! {
        p {
            "A writer hands pieces of data to write(2), a reader takes them by read(2), and a pipe \
            lies between the two. Every byte is copied twice: into the pipe's pages and out of \
            them."
        }
        @if let Some(claim) = plain_claim(run) { (claim) }
    }
}

/// The rate of the plain pipe against the published range.
fn plain_claim(run: &Run) -> Option<ClaimSentence> {
    let case = case(run, "write_read")?;
    let found = measured(case).map(|(_, rate)| *rate);
    let outcome = found.map_or(ClaimBasis::Refused, against_published);
    let there = html! {
        (published(PLAIN.0, "3.5")) " to " (published(PLAIN.1, "3.7")) " GiB/s of the published laptop"
    };
    let moves = html! { @if let Some(rate) = &found { "It moves " (rate_of(rate)) } };
    let sentence = match outcome {
        ClaimBasis::Faster => html! { (moves) " here, faster than the " (there) "." },
        ClaimBasis::Slower => html! { (moves) " here, slower than the " (there) "." },
        ClaimBasis::Same => html! { (moves) " here, the same as the " (there) "." },
        ClaimBasis::Undecided => html! {
            (moves) " here; whether that differs from the " (there) " is undecided."
        },
        ClaimBasis::Refused => html! {
            "The plain pipe was not measured"
            @if let Some(why) = &case.not_run { ": " q { (why) } } "."
        },
    };
    let name = "plain-pipe".to_owned();
    Some(ClaimSentence {
        name,
        outcome,
        sentence,
    })
}

/// Where an interval lies relative to the published rates.
fn against_published(rate: Estimate) -> ClaimBasis {
    match rate.interval {
        Some(ends) if ends.low > PLAIN.1 => ClaimBasis::Faster,
        Some(ends) if ends.high < PLAIN.0 => ClaimBasis::Slower,
        Some(ends) if ends.low >= PLAIN.0 && ends.high <= PLAIN.1 => ClaimBasis::Same,
        _ => ClaimBasis::Undecided,
    }
}

fn time(records: &Records, run: Option<&Run>) -> Markup {
    html! {
        @match run {
            Some(run) => (effort(run)),
            None => (missing(LADDER.0, LADDER.1)),
        }
        @match records.costs() {
            Some(found) => {
                (elementary(&[
                    ("Writing a page of a pipe by write(2) costs ", &found.write),
                    (", reading it by read(2) ", &found.read),
                    ("; a process that sleeps on another processor runs ", &found.wake_up_other),
                ], " after it is woken."))
                (details("All elementary costs", "elementary costs", &[("", costs::table(found))]))
            }
            None => (missing(
                "the costs of a call, a page and a wake-up", "costs --json costs.json",
            )),
        }
        @match records.profile() {
            Some(found) => (profiled(found)),
            None => (missing(
                "a profile, which shows the kernel's functions", "profile --all --json profile.json",
            )),
        }
    }
}

/// What moving a GiB takes in the plain pipe.
fn effort(run: &Run) -> Markup {
    let found = summary(run, "write_read");
    let found = found.and_then(|summary| Some((summary.cpu_s_per_gib?, summary.switches_per_gib?)));
    html! {
        @if let Some((cpu_s, switches)) = found {
            p {
                "To move a GiB, the two ends of the plain pipe use " (ms(cpu_s))
                " of processor time and switch context " (plain(switches)) " times."
            }
        }
        @if let Some(warning) = guest_warning(run) {
            p { "The run notes: " q { (warning) } "." }
        }
    }
}

/// A sentence on costs, each with its beginning; nothing if one of them is unknown.
fn elementary(costs: &[(&str, &Cost)], end: &str) -> Markup {
    if costs.iter().any(|(_, cost)| cost.estimate.is_none()) {
        return html! {};
    }
    html! {
        p {
            @for (words, cost) in costs {
                (words) @if let Some(estimate) = &cost.estimate { (ns_of(estimate)) }
            }
            (end)
        }
    }
}

fn profiled(found: &Profile) -> Markup {
    let plain = found.cases.iter().find(|case| case.name == "write_read");
    let ends = plain.iter().flat_map(|case| &case.ends);
    html! {
        @for end in ends { (largest_costs(end)) }
        (chart(
            |width| profile::profile_chart_of_width(found, width),
            "Where the time of both ends goes, by sampling. The labels are shares of the wall time.",
            &[
                ("Writer, nanoseconds per 4 KiB", profile::side_by_side(found, "writer", "_")),
                ("Reader, nanoseconds per 4 KiB", profile::side_by_side(found, "reader", "_")),
            ],
        ))
        @for case in &found.cases { (flame_graph(found, case)) }
    }
}

/// The flame graph of a case, which brings a script of its own, with its costs beside it.
fn flame_graph(found: &Profile, case: &CaseProfile) -> Markup {
    let name = &case.name;
    html! {
        @if let Ok(graph) = flame::of_case(found, case) {
            details {
                summary { "Flame graph of " code { (name) } }
                p {
                    "The wider a function, the longer it or those above it ran. A click on one \
                    enlarges it."
                }
                iframe.flame title={ "Flame graph of " (name) } loading="lazy"
                    sandbox="allow-scripts" height=(graph.height) srcdoc=(framed(name, &graph.svg)) {}
                (named_table("The costs of both ends.", name, &profile::costs_of(case)))
            }
        }
    }
}

/// Starts the script of a picture once it is seen: a frame out of sight has no layout, and the
/// script would find no width. What is enlarged is not kept in the address, since a frame has
/// none.
const START: &str = "\
history.replaceState = function () {};
function width() {
  return document.body.getBoundingClientRect().width;
}
addEventListener('resize', function (event) {
  if (!width()) event.stopImmediatePropagation();
});
new IntersectionObserver(function (changes, observer) {
  if (width() && changes.some(function (it) { return it.isIntersecting; })) {
    observer.disconnect();
    init();
  }
}).observe(document.body);";

/// A page with nothing but a picture.
fn framed(name: &str, svg: &str) -> String {
    // What stands before the picture is for files of their own.
    let svg = svg.find("<svg").map_or(svg, |at| &svg[at..]);
    let svg = svg.replacen(" onload=\"init(evt)\"", "", 1);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (PreEscaped("<meta charset=\"utf-8\">"))
                title { "Flame graph of " (name) }
                style { (PreEscaped("body { margin: 0; } main > svg { width: 100%; }")) }
            }
            body {
                main { (PreEscaped(svg)) }
                script { (PreEscaped(START)) }
            }
        }
    };
    page.into_string()
}

/// The largest costs of an end of the plain pipe.
fn largest_costs(end: &EndProfile) -> Markup {
    const LISTED: usize = 4;
    let mut costs = end.costs.clone();
    costs.sort_by(|a, b| b.share.total_cmp(&a.share));
    costs.truncate(LISTED);
    html! {
        p {
            "Of the time of the plain pipe's " (end.role) ": "
            @for (at, cost) in costs.iter().enumerate() {
                @if at > 0 { "; " }
                (cost.group.name()) " " (percent(cost.share))
            }
            "."
        }
    }
}

fn huge(records: &Records, steps: &Markup) -> Markup {
    html! {
        p {
            "To refer to a page, the kernel has to find it: it walks through the page tables with \
            the parts of the address. vmsplice(2) looks up 16 pages at a time; in a huge page \
            one entry of a table serves them all."
        }
        (steps)
        @if let Some(found) = records.costs() {
            (elementary(&[
                ("Handing over a page by vmsplice(2) costs ", &found.vmsplice_base),
                (" with base pages and ", &found.vmsplice_huge),
            ], " for as much of a huge page."))
        }
        @match records.pages() {
            Some(report) => (chart(
                |width| walk::drawing(report, width),
                match report.memory {
                    Some(_) if walk::is_huge(report) => {
                        "The walk to a buffer of this machine that lies in a huge page."
                    }
                    Some(_) => {
                        "The walk to a buffer of this machine. It is not known to lie in a huge page."
                    }
                    None => "The walk to an address. Whether it is in use is not known.",
                },
                &[("", walk::table(report))],
            )),
            None => (missing(
                "the page-table walk of a real buffer",
                "pages --buffer 2M --huge --json pages.json",
            )),
        }
    }
}

/// How often the sleeping and the spinning ends switch context, and what they use.
fn switches(run: &Run) -> Markup {
    let of = |name| {
        let found = summary(run, name)?;
        Some((found.switches_per_gib?, found.cpu_s_per_gib?))
    };
    let found = of("vmsplice_splice_huge").zip(of("busy_loop_huge"));
    html! {
        @if let Some((sleeping, spinning)) = found {
            p {
                "Per GiB, the sleeping ends switch context " (plain(sleeping.0)) " times and use "
                (ms(sleeping.1)) " of processor time; the spinning ones switch " (plain(spinning.0))
                " times and use " (ms(spinning.1)) "."
            }
        }
    }
}
