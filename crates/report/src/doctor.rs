//! What `doctor` found, as a table of stages and sentences.

mod deadlock;
mod names;
mod remedies;
mod sentences;
mod table;
#[cfg(test)]
mod tests;
mod verdict;
mod waits;

use std::collections::BTreeSet;

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_base::text::{escape, without_error_numbers};
use pipespeed_pipeline::diagnosis::{Finding, Severity, verdict};
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::LinkId;
use pipespeed_pipeline::proc::silent::SilentProcess;
use pipespeed_pipeline::sample::Observed;

use self::sentences::describe;
pub(super) use self::table::rate;
use self::table::table;
use self::verdict::{describe_verdict, too_short};

use super::format::{list, pluralize, significant};
use super::style::{DIM, Style};

/// The verdict, who waits for whom, the stages with their shares of time, and what was found, the
/// worst first.
pub fn doctor(observation: &Observation, findings: &[Finding], style: Style) -> String {
    let first = describe_verdict(observation, findings);
    let mut blocks = vec![style.note(&first, verdict::color(observation, findings))];
    for section in sections(observation, findings, style) {
        if let Some(name) = &section.name {
            blocks.push(style.heading(name));
        }
        blocks.push(waits::chain(observation, &section.findings));
        blocks.push(table(observation, &section.stages, style));
        if style.verbose {
            blocks.push(arguments(&section.stages));
        }
        let shown = section.findings.iter().filter(|finding| {
            let alike = section
                .findings
                .iter()
                .find(|other| are_alike(other, finding));
            alike.is_some_and(|first| std::ptr::eq(*first, **finding))
        });
        blocks.extend(shown.map(|finding| {
            let alike = section.findings.iter().copied();
            let alike: Vec<&Finding> = alike.filter(|other| are_alike(other, finding)).collect();
            describe(observation, findings, finding, &alike, style)
        }));
    }
    if !findings.is_empty() {
        blocks.extend(too_short(observation).map(|text| style.sentence(&text)));
    }
    blocks.push(style.note(&effort(observation), DIM));
    blocks.extend(slow_scans(observation).map(|text| style.note(&text, DIM)));
    if observation.is_cut_short {
        let text = "note: a signal arrived before all processes were read: what depends on them is \
                    not reported";
        blocks.push(style.note(text, DIM));
    }
    blocks.extend(hidden_calls(observation.hidden_calls).map(|text| style.note(&text, DIM)));
    if verdict(findings).0 == Severity::NothingWrong && observation.lacks_helpers {
        let text = format!("note: {LACKS_HELPERS}");
        blocks.push(style.note(&text, DIM));
    }
    if verdict(findings).0 != Severity::NothingWrong {
        let text = other_networks(observation).map(|text| format!("note: {text}"));
        blocks.extend(text.map(|text| style.note(&text, DIM)));
        blocks.extend(unexamined(observation).map(|text| style.note(&text, DIM)));
    }
    let text = silent(&observation.silent, false);
    blocks.extend(text.map(|text| style.note(&text, DIM)));
    let (severity, first) = verdict(findings);
    let is_doubtful = match first {
        Some(Finding::UnseenPeer { .. }) => true,
        _ => severity == Severity::NothingWrong && verdict::unseen(observation).is_some(),
    };
    if severity >= Severity::Unread || is_doubtful || style.verbose {
        let text = hidden(observation.hidden, observation.hides_processes);
        blocks.extend(text.map(|text| style.note(&text, DIM)));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

/// What was looked at, and what that cost.
fn effort(observation: &Observation) -> String {
    format!(
        "{}: {} in {} s ({} % CPU; scans: {} ms)",
        count_stages(observation),
        pluralize(observation.samples as usize, "sample"),
        significant(observation.seconds),
        significant(observation.cost * 100.0),
        significant(observation.scan_s * 1e3)
    )
}

/// That reading all processes took long, if it did.
pub fn slow_scans(observation: &Observation) -> Option<String> {
    const MIN_SLOW_S: f64 = 1.0;
    (observation.scan_s > MIN_SLOW_S).then(|| {
        let seconds = significant(observation.scan_s);
        format!(
            "note: reading all processes took {seconds} s, in which nothing was sampled: some have very \
             many descriptors"
        )
    })
}

/// `3 stages in 1 pipeline`.
fn count_stages(observation: &Observation) -> String {
    let pipelines = observation.pipelines();
    let stages: usize = pipelines.iter().map(Vec::len).sum();
    if stages == 0 && observation.short_lived_pipes() > 0 {
        "no lasting pipeline".to_owned()
    } else if stages == 0 {
        "no pipeline".to_owned()
    } else {
        let pipelines = pluralize(pipelines.len(), "pipeline");
        format!("{} in {pipelines}", pluralize(stages, "stage"))
    }
}

/// What can't be seen of other processes: how many, and whether there may be more.
pub(super) fn hidden(count: usize, hides_processes: bool) -> Option<String> {
    let number = pluralize(count, "other process");
    let what = match (count, hides_processes) {
        (0, false) => return None,
        (0, true) => {
            "processes of other users are not shown here (/proc is mounted with hidepid)".to_owned()
        }
        (_, false) => format!("{number} can't be examined without privileges"),
        (_, true) => format!(
            "{number} can't be examined without privileges, and more are not shown (/proc is mounted \
             with hidepid)"
        ),
    };
    Some(format!(
        "note: {what}; they may hold ends of these pipes, too"
    ))
}

/// Where files or pipes were not looked at because helpers were blocked.
const LACKS_HELPERS: &str =
    "so many processes gave no answer that the pipes of some could not be examined";

/// Which processes do not answer, and whether others were examined only in part for that reason.
pub(super) fn silent(processes: &[SilentProcess], lacks_helpers: bool) -> Option<String> {
    const MAX_NAMED: usize = 3;
    let in_part = LACKS_HELPERS;
    if processes.is_empty() {
        return lacks_helpers.then(|| format!("note: {in_part}"));
    }
    let names = processes
        .iter()
        .map(|process| format!("{} ({})", process.pid, process.name));
    let text = match processes.len() {
        1 => format!(
            "process {} answers nothing (reading it in /proc blocks), and was left out; it",
            list(names)
        ),
        2..=MAX_NAMED => format!(
            "processes {} answer nothing (reading them in /proc blocks), and were left out; they",
            list(names)
        ),
        count => format!(
            "{count} processes answer nothing (reading them in /proc blocks), and were left out; they"
        ),
    };
    let more = if lacks_helpers {
        format!("; {in_part}")
    } else {
        String::new()
    };
    Some(format!(
        "note: {text} may hold ends of these pipes, too{more}"
    ))
}

/// What could not be looked at: sockets, or the pipes of processes that did not answer.
fn unexamined(observation: &Observation) -> Option<String> {
    let sockets = observation.unlisted_sockets.as_ref();
    let sockets = sockets.map(|error| {
        let error = without_error_numbers(error);
        format!("the sockets of this machine can't be listed ({error}), and join no processes here")
    });
    let pipes = observation.lacks_helpers.then(|| LACKS_HELPERS.to_owned());
    let all: Vec<String> = sockets.into_iter().chain(pipes).collect();
    (!all.is_empty()).then(|| format!("note: {}", all.join("; ")))
}

/// Whose sockets are in another network namespace, and how to look at them.
fn other_networks(observation: &Observation) -> Option<String> {
    const MAX_NAMED: usize = 3;
    let pids = &observation.other_networks;
    let first = pids.first()?;
    let all = observation
        .processes
        .iter()
        .map(|observed| &observed.process);
    let names = all
        .filter(|process| pids.contains(&process.id.pid))
        .map(|process| format!("{} (pid {})", process.name, process.id.pid));
    let processes = if pids.len() <= MAX_NAMED {
        list(names)
    } else {
        format!("{} processes", pids.len())
    };
    Some(format!(
        "the sockets of {processes} are in another network namespace, and were not looked at. To look \
         at them: nsenter -n -t {first} pipespeed doctor {first}"
    ))
}

/// The note that the system calls of `count` processes of the pipelines can't be read.
pub(super) fn hidden_calls(count: usize) -> Option<String> {
    if count == 0 {
        return None;
    }
    let count = pluralize(count, "process");
    Some(format!(
        "note: the system calls of {count} can't be read without privileges \
         (kernel.yama.ptrace_scope); waits in poll(2) count as elsewhere, and which pipe a process \
         waits for may be unclear"
    ))
}

/// A pipeline, or processes outside of pipelines, with what was found about them.
#[derive(Default)]
struct DoctorSection<'a> {
    /// Its stages as a heading; `None` if it is the only one.
    name: Option<String>,
    stages: Vec<&'a Observed>,
    findings: Vec<&'a Finding>,
}

/// The pipelines with what was found about each, the worst first; of many, only those with
/// findings.
fn sections<'a>(
    observation: &'a Observation,
    findings: &'a [Finding],
    style: Style,
) -> Vec<DoctorSection<'a>> {
    let pids = |stages: &[&Observed]| -> BTreeSet<i32> {
        stages.iter().map(|stage| stage.process.id.pid).collect()
    };
    let mut sections: Vec<DoctorSection<'a>> = observation
        .pipelines()
        .into_iter()
        .map(|stages| DoctorSection {
            stages,
            ..DoctorSection::default()
        })
        .collect();
    let mut rest = DoctorSection::default();
    for finding in findings {
        let named: BTreeSet<i32> = finding.named().iter().map(|who| who.pid).collect();
        let mut owners = sections.iter_mut();
        let owner = owners.find(|section| !pids(&section.stages).is_disjoint(&named));
        owner.unwrap_or(&mut rest).findings.push(finding);
    }
    if observation.is_survey && !style.verbose {
        sections.retain(|section| !section.findings.is_empty());
    }
    let all: BTreeSet<i32> = sections
        .iter()
        .flat_map(|section| pids(&section.stages))
        .collect();
    if !observation.is_survey {
        // A process in a deadlock may have no stage before or after it.
        let mentioned: BTreeSet<i32> = findings
            .iter()
            .flat_map(Finding::named)
            .map(|who| who.pid)
            .collect();
        let wanted = |process: &&Observed| {
            let pid = process.process.id.pid;
            let is_alone = process.is_asked && all.is_empty();
            !all.contains(&pid) && (mentioned.contains(&pid) || is_alone)
        };
        rest.stages = observation.living().filter(wanted).collect();
    }
    // One pipeline and what belongs to it are one section.
    if let [only] = &mut sections[..] {
        only.stages.append(&mut rest.stages);
        only.findings.append(&mut rest.findings);
        only.findings
            .sort_by_key(|finding| position(findings, finding));
        return sections;
    }
    if !rest.stages.is_empty() || !rest.findings.is_empty() {
        sections.push(rest);
    }
    // Findings stand in this order, the worst first.
    sections.sort_by_key(|section| {
        let first = section
            .findings
            .iter()
            .map(|finding| position(findings, finding));
        first.min().unwrap_or(usize::MAX)
    });
    if sections.len() > 1 {
        for section in &mut sections {
            let names = section.stages.iter().map(|stage| &*stage.process.name);
            let separator = if is_chain(observation, &section.stages) {
                " | "
            } else {
                ", "
            };
            section.name =
                (!section.stages.is_empty()).then(|| names.collect::<Vec<_>>().join(separator));
        }
    }
    sections
}

/// Whether two findings are the same but for the holder of a leaked write end, of which there may be
/// many, or but for which of its outputs that is.
fn are_alike(a: &Finding, b: &Finding) -> bool {
    match (a, b) {
        (Finding::LeakedWriteEnd(a), Finding::LeakedWriteEnd(b)) => {
            let is_same = a.pipe == b.pipe || a.holder == b.holder;
            is_same && a.reader == b.reader && a.is_last == b.is_last
        }
        _ => std::ptr::eq(a, b),
    }
}

fn position(all: &[Finding], finding: &Finding) -> usize {
    let at = all.iter().position(|other| std::ptr::eq(other, finding));
    at.unwrap_or(usize::MAX)
}

/// Whether each stage writes to the next one.
fn is_chain(observation: &Observation, stages: &[&Observed]) -> bool {
    let edges = observation.edges();
    let pairs = stages.iter().tuple_windows();
    let mut pairs = pairs.map(|(a, b)| (a.process.id.pid, b.process.id.pid));
    pairs.all(|(a, b)| edges.iter().any(|(from, to, _)| (*from, *to) == (a, b)))
}

/// The arguments of the stages, as far as they are known.
fn arguments(stages: &[&Observed]) -> String {
    let known = stages.iter().filter_map(|observed| {
        let line = escape(observed.arguments.as_ref()?);
        Some(format!("{:>7}  {line}", observed.process.id.pid))
    });
    known.collect::<Vec<String>>().join("\n")
}

/// The bytes that lie in a link: `64KiB`, or `at least 4KiB` of datagrams.
fn unread_bytes(observation: &Observation, id: LinkId) -> Option<String> {
    let mut links = observation.pipes.iter();
    let link = links.find(|link| link.id == id)?;
    link.unread.filter(|bytes| *bytes > 0).map(size::format)
}
