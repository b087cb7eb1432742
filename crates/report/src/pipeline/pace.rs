//! Which stage sets a pipeline's pace, in a sentence.

use super::main_costs;
use crate::format::significant;
use pipespeed_explain::profile::groups::Group;
use pipespeed_explain::profile::pipeline::{INPUT, OUTPUT};
use pipespeed_explain::profile::record::{PipelineProfile, StageProfile};

/// A stage is busy if it sleeps less than this share of its time.
const MAX_ASLEEP: f64 = 0.25;
/// A stage can only set the pace if it runs for this share of the pipeline's time.
const MIN_PRESENT: f64 = 0.5;

/// A sentence on which stage sets the pace.
pub(super) fn limit(pipeline: &PipelineProfile) -> String {
    let present = pipeline
        .stages
        .iter()
        .filter(|stage| is_present(stage, pipeline));
    let Some(least) = present
        .clone()
        .min_by(|a, b| asleep(a).total_cmp(&asleep(b)))
    else {
        return "No stage is there most of the time: they work one after the other.".to_owned();
    };
    let busy: Vec<&str> = present
        .filter(|stage| asleep(stage) < MAX_ASLEEP)
        .map(|stage| &*stage.end.role)
        .collect();
    let delayed = least.end.share(Group::RunDelay);
    match busy.as_slice() {
        [] => format!(
            "No stage is busy all the time: {}.",
            final_wait(pipeline, least)
        ),
        [only] => format!(
            "{} {only}: it sleeps {:.0} % of its time{}, and runs mostly {}.",
            match pipeline.stages.len() {
                1 => "All is",
                _ => "The pipeline is as fast as",
            },
            asleep(least) * 100.0,
            if delayed >= MAX_ASLEEP {
                format!(
                    ", is ready {:.0} % of it but without a processor",
                    delayed * 100.0
                )
            } else {
                String::new()
            },
            main_costs(least)
        ),
        several if delayed >= MAX_ASLEEP => format!(
            "There are too few processors: {} are ready to run most of the time and wait for one.",
            several.join(" and ")
        ),
        several => format!(
            "{} are all busy: the pipeline gets faster only if each of them does.",
            several.join(" and ")
        ),
    }
}

fn asleep(stage: &StageProfile) -> f64 {
    stage.end.share(Group::Asleep)
}

fn is_present(stage: &StageProfile, pipeline: &PipelineProfile) -> bool {
    stage.wall_s >= MIN_PRESENT * pipeline.wall_s
}

/// What a pipeline waits for in which all stages sleep: from the stage that sleeps
/// least, along the pipes that are waited for.
fn final_wait(pipeline: &PipelineProfile, least: &StageProfile) -> String {
    let stages = &pipeline.stages;
    let Some(mut at) = stages.iter().position(|stage| std::ptr::eq(stage, least)) else {
        return String::new();
    };
    let mut from = None;
    while let Some(next) = waited_for(stages, at) {
        // On a line, only neighbours can wait for each other.
        if from == Some(next) {
            let (one, other) = (&stages[at.min(next)], &stages[at.max(next)]);
            return format!(
                "even {} sleeps {:.0} % of it; {} and {} wait for each other by turns",
                least.end.role,
                asleep(least) * 100.0,
                one.end.role,
                other.end.role
            );
        }
        let stage = &stages[next];
        // Had all of it ended, the pipe would have ended too.
        if !is_present(stage, pipeline) {
            return format!(
                "{} waits for what {} left behind: that ended after {} s, but something that it started holds the \
                 pipe open",
                stages[at].end.role,
                stage.end.role,
                significant(stage.wall_s)
            );
        }
        (from, at) = (Some(at), next);
    }
    let last = &stages[at];
    let who = match from {
        None => format!("even {} sleeps", last.end.role),
        Some(_) => format!("it comes down to {}, which sleeps", last.end.role),
    };
    let wait = match last.waits.first() {
        Some(wait) => format!(", mostly waiting for {}", wait.name),
        None => String::new(),
    };
    format!("{who} {:.0} % of it{wait}", asleep(last) * 100.0)
}

/// The neighbour that a stage mostly waits for.
fn waited_for(stages: &[StageProfile], at: usize) -> Option<usize> {
    match stages[at].waits.first()?.name.as_str() {
        INPUT => at.checked_sub(1),
        OUTPUT => Some(at + 1).filter(|next| *next < stages.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::profile::record::{Cost, Function};
    use pipespeed_explain::profile::sample;

    /// The sentence where all sleep, the first least, and wait for this.
    fn all_asleep(waits: [&str; 3], change: impl FnOnce(&mut PipelineProfile)) -> String {
        let mut pipeline = sample::pipeline().pipeline.unwrap();
        let mut share = 0.9;
        for (stage, wait) in pipeline.stages.iter_mut().zip(waits) {
            share += 0.02;
            stage.end.costs = vec![Cost {
                group: Group::Asleep,
                seconds: stage.end.usage.wall_s,
                ns_per_page: None,
                share,
            }];
            stage.waits = vec![Function {
                name: wait.to_owned(),
                share: 0.9,
            }];
        }
        change(&mut pipeline);
        limit(&pipeline)
    }

    const TIMER: &str = "a timer (sleep)";
    const START: &str = "No stage is busy all the time: ";

    #[test]
    fn the_stage_that_waits_for_something_else_is_named() {
        let said = all_asleep([TIMER, INPUT, INPUT], |_| ());
        let expected = "even 1: produce sleeps 92 % of it, mostly waiting for a timer (sleep).";
        assert_eq!(said, format!("{START}{expected}"));
        // From the stage that sleeps least, back and forth.
        let said = all_asleep([OUTPUT, OUTPUT, TIMER], |_| ());
        let expected = "it comes down to 3: sink, which sleeps 96 % of it, mostly waiting for a timer (sleep).";
        assert_eq!(said, format!("{START}{expected}"));
        let said = all_asleep([TIMER, INPUT, INPUT], |pipeline| {
            pipeline.stages[0].end.costs[0].share = 1.0;
        });
        assert!(
            said.contains("it comes down to 1: produce, which sleeps 100 %"),
            "{said}"
        );
        // Input from without, and output to nobody who is known.
        let said = all_asleep([INPUT, TIMER, TIMER], |_| ());
        assert!(
            said.contains("even 1: produce sleeps 92 % of it, mostly waiting for input"),
            "{said}"
        );
    }

    #[test]
    fn only_the_two_ends_of_a_pipe_wait_by_turns() {
        let said = all_asleep([OUTPUT, INPUT, TIMER], |_| ());
        let expected = "even 1: produce sleeps 92 % of it; 1: produce and 2: filter wait for each other by turns.";
        assert_eq!(said, format!("{START}{expected}"));
        let said = all_asleep([OUTPUT, OUTPUT, INPUT], |_| ());
        assert!(
            said.ends_with("2: filter and 3: sink wait for each other by turns."),
            "{said}"
        );
        let said = all_asleep([TIMER, OUTPUT, TIMER], |_| ());
        assert!(!said.contains("by turns"), "{said}");
    }

    #[test]
    fn a_stage_that_has_ended_and_left_its_pipe_open_is_named() {
        let said = all_asleep([TIMER, INPUT, INPUT], |pipeline| {
            pipeline.stages[0].wall_s = 0.01;
        });
        let expected =
            "2: filter waits for what 1: produce left behind: that ended after 0.0100 s, but";
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn where_nobody_is_busy_nobody_is_blamed() {
        let mut pipeline = sample::pipeline().pipeline.unwrap();
        pipeline.stages.remove(1);
        let said = limit(&pipeline);
        assert!(said.contains("even 3: sink sleeps 80 % of it"), "{said}");
        let mut pipeline = sample::pipeline().pipeline.unwrap();
        pipeline.stages[0] = pipeline.stages[1].clone();
        let said = limit(&pipeline);
        assert!(
            said.contains("2: filter and 2: filter are all busy"),
            "{said}"
        );
    }
}
