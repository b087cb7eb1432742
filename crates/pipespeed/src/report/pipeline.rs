//! Where the time of somebody's own pipeline goes, as text.

use comfy_table::{CellAlignment, Table, presets};

use crate::profile::groups::Group;
use crate::profile::perf::FREQUENCY;
use crate::profile::pipeline::{INPUT, OUTPUT, PHASE_MS, in_short};
use crate::profile::record::{PipelineProfile, Profile, StageProfile, Status};
use crate::results::GIB;
use crate::runner::signal_name;

use super::format::{significant, wrap};
use super::profile::{bars, below, call_tree, line};
use super::style::{BOLD, Style};

/// The characters that the heading has of the command.
const COMMAND: usize = 90;
/// Things waited for that are named.
const WAITS: usize = 3;
/// A cost of a smaller share is not named.
const NAMED: f64 = 0.005;
/// A stage that sleeps less than this share of its time is what the others wait
/// for.
const BUSY: f64 = 0.25;
/// A stage that is there for less than this share of the pipeline's time can't be.
const THERE: f64 = 0.5;

/// The stages side by side, then each one's bars and call tree.
pub fn profile_pipeline(
    profile: &Profile,
    pipeline: &PipelineProfile,
    threshold: f64,
    style: Style,
) -> String {
    let mut text = String::new();
    let heading = format!(
        "{}: {} s{}",
        in_short(&pipeline.command, COMMAND),
        significant(pipeline.wall_s),
        how_it_ended(pipeline)
    );
    line(&mut text, &style.paint(&heading, BOLD));
    line(&mut text, "");
    line(&mut text, &side_by_side(pipeline));
    for sentence in [limit(pipeline)].into_iter().chain(failures(pipeline)) {
        line(&mut text, "");
        line(&mut text, &wrap(&sentence, style.width(), ""));
    }
    for stage in &pipeline.stages {
        line(&mut text, "");
        line(&mut text, &style.paint(&stage.end.role, BOLD));
        bars(&mut text, basis(stage), &stage.end, style);
        if stage.end.share(Group::Asleep) > 0.0 && stage.seen_asleep > 0 {
            let said = format!(
                "  asleep, waiting for: {} (seen asleep {} times)",
                waits(stage),
                stage.seen_asleep
            );
            line(&mut text, &wrap(&said, style.width(), "    "));
        }
    }
    for stage in &pipeline.stages {
        line(&mut text, "");
        call_tree(&mut text, &stage.end, threshold, style);
    }
    let general = format!(
        "run once; phases with sampling ({FREQUENCY} times a second of running) and without alternate every {} ms: \
         running and waiting for a processor are the scheduler's account of the phases without, asleep is the rest of \
         a stage's wall time, whatever it waits for; samples of the other phases share out the running time",
        PHASE_MS
    );
    let stages = format!("stages: {}", profile.placement);
    below(&mut text, profile, &[&general, &stages], style);
    text
}

fn how_it_ended(pipeline: &PipelineProfile) -> String {
    match (pipeline.out_of_time, pipeline.interrupted) {
        (true, _) => ", then ended, as --time says".to_owned(),
        (false, Some(signal)) => format!(", then interrupted by {}", signal_name(signal)),
        (false, None) => ", to its end".to_owned(),
    }
}

/// What a stage's pages are.
fn basis(stage: &StageProfile) -> &'static str {
    match stage.taken_bytes {
        _ if stage.end.usage.bytes == 0 => "bytes none or unknown",
        Some(_) => "per 4 KiB taken in",
        None => "per 4 KiB put out",
    }
}

fn side_by_side(pipeline: &PipelineProfile) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "stage",
        "wall s",
        "running",
        "woken",
        "asleep",
        "in GiB/s",
        "out GiB/s",
        "runs mostly",
    ]);
    for stage in &pipeline.stages {
        let rate = |bytes: Option<u64>| match bytes {
            Some(bytes) => significant(bytes as f64 / GIB / stage.wall_s),
            None => "-".to_owned(),
        };
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let delayed = stage.end.share(Group::RunDelay);
        let asleep = stage.end.share(Group::Asleep);
        let running = match stage.processors() {
            many if many > 1.05 => format!("x{many:.1}"),
            _ => percent(1.0 - asleep - delayed),
        };
        table.add_row([
            stage.end.role.clone(),
            significant(stage.wall_s),
            running,
            percent(delayed),
            percent(asleep),
            rate(stage.taken_bytes),
            rate(stage.given_bytes),
            mostly(stage),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(6) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// What a stage does while it runs: its two biggest costs.
fn mostly(stage: &StageProfile) -> String {
    let mut costs: Vec<(Group, f64)> = stage
        .end
        .costs
        .iter()
        .filter(|cost| !matches!(cost.group, Group::Asleep | Group::RunDelay))
        .filter(|cost| cost.share >= NAMED)
        .map(|cost| (cost.group, cost.share))
        .collect();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = costs.iter().take(2);
    let named: Vec<String> = named
        .map(|(group, share)| format!("{} {:.0} %", group.name(), share * 100.0))
        .collect();
    named.join(", ")
}

fn waits(stage: &StageProfile) -> String {
    let named = stage.waits.iter().take(WAITS);
    let named: Vec<String> = named
        .map(|wait| format!("{} {:.0} %", wait.name, wait.share * 100.0))
        .collect();
    named.join(", ")
}

/// A sentence on which stage sets the pace.
fn limit(pipeline: &PipelineProfile) -> String {
    let asleep = |stage: &StageProfile| stage.end.share(Group::Asleep);
    let there = pipeline
        .stages
        .iter()
        .filter(|stage| stage.wall_s >= THERE * pipeline.wall_s);
    let Some(least) = there.clone().min_by(|a, b| asleep(a).total_cmp(&asleep(b))) else {
        return "No stage is there most of the time: they work one after the other.".to_owned();
    };
    let busy: Vec<&str> = there
        .filter(|stage| asleep(stage) < BUSY)
        .map(|stage| &*stage.end.role)
        .collect();
    let delayed = least.end.share(Group::RunDelay);
    match busy.as_slice() {
        [] => format!(
            "No stage is busy all the time: even {} sleeps {:.0} % of it{}.",
            least.end.role,
            asleep(least) * 100.0,
            match least.waits.first() {
                Some(wait) if wait.name == INPUT || wait.name == OUTPUT => {
                    format!(
                        ", mostly waiting for {}; the stages wait for each other by turns",
                        wait.name
                    )
                }
                Some(wait) => format!(", mostly waiting for {}", wait.name),
                None => String::new(),
            }
        ),
        [only] => format!(
            "{} {only}: it sleeps {:.0} % of its time{}, and runs mostly {}.",
            match pipeline.stages.len() {
                1 => "All is",
                _ => "The pipeline is as fast as",
            },
            asleep(least) * 100.0,
            match delayed >= BUSY {
                true => format!(
                    ", is ready {:.0} % of it but without a processor",
                    delayed * 100.0
                ),
                false => String::new(),
            },
            mostly(least)
        ),
        several if delayed >= BUSY => format!(
            "There are too few processors: {} are ready to run most of the time and wait for one.",
            several.join(" and ")
        ),
        several => format!(
            "{} are all busy: the pipeline gets faster only if each of them does.",
            several.join(" and ")
        ),
    }
}

/// A sentence for each stage that failed. What ends by SIGPIPE was left by its
/// reader, and what was ended is no failure.
fn failures(pipeline: &PipelineProfile) -> Vec<String> {
    const SIGPIPE: i32 = 13;
    let ended = pipeline.out_of_time || pipeline.interrupted.is_some();
    let stages = pipeline.stages.iter().enumerate();
    stages
        .filter_map(|(at, stage)| {
            let last = at + 1 == pipeline.stages.len();
            let how = match stage.status {
                Status::Exited(0) => return None,
                Status::Exited(_) | Status::Signal(_) if ended => return None,
                // As sh says it of its child.
                Status::Exited(code) if code == 128 + SIGPIPE && !last => return None,
                Status::Signal(SIGPIPE) if !last => return None,
                Status::Exited(code) => format!("exited with status {code}"),
                Status::Signal(signal) => format!("was killed by {}", signal_name(signal)),
            };
            Some(format!("{} {how}.", stage.end.role))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::sample;

    fn shown(profile: &Profile) -> String {
        let pipeline = profile.pipeline.as_ref().unwrap();
        profile_pipeline(profile, pipeline, 0.02, Style::default())
    }

    fn changed(change: impl FnOnce(&mut PipelineProfile)) -> String {
        let mut profile = sample::pipeline();
        change(profile.pipeline.as_mut().unwrap());
        shown(&profile)
    }

    #[test]
    fn the_stage_that_sleeps_least_sets_the_pace() {
        let text = shown(&sample::pipeline());
        let expected = "The pipeline is as fast as 2: filter: it sleeps 3 % of its time, and runs mostly user code \
                        92 %, pipe slots, splice's own code 5 %.";
        assert!(text.replace('\n', " ").contains(expected), "{text}");
        assert!(
            text.starts_with("produce | filter | sink: 2.05 s, to its end\n"),
            "{text}"
        );
        let waits = "asleep, waiting for: room for output (pipe full) 97 %, poll or select 3 % (seen asleep 100 times)";
        assert!(text.contains(waits), "{text}");
    }

    #[test]
    fn where_nobody_is_busy_nobody_is_blamed() {
        let text = changed(|pipeline| {
            pipeline.stages.remove(1);
        });
        assert!(text.contains("even 3: sink sleeps 80 % of it"), "{text}");
        let text = changed(|pipeline| {
            pipeline.stages[0] = pipeline.stages[1].clone();
        });
        assert!(
            text.contains("2: filter and 2: filter are all busy"),
            "{text}"
        );
    }

    #[test]
    fn every_stage_is_shown_in_its_unit_and_adds_up() {
        let text = shown(&sample::pipeline());
        let sums: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("sum "))
            .collect();
        assert_eq!(sums.len(), 3, "{text}");
        assert!(sums.iter().all(|sum| sum.contains("100.0 %")), "{sums:?}");
        assert!(sums[0].ends_with("of 10000 ns wall time"), "{sums:?}");
        // Its bytes are unknown.
        assert!(sums[2].ends_with("of 1.02 s wall time"), "{sums:?}");
        let heads = [
            "per 4 KiB put out",
            "per 4 KiB taken in",
            "bytes none or unknown",
        ];
        let places: Vec<usize> = heads.iter().map(|head| text.find(head).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn only_a_real_failure_is_told() {
        let text = shown(&sample::pipeline());
        assert!(text.contains("3: sink exited with status 3."), "{text}");
        // The first was left by its reader.
        assert!(!text.contains("SIGPIPE"), "{text}");
        let text = changed(|pipeline| {
            pipeline.out_of_time = true;
            pipeline.stages[1].status = Status::Signal(15);
        });
        assert!(
            !text.contains("SIGTERM") && !text.contains("status 3"),
            "{text}"
        );
        assert!(text.contains("then ended, as --time says"), "{text}");
        let text = changed(|pipeline| pipeline.stages[2].status = Status::Signal(13));
        assert!(text.contains("3: sink was killed by SIGPIPE."), "{text}");
    }
}
