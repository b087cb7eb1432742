//! Where the time of a pipeline goes, as text.

mod pace;

use pipespeed_base::{signal_name, size};
use pipespeed_explain::profile::account::FEW_BYTES;
use pipespeed_explain::profile::groups::Group;
use pipespeed_explain::profile::perf::FREQUENCY;
use pipespeed_explain::profile::pipeline::{PHASE_MS, in_short};
use pipespeed_explain::profile::record::{PipelineProfile, Profile, StageProfile, Status};
use pipespeed_measure::record::GIB;

use self::pace::limit;
use super::format::significant;
use super::profile::{bars, call_tree, profile_notes};
use super::style::Style;
use super::table::{Column, Table};

/// The heading shortens longer commands.
const MAX_COMMAND: usize = 90;
/// Things waited for that are named.
const MAX_WAITS: usize = 3;
/// Costs that are named.
const MAX_COSTS: usize = 2;
/// A cost of a smaller share is not named.
const MIN_NAMED: f64 = 0.005;

/// The stages side by side, then each one's bars and call tree.
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
            how_it_ended(pipeline)
        )),
        table(pipeline, style),
    ];
    let sentences = std::iter::once(limit(pipeline)).chain(failures(pipeline));
    blocks.extend(sentences.map(|text| style.sentence(&text)));
    for stage in &pipeline.stages {
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
    let trees = pipeline.stages.iter();
    blocks.extend(trees.map(|stage| call_tree(&stage.end, threshold, style)));
    let stages = format!("stages: {}", profile.settings.placement);
    let method = format!(
        "run once; phases with sampling ({FREQUENCY} times a second of running) and without \
         alternate every {PHASE_MS} ms: running and waiting for a processor are the scheduler's \
         account of the phases without, asleep is the rest of a stage's wall time, whatever it \
         waits for; samples of the other phases share out the running time"
    );
    blocks.push(profile_notes(profile, &[&stages, &method], style));
    blocks.join("\n\n") + "\n"
}

fn how_it_ended(pipeline: &PipelineProfile) -> String {
    match (pipeline.out_of_time, pipeline.interrupted) {
        (true, _) => ", then ended, as --time says".to_owned(),
        (false, Some(signal)) => format!(", then interrupted by {}", signal_name(signal)),
        (false, None) => ", to its end".to_owned(),
    }
}

/// The bytes that a stage's pages are counted by.
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
    for stage in &pipeline.stages {
        let rate = |bytes: Option<u64>| match bytes {
            Some(bytes) if bytes < FEW_BYTES => size::format(bytes),
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
        table.row([
            stage.end.role.clone(),
            significant(stage.wall_s),
            running,
            percent(delayed),
            percent(asleep),
            rate(stage.taken_bytes),
            rate(stage.given_bytes),
            main_costs(stage),
        ]);
    }
    table.render(style)
}

/// The biggest costs of a stage while it runs.
fn main_costs(stage: &StageProfile) -> String {
    let mut costs: Vec<(Group, f64)> = stage
        .end
        .costs
        .iter()
        .filter(|cost| !matches!(cost.group, Group::Asleep | Group::RunDelay))
        .filter(|cost| cost.share >= MIN_NAMED)
        .map(|cost| (cost.group, cost.share))
        .collect();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1));
    let named = costs.iter().take(MAX_COSTS);
    let named: Vec<String> = named
        .map(|(group, share)| format!("{} {:.0} %", group.name(), share * 100.0))
        .collect();
    named.join(", ")
}

fn waits(stage: &StageProfile) -> String {
    let named = stage.waits.iter().take(MAX_WAITS);
    let named: Vec<String> = named
        .map(|wait| format!("{} {:.0} %", wait.name, wait.share * 100.0))
        .collect();
    named.join(", ")
}

/// A sentence for each stage that failed. SIGPIPE is normal for a stage whose reader
/// has ended, and so is any status after the pipeline was stopped.
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
    fn stages_stand_side_by_side_with_their_bars_and_trees() {
        let profile = sample::pipeline();
        let pipeline = profile.pipeline.as_ref().unwrap();
        let style = Style::of_width(100);
        insta::assert_snapshot!(profile_pipeline(&profile, pipeline, 0.02, style));
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
