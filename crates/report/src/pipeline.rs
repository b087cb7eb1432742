//! Where the time of somebody's own pipeline goes, as text.

mod pace;

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_base::signal_name;
use pipespeed_explain::profile::account::FEW_BYTES;
use pipespeed_explain::profile::groups::Group;
use pipespeed_explain::profile::perf::FREQUENCY;
use pipespeed_explain::profile::pipeline::{PHASE_MS, in_short};
use pipespeed_explain::profile::record::{PipelineProfile, Profile, StageProfile, Status};
use pipespeed_measure::record::GIB;

use self::pace::limit;
use super::format::{longest_line, significant, wrap};
use super::profile::{bars, below, call_tree, line};
use super::style::{BOLD, Style};

/// The characters that the heading has of the command.
const COMMAND: usize = 90;
/// Things waited for that are named.
const WAITS: usize = 3;
/// A cost of a smaller share is not named.
const NAMED: f64 = 0.005;

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
    let heading = wrap(&heading, style.width(), "  ");
    line(&mut text, &style.paint(&heading, BOLD));
    line(&mut text, "");
    line(&mut text, &side_by_side(pipeline, style.width()));
    for sentence in [limit(pipeline)].into_iter().chain(failures(pipeline)) {
        line(&mut text, "");
        line(&mut text, &wrap(&sentence, style.width(), ""));
    }
    for stage in &pipeline.stages {
        line(&mut text, "");
        line(&mut text, &style.paint(&stage.end.role, BOLD));
        let name = Group::name_in_pipeline;
        bars(&mut text, &basis(stage), &stage.end, name, style);
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
    let stages = format!("stages: {}", profile.settings.placement);
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
fn basis(stage: &StageProfile) -> String {
    let (bytes, how) = match stage.taken_bytes {
        Some(bytes) => (bytes, "taken in"),
        None => (stage.given_bytes.unwrap_or(0), "put out"),
    };
    match stage.end.usage.bytes {
        FEW_BYTES.. => format!("per 4 KiB {how}"),
        _ if bytes > 0 => format!("{bytes} bytes {how}"),
        _ => "bytes none or unknown".to_owned(),
    }
}

/// All columns, and those that tell how long a stage takes.
const COLUMNS: usize = 8;
const MIN: usize = 5;

/// Without the last columns where there is no room for them: what a stage runs
/// mostly is told below, too.
fn side_by_side(pipeline: &PipelineProfile, width: usize) -> String {
    let tables = (MIN..=COLUMNS).rev().map(|some| table(pipeline, some));
    let mut fitting = tables.filter(|table| longest_line(table) <= width);
    fitting.next().unwrap_or_else(|| table(pipeline, MIN))
}

fn table(pipeline: &PipelineProfile, columns: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let header = [
        "stage",
        "wall s",
        "running",
        "woken",
        "asleep",
        "in GiB/s",
        "out GiB/s",
        "runs mostly",
    ];
    table.set_header(header.into_iter().take(columns));
    for stage in &pipeline.stages {
        let rate = |bytes: Option<u64>| match bytes {
            Some(bytes) if bytes < FEW_BYTES => format!("{bytes} B"),
            Some(bytes) => significant(bytes as f64 / GIB / stage.wall_s),
            None => "-".to_owned(),
        };
        // A difference of figures may be just below zero.
        let percent = |share: f64| format!("{:.0} %", share.max(0.0) * 100.0);
        let delayed = stage.end.share(Group::RunDelay);
        let asleep = stage.end.share(Group::Asleep);
        let running = match stage.processors() {
            many if many > 1.05 => format!("x{many:.1}"),
            _ => percent(1.0 - asleep - delayed),
        };
        let row = [
            stage.end.role.clone(),
            significant(stage.wall_s),
            running,
            percent(delayed),
            percent(asleep),
            rate(stage.taken_bytes),
            rate(stage.given_bytes),
            mostly(stage),
        ];
        table.add_row(row.into_iter().take(columns));
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
                Status::Exited(code @ 126) => format!(
                    "exited with status {code}, by which shells, env and xargs say that something can't be run"
                ),
                Status::Exited(code @ 127) => format!(
                    "exited with status {code}, by which shells, env and xargs say that there is no such command"
                ),
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
    use pipespeed_explain::profile::sample;

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
    fn a_few_bytes_are_no_pages() {
        let text = changed(|pipeline| {
            let stage = &mut pipeline.stages[1];
            stage.taken_bytes = Some(6);
            stage.end.usage.bytes = 6;
            // More than its wall time, by rounding.
            stage.end.costs[0].share = 1.0 + 1e-12;
            stage.end.costs.truncate(1);
            stage.end.costs[0].group = Group::Asleep;
        });
        assert!(text.contains("\n6 bytes taken in  "), "{text}");
        assert!(!text.contains("-0 %"), "{text}");
        let row = text
            .lines()
            .find(|line| line.contains("2: filter"))
            .unwrap();
        assert!(row.contains(" 0 %") && row.contains("6 B"), "{row}");
        assert!(!text.contains("waiting for the other end"), "{text}");
        let unit = text
            .lines()
            .find(|line| line.starts_with("6 bytes"))
            .unwrap();
        assert!(unit.contains("seconds"), "{unit}");
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
        let text = changed(|pipeline| pipeline.stages[2].status = Status::Exited(127));
        assert!(
            text.contains("3: sink exited with status 127, by which shells, env"),
            "{text}"
        );
        let text = changed(|pipeline| pipeline.stages[2].status = Status::Signal(13));
        assert!(text.contains("3: sink was killed by SIGPIPE."), "{text}");
    }
}
