//! The first screen: the machine, the answer, what to change, and what may have disturbed the
//! figures.

use itertools::Itertools as _;
use maud::{Markup, html};
use pipespeed_base::{Named as _, size};
use pipespeed_host::warnings::disturbances_and_load;
use pipespeed_measure::record::{CaseResult, Estimate, Run, Sizes, Verdict};
use pipespeed_measure::spec::{Channel, Suite, Waiting};
use pipespeed_measure::suite::changes::Change;
use pipespeed_measure::suite::touched::{BEST, in_words};

use super::records::Records;
use crate::channels::{channel, message, waiting};
use crate::conditions;
use crate::findings::is_below;
use crate::format::{gib_per_s, pluralize, ratio};
use crate::published;
use crate::steps::{fastest, measured, step};

/// The rate of a case.
fn rate(run: &Run, name: &str) -> Option<String> {
    Some(gib_per_s(measured(run.case(name)?)?.1))
}

/// The machine, or the machines if the records are of several.
pub(super) fn origin(records: &Records) -> Markup {
    let machines = records.machines();
    let headers = || records.all().map(|saved| saved.header());
    let dates = || headers().filter_map(|header| header.started_at.get(..10));
    let (first, last) = (dates().min(), dates().max());
    let guests = headers().map(|header| header.machine.virtualisation.hypervisor.as_ref());
    let online = headers().map(|header| header.machine.processors.online.as_ref());
    let counts = online.map(|online| online.map(|list| list.len()));
    // Of several machines, only what all have.
    let guest = guests.dedup().exactly_one().ok().flatten();
    let processors = counts.dedup().exactly_one().ok().flatten();
    html! {
        (machines.join("; "))
        @if let Some(count) = processors { "; " (pluralize(count, "processor")) }
        @if let Some(guest) = guest { "; a guest of " (guest) }
        @if let Some(first) = first {
            "; " time datetime=(first) { (first) }
            @if let Some(last) = last.filter(|last| *last != first) {
                " to " time datetime=(last) { (last) }
            }
        }
    }
}

/// The answer in a sentence: how fast a pipe is whose data is used, or else that of the ladder.
pub(super) fn answer(records: &Records) -> Markup {
    let touched = records.run(Suite::Touched);
    let plain = touched.and_then(|run| Some((run.case("write_read")?, rate(run, "write_read")?)));
    let library = touched.and_then(|run| rate(run, "fastpipe_auto"));
    let ladder = records.run(Suite::Ladder);
    html! {
        @if let Some((case, rate)) = plain {
            p.answer {
                "With every byte produced and used, a plain pipe"
                @if let Some(bytes) = case.configuration.pipe_bytes {
                    " of " (size::exact(bytes as u64))
                }
                " moves " (rate)
                @if let Some(library) = library {
                    ", and the " code { "Writer" } " of fastpipe " (library)
                }
                @if let Some(run) = touched && let other = published::deviations(run) && !other.is_empty() {
                    " (measured with " (other) ")"
                }
                "."
            }
        } @else if let Some(run) = ladder && let Some(rate) = rate(run, "write_read") {
            p.answer {
                "A plain pipe"
                @if published::deviations(run).is_empty() { ", used as in the published experiment," }
                " moves " (rate) "."
            }
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
    let suites = [Suite::Touched, Suite::Channels, Suite::Changes];
    let has_candidates = suites.into_iter().any(|suite| records.run(suite).is_some());
    let mut helpful: Vec<Markup> = candidates.into_iter().flatten().collect();
    helpful.truncate(MAX_CHANGES);
    html! {
        h2 id="short" { "What to change in your program" }
        @if !has_candidates {
            p { "These records have no changes to compare. The sections below show what was measured." }
        } @else if helpful.is_empty() {
            p {
                "Of none of the changes that are measured here is it certain that it helps. The sections \
                below say what is known of each."
            }
        } @else {
            ul { @for change in &helpful { li { (change) } } }
        }
        p { a href="#programs" { "How to do that, with lines to paste" } }
    }
}

/// The ratio of a case to the one it is compared with, if it has this verdict.
fn ratio_if(case: &CaseResult, verdict: Verdict) -> Option<Estimate> {
    let ratio = step(case)?.ratio;
    (ratio.verdict == verdict).then_some(ratio.estimate)
}

/// The best sizes of the search of the suite touched.
fn best_sizes(run: &Run) -> Option<Sizes> {
    Some(run.search.as_ref()?.panels.first()?.best.as_ref()?.sizes)
}

/// How many times as fast the best sizes are as the published ones, if that is certain.
fn gain_of_sizes(run: &Run) -> Option<Estimate> {
    let published = ratio_if(run.case("write_read")?, Verdict::Slower)?;
    Some(published.reciprocal())
}

fn change_of_sizes(run: &Run) -> Option<Markup> {
    let case = run.case("write_read")?;
    let gain = gain_of_sizes(run)?;
    let configuration = &case.configuration;
    let published = Sizes {
        buffer_bytes: configuration.buffer_bytes,
        pipe_bytes: configuration
            .pipe_bytes
            .or(configuration.pipe_bytes_asked)?,
    };
    let best = in_words(best_sizes(run)?);
    Some(html! { "Write " (best) ": " (ratio(gain)) " as fast as " (in_words(published)) "." })
}

fn change_of_writer(run: &Run) -> Option<Markup> {
    let gain = ratio_if(run.case("fastpipe_auto")?, Verdict::Faster)?;
    Some(html! {
        "In Rust, write by fastpipe's " code { "Writer" } ": " (ratio(gain))
        " as fast as "
        @if run.search.is_some() { "the best plain write." } @else { "a plain write in the given sizes." }
    })
}

/// The fastest channel whose ends sleep and that is right for every reader, if it is faster
/// than a pipe in its best sizes, too.
fn change_of_channel(run: &Run, touched: Option<&Run>) -> Option<Markup> {
    let is_safe = |case: &&CaseResult| case.configuration.channel() != Some(Channel::VMSPLICE);
    let compared = waiting(run, Waiting::Block).filter(|case| case.compared_with.is_some());
    let (case, rate) = fastest(compared.filter(is_safe).filter_map(measured))?;
    // Another run's: without a null control of both.
    let best = touched.and_then(|run| measured(run.case(BEST)?));
    if best.is_some_and(|(_, best)| !is_below(best, rate, run.null_tolerance())) {
        return None;
    }
    // Without a pipe in the list, or with one of another size, the ratio is to something else.
    let base = run.case(case.compared_with.as_deref()?)?;
    let is_default_pipe =
        base.configuration.channel() == Some(Channel::PIPE) && run.settings.pipe_size.is_none();
    let gain = ratio_if(case, Verdict::Faster).filter(|_| is_default_pipe)?;
    let about = case
        .configuration
        .channel()
        .map_or("", |channel| channel.about());
    Some(html! {
        "Where both programs are your own, send messages of "
        (size::exact(message(case) as u64)) " through " code { (channel(case)) } " (" (about)
        "): " (ratio(gain)) " as fast as a pipe of its default size."
    })
}

fn change_of_pipe(run: &Run) -> Option<Markup> {
    let gain = ratio_if(run.case(Change::LargePipe.name())?, Verdict::Faster)?;
    Some(html! {
        "Run a pipeline of the shell by " code { "pipespeed boost" } ", which enlarges its pipes: "
        (ratio(gain)) "."
    })
}

/// Replaces the sizes of the lines to paste by the best ones of the suite touched, if they
/// certainly help.
pub(super) fn with_best_sizes(text: &str, records: &Records) -> String {
    let touched = records.run(Suite::Touched);
    let touched = touched.filter(|run| gain_of_sizes(run).is_some());
    match touched.and_then(best_sizes) {
        // The one size may be the other's best.
        Some(best) => text
            .split("1048576")
            .map(|part| part.replace("65536", &best.buffer_bytes.to_string()))
            .collect::<Vec<String>>()
            .join(&best.pipe_bytes.to_string()),
        None => text.to_owned(),
    }
}

/// What makes the figures unreliable: a line, which unfolds.
pub(super) fn alarms(records: &Records) -> Markup {
    let machines = records.machines();
    let runs = || Suite::values().filter_map(|suite| records.run(suite));
    let mut notes: Vec<(String, String)> = Vec::new();
    for run in runs().filter(|run| run.failed_control().is_some()) {
        notes.push((format!("bench {}", run.suite), null_control(run)));
    }
    for saved in records.all() {
        let warnings = disturbances_and_load(saved.warnings());
        notes.extend(warnings.map(|warning| (saved.topic().to_string(), format!("{warning}."))));
    }
    let is_short = |run: &&Run| {
        run.interrupted.is_some() || run.settings.rounds_done < run.settings.rounds_planned
    };
    for run in runs().filter(is_short) {
        let (done, planned) = (run.settings.rounds_done, run.settings.rounds_planned);
        let text = match &run.interrupted {
            Some(_) => format!("it was interrupted: it has {done} of {planned} rounds."),
            None => {
                format!("it has {done} of {planned} complete rounds.")
            }
        };
        notes.push((format!("bench {}", run.suite), text));
    }
    let count = notes.len() + usize::from(machines.len() > 1);
    html! {
        @if count > 0 {
            aside.notes {
                details.alarm {
                    summary { "Something may have disturbed these figures (" (count) ")" }
                    ul {
                        @if machines.len() > 1 {
                            li {
                                "These records are of " (machines.len()) " machines or kernels. \
                                Figures of different sections can't be compared."
                            }
                        }
                        @for (topic, note) in &notes { li { code { (topic) } ": " (note) } }
                    }
                }
            }
        }
    }
}

/// The result of the null control.
pub(super) fn null_control(run: &Run) -> String {
    let note = run.null_control.as_ref().and_then(conditions::null_control);
    note.map_or_else(
        || "There was no null control.".to_owned(),
        |note| note.into_text() + ".",
    )
}
