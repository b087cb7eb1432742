//! The profile of a pipeline, as text.

use itertools::Itertools as _;
use pipespeed_base::text::{in_short, pluralize};
use pipespeed_base::{signal_name, size};
use pipespeed_explain::profile::account::FEW_BYTES;
use pipespeed_explain::profile::groups::CostGroup;
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
/// The times of a stage whose running and waiting for a processor take more than this share of
/// its wall time are those of several processes at once: they are shown as multiples of it.
const MAX_BUSY: f64 = 1.05;
/// Minimum share of its time that a busy stage waits for a processor, to mention it.
const MIN_DELAYED: f64 = 0.05;
/// Minimum share of a listed cost.
const MIN_LISTED: f64 = 0.005;

/// With more stages, bars are shown only for the one that the verdict names.
const MAX_BARS: usize = 4;
/// Shares of fewer observations are shown as counts.
const MIN_OBSERVATIONS: u64 = 100;

/// The table of stages, the bars of each, the call tree of the stage that the verdict names, the
/// notes, and the verdict.
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
    let verdict = verdict(pipeline);
    let is_named = |stage: &StageProfile| {
        verdict
            .stage
            .is_some_and(|named| std::ptr::eq(named, stage))
    };
    let has_all = style.verbose || pipeline.shown().count() <= MAX_BARS;
    let barred = pipeline.shown().filter(|stage| has_all || is_named(stage));
    blocks.extend(barred.map(|stage| bars_and_waits(stage, style)));
    let treed = pipeline
        .shown()
        .filter(|stage| style.verbose || is_named(stage));
    blocks.extend(treed.filter_map(|stage| call_tree(&stage.end, threshold, style)));
    let stages = format!("stages: {}", profile.settings.placement);
    let method = method(profile);
    blocks.push(profile_notes(profile, &[&stages, &method], style));
    if let Some(refusal) = &profile.settings.refusal {
        let text = format!("The running time is not divided into costs: {refusal}.");
        blocks.push(style.sentence(&text));
    }
    let sentences = failures(profile, pipeline)
        .into_iter()
        .chain([verdict.sentence]);
    blocks.extend(sentences.map(|text| style.sentence(&text)));
    blocks.join("\n\n") + "\n"
}

/// The bars of a stage, and what it waits for.
fn bars_and_waits(stage: &StageProfile, style: Style) -> String {
    let mut block = style.heading(&stage.end.role);
    let bars = bars(
        &basis(stage),
        &stage.end,
        CostGroup::name_in_pipeline,
        style,
    );
    block += &format!("\n{bars}");
    if stage.end.share(CostGroup::Asleep) > 0.0 && stage.seen_asleep > 0 {
        let text = format!("asleep, waiting for: {}", waits(stage));
        block += &format!("\n{}", style.sentence(&text));
    }
    block
}

/// How a profile was made, and what its figures mean.
fn method(profile: &Profile) -> String {
    let times = "running time and waiting for a processor are the scheduler's, of the whole run; \
                 asleep is the rest of a stage's wall time, for any reason";
    if profile.settings.event.is_none() {
        return format!("run once; {times}");
    }
    format!(
        "run once; phases with sampling ({FREQUENCY} times per second of running time) and without \
         alternate every {PHASE_MS} ms; {times}; the running time is divided by the samples"
    )
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
        Column::right("waiting\nfor CPU"),
        Column::right("asleep"),
        Column::right("in GiB/s").optional(1),
        Column::right("out GiB/s").optional(2),
        Column::left("runs mostly").optional(3),
    ]);
    for stage in pipeline.shown() {
        let rate = |neighbour: Option<usize>, bytes: Option<u64>| match bytes {
            Some(bytes) if bytes < FEW_BYTES => size::format(bytes),
            Some(bytes) => significant(bytes as f64 / GIB / stage.wall_s),
            None if neighbour.is_some() => "?".to_owned(),
            None => "-".to_owned(),
        };
        // A difference of two measurements may be slightly negative.
        let whole = |share: f64| percent(share.max(0.0), 0);
        let delayed = stage.end.share(CostGroup::RunDelay);
        let asleep = stage.end.share(CostGroup::Asleep);
        let usage = &stage.end.usage;
        let times = if usage.cpu_s + usage.run_delay_s > MAX_BUSY * usage.wall_s {
            let times = |seconds: f64| format!("x{}", fixed(seconds / usage.wall_s, 1));
            [times(usage.cpu_s), times(usage.run_delay_s), "?".to_owned()]
        } else {
            [1.0 - asleep - delayed, delayed, asleep].map(whole)
        };
        let [running, delayed, asleep] = times;
        table.row([
            stage.end.role.clone(),
            significant(stage.wall_s),
            running,
            delayed,
            asleep,
            rate(stage.reads_from, stage.taken_bytes),
            rate(stage.writes_to, stage.given_bytes),
            main_costs(stage),
        ]);
    }
    table.render(style)
}

/// The biggest costs of a stage while it runs.
fn main_costs(stage: &StageProfile) -> String {
    let costs = stage.end.costs.iter();
    costs
        .filter(|cost| {
            !matches!(
                cost.group,
                CostGroup::Asleep | CostGroup::RunDelay | CostGroup::Running
            )
        })
        .filter(|cost| cost.share >= MIN_LISTED)
        .sorted_by(|a, b| b.share.total_cmp(&a.share))
        .take(MAX_COSTS)
        .map(|cost| format!("{} {}", cost.group.name(), percent(cost.share, 0)))
        .join(", ")
}

fn waits(stage: &StageProfile) -> String {
    let seen = stage.seen_asleep;
    let waits = stage.waits.iter().take(MAX_WAITS);
    let waits = waits.map(|wait| {
        if seen >= MIN_OBSERVATIONS {
            format!("{} {}", wait.name, percent(wait.share, 0))
        } else {
            format!("{} {}", wait.name, fixed(wait.share * seen as f64, 0))
        }
    });
    let times = pluralize(seen as usize, "time");
    let of_all = if seen >= MIN_OBSERVATIONS {
        format!("(seen asleep {times})")
    } else {
        format!("(of {times} seen asleep)")
    };
    format!("{} {of_all}", waits.format(", "))
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
/// Minimum share of its time that a stage waits for a processor, to name that as a cause.
const MIN_STARVED: f64 = 0.25;
/// A stage is a possible bottleneck if its duration is at least this share of the
/// pipeline's.
const MIN_PRESENT: f64 = 0.5;
/// At most this many stages that wait for a processor are named.
const MAX_STARVED: usize = 3;

/// A sentence on the bottleneck, and the stage that it is about.
struct BottleneckSentence<'a> {
    sentence: String,
    stage: Option<&'a StageProfile>,
}

/// Finds the bottleneck.
fn verdict(pipeline: &PipelineProfile) -> BottleneckSentence<'_> {
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
            "{} waits for one {} of its time and runs {}",
            stage.end.role,
            percent(delayed(stage), 0),
            percent(running(stage), 0)
        )
    });
    format!("There are too few free processors: {}.", each.format("; "))
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
            stage.end.costs[0].group = CostGroup::Asleep;
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
    fn only_the_stage_of_the_verdict_has_a_call_tree_and_the_verdict_is_last() {
        let text = shown(&fixtures::pipeline());
        let trees: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("running time by call chains"))
            .collect();
        assert!(
            matches!(trees.as_slice(), [only] if only.starts_with("2: filter")),
            "{text}"
        );
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        assert!(last.starts_with("The pipeline is as fast as"), "{text}");
    }

    #[test]
    fn many_stages_have_one_set_of_bars() {
        let bars = |stages: usize| {
            let text = changed(|pipeline| {
                let first = pipeline.stages[0].clone();
                while pipeline.stages.len() < stages {
                    pipeline.stages.insert(0, first.clone());
                }
            });
            text.matches("wall time\n").count()
        };
        assert_eq!((bars(4), bars(5)), (4, 1));
    }

    #[test]
    fn unknown_bytes_are_shown_as_such() {
        let text = changed(|pipeline| pipeline.stages[0].given_bytes = None);
        let row = text
            .lines()
            .find(|line| line.starts_with("1: produce"))
            .unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert!(cells.contains(&"?") && cells.contains(&"-"), "{row}");
    }

    #[test]
    fn times_of_several_processes_at_once_are_multiples() {
        let text = changed(|pipeline| {
            let usage = &mut pipeline.stages[1].end.usage;
            usage.cpu_s = 0.5 * usage.wall_s;
            usage.run_delay_s = 2.0 * usage.wall_s;
        });
        let row = text
            .lines()
            .find(|line| line.starts_with("2: filter"))
            .unwrap();
        assert!(row.contains("x0.5     x2.0       ?"), "{row}");
    }

    #[test]
    fn waits_seen_a_few_times_have_no_shares() {
        let text = changed(|pipeline| pipeline.stages[0].seen_asleep = 99);
        let words = "waiting for: room for output (pipe full) 96, poll or select 3 (of 99 times";
        assert!(text.contains(words), "{text}");
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
        use pipespeed_explain::profile::record::{CostBound, Function, TimePart};

        /// The sentence if all stages sleep, the first least, for these reasons.
        fn all_asleep(waits: [&str; 3], change: impl FnOnce(&mut PipelineProfile)) -> String {
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
                stage.waits = vec![Function {
                    name: wait.to_owned(),
                    share: 0.9,
                }];
            }
            change(&mut pipeline);
            super::super::verdict(&pipeline).sentence
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
                costs
                    .find(|cost| cost.group == CostGroup::Asleep)
                    .unwrap()
                    .share = share;
                pipeline.stages[1] = busy.clone();
                if stages == 1 {
                    pipeline.stages = vec![busy];
                }
                super::super::verdict(&pipeline).sentence
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
            super::super::verdict(&pipeline).sentence
        }

        #[test]
        fn waiting_for_a_processor_is_the_cause_where_it_is_longer_than_running() {
            let starved = "There are too few free processors: 2: filter waits for one 60 % of its time and runs 30 %";
            for (shares, expected) in [
                // One busy stage, several, and none: on one processor, each stage sleeps while
                // its neighbour waits.
                ([(0.1, 0.1), (0.3, 0.6), (0.1, 0.0)], starved),
                (
                    [(0.35, 0.6), (0.3, 0.6), (0.1, 0.0)],
                    "1: produce waits for one 60 %",
                ),
                (
                    [(0.2, 0.4), (0.2, 0.4), (0.0, 0.0)],
                    "1: produce waits for one 40 %",
                ),
                (
                    [(0.9, 0.0), (0.3, 0.6), (0.1, 0.0)],
                    "1: produce runs most of the time. There are too few",
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
                assert!(!sentence.contains("too few"), "{sentence}");
            }
        }

        #[test]
        fn no_or_several_busy_stages_are_no_single_bottleneck() {
            let mut pipeline = fixtures::pipeline().pipeline.unwrap();
            pipeline.stages.remove(1);
            let sentence = super::super::verdict(&pipeline).sentence;
            assert!(
                sentence.contains("even 3: sink sleeps 80 % of it"),
                "{sentence}"
            );
            let mut pipeline = fixtures::pipeline().pipeline.unwrap();
            pipeline.stages[0] = pipeline.stages[1].clone();
            let sentence = super::super::verdict(&pipeline).sentence;
            assert!(
                sentence.contains("2: filter and 2: filter are all busy"),
                "{sentence}"
            );
        }
    }
}
