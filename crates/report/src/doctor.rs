//! What `doctor` found, as a table of stages and sentences.

mod knot;

use std::collections::BTreeSet;

use itertools::Itertools as _;
use pipespeed_base::size;
use pipespeed_pipeline::diagnosis::{Certainty, Finding, Pace, Who};
use pipespeed_pipeline::observe::{Observation, Observed, Pipe};
use pipespeed_pipeline::proc::PipeId;
use pipespeed_pipeline::wait::{Outside, Side};

use self::knot::knot_text;
use super::format::{pluralize, significant};
use super::style::{BOLD, DIM, RED, Style, YELLOW};
use super::table::{Cell, Column, Table};

/// The stages with their shares of time, then what was found, the worst first.
pub fn doctor(observation: &Observation, findings: &[Finding], style: Style) -> String {
    let mut blocks = vec![
        style.heading(&headline(observation)),
        table(observation, findings, style),
    ];
    blocks.extend(
        findings
            .iter()
            .map(|finding| text(observation, finding, style)),
    );
    let unknown_pace = unknown_pace(observation);
    let is_stuck = findings.iter().any(Finding::is_stuck);
    let is_nothing = findings.is_empty() && unknown_pace.is_none();
    blocks.extend(unknown_pace.map(|text| style.sentence(&text)));
    if is_nothing {
        blocks.push("Nothing is stuck, and nothing else was noticed.".to_owned());
    } else if !is_stuck {
        blocks.push("Nothing is stuck.".to_owned());
    }
    blocks.extend(hidden_calls(observation.hidden_calls).map(|text| style.note(&text, DIM)));
    if is_stuck || style.verbose {
        let text = hidden(observation.hidden, observation.hides_processes);
        blocks.extend(text.map(|text| style.note(&text, DIM)));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n") + "\n"
}

/// Why it can't be said which stage sets the pace.
fn unknown_pace(observation: &Observation) -> Option<String> {
    let has_pipelines = !observation.pipelines().is_empty();
    match observation.short_lived_pipes() {
        count @ 1.. if !has_pipelines => Some(format!(
            "Short-lived pipelines were seen (at least {}), each too short to tell which stage sets \
             the pace.",
            pluralize(count, "pipe")
        )),
        _ if has_pipelines && observation.is_too_short() => Some(format!(
            "{}: too short to tell which stage sets the pace.",
            pluralize(observation.samples as usize, "sample")
        )),
        _ => None,
    }
}

fn headline(observation: &Observation) -> String {
    let pipelines = observation.pipelines();
    let stages: usize = pipelines.iter().map(Vec::len).sum();
    let what = if stages == 0 && observation.short_lived_pipes() > 0 {
        "no lasting pipeline".to_owned()
    } else if stages == 0 {
        "no pipeline".to_owned()
    } else {
        let pipelines = pluralize(pipelines.len(), "pipeline");
        format!("{} in {pipelines}", pluralize(stages, "stage"))
    };
    format!(
        "{what}: {} in {} s ({} % CPU; scans: {} ms)",
        pluralize(observation.samples as usize, "sample"),
        significant(observation.seconds),
        significant(observation.cost * 100.0),
        significant(observation.scan_s * 1e3)
    )
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

/// The processes that a finding names.
fn named(finding: &Finding) -> Vec<&Who> {
    match finding {
        Finding::Knot(knot) => {
            let members = knot.members.iter().map(|member| &member.who);
            members.chain(&knot.waiting).collect()
        }
        Finding::Held { holder, .. } => holder.iter().collect(),
        Finding::Pace(pace) => vec![&pace.stage],
        Finding::Turns { stages } => stages.iter().collect(),
        Finding::SpareEnd {
            reader,
            holder,
            waits_for,
            ..
        } => [reader, holder].into_iter().chain(waits_for).collect(),
        Finding::SmallCalls { process, .. } => vec![process],
        Finding::SmallPipe { between, .. } => between.iter().collect(),
    }
}

/// The stages of all pipelines; of many, only of those that a finding names.
fn table(observation: &Observation, findings: &[Finding], style: Style) -> String {
    let mut table = Table::new([
        Column::right("pid"),
        Column::left("stage"),
        Column::right("works"),
        Column::right("disk").optional(1),
        Column::right("blocked"),
        Column::right("starved"),
        Column::right("elsewhere"),
        Column::right("MiB/s").optional(2),
        Column::left("output").optional(3),
    ]);
    let mut pipelines = observation.pipelines();
    if observation.is_survey && !style.verbose {
        let mentioned: BTreeSet<i32> = findings.iter().flat_map(named).map(|who| who.pid).collect();
        pipelines.retain(|stages| {
            let mut pids = stages.iter().map(|it| it.process.id.pid);
            pids.any(|pid| mentioned.contains(&pid))
        });
    }
    let in_pipelines: BTreeSet<i32> = pipelines
        .iter()
        .flatten()
        .map(|it| it.process.id.pid)
        .collect();
    if !observation.is_survey {
        // A process in a knot may have no stage before or after it.
        let is_alone = |it: &&Observed| !in_pipelines.contains(&it.process.id.pid);
        let alone = observation.living().filter(is_alone);
        let mentioned: BTreeSet<i32> = findings.iter().flat_map(named).map(|who| who.pid).collect();
        let wanted = |it: &&Observed| {
            mentioned.contains(&it.process.id.pid) || it.is_asked && in_pipelines.is_empty()
        };
        pipelines.push(alone.filter(wanted).collect());
    }
    let edges = observation.edges();
    for observed in pipelines.into_iter().flatten() {
        let pid = observed.process.id.pid;
        let outputs = edges.iter().filter(|(from, ..)| *from == pid);
        let outputs = outputs.map(|(.., pipe)| *pipe).unique();
        let outputs = outputs.filter_map(|id| observation.pipes.iter().find(|it| it.id == id));
        let outputs = outputs.filter_map(size_and_fill).join("; ");
        table.row(row(observed, outputs));
    }
    table.render(style)
}

fn row(observed: &Observed, outputs: String) -> Vec<Cell> {
    let shares = &observed.shares;
    let share = |share: f64| match share {
        0.0 => "-".to_owned(),
        share => percent(share),
    };
    // The largest share is what the stage mainly did.
    let all = [
        shares.working,
        shares.disk,
        shares.blocked,
        shares.starved,
        shares.elsewhere + shares.stopped,
    ];
    let most = all.into_iter().fold(0.0, f64::max);
    let cell = |value: f64| {
        if value == most && value > 0.0 {
            Cell::painted(share(value), BOLD)
        } else {
            share(value).into()
        }
    };
    let rate = match observed.io.filter(|_| !observed.splices) {
        Some(io) => significant(io.written_bytes as f64 / observed.counted_s / f64::from(1 << 20)),
        None => "?".to_owned(),
    };
    let mut cells = vec![
        observed.process.id.pid.to_string().into(),
        observed.process.name.clone().into(),
    ];
    cells.extend(all.map(cell));
    cells.extend([rate.into(), outputs.into()]);
    cells
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `64KiB, 97 % full`.
fn size_and_fill(pipe: &Pipe) -> Option<String> {
    let (capacity, fill) = (pipe.capacity?, pipe.fill?);
    Some(format!(
        "{}, {} full",
        size::format(capacity),
        percent(fill)
    ))
}

/// `gzip (pid 4711)`.
fn full(who: &Who) -> String {
    format!("{} (pid {})", who.name, who.pid)
}

/// Joins names: `a, b and c`.
fn list(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<String> = names.into_iter().collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => "nobody".to_owned(),
    }
}

fn descriptor(fd: i32) -> String {
    match fd {
        0 => "standard input".to_owned(),
        1 => "standard output".to_owned(),
        2 => "standard error".to_owned(),
        fd => format!("descriptor {fd}"),
    }
}

/// `pipe 131780 (64KiB, 97 % full)`, or `FIFO /tmp/x`.
fn pipe_name(observation: &Observation, id: PipeId) -> String {
    let pipe = observation.pipes.iter().find(|pipe| pipe.id == id);
    let name = match pipe.and_then(|pipe| pipe.path.as_deref()) {
        Some(path) => format!("FIFO {path}"),
        None => format!("pipe {}", id.inode),
    };
    match pipe.and_then(size_and_fill) {
        Some(state) => format!("{name} ({state})"),
        None => name,
    }
}

fn text(observation: &Observation, finding: &Finding, style: Style) -> String {
    match finding {
        Finding::Knot(knot) => knot_text(observation, knot, style),
        Finding::Held {
            pipe,
            holder,
            is_stuck,
        } => {
            let holder = holder.as_ref().map_or_else(|| "A process".to_owned(), full);
            let text = format!(
                "{holder} splices and holds the lock of {} meanwhile: nobody else can read, write, \
                 open or close this pipe. Remedy: whatever it splices to must take the data; or \
                 end it.",
                pipe_name(observation, *pipe)
            );
            if *is_stuck {
                style.note(&format!("STUCK: {text}"), RED)
            } else {
                style.sentence(&text)
            }
        }
        Finding::Pace(pace) => style.sentence(&pace_text(pace)),
        Finding::Turns { stages } => style.sentence(&format!(
            "No single stage sets the pace: {} wait for each other by turns. A larger pipe between \
             them may help: {}.",
            list(stages.iter().map(full)),
            boost_line(observation, stages)
        )),
        Finding::SpareEnd {
            pipe,
            reader,
            holder,
            fd,
            waits_for,
            is_last,
        } => {
            let also = if *is_last {
                String::new()
            } else {
                "also once its writers have ended, ".to_owned()
            };
            let waits_for = match waits_for.len() {
                0 => String::new(),
                _ => format!(
                    " It waits for {}, without that descriptor.",
                    list(waits_for.iter().map(full))
                ),
            };
            let text = format!(
                "{} waits for input or its end on {}, but {also}{} holds a write end ({}), and wrote \
                 nothing in {} s.{waits_for} There is no end of file before it closes that. Remedy: \
                 unless it is to write there, start it without the descriptor ('{fd}>&-' in a shell), \
                 or end it.",
                full(reader),
                pipe_name(observation, *pipe),
                full(holder),
                descriptor(*fd),
                significant(observation.seconds),
            );
            style.note(&text, YELLOW)
        }
        Finding::SmallCalls {
            process,
            side,
            bytes_per_call,
            calls_per_s,
            wakes,
        } => {
            let (verb, remedy) = match side {
                Side::Input => ("reads", "a larger buffer"),
                Side::Room => ("writes", "buffering (no flush after each line)"),
            };
            let wakes = wakes.as_ref().map(|who| format!(", and wakes {} each time", full(who)));
            style.sentence(&format!(
                "{} {verb} only {} bytes a call, {} times a second{}: {remedy} would save most of \
                 these calls.",
                full(process),
                significant(*bytes_per_call),
                significant(*calls_per_s),
                wakes.unwrap_or_default()
            ))
        }
        Finding::SmallPipe {
            pipe,
            capacity,
            between,
        } => style.sentence(&format!(
            "{} between {} has only {}: the pipes of this user exceed \
             /proc/sys/fs/pipe-user-pages-soft, so that new ones are small. Remedy: close or shrink \
             others, or raise that limit.",
            pipe_name(observation, *pipe),
            list(between.iter().map(full)),
            size::format(*capacity)
        )),
    }
}

/// The command that raises the pipes between these stages.
fn boost_line(observation: &Observation, stages: &[Who]) -> String {
    let of = |who: &Who| Some(observation.find(who.pid)?.process.parent);
    let parents = stages.iter().map(of).unique().collect::<Vec<_>>();
    match parents[..] {
        [Some(parent)] if parent > 1 => format!("'pipespeed boost --pid {parent}'"),
        _ => "'pipespeed boost COMMAND'".to_owned(),
    }
}

fn pace_text(pace: &Pace) -> String {
    let shares = &pace.shares;
    let stage = full(&pace.stage);
    let verb = match pace.certainty {
        Certainty::Clear => "sets the pace",
        Certainty::Likely => "probably sets the pace",
    };
    let outside = pace.outside.map_or("something else", Outside::name);
    let largest = [
        shares.working,
        shares.disk,
        shares.elsewhere,
        shares.stopped,
    ]
    .into_iter()
    .fold(0.0, f64::max);
    let (does, remedy) = if largest == shares.working {
        let does = format!("it works {} of the time", percent(shares.working));
        (
            does,
            format!(
                "Only a faster {} helps; larger pipes don't.",
                pace.stage.name
            ),
        )
    } else if largest == shares.disk {
        let does = format!("it waits for a disk {} of the time", percent(shares.disk));
        (
            does,
            "Only a faster disk or less data helps; larger pipes don't.".to_owned(),
        )
    } else if largest == shares.stopped {
        let remedy = format!("Continue it by 'kill -CONT {}'.", pace.stage.pid);
        ("it is stopped".to_owned(), remedy)
    } else {
        let does = format!(
            "it waits for {outside} {} of the time",
            percent(shares.elsewhere)
        );
        (does, "The pipes are not the cause.".to_owned())
    };
    let waits = |stages: &[(Who, f64)], what: &str| {
        let most = stages.iter().filter(|(_, share)| *share >= 0.05);
        let names = most.map(|(who, share)| format!("{} {}", full(who), percent(*share)));
        let names: Vec<String> = names.collect();
        (!names.is_empty()).then(|| format!("{what} {}", list(names)))
    };
    let others = [
        waits(&pace.before, "before it, waiting for room:"),
        waits(&pace.after, "after it, waiting for input:"),
    ];
    let others = others.into_iter().flatten().join("; ");
    let others = if others.is_empty() {
        String::new()
    } else {
        format!(" ({others})")
    };
    format!("{stage} {verb}: {does}{others}. {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_pipeline::diagnosis::diagnose;
    use pipespeed_pipeline::find::Process;
    use pipespeed_pipeline::fixtures::{
        busy, frozen, observation, on_input, on_room, process, reads, writes,
    };
    use pipespeed_pipeline::observe::Observed;
    use pipespeed_pipeline::wait::{State, Wait};

    /// What an observation of these processes shows, in 80 columns.
    fn screen(processes: Vec<Observed>, change: impl FnOnce(&mut Observation)) -> String {
        let mut observation = observation(processes);
        change(&mut observation);
        doctor(&observation, &diagnose(&observation), Style::of_width(80))
    }

    fn waiting(outside: Outside) -> State {
        State::Waiting(Wait::Outside(outside))
    }

    #[test]
    fn a_healthy_pipeline_names_its_slow_stage() {
        insta::assert_snapshot!(screen(
            vec![
                busy(process(41, "yes", vec![writes(1, 7)]), 0.03, 0.97, 0.0),
                busy(
                    process(42, "gzip", vec![reads(0, 7), writes(1, 8)]),
                    0.99,
                    0.0,
                    0.01
                ),
                busy(process(43, "wc", vec![reads(0, 8)]), 0.0, 0.0, 1.0),
            ],
            |_| {}
        ));
    }

    #[test]
    fn a_knot_names_each_member_and_what_it_waits_for() {
        let child = |threads| {
            let own = process(12, "sort", vec![reads(0, 1), writes(1, 2)]);
            frozen(Process { parent: 11, ..own }, threads)
        };
        let parent = |thread| {
            frozen(
                process(11, "driver", vec![writes(4, 1), reads(5, 2)]),
                thread,
            )
        };
        let both_write = screen(vec![parent(on_room(1)), child(on_room(2))], |observation| {
            observation.hidden = 31;
        });
        let wait = State::Waiting(Wait::Child(Some(12)));
        let unread = screen(vec![parent(wait.clone()), child(on_room(2))], |_| {});
        let unclosed = screen(vec![parent(wait), child(on_input(1))], |_| {});
        insta::assert_snapshot!([both_write, unread, unclosed].join("\n"));
    }

    #[test]
    fn a_stray_write_end_is_named_with_its_descriptor() {
        insta::assert_snapshot!(screen(
            vec![
                frozen(process(41, "cat", vec![reads(0, 7)]), on_input(7)),
                frozen(
                    process(42, "daemon", vec![writes(7, 7)]),
                    waiting(Outside::Timer)
                ),
            ],
            |_| {}
        ));
    }

    #[test]
    fn a_stage_that_waits_for_a_socket_is_not_the_pipes_fault() {
        insta::assert_snapshot!(screen(
            vec![
                frozen(
                    process(41, "curl", vec![writes(1, 7)]),
                    waiting(Outside::Socket)
                ),
                frozen(process(42, "tar", vec![reads(0, 7)]), on_input(7)),
            ],
            |_| {}
        ));
    }

    #[test]
    fn stages_that_wait_by_turns_get_the_line_that_raises_their_pipe() {
        let turns = |parent| {
            let of = |process: Process| Process { parent, ..process };
            screen(
                vec![
                    busy(of(process(41, "cat", vec![writes(1, 7)])), 0.5, 0.5, 0.0),
                    busy(of(process(42, "wc", vec![reads(0, 7)])), 0.5, 0.0, 0.5),
                ],
                |_| {},
            )
        };
        insta::assert_snapshot!([turns(40), turns(1)].join("\n"));
    }

    #[test]
    fn few_samples_are_said_to_be_too_few() {
        let stages = || {
            vec![
                frozen(process(41, "cat", vec![writes(1, 7)]), on_room(7)),
                frozen(
                    process(42, "wc", vec![reads(0, 7)]),
                    waiting(Outside::Timer),
                ),
            ]
        };
        let text = |samples| screen(stages(), |observation| observation.samples = samples);
        let words = "3 samples: too short to tell which stage sets the pace.";
        assert!(text(3).contains(words), "{}", text(3));
        assert!(!text(4).contains("too short"), "{}", text(4));
    }

    #[test]
    fn a_loop_of_short_pipelines_is_not_called_nothing() {
        let short = |pid, ends| {
            let mut short = frozen(process(pid, "cat", ends), waiting(Outside::Timer));
            (short.samples, short.has_ended) = (1, true);
            short
        };
        let shell = frozen(process(41, "sh", Vec::new()), waiting(Outside::Timer));
        let cats = [
            short(42, vec![writes(1, 7)]),
            short(43, vec![reads(0, 7)]),
            // Their output leads out of the command.
            short(44, vec![writes(1, 9)]),
        ];
        let text = screen([vec![shell], cats.into()].concat(), |_| {});
        assert!(text.starts_with("no lasting pipeline: "), "{text}");
        let words = "Short-lived pipelines were seen (at least 1 pipe), each";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn nothing_found_is_said_too() {
        let alone = frozen(process(41, "sleep", Vec::new()), waiting(Outside::Timer));
        insta::assert_snapshot!(screen(vec![alone], |_| {}));
    }
}
