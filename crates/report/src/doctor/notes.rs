//! Notes below the findings: what was looked at, what that cost, and what could not be examined.

use pipespeed_base::text::without_error_numbers;
use pipespeed_pipeline::diagnosis::{Finding, Severity, verdict};
use pipespeed_pipeline::graph::LinkSide;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::proc::silent::SilentProcess;

use super::count_stages;
use crate::format::{list, pluralize, significant};

/// Where files or pipes were not looked at because helpers were blocked.
const LACKS_HELPERS: &str =
    "so many processes gave no answer that the pipes of some could not be examined";

/// All that apply. What may hold ends of pipes unseen is only noted where the verdict may depend on it.
pub(super) fn notes(
    observation: &Observation,
    findings: &[Finding],
    is_verbose: bool,
) -> Vec<String> {
    let (severity, first) = verdict(observation, findings);
    let is_doubtful = match first {
        Some(Finding::UnseenPeer { .. }) => true,
        _ => severity == Severity::NothingWrong && unseen(observation).is_some(),
    };
    let mut notes = vec![effort(observation)];
    notes.extend(slow_scans(observation));
    if observation.is_cut_short {
        let text = "note: a signal arrived before all processes were read: what depends on them is \
                    not reported";
        notes.push(text.to_owned());
    }
    notes.extend(hidden_calls(observation.hidden_calls));
    if severity == Severity::NothingWrong {
        let lacks = observation.lacks_helpers;
        notes.extend(lacks.then(|| format!("note: {LACKS_HELPERS}")));
    } else {
        notes.extend(other_networks(observation).map(|text| format!("note: {text}")));
        notes.extend(unexamined(observation));
    }
    notes.extend(silent(&observation.silent, false));
    if severity == Severity::Stuck {
        let text =
            "note: whether one of them has set an alarm(2), which would end it, can't be seen";
        notes.push(text.to_owned());
    }
    if severity >= Severity::Unread || is_doubtful || is_verbose {
        notes.extend(hidden(observation.hidden, observation.hides_processes));
    }
    notes
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

/// What can't be seen of other processes: how many, and whether there may be more.
pub(crate) fn hidden(count: usize, hides_processes: bool) -> Option<String> {
    let number = pluralize(count, "other process");
    let what = match (count, hides_processes) {
        (0, false) => return None,
        (0, true) => {
            "processes of other users are not shown here (/proc is mounted with hidepid)".to_owned()
        }
        (_, false) => format!("{number} can't be examined without more privileges"),
        (_, true) => format!(
            "{number} can't be examined without more privileges, and more are not shown (/proc is mounted \
             with hidepid)"
        ),
    };
    let they = match (count, hides_processes) {
        (1, false) => "it",
        _ => "they",
    };
    Some(format!(
        "note: {what}; {they} may hold ends of these pipes, too"
    ))
}

/// Which processes do not answer, and whether others were examined only in part for that reason.
pub(crate) fn silent(processes: &[SilentProcess], lacks_helpers: bool) -> Option<String> {
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
pub(super) fn other_networks(observation: &Observation) -> Option<String> {
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

/// What may hide something wrong.
pub(super) fn unseen(observation: &Observation) -> Option<String> {
    other_networks(observation).or_else(|| hidden_peer(observation))
}

/// A process that stands still, and waits for one that can't be examined.
fn hidden_peer(observation: &Observation) -> Option<String> {
    let hides_some =
        observation.hidden > 0 || observation.hides_processes || !observation.silent.is_empty();
    if !hides_some || observation.is_survey {
        return None;
    }
    let asked = observation.living().filter(|observed| observed.is_asked);
    let mut waits = asked
        .filter(|observed| observed.is_frozen)
        .flat_map(|observed| observed.on.iter().map(|on| (&observed.process, on)));
    let (process, on) = waits.find(|(_, on)| {
        let mut all = observation.processes.iter();
        !all.any(|other| other.process.holds(on.pipe, on.side.other()))
    })?;
    let wait = match on.side {
        LinkSide::Input => "input on",
        LinkSide::Room => "room in",
    };
    let link = match on.pipe {
        pipe if pipe.is_socket() => "socket",
        pipe if pipe.is_terminal() => "terminal",
        _ => "pipe",
    };
    Some(format!(
        "{} (pid {}) waits for {wait} a {link}, and no process that can be examined has the other end.",
        process.name, process.id.pid
    ))
}

/// The note that the system calls of `count` processes of the pipelines can't be read.
pub(crate) fn hidden_calls(count: usize) -> Option<String> {
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
