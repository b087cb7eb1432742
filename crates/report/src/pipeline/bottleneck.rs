//! The sentence on the bottleneck of a profiled pipeline.

use itertools::Itertools as _;
use pipespeed_explain::profile::groups::CostGroup;
use pipespeed_explain::profile::reason::SleepReason;
use pipespeed_explain::profile::record::{PipelineProfile, StageProfile};
use pipespeed_pipeline::wait::Asleep;

use super::{MIN_LISTED, main_costs};
use crate::format::percent;

/// Minimum share of its time that a busy stage waits for a processor, to mention it.
const MIN_DELAYED: f64 = 0.05;
/// A stage that sleeps less than this share of its time is busy.
const MAX_ASLEEP: f64 = 0.25;
/// Minimum share of its time that a stage waits for a processor, to name that as a cause.
const MIN_STARVED: f64 = 0.25;
/// A stage is a possible bottleneck if its duration is at least this share of the
/// pipeline's.
const MIN_PRESENT: f64 = 0.5;
/// A stage that sleeps for this share of its time, and of that for a timer, is held up by nobody.
const MIN_UNHURRIED: f64 = 0.9;
/// At most this many stages that wait for a processor are named.
const MAX_STARVED: usize = 3;

/// A sentence on the bottleneck, and the stage that it is about.
pub(super) struct BottleneckSentence<'a> {
    pub(super) sentence: String,
    pub(super) stage: Option<&'a StageProfile>,
}

/// Finds the bottleneck, if the times of the stages are known.
pub(super) fn bottleneck(pipeline: &PipelineProfile) -> BottleneckSentence<'_> {
    let mut stages = pipeline.stages.iter();
    if stages.any(|stage| is_present(stage, pipeline) && !stage.is_timed) {
        return BottleneckSentence {
            sentence: "Too short to tell which stage is the bottleneck.".to_owned(),
            stage: None,
        };
    }
    among_timed(pipeline)
}

/// Finds the bottleneck among stages whose times are known.
fn among_timed(pipeline: &PipelineProfile) -> BottleneckSentence<'_> {
    let present: Vec<&StageProfile> = pipeline
        .stages
        .iter()
        .filter(|stage| is_present(stage, pipeline))
        .collect();
    let Some(least) = present
        .iter()
        .copied()
        .min_by(|a, b| asleep(a).total_cmp(&asleep(b)))
    else {
        return BottleneckSentence {
            sentence: "No stage was there for half of the time.".to_owned(),
            stage: None,
        };
    };
    let busy: Vec<&StageProfile> = present
        .iter()
        .copied()
        .filter(|stage| asleep(stage) < MAX_ASLEEP)
        .collect();
    let (starved, fed): (Vec<&StageProfile>, Vec<&StageProfile>) =
        busy.iter().copied().partition(|stage| is_starved(stage));
    let names = |stages: &[&StageProfile]| stages.iter().map(|stage| &stage.end.role).join(" and ");
    let sentence = match (fed.as_slice(), starved.as_slice()) {
        ([], []) if waits_for_processors(&present) => too_few_processors(&present),
        ([], []) => {
            let (sentence, stage) = final_wait(pipeline, least);
            return BottleneckSentence {
                sentence: format!("No stage is busy all the time: {sentence}."),
                stage: Some(stage),
            };
        }
        ([], starved) => too_few_processors(starved),
        ([only], []) if let Some(sentence) = unhurried(pipeline, only) => sentence,
        ([only], []) => {
            let subject = match pipeline.stages.len() {
                1 => only.end.role.clone(),
                _ => format!("The pipeline is as fast as {}: it", only.end.role),
            };
            let processors = if delayed(only) >= MIN_STARVED {
                " More free processors would help, too."
            } else {
                ""
            };
            format!("{subject} {}.{processors}", what_it_does(only))
        }
        (several, []) => match busy
            .iter()
            .copied()
            .max_by(|a, b| delayed(a).total_cmp(&delayed(b)))
        {
            Some(most) if delayed(most) >= MIN_STARVED => format!(
                "{} are all busy: the pipeline gets faster if each of them does, or with more \
                 free processors: {} waits for one {} of its time.",
                names(several),
                most.end.role,
                percent(delayed(most), 0)
            ),
            _ => format!(
                "{} are all busy: the pipeline gets faster only if each of them does.",
                names(several)
            ),
        },
        (fed, starved) => format!(
            "{} {} most of the time. {}",
            names(fed),
            if fed.len() == 1 { "runs" } else { "run" },
            too_few_processors(starved)
        ),
    };
    let stage = if fed.is_empty() {
        let starved = if starved.is_empty() { present } else { starved };
        starved
            .into_iter()
            .max_by(|a, b| delayed(a).total_cmp(&delayed(b)))
    } else {
        fed.into_iter().max_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s))
    };
    BottleneckSentence { sentence, stage }
}

/// What is said of a busy stage if the one before or after it waits for a timer all the time, or in a poll, as
/// pv(1) does to keep its rate: a thread of the busy one may run for something else.
fn unhurried(pipeline: &PipelineProfile, busy: &StageProfile) -> Option<String> {
    let stages = &pipeline.stages;
    let at = stages.iter().position(|stage| std::ptr::eq(stage, busy))?;
    let is_next = |nth: usize, stage: &StageProfile| {
        busy.reads_from == Some(nth + 1) || stage.reads_from == Some(at + 1)
    };
    let is_unhurried = |stage: &StageProfile| {
        let first = stage.waits.first();
        let is_open = first.is_some_and(|wait| {
            let may_be_timer = matches!(wait.name, SleepReason::Kind(Asleep::Timer | Asleep::Poll));
            may_be_timer && wait.share >= MIN_UNHURRIED
        });
        is_open && asleep(stage) >= MIN_UNHURRIED
    };
    let mut all = stages.iter().enumerate();
    let (_, next) = all.find(|(nth, stage)| is_next(*nth, stage) && is_unhurried(stage))?;
    let (busy, name) = (&busy.end.role, &next.end.role);
    let wait = &next.waits.first()?.name;
    let what = if *wait == SleepReason::Kind(Asleep::Timer) {
        format!("so {busy} does not hold it up")
    } else {
        format!("for {busy}, or for a timer: doctor tells which")
    };
    let asleep = percent(asleep(next), 0);
    Some(format!(
        "{busy} runs most of the time, and {name} sleeps {asleep} of it, mostly waiting for {wait}, {what}."
    ))
}

/// Whether a stage waits for a processor for long, and more than it runs.
fn is_starved(stage: &StageProfile) -> bool {
    delayed(stage) >= MIN_STARVED && delayed(stage) > running(stage)
}

/// Stages that all sleep wait for a processor only if one of them runs or waits for one for this
/// share of the time. Otherwise all wait for something else meanwhile, as for a timer.
const MIN_READY: f64 = 0.8;

/// Whether stages that all sleep wait for processors more than they run: each sleeps until its
/// neighbour gets one.
fn waits_for_processors(stages: &[&StageProfile]) -> bool {
    let sum = |share: fn(&StageProfile) -> f64| -> f64 {
        stages.iter().map(|stage| share(stage) * stage.wall_s).sum()
    };
    let wall = stages.iter().map(|stage| stage.wall_s).fold(0.0, f64::max);
    sum(delayed) > sum(running)
        && sum(delayed) + sum(running) >= MIN_READY * wall
        && stages.iter().any(|stage| delayed(stage) >= MIN_STARVED)
}

/// A sentence on stages that wait for a processor.
fn too_few_processors(stages: &[&StageProfile]) -> String {
    let most = stages
        .iter()
        .filter(|stage| delayed(stage) >= MIN_STARVED)
        .sorted_by(|a, b| delayed(b).total_cmp(&delayed(a)))
        .take(MAX_STARVED);
    let each = most.map(|stage| {
        format!(
            "{} waits for a processor {} of its time and runs {}",
            stage.end.role,
            percent(delayed(stage), 0),
            percent(running(stage), 0)
        )
    });
    format!("Processor time is short: {}.", each.format("; "))
}

/// `sleeps 3 % of its time, and runs mostly user code 92 %`: what a busy stage does.
fn what_it_does(stage: &StageProfile) -> String {
    let sleeps = (asleep(stage) >= MIN_LISTED)
        .then(|| format!("sleeps {} of its time", percent(asleep(stage), 0)));
    let waits = (delayed(stage) >= MIN_DELAYED).then(|| {
        format!(
            "waits for a processor {} of its time",
            percent(delayed(stage), 0)
        )
    });
    let costs = main_costs(stage);
    let runs = match costs.as_str() {
        "" => format!("runs {} of it", percent(running(stage), 0)),
        costs => format!("runs mostly {costs}"),
    };
    match sleeps.into_iter().chain(waits).join(", ").as_str() {
        "" => match costs.as_str() {
            "" => "runs all the time".to_owned(),
            _ => runs,
        },
        first => format!("{first}, and {runs}"),
    }
}

fn delayed(stage: &StageProfile) -> f64 {
    stage.end.share(CostGroup::RunDelay)
}

fn running(stage: &StageProfile) -> f64 {
    (1.0 - asleep(stage) - delayed(stage)).max(0.0)
}

fn asleep(stage: &StageProfile) -> f64 {
    stage.end.share(CostGroup::Asleep)
}

fn is_present(stage: &StageProfile, pipeline: &PipelineProfile) -> bool {
    stage.wall_s >= MIN_PRESENT * pipeline.wall_s
}

/// The reason why all stages of a pipeline sleep, and the stage where it is: follows the pipes
/// waited for from the stage that sleeps least.
fn final_wait<'a>(
    pipeline: &'a PipelineProfile,
    least: &'a StageProfile,
) -> (String, &'a StageProfile) {
    let stages = &pipeline.stages;
    let Some(mut at) = stages.iter().position(|stage| std::ptr::eq(stage, least)) else {
        return (String::new(), least);
    };
    let mut from = None;
    let mut visited = vec![at];
    while let Some(next) = waited_for(stages, at) {
        // Only neighbours can wait for each other.
        if from == Some(next) {
            let (one, other) = (&stages[at.min(next)], &stages[at.max(next)]);
            let text = format!(
                "even {} sleeps {} of it{}; {} and {} wait for each other by turns",
                least.end.role,
                percent(asleep(least), 0),
                lack_of_processor(least),
                one.end.role,
                other.end.role
            );
            return (text, least);
        }
        // Through FIFOs a pipeline may be a ring.
        if visited.contains(&next) {
            break;
        }
        visited.push(next);
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
    let processor = lack_of_processor(last);
    let text = format!("{who} {} of it{wait}{processor}", percent(asleep(last), 0));
    (text, last)
}

/// ` and waits for a processor 30 % of it`, if it does so for long.
fn lack_of_processor(stage: &StageProfile) -> String {
    match delayed(stage) {
        share if share >= MIN_STARVED => {
            format!(" and waits for a processor {} of it", percent(share, 0))
        }
        _ => String::new(),
    }
}

/// The neighbour that a stage mostly waits for, if that is known.
fn waited_for(stages: &[StageProfile], at: usize) -> Option<usize> {
    let waits_for = |at: usize, reason| {
        let first = stages[at].waits.first();
        first.is_some_and(|wait| wait.name == SleepReason::Kind(reason))
    };
    if waits_for(at, Asleep::Input) {
        return Some(stages[at].reads_from? - 1);
    }
    if !waits_for(at, Asleep::Room) {
        return None;
    }
    let reads_from_it = |reader: &usize| stages[*reader].reads_from == Some(at + 1);
    let readers: Vec<usize> = (0..stages.len()).filter(reads_from_it).collect();
    match *readers {
        [] => Some(stages[at].writes_to? - 1),
        [only] => Some(only),
        // As of tee: one that has its input by then.
        _ => {
            let fed = readers
                .into_iter()
                .filter(|reader| !waits_for(*reader, Asleep::Input));
            fed.exactly_one().ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use Asleep::{Input, Room, Timer};

    use super::*;
    use pipespeed_explain::profile::fixtures;
    use pipespeed_explain::profile::record::{CostBound, Share, TimePart};

    /// The sentence if all stages sleep, the first least, for these reasons.
    fn all_asleep(waits: [Asleep; 3], change: impl FnOnce(&mut PipelineProfile)) -> String {
        let mut pipeline = fixtures::pipeline().pipeline.unwrap();
        let mut share = 0.9;
        for (stage, wait) in pipeline.stages.iter_mut().zip(waits) {
            share += 0.02;
            stage.end.costs = vec![TimePart {
                group: CostGroup::Asleep,
                seconds: stage.end.usage.wall_s,
                ns_per_page: None,
                share,
                bound: CostBound::Exact,
            }];
            stage.waits = vec![Share {
                name: SleepReason::Kind(wait),
                share: 0.9,
            }];
        }
        change(&mut pipeline);
        bottleneck(&pipeline).sentence
    }

    const START: &str = "No stage is busy all the time: ";

    #[test]
    fn a_busy_stage_that_does_not_hold_up_its_writer_is_not_the_bottleneck() {
        for (wait, expected) in [
            (
                Timer,
                "waiting for a timer (sleep), so 2: filter does not hold it up.",
            ),
            (
                Asleep::Poll,
                "waiting for poll or select, for 2: filter, or for a timer: doctor tells which.",
            ),
        ] {
            let sentence = all_asleep([wait, Input, Input], |pipeline| {
                pipeline.stages[1].end.costs.clear();
                pipeline.stages[0].end.costs[0].share = 0.99;
            });
            assert!(sentence.ends_with(expected), "{sentence}");
        }
        // It waits for room.
        let sentence = all_asleep([Room, Input, Input], |pipeline| {
            pipeline.stages[1].end.costs.clear();
        });
        assert!(
            sentence.starts_with("The pipeline is as fast as 2: filter"),
            "{sentence}"
        );
    }

    #[test]
    fn the_stage_that_waits_for_something_else_is_named() {
        let sentence = all_asleep([Timer, Input, Input], |_| ());
        let expected = "even 1: produce sleeps 92 % of it, mostly waiting for a timer (sleep).";
        assert_eq!(sentence, format!("{START}{expected}"));
        // The search follows the pipes downstream, too.
        let sentence = all_asleep([Room, Room, Timer], |_| ());
        let expected = "it comes down to 3: sink, which sleeps 96 % of it, mostly waiting for a timer (sleep).";
        assert_eq!(sentence, format!("{START}{expected}"));
        let sentence = all_asleep([Timer, Input, Input], |pipeline| {
            pipeline.stages[0].end.costs[0].share = 1.0;
        });
        assert!(
            sentence.contains("it comes down to 1: produce, which sleeps 100 %"),
            "{sentence}"
        );
        // The first stage has two readers, as tee.
        let sentence = all_asleep([Room, Input, Timer], |pipeline| {
            pipeline.stages[2].reads_from = Some(1);
        });
        assert!(sentence.contains("it comes down to 3: sink"), "{sentence}");
        // The first stage waits for input from outside of the pipeline.
        let sentence = all_asleep([Input, Timer, Timer], |_| ());
        assert!(
            sentence.contains("even 1: produce sleeps 92 % of it, mostly waiting for input"),
            "{sentence}"
        );
    }

    #[test]
    fn only_the_two_ends_of_a_pipe_wait_by_turns() {
        let sentence = all_asleep([Room, Input, Timer], |_| ());
        let expected = "even 1: produce sleeps 92 % of it; 1: produce and 2: filter wait for each other by turns.";
        assert_eq!(sentence, format!("{START}{expected}"));
        let sentence = all_asleep([Room, Room, Input], |_| ());
        assert!(
            sentence.ends_with("2: filter and 3: sink wait for each other by turns."),
            "{sentence}"
        );
        let sentence = all_asleep([Timer, Room, Timer], |_| ());
        assert!(!sentence.contains("by turns"), "{sentence}");
    }

    #[test]
    fn a_busy_stage_is_named_with_what_it_does() {
        let with = |share: f64, stages: usize| {
            let mut pipeline = fixtures::pipeline().pipeline.unwrap();
            let mut busy = pipeline.stages[1].clone();
            let mut costs = busy.end.costs.iter_mut();
            costs
                .find(|cost| cost.group == CostGroup::Asleep)
                .unwrap()
                .share = share;
            pipeline.stages[1] = busy.clone();
            if stages == 1 {
                pipeline.stages = vec![busy];
            }
            bottleneck(&pipeline).sentence
        };
        let costs = "user code 92 %, pipe slots, splice's own code 5 %.";
        let only = format!("2: filter sleeps 3 % of its time, and runs mostly {costs}");
        assert_eq!(with(0.03, 1), only);
        let never = format!("The pipeline is as fast as 2: filter: it runs mostly {costs}");
        assert_eq!(with(0.001, 3), never);
    }

    /// The verdict if the stages run and wait for a processor for these shares, and sleep for
    /// the rest.
    fn of_shares(shares: [(f64, f64); 3]) -> String {
        let mut pipeline = fixtures::pipeline().pipeline.unwrap();
        for (stage, (running, delayed)) in pipeline.stages.iter_mut().zip(shares) {
            let asleep = 1.0 - running - delayed;
            let cost = |(group, share): (CostGroup, f64)| TimePart {
                group,
                seconds: share * stage.end.usage.wall_s,
                ns_per_page: None,
                share,
                bound: CostBound::Exact,
            };
            let shares = [
                (CostGroup::UserCode, running),
                (CostGroup::RunDelay, delayed),
                (CostGroup::Asleep, asleep),
            ];
            stage.end.costs = shares.map(cost).to_vec();
        }
        bottleneck(&pipeline).sentence
    }

    #[test]
    fn waiting_for_a_processor_is_the_cause_where_it_is_longer_than_running() {
        let starved = "Processor time is short: 2: filter waits for a processor 60 % of its time and runs 30 %";
        for (shares, expected) in [
            // One busy stage, several, and none: on one processor, each stage sleeps while
            // its neighbour waits.
            ([(0.1, 0.1), (0.3, 0.6), (0.1, 0.0)], starved),
            (
                [(0.35, 0.6), (0.3, 0.6), (0.1, 0.0)],
                "1: produce waits for a processor 60 %",
            ),
            (
                [(0.2, 0.4), (0.2, 0.4), (0.0, 0.0)],
                "1: produce waits for a processor 40 %",
            ),
            (
                [(0.9, 0.0), (0.3, 0.6), (0.1, 0.0)],
                "1: produce runs most of the time. Processor time is short",
            ),
            (
                [(0.6, 0.3), (0.6, 0.3), (0.1, 0.0)],
                "or with more free processors: ",
            ),
        ] {
            let sentence = of_shares(shares);
            assert!(sentence.contains(expected), "{sentence}");
            assert!(!sentence.contains("only if"), "{sentence}");
            assert!(!sentence.contains("is as fast as"), "{sentence}");
        }
        for (shares, expected) in [
            (
                [(0.1, 0.1), (0.7, 0.2), (0.1, 0.0)],
                "as fast as 2: filter: it sleeps 10 % of its time, waits for a processor 20 %",
            ),
            (
                [(0.1, 0.1), (0.5, 0.4), (0.1, 0.0)],
                "More free processors would help, too.",
            ),
            (
                [(0.8, 0.0), (0.8, 0.1), (0.1, 0.0)],
                "faster only if each of them does",
            ),
            ([(0.0, 0.1), (0.0, 0.1), (0.0, 0.1)], "No stage is busy"),
            // A rate limit, which waits for its timer.
            ([(0.01, 0.02), (0.01, 0.32), (0.1, 0.1)], "No stage is busy"),
        ] {
            let sentence = of_shares(shares);
            assert!(sentence.contains(expected), "{sentence}");
            assert!(!sentence.contains("time is short"), "{sentence}");
        }
    }

    #[test]
    fn no_or_several_busy_stages_are_no_single_bottleneck() {
        let mut pipeline = fixtures::pipeline().pipeline.unwrap();
        pipeline.stages.remove(1);
        let sentence = bottleneck(&pipeline).sentence;
        assert!(
            sentence.contains("even 3: sink sleeps 80 % of it"),
            "{sentence}"
        );
        let mut pipeline = fixtures::pipeline().pipeline.unwrap();
        pipeline.stages[0] = pipeline.stages[1].clone();
        let sentence = bottleneck(&pipeline).sentence;
        assert!(
            sentence.contains("2: filter and 2: filter are all busy"),
            "{sentence}"
        );
    }
}
