//! The first line: the verdict in one sentence.

use pipespeed_pipeline::diagnosis::{
    ActiveStage, Bottleneck, Finding, LeakedWriteEnd, Severity, TooShort, Unread, verdict,
};
use pipespeed_pipeline::graph::LinkSide;
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::sample::Observed;
use pipespeed_pipeline::wait::Outside;

use super::deadlock::headline;
use super::names::{
    descriptor, duration, full, full_of_active, is_one, stream, working_child, written_as,
};
use super::notes::unseen;
use super::table::percent;
use super::{count_stages, unread_bytes};
use crate::bottleneck::waits_for;
use crate::format::{list, pluralize};
use crate::style::{GREEN, RED, YELLOW};

/// The verdict, and the first finding that leads to it.
pub(super) fn describe_verdict(observation: &Observation, findings: &[Finding]) -> String {
    let (verdict, finding) = verdict(observation, findings);
    let text = match finding {
        Some(Finding::Unclear { active, .. }) if verdict == Severity::CantTell => {
            format!(
                " which of {} stages holds up the others{}.",
                active.len(),
                describe_active(active).map_or(String::new(), |text| format!(": {text}"))
            )
        }
        Some(finding) if verdict != Severity::NothingWrong => {
            format!(": {}", describe(observation, finding))
        }
        Some(_) => format!(" in {}, but see below.", count_stages(observation)),
        None => nothing(observation),
    };
    if verdict == Severity::NothingWrong
        && let Some(unseen) = unseen(observation)
    {
        return format!("NOTHING WRONG SEEN, but {unseen}");
    }
    let name = match (verdict, finding) {
        (Severity::Stuck, _) => "STUCK".to_owned(),
        (Severity::ProbablyStuck, _) => "PROBABLY STUCK".to_owned(),
        (Severity::Unread, _) => "UNREAD".to_owned(),
        (Severity::WaitingFor, Some(finding)) => format!("WAITING FOR {}", awaited(finding)),
        (Severity::WaitingFor, None) | (Severity::Slow, _) => "SLOW".to_owned(),
        (Severity::CantTell, _) => "CAN'T TELL".to_owned(),
        (Severity::NothingWrong, _) => "NOTHING WRONG SEEN".to_owned(),
    };
    name + &text
}

pub(super) fn color(observation: &Observation, findings: &[Finding]) -> &'static str {
    match verdict(observation, findings).0 {
        Severity::Stuck | Severity::ProbablyStuck => RED,
        Severity::Unread | Severity::WaitingFor | Severity::Slow | Severity::CantTell => YELLOW,
        Severity::NothingWrong if unseen(observation).is_some() => YELLOW,
        Severity::NothingWrong => GREEN,
    }
}

/// How far nothing was found.
fn nothing(observation: &Observation) -> String {
    let stages = count_stages(observation);
    let pipelines = observation.pipelines();
    let is_idle = |stages: &&Vec<&Observed>| observation.is_idle(stages);
    let idle = pipelines.iter().filter(is_idle).count();
    match too_short(observation) {
        Some(why) => format!(". {why}"),
        None if pipelines.is_empty() => format!(": {stages}."),
        None if idle == pipelines.len() => format!(
            " in {stages}: nothing moved. 'pipespeed doctor PID' says what such a pipeline waits for."
        ),
        None if idle > 0 => format!(
            " in {stages}: nothing moved in {idle} of the pipelines, and no stage holds up the others in the rest."
        ),
        None => format!(" in {stages}: no stage holds up the others."),
    }
}

/// Why it can't be said which stage is the bottleneck.
pub(super) fn too_short(observation: &Observation) -> Option<String> {
    Some(match observation.too_short()? {
        TooShort::Pipelines { pipes } => format!(
            "Short-lived pipelines were seen (at least {}), each too short to tell which stage is \
             the bottleneck.",
            pluralize(pipes, "pipe")
        ),
        TooShort::Life => "It ended during the look, too early to tell what held it up.".to_owned(),
        TooShort::Look => format!(
            "{}: too short to tell which stage is the bottleneck.",
            pluralize(observation.samples as usize, "sample")
        ),
    })
}

/// What is waited for that may come.
fn awaited(finding: &Finding) -> String {
    match finding {
        Finding::Unread(unread) => {
            let mut readers = unread.readers.iter();
            let outside = readers.find_map(|reader| reader.waits_for);
            outside.map_or("its reader", Outside::name).to_owned()
        }
        Finding::LeakedWriteEnd(leaked) if leaked.is_output => "data or an end of file".to_owned(),
        Finding::LeakedWriteEnd(_) => "an end of file".to_owned(),
        Finding::MutualWait(mutual) if mutual.has_timeout() => {
            "each other's message, or a timeout".to_owned()
        }
        Finding::MutualWait(_) => "each other's message".to_owned(),
        Finding::FifoPeer { path, .. } => match path {
            Some(path) => format!("another process to open {path}"),
            None => "another process to open a FIFO".to_owned(),
        },
        Finding::UnseenPeer { side, .. } => match side {
            LinkSide::Input => "data of a pipe whose writer isn't seen".to_owned(),
            LinkSide::Room => "room in a pipe whose reader isn't seen".to_owned(),
        },
        Finding::Held { .. } => "a splice".to_owned(),
        Finding::Bottleneck(bottleneck) => bottleneck
            .awaited()
            .map_or("something else", Outside::name)
            .to_owned(),
        Finding::Deadlock(_)
        | Finding::PingPong { .. }
        | Finding::Unclear { .. }
        | Finding::SmallCalls(_)
        | Finding::SmallPipe { .. } => String::new(),
    }
}

fn describe(observation: &Observation, finding: &Finding) -> String {
    match finding {
        Finding::Deadlock(deadlock) => headline(deadlock),
        Finding::Unread(unread) => describe_unread(observation, unread),
        Finding::LeakedWriteEnd(leaked) => describe_leaked(observation, leaked),
        Finding::MutualWait(mutual) => {
            format!("{}.", list(mutual.sides.iter().map(|side| full(&side.who))))
        }
        Finding::Held { holder, .. } => {
            let holder = holder.as_ref().map_or_else(|| "a process".to_owned(), full);
            format!("{holder} holds the lock of a pipe that it splices from or to.")
        }
        Finding::Bottleneck(bottleneck) => describe_bottleneck(bottleneck),
        Finding::PingPong { stages, delay } => {
            let s = if is_one(stages) { "s" } else { "" };
            match delay {
                Some(_) => format!(
                    "{} wait{s} for a processor.",
                    list(stages.iter().map(full_of_active))
                ),
                None => format!(
                    "{} wait for each other by turns.",
                    list(stages.iter().map(|stage| full(&stage.who)))
                ),
            }
        }
        Finding::SmallCalls(calls) => {
            let verb = match calls.side {
                LinkSide::Input => "reads",
                LinkSide::Room => "writes",
            };
            format!("{} {verb} few bytes a call.", full(&calls.process))
        }
        Finding::FifoPeer { process, .. } | Finding::UnseenPeer { process, .. } => {
            format!("{}.", full(process))
        }
        Finding::Unclear { .. } | Finding::SmallPipe { .. } => String::new(),
    }
}

fn describe_bottleneck(bottleneck: &Bottleneck) -> String {
    let stage = full(&bottleneck.stage);
    if !bottleneck.is_alone() {
        return format!("{stage} {} the bottleneck.", bottleneck.verb());
    }
    match waits_for(bottleneck) {
        _ if bottleneck.awaited().is_some() => format!("{stage}."),
        Some(what) => format!("{stage} waits for {what}."),
        None if bottleneck.is_stopped => format!("{stage} is stopped."),
        None => format!("{stage} {} the bottleneck.", bottleneck.verb()),
    }
}

/// What the busiest of stages did of which none stands out, if any did much.
pub(super) fn describe_active(stages: &[ActiveStage]) -> Option<String> {
    const MAX_NAMED: usize = 3;
    const MIN_ACTIVE: f64 = 0.1;
    let active = stages
        .iter()
        .filter(|stage| stage.runs.max(stage.queued) >= MIN_ACTIVE);
    let texts = active.take(MAX_NAMED).map(|stage| {
        let s = if stage.are_children { "" } else { "s" };
        let children = if stage.are_children {
            "the children of "
        } else {
            ""
        };
        let states = [
            (stage.runs, format!("run{s} {}", percent(stage.runs))),
            (
                stage.queued,
                format!("wait{s} for a processor {}", percent(stage.queued)),
            ),
        ];
        let states = states.into_iter().filter(|(share, _)| *share >= MIN_ACTIVE);
        let states = list(states.map(|(_, text)| text));
        format!("{children}{} {states}", stage.who.name)
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn describe_unread(observation: &Observation, unread: &Unread) -> String {
    let readers = list(unread.readers.iter().map(|reader| full(&reader.who)));
    let s = if unread.readers.len() == 1 { "s" } else { "" };
    let time = duration(observation, &unread.writer);
    let bytes = unread_bytes(observation, unread.pipe);
    let bytes = bytes.map_or(String::new(), |bytes| format!(" {bytes} of"));
    format!(
        "{readers} leave{s}{bytes} the {} of {} unread, which has waited for room for {time}.",
        stream(written_as(observation, unread.pipe, &unread.writer)),
        full(&unread.writer)
    )
}

fn describe_leaked(observation: &Observation, leaked: &LeakedWriteEnd) -> String {
    let reader = full(&leaked.reader);
    let fd = descriptor(leaked.fd);
    let time = duration(observation, &leaked.reader);
    if leaked.holder == leaked.reader {
        return format!(
            "{reader} waits for it, and keeps a write end open itself ({fd}); it has not moved for {time}."
        );
    }
    let holder = observation.find(leaked.holder.pid);
    let moved = if holder.is_some_and(|holder| holder.is_frozen) {
        "neither has moved"
    } else {
        "the reader has not moved"
    };
    let works = working_child(observation, leaked).map_or(String::new(), |(child, share)| {
        format!(
            ", but {child}, for which {} waits, works {} of the time",
            leaked.holder.name,
            percent(share)
        )
    });
    format!(
        "{reader} waits for it, and {} keeps the write end open ({fd}); {moved} for {time}{works}.",
        full(&leaked.holder),
    )
}
