//! Why none of several stages is named.

use pipespeed_pipeline::diagnosis::{ActiveStage, Who};
use pipespeed_pipeline::observe::Observation;
use pipespeed_pipeline::sample::Observed;

use super::names::full;
use super::table::percent;
use crate::bottleneck::name_children;
use crate::format::list;

/// A stage that waits for this share of the time does nothing else.
const MIN_ALL: f64 = 0.95;
/// One that runs for a smaller share does nothing.
const MIN_RUNNING: f64 = 0.01;
/// Stages that pause for a smaller share of the time are not mentioned as such.
const MIN_PAUSE: f64 = 0.2;

/// Why no stage is named.
pub(super) fn unclear_text(observation: &Observation, stages: &[ActiveStage]) -> String {
    let all: Vec<&Observed> = stages
        .iter()
        .filter_map(|stage| observation.find(stage.who.pid))
        .collect();
    if let Some((one, other)) = observation.stalled_pair(&all) {
        return format!(
            "{} and {} wait for each other's messages nearly all the time, and hardly run: what is between them takes \
             it, as a network does, or delayed acknowledgements of small messages (TCP_NODELAY in tcp(7), or one send \
             for each message).",
            full(&one),
            full(&other)
        );
    }
    if let Some((writer, reader)) = observation.slow_connection(&all) {
        return format!(
            "No stage stands out as the bottleneck: {} waits for room in its connection to {}, which waits for \
             input from there at the same time. The connection itself limits both, by its network or its buffers.",
            full(&writer),
            full(&reader)
        );
    }
    if let Some(text) = circle_text(observation, stages) {
        return text;
    }
    let pauses = |stage: &ActiveStage| {
        let observed = observation.find(stage.who.pid)?;
        let outside = observed.mainly()?;
        let share = *observed.outside.get(&outside)?;
        if share < MIN_PAUSE {
            return None;
        }
        let share = percent(share);
        let children = observed.polled_children().map(name_children);
        let children = children.map(|children| format!(", perhaps to look after {children}"));
        Some(format!(
            "{} waits for {} {share} of the time{}",
            full(&stage.who),
            outside.name(),
            children.unwrap_or_default()
        ))
    };
    let pauses: Vec<String> = stages.iter().filter_map(pauses).collect();
    if pauses.is_empty() {
        return "No stage stands out as the bottleneck. A longer look may show one (--time 10)."
            .to_owned();
    }
    let turns = if pauses.len() > 1 {
        " They may take turns."
    } else {
        ""
    };
    format!(
        "No stage stands out as the bottleneck: {}.{turns}",
        list(pauses)
    )
}

/// That stages wait for each other's input while nothing runs, but for who waits for them.
fn circle_text(observation: &Observation, stages: &[ActiveStage]) -> Option<String> {
    let runs = |stage: &ActiveStage| stage.runs + stage.queued >= MIN_RUNNING;
    let all = stages
        .iter()
        .filter_map(|stage| observation.find(stage.who.pid));
    let (starved, others): (Vec<_>, Vec<_>) =
        all.partition(|stage| stage.shares.starved >= MIN_ALL);
    let are_elsewhere = others.iter().all(|stage| stage.shares.elsewhere >= MIN_ALL);
    if stages.iter().any(runs) || starved.len() < 2 || !are_elsewhere {
        return None;
    }
    Some(format!(
        "Nothing runs: {} wait for input, each for what another one of them would send. Does one wait for the end of a \
         connection that the other one keeps open?",
        list(starved.into_iter().map(|stage| full(&stage.who())))
    ))
}

/// Who may end it if all wait for input.
pub(super) fn event_loops_text(stages: &[Who]) -> String {
    let they = if stages.len() == 1 { "it" } else { "them" };
    format!(
        "All stages mostly wait for input. {} may wait for a timer or another event instead, and the others \
         for {they}.",
        list(stages.iter().map(full))
    )
}
