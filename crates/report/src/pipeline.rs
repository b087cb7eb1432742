//! The profile of a pipeline, as text.

mod bottleneck;

use itertools::Itertools as _;
use pipespeed_base::text::{in_short, pluralize};
use pipespeed_base::{signal_name, size};
use pipespeed_explain::profile::account::FEW_BYTES;
use pipespeed_explain::profile::groups::CostGroup;
use pipespeed_explain::profile::perf::FREQUENCY;
use pipespeed_explain::profile::pipeline::PHASE_MS;
use pipespeed_explain::profile::record::{PipelineProfile, Profile, StageProfile, Status};
use pipespeed_measure::record::GIB;

use self::bottleneck::bottleneck;
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
    let verdict = bottleneck(pipeline);
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
    if !stage.is_timed {
        let text = "too short to divide its time: what it did after the last look at it, or in children that lived between \
                    two looks, was not seen";
        return block + &format!("\n{}", style.sentence(text));
    }
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
        (false, None) => match pipeline.status {
            None | Some(Status::Exited(0)) => ", completed".to_owned(),
            Some(Status::Exited(code)) => format!(", exited with status {code}"),
            Some(Status::Signal(signal)) => format!(", ended by {}", signal_name(signal)),
        },
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
        let times = if !stage.is_timed {
            ["?", "?", "?"].map(str::to_owned)
        } else if usage.cpu_s + usage.run_delay_s > MAX_BUSY * usage.wall_s {
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
    fn times_of_a_stage_that_lived_for_too_short_are_not_shown() {
        let text = changed(|pipeline| pipeline.stages[1].is_timed = false);
        let row = text.lines().find(|line| line.starts_with("2: filter"));
        assert_eq!(row.unwrap().matches(" ?").count(), 4, "{text}");
        assert!(text.contains("too short to divide its time"), "{text}");
        let last = "Too short to tell which stage is the bottleneck.";
        assert!(text.trim_end().ends_with(last), "{text}");
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
    fn the_headline_says_how_the_command_ended() {
        for (status, how) in [
            (Some(Status::Exited(0)), "completed"),
            (None, "completed"),
            (Some(Status::Exited(3)), "exited with status 3"),
            (Some(Status::Signal(9)), "ended by SIGKILL"),
        ] {
            let text = changed(|pipeline| pipeline.status = status);
            let headline = text.lines().next().unwrap();
            assert!(headline.ends_with(&format!(" s, {how}")), "{headline}");
        }
    }

    #[test]
    fn an_interrupted_pipeline_names_the_signal() {
        let mut profile = fixtures::pipeline();
        profile.interrupted = Some("SIGTERM".to_owned());
        let text = shown(&profile);
        assert!(text.contains(", then interrupted by SIGTERM"), "{text}");
        assert!(!text.contains("status 3"), "{text}");
    }
}
