//! The profile of a pipeline, as text.

use itertools::Itertools as _;
use pipespeed_base::text::in_short;
use pipespeed_base::{signal_name, size};
use pipespeed_explain::profile::account::FEW_BYTES;
use pipespeed_explain::profile::groups::Group;
use pipespeed_explain::profile::perf::FREQUENCY;
use pipespeed_explain::profile::pipeline::{INPUT, OUTPUT, PHASE_MS};
use pipespeed_explain::profile::record::{PipelineProfile, Profile, StageProfile, Status};
use pipespeed_measure::record::GIB;

use super::format::{fixed, percent, significant};
use super::profile::{bars, call_tree, profile_notes};
use super::style::Style;
use super::table::{Column, Table};

/// Maximum length of a command in a heading.
const MAX_COMMAND: usize = 90;
/// At most this many reasons of waiting are listed for a stage.
const MAX_WAITS: usize = 3;
/// At most this many costs are listed for a stage.
const MAX_COSTS: usize = 2;
/// Minimum share of a listed cost.
const MIN_LISTED: f64 = 0.005;

/// The table of stages, then the bars and the call tree of each.
pub fn profile_pipeline(
    profile: &Profile,
    pipeline: &PipelineProfile,
    threshold: f64,
    style: Style,
) -> String {
    let mut blocks = vec![
        style.heading(&format!(
            "{}: {} s{}",
            in_short(&pipeline.command, MAX_COMMAND),
            significant(pipeline.wall_s),
            how_it_ended(profile, pipeline)
        )),
        table(pipeline, style),
    ];
    let sentences = std::iter::once(bottleneck(pipeline)).chain(failures(profile, pipeline));
    blocks.extend(sentences.map(|text| style.sentence(&text)));
    for stage in pipeline.shown() {
        let mut block = style.heading(&stage.end.role);
        let bars = bars(&basis(stage), &stage.end, Group::name_in_pipeline, style);
        block += &format!("\n{bars}");
        if stage.end.share(Group::Asleep) > 0.0 && stage.seen_asleep > 0 {
            let text = format!(
                "asleep, waiting for: {} (seen asleep {} times)",
                waits(stage),
                stage.seen_asleep
            );
            block += &format!("\n{}", style.sentence(&text));
        }
        blocks.push(block);
    }
    let trees = pipeline.shown();
    blocks.extend(trees.filter_map(|stage| call_tree(&stage.end, threshold, style)));
    let stages = format!("stages: {}", profile.settings.placement);
    let method = format!(
        "run once; phases with sampling ({FREQUENCY} times per second of running time) and without \
         alternate every {PHASE_MS} ms; running time and waiting for a processor are the \
         scheduler's, from the phases without sampling; asleep is the rest of a stage's wall time, \
         for any reason; the running time is divided by the samples of the other phases"
    );
    blocks.push(profile_notes(profile, &[&stages, &method], style));
    blocks.join("\n\n") + "\n"
}

fn how_it_ended(profile: &Profile, pipeline: &PipelineProfile) -> String {
    match (pipeline.out_of_time, &profile.interrupted) {
        (true, _) => ", then ended at the limit (--time)".to_owned(),
        (false, Some(signal)) => format!(", then interrupted by {signal}"),
        (false, None) => ", completed".to_owned(),
    }
}

/// The bytes that a stage's costs are divided by.
fn basis(stage: &StageProfile) -> String {
    let (bytes, how) = match stage.taken_bytes {
        Some(bytes) => (bytes, "read"),
        None => (stage.given_bytes.unwrap_or(0), "written"),
    };
    match stage.end.usage.bytes {
        FEW_BYTES.. => format!("per 4 KiB {how}"),
        _ if bytes > 0 => format!("{bytes} bytes {how}"),
        _ => "no bytes, or unknown".to_owned(),
    }
}

fn table(pipeline: &PipelineProfile, style: Style) -> String {
    let mut table = Table::new([
        Column::left("stage"),
        Column::right("wall s"),
        Column::right("running"),
        Column::right("woken"),
        Column::right("asleep"),
        Column::right("in GiB/s").optional(1),
        Column::right("out GiB/s").optional(2),
        Column::left("runs mostly").optional(3),
    ]);
    for stage in pipeline.shown() {
        let rate = |bytes: Option<u64>| match bytes {
            Some(bytes) if bytes < FEW_BYTES => size::format(bytes),
            Some(bytes) => significant(bytes as f64 / GIB / stage.wall_s),
            None => "-".to_owned(),
        };
        // A difference of two measurements may be slightly negative.
        let whole = |share: f64| percent(share.max(0.0), 0);
        let delayed = stage.end.share(Group::RunDelay);
        let asleep = stage.end.share(Group::Asleep);
        let running = match stage.processors() {
            many if many > 1.05 => format!("x{}", fixed(many, 1)),
            _ => whole(1.0 - asleep - delayed),
        };
        table.row([
            stage.end.role.clone(),
            significant(stage.wall_s),
            running,
            whole(delayed),
            whole(asleep),
            rate(stage.taken_bytes),
            rate(stage.given_bytes),
            main_costs(stage),
        ]);
    }
    table.render(style)
}

/// The biggest costs of a stage while it runs.
fn main_costs(stage: &StageProfile) -> String {
    let costs = stage.end.costs.iter();
    costs
        .filter(|cost| !matches!(cost.group, Group::Asleep | Group::RunDelay))
        .filter(|cost| cost.share >= MIN_LISTED)
        .sorted_by(|a, b| b.share.total_cmp(&a.share))
        .take(MAX_COSTS)
        .map(|cost| format!("{} {}", cost.group.name(), percent(cost.share, 0)))
        .join(", ")
}

fn waits(stage: &StageProfile) -> String {
    let waits = stage.waits.iter().take(MAX_WAITS);
    waits
        .map(|wait| format!("{} {}", wait.name, percent(wait.share, 0)))
        .join(", ")
}

/// A sentence for each stage that failed, or for the command if no stage did. SIGPIPE is
/// normal for a stage whose reader has ended, and so is any status after the pipeline was
/// stopped.
fn failures(profile: &Profile, pipeline: &PipelineProfile) -> Vec<String> {
    if pipeline.out_of_time || profile.interrupted.is_some() {
        return Vec::new();
    }
    let stages = pipeline.stages.iter();
    let mut found: Vec<String> = stages
        .filter_map(|stage| {
            let how = failure(stage.status?, stage.writes_to.is_some())?;
            Some(format!("{} {how}.", stage.end.role))
        })
        .collect();
    if found.is_empty()
        && let Some(how) = pipeline.status.and_then(|status| failure(status, false))
    {
        found.push(format!("The command {how}."));
    }
    found
}

/// How a process failed, if it did.
fn failure(status: Status, has_reader: bool) -> Option<String> {
    const SIGPIPE: i32 = 13;
    Some(match status {
        Status::Exited(0) => return None,
        // The status of sh if its child was killed by a signal.
        Status::Exited(code) if code == 128 + SIGPIPE && has_reader => return None,
        Status::Signal(SIGPIPE) if has_reader => return None,
        Status::Exited(code @ (126 | 127)) => {
            let what = match code {
                126 => "can't be executed",
                _ => "does not exist",
            };
            format!(
                "exited with status {code}, which shells, env and xargs use for a command that \
                 {what}"
            )
        }
        Status::Exited(code) => format!("exited with status {code}"),
        Status::Signal(signal) => format!("was killed by {}", signal_name(signal)),
    })
}

/// A stage that sleeps less than this share of its time is busy.
const MAX_ASLEEP: f64 = 0.25;
/// A stage is a possible bottleneck if its duration is at least this share of the
/// pipeline's.
const MIN_PRESENT: f64 = 0.5;

/// A sentence on the bottleneck.
fn bottleneck(pipeline: &PipelineProfile) -> String {
    let present = pipeline
        .stages
        .iter()
        .filter(|stage| is_present(stage, pipeline));
    let Some(least) = present
        .clone()
        .min_by(|a, b| asleep(a).total_cmp(&asleep(b)))
    else {
        return "No stage was there for half of the time.".to_owned();
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
        [only] => match pipeline.stages.len() {
            1 => format!("{only} {}.", what_it_does(least)),
            _ => format!(
                "The pipeline is as fast as {only}: it {}.",
                what_it_does(least)
            ),
        },
        several if delayed >= MAX_ASLEEP => format!(
            "There are too few processors: {} are runnable most of the time, but wait for one.",
            several.join(" and ")
        ),
        several => format!(
            "{} are all busy: the pipeline gets faster only if each of them does.",
            several.join(" and ")
        ),
    }
}

/// `sleeps 3 % of its time, and runs mostly user code 92 %`: what a busy stage does.
fn what_it_does(stage: &StageProfile) -> String {
    let delayed = stage.end.share(Group::RunDelay);
    let sleeps = (asleep(stage) >= MIN_LISTED)
        .then(|| format!("sleeps {} of its time", percent(asleep(stage), 0)));
    let waits = (delayed >= MAX_ASLEEP)
        .then(|| format!("waits for a processor {} of its time", percent(delayed, 0)));
    let costs = main_costs(stage);
    let runs = match costs.as_str() {
        "" => "runs".to_owned(),
        costs => format!("runs mostly {costs}"),
    };
    match sleeps.into_iter().chain(waits).join(", ").as_str() {
        "" => runs,
        first => format!("{first}, and {runs}"),
    }
}

fn asleep(stage: &StageProfile) -> f64 {
    stage.end.share(Group::Asleep)
}

fn is_present(stage: &StageProfile, pipeline: &PipelineProfile) -> bool {
    stage.wall_s >= MIN_PRESENT * pipeline.wall_s
}

/// The reason why all stages of a pipeline sleep: follows the pipes waited for from the
/// stage that sleeps least.
fn final_wait(pipeline: &PipelineProfile, least: &StageProfile) -> String {
    let stages = &pipeline.stages;
    let Some(mut at) = stages.iter().position(|stage| std::ptr::eq(stage, least)) else {
        return String::new();
    };
    let mut from = None;
    while let Some(next) = waited_for(stages, at) {
        // Only neighbours can wait for each other.
        if from == Some(next) {
            let (one, other) = (&stages[at.min(next)], &stages[at.max(next)]);
            return format!(
                "even {} sleeps {} of it; {} and {} wait for each other by turns",
                least.end.role,
                percent(asleep(least), 0),
                one.end.role,
                other.end.role
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
    format!("{who} {} of it{wait}", percent(asleep(last), 0))
}

/// The neighbour that a stage mostly waits for.
fn waited_for(stages: &[StageProfile], at: usize) -> Option<usize> {
    let neighbour = match stages[at].waits.first()?.name.as_str() {
        INPUT => stages[at].reads_from,
        OUTPUT => stages[at].writes_to,
        _ => None,
    };
    Some(neighbour? - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_explain::profile::fixtures;

    fn shown(profile: &Profile) -> String {
        let pipeline = profile.pipeline.as_ref().unwrap();
        profile_pipeline(profile, pipeline, 0.02, Style::default())
    }

    fn changed(change: impl FnOnce(&mut PipelineProfile)) -> String {
        let mut profile = fixtures::pipeline();
        change(profile.pipeline.as_mut().unwrap());
        shown(&profile)
    }

    #[test]
    fn stages_have_a_table_bars_and_trees() {
        let profile = fixtures::pipeline();
        let pipeline = profile.pipeline.as_ref().unwrap();
        let style = Style::of_width(100);
        insta::assert_snapshot!(profile_pipeline(&profile, pipeline, 0.02, style));
    }

    #[test]
    fn few_bytes_are_not_shown_per_page() {
        let text = changed(|pipeline| {
            let stage = &mut pipeline.stages[1];
            stage.taken_bytes = Some(6);
            stage.end.usage.bytes = 6;
            // More than its wall time, by rounding.
            stage.end.costs[0].share = 1.0 + 1e-12;
            stage.end.costs.truncate(1);
            stage.end.costs[0].group = Group::Asleep;
        });
        assert!(text.contains("\n6 bytes read  "), "{text}");
        assert!(!text.contains("-0 %"), "{text}");
        let row = text
            .lines()
            .find(|line| line.contains("2: filter"))
            .unwrap();
        assert!(row.contains(" 0 %") && row.contains(" 6B"), "{row}");
        assert!(!text.contains("waiting for the other end"), "{text}");
        let unit = text
            .lines()
            .find(|line| line.starts_with("6 bytes"))
            .unwrap();
        assert!(unit.contains("seconds"), "{unit}");
    }

    #[test]
    fn only_real_failures_are_reported() {
        let text = shown(&fixtures::pipeline());
        assert!(text.contains("3: sink exited with status 3."), "{text}");
        // The reader of the first stage ended before it.
        assert!(!text.contains("SIGPIPE"), "{text}");
        let text = changed(|pipeline| {
            pipeline.out_of_time = true;
            pipeline.stages[1].status = Some(Status::Signal(15));
        });
        assert!(
            !text.contains("SIGTERM") && !text.contains("status 3"),
            "{text}"
        );
        assert!(text.contains("then ended at the limit (--time)"), "{text}");
        let text = changed(|pipeline| pipeline.stages[2].status = Some(Status::Exited(127)));
        assert!(
            text.contains("3: sink exited with status 127, which shells, env"),
            "{text}"
        );
        let text = changed(|pipeline| pipeline.stages[2].status = Some(Status::Signal(13)));
        assert!(text.contains("3: sink was killed by SIGPIPE."), "{text}");
        // Before Linux 6.15 only the status of the command is known.
        let text = changed(|pipeline| {
            for stage in &mut pipeline.stages {
                stage.status = None;
            }
        });
        assert!(text.contains("The command exited with status 3."), "{text}");
    }

    #[test]
    fn an_interrupted_pipeline_names_the_signal() {
        let mut profile = fixtures::pipeline();
        profile.interrupted = Some("SIGTERM".to_owned());
        let text = shown(&profile);
        assert!(text.contains(", then interrupted by SIGTERM"), "{text}");
        assert!(!text.contains("status 3"), "{text}");
    }

    mod bottleneck {
        use super::super::*;
        use pipespeed_explain::profile::fixtures;
        use pipespeed_explain::profile::record::{Bound, Cost, Function};

        /// The sentence if all stages sleep, the first least, for these reasons.
        fn all_asleep(waits: [&str; 3], change: impl FnOnce(&mut PipelineProfile)) -> String {
            let mut pipeline = fixtures::pipeline().pipeline.unwrap();
            let mut share = 0.9;
            for (stage, wait) in pipeline.stages.iter_mut().zip(waits) {
                share += 0.02;
                stage.end.costs = vec![Cost {
                    group: Group::Asleep,
                    seconds: stage.end.usage.wall_s,
                    ns_per_page: None,
                    share,
                    bound: Bound::Exact,
                }];
                stage.waits = vec![Function {
                    name: wait.to_owned(),
                    share: 0.9,
                }];
            }
            change(&mut pipeline);
            super::super::bottleneck(&pipeline)
        }

        const TIMER: &str = "a timer (sleep)";
        const START: &str = "No stage is busy all the time: ";

        #[test]
        fn the_stage_that_waits_for_something_else_is_named() {
            let sentence = all_asleep([TIMER, INPUT, INPUT], |_| ());
            let expected = "even 1: produce sleeps 92 % of it, mostly waiting for a timer (sleep).";
            assert_eq!(sentence, format!("{START}{expected}"));
            // The search follows the pipes downstream, too.
            let sentence = all_asleep([OUTPUT, OUTPUT, TIMER], |_| ());
            let expected = "it comes down to 3: sink, which sleeps 96 % of it, mostly waiting for a timer (sleep).";
            assert_eq!(sentence, format!("{START}{expected}"));
            let sentence = all_asleep([TIMER, INPUT, INPUT], |pipeline| {
                pipeline.stages[0].end.costs[0].share = 1.0;
            });
            assert!(
                sentence.contains("it comes down to 1: produce, which sleeps 100 %"),
                "{sentence}"
            );
            // The first stage waits for input from outside of the pipeline.
            let sentence = all_asleep([INPUT, TIMER, TIMER], |_| ());
            assert!(
                sentence.contains("even 1: produce sleeps 92 % of it, mostly waiting for input"),
                "{sentence}"
            );
        }

        #[test]
        fn only_the_two_ends_of_a_pipe_wait_by_turns() {
            let sentence = all_asleep([OUTPUT, INPUT, TIMER], |_| ());
            let expected = "even 1: produce sleeps 92 % of it; 1: produce and 2: filter wait for each other by turns.";
            assert_eq!(sentence, format!("{START}{expected}"));
            let sentence = all_asleep([OUTPUT, OUTPUT, INPUT], |_| ());
            assert!(
                sentence.ends_with("2: filter and 3: sink wait for each other by turns."),
                "{sentence}"
            );
            let sentence = all_asleep([TIMER, OUTPUT, TIMER], |_| ());
            assert!(!sentence.contains("by turns"), "{sentence}");
        }

        #[test]
        fn a_busy_stage_is_named_with_what_it_does() {
            let with = |share: f64, stages: usize| {
                let mut pipeline = fixtures::pipeline().pipeline.unwrap();
                let mut busy = pipeline.stages[1].clone();
                let mut costs = busy.end.costs.iter_mut();
                costs.find(|it| it.group == Group::Asleep).unwrap().share = share;
                pipeline.stages[1] = busy.clone();
                if stages == 1 {
                    pipeline.stages = vec![busy];
                }
                super::super::bottleneck(&pipeline)
            };
            let costs = "user code 92 %, pipe slots, splice's own code 5 %.";
            let only = format!("2: filter sleeps 3 % of its time, and runs mostly {costs}");
            assert_eq!(with(0.03, 1), only);
            let never = format!("The pipeline is as fast as 2: filter: it runs mostly {costs}");
            assert_eq!(with(0.001, 3), never);
        }

        #[test]
        fn no_or_several_busy_stages_are_no_single_bottleneck() {
            let mut pipeline = fixtures::pipeline().pipeline.unwrap();
            pipeline.stages.remove(1);
            let sentence = super::super::bottleneck(&pipeline);
            assert!(
                sentence.contains("even 3: sink sleeps 80 % of it"),
                "{sentence}"
            );
            let mut pipeline = fixtures::pipeline().pipeline.unwrap();
            pipeline.stages[0] = pipeline.stages[1].clone();
            let sentence = super::super::bottleneck(&pipeline);
            assert!(
                sentence.contains("2: filter and 2: filter are all busy"),
                "{sentence}"
            );
        }
    }
}
