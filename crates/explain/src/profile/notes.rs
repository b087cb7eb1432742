//! Warnings about a profile.

use itertools::Itertools;

use super::account::FEW_BYTES;
use super::perf::{Event, EventScope, FREQUENCY};
use super::record::{EndProfile, Losses, PipelineProfile, Profile};
use pipespeed_host::{Machine, Warning, WarningKind, warnings};

/// The mitigations that slow down every system call, page or switch
/// (Documentation/admin-guide/hw-vuln/index.rst).
const COSTLY: &[&str] = &[
    "spectre_v2",
    "retbleed",
    "spec_rstack_overflow",
    "meltdown",
    "mds",
    "indirect_target_selection",
    "vmscape",
];

/// Maximum share of samples in "other kernel" without a warning.
const MAX_OTHER: f64 = 0.1;
/// Maximum slowdown by sampling without a warning.
const MAX_SLOWDOWN: f64 = 0.05;
/// Maximum share of a command's processor time in no stage without a warning.
const MAX_UNSEEN: f64 = 0.1;
/// Less of it, in seconds, is not reported either.
const MIN_UNSEEN_S: f64 = 0.01;
/// Maximum difference of costs and wall time without a warning.
const MAX_DIFFERENCE: f64 = 0.05;

/// Warnings about the machine and the event.
pub fn of_setup(machine: &Machine, event: Event, scope: EventScope) -> Vec<Warning> {
    let by = match event {
        Event::Cycles => "processor cycles",
        Event::CpuClock => {
            "the kernel's cpu-clock, as there are no cycle counters: code with interrupts off is \
             attributed to where they are enabled again"
        }
    };
    let by = format!("sampled {FREQUENCY} times per second of running time by {by}");
    let mut found = Vec::new();
    if scope == EventScope::Tasks {
        let message = "sampled by process: events of whole processors need CAP_PERFMON, or \
                       /proc/sys/kernel/perf_event_paranoid at 0 or below. The event is started and stopped at every \
                       context switch, which counts as \"waking and scheduling\". Where an end sleeps, that cost is an \
                       upper bound (<), and the other costs of running are lower bounds (>).";
        found.push(Warning::new(WarningKind::Sampling, message));
    }
    found.push(Warning::new(WarningKind::Sampling, by));
    found.extend(of_machine(machine));
    found
}

/// Warnings about the machine.
pub fn of_machine(machine: &Machine) -> Vec<Warning> {
    let mut found = warnings::of_machine(machine);
    let is_on = |name: &&&str| {
        let state = machine.kernel.mitigations.get(**name);
        state.is_some_and(|state| state.starts_with("Mitigation"))
    };
    let on = COSTLY.iter().filter(is_on).join(", ");
    if !on.is_empty() {
        let message =
            format!("mitigations that make system calls and switches slower are on: {on}");
        found.push(Warning::new(WarningKind::Mitigations, message));
    }
    if machine.kernel.init_on_alloc == Some(true) {
        let message = "the kernel zeroes every page that it allocates (init_on_alloc): \
                       \"zeroing of pages\" needs no page fault";
        found.push(Warning::new(WarningKind::Sampling, message));
    }
    if machine.kernel.seccomp_filter == Some(true) {
        let message = "a seccomp filter checks every system call";
        found.push(Warning::new(WarningKind::SeccompFilter, message));
    }
    found
}

/// Warnings about the samples.
pub fn of_samples(profile: &Profile) -> Vec<Warning> {
    let mut found = Vec::new();
    for case in &profile.cases {
        found.extend(case.disturbances.iter().cloned());
        let mut notes = Vec::new();
        let slowed = 1.0 - case.gib_per_s / case.gib_per_s_unsampled;
        if case.not_run.is_none() && slowed > MAX_SLOWDOWN {
            notes.push(format!(
                "{:.0} % slower with sampling than without ({} and {} GiB/s)",
                slowed * 100.0,
                pipespeed_base::text::significant(case.gib_per_s),
                pipespeed_base::text::significant(case.gib_per_s_unsampled)
            ));
        }
        of_losses(case.losses, &case.ends, &mut notes);
        for end in &case.ends {
            of_end(&end.role, end, &mut notes);
        }
        let notes = notes.into_iter();
        found.extend(notes.map(|note| Warning::for_case(WarningKind::Sampling, &case.name, note)));
    }
    if let Some(pipeline) = &profile.pipeline {
        let mut notes = Vec::new();
        let stages = pipeline.stages.iter().chain(&pipeline.other);
        of_losses(pipeline.losses, stages.map(|stage| &stage.end), &mut notes);
        for stage in pipeline.shown() {
            of_end(
                &format!("pipeline, {}", stage.end.role),
                &stage.end,
                &mut notes,
            );
        }
        of_pipeline(pipeline, &mut notes);
        let notes = notes.into_iter();
        found.extend(notes.map(|note| Warning::new(WarningKind::Sampling, note)));
    }
    found
}

/// Adds notes about samples missing from these ends.
fn of_losses<'a>(
    losses: Losses,
    ends: impl IntoIterator<Item = &'a EndProfile>,
    notes: &mut Vec<String>,
) {
    if losses.lost > 0 {
        let kept: u64 = ends.into_iter().map(|end| end.samples).sum();
        notes.push(format!(
            "{} samples lost for lack of memory, {kept} kept",
            losses.lost
        ));
    }
    if losses.throttled > 0 {
        notes.push(format!(
            "the kernel suspended sampling {} times \
             (/proc/sys/kernel/perf_event_max_sample_rate, perf_cpu_time_max_percent)",
            losses.throttled
        ));
    }
}

/// Adds notes about the samples of one end.
fn of_end(whose: &str, end: &EndProfile, notes: &mut Vec<String>) {
    if let Some(due) = end.missing_samples() {
        notes.push(format!(
            "{whose}: {} samples, where {due:.0} were due: the event was not counted all the time, so the samples \
             may not represent the running time",
            end.samples
        ));
    }
    let other = end.other_share_of_samples().unwrap_or(0.0);
    if other > MAX_OTHER {
        notes.push(format!(
            "{whose}: {:.0} % of the samples are in functions that the table of costs does not know",
            other * 100.0
        ));
    }
    let difference = end.sum_of_shares() - 1.0;
    if difference.abs() > MAX_DIFFERENCE {
        notes.push(format!(
            "{whose}: the sum of the costs differs from the wall time by {:+.0} %, as the scheduler's times do",
            difference * 100.0
        ));
    }
}

/// Adds notes about a pipeline.
fn of_pipeline(pipeline: &PipelineProfile, notes: &mut Vec<String>) {
    for (at, stage) in pipeline.stages.iter().enumerate() {
        if let Some(to) = stage.writes_to.filter(|_| stage.given_bytes.is_none()) {
            notes.push(format!(
                "bytes from stage {} to stage {to} are unknown: both ends splice, which the kernel does not count; or a \
                 child with other pipes ended, whose bytes count for its parent; or one end moved all of them just \
                 before its end; or the kernel counts none (CONFIG_TASK_IO_ACCOUNTING)",
                at + 1
            ));
        }
    }
    let seen: f64 = pipeline
        .stages
        .iter()
        .chain(&pipeline.other)
        .map(|stage| stage.cpu_s)
        .sum();
    if let Some(all) = pipeline.cpu_s
        && all - seen > (MAX_UNSEEN * all).max(MIN_UNSEEN_S)
    {
        notes.push(format!(
            "{:.2} s of the {all:.2} s of processor time are in no stage: those of processes that lived too briefly \
             to be seen, or that ran on after they were last seen",
            all - seen
        ));
    }
    for stage in pipeline.shown() {
        let usage = &stage.end.usage;
        let sampled = &stage.end.usage_sampled;
        if let Some(unsampled) = &stage.usage_unsampled
            && unsampled.bytes >= FEW_BYTES
            && sampled.bytes >= FEW_BYTES
        {
            let slowed = 1.0 - unsampled.wall_ns_per_page() / sampled.wall_ns_per_page();
            if slowed > MAX_SLOWDOWN {
                notes.push(format!(
                    "{}: moved {:.0} % less per second in the phases with sampling than in those without",
                    stage.end.role,
                    slowed * 100.0
                ));
            }
        }
        if usage.cpu_s + usage.run_delay_s > usage.wall_s * (1.0 + MAX_DIFFERENCE) {
            notes.push(format!(
                "{}: several of its processes or threads ran, or waited for a processor, at the same time (running on \
                 {:.1} processors on average); their times are scaled to the wall time, and sleep at the same time is \
                 not shown",
                stage.end.role,
                stage.processors()
            ));
        }
    }
    if pipeline.left > 0 {
        notes.push(format!(
            "processes that the command has left running: {}",
            pipeline.left
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::fixtures;
    use pipespeed_testing::says;

    fn joined(found: &[Warning]) -> String {
        let lines: Vec<String> = found.iter().map(Warning::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn a_clean_profile_has_no_notes() {
        let mut profile = fixtures::ladder();
        for case in &mut profile.cases {
            case.gib_per_s = case.gib_per_s_unsampled;
            case.ends.remove(0);
        }
        assert_eq!(joined(&of_samples(&profile)), "");
    }

    #[test]
    fn an_event_that_counts_for_one_end_only_is_reported() {
        let mut profile = fixtures::ladder();
        profile.cases.truncate(1);
        let case = &mut profile.cases[0];
        case.gib_per_s = case.gib_per_s_unsampled;
        case.ends[1].usage_sampled.cpu_s = 0.4;
        let notes = joined(&of_samples(&profile));
        says(&notes, &["reader: 100 samples, where 800 were due"]);
        assert!(!notes.contains("writer: 100 samples"), "{notes}");
    }

    #[test]
    fn notes_about_a_case_have_its_name() {
        let mut profile = fixtures::ladder();
        profile.cases.truncate(1);
        let case = &mut profile.cases[0];
        case.disturbances = vec![Warning::for_case(
            WarningKind::Steal,
            "write_read",
            "stolen time",
        )];
        case.losses = Losses {
            lost: 7,
            throttled: 2,
        };
        case.ends[1].costs.remove(0);
        insta::assert_snapshot!(joined(&of_samples(&profile)), @r"
        write_read: stolen time
        write_read: 10 % slower with sampling than without (3.43 and 3.81 GiB/s)
        write_read: 7 samples lost for lack of memory, 200 kept
        write_read: the kernel suspended sampling 2 times (/proc/sys/kernel/perf_event_max_sample_rate, perf_cpu_time_max_percent)
        write_read: writer: 15 % of the samples are in functions that the table of costs does not know
        write_read: reader: the sum of the costs differs from the wall time by -50 %, as the scheduler's times do
        ");
    }

    #[test]
    fn notes_about_a_pipeline_name_the_stages() {
        let mut profile = fixtures::pipeline();
        let pipeline = profile.pipeline.as_mut().unwrap();
        pipeline.left = 2;
        pipeline.losses.lost = 7;
        pipeline.cpu_s = Some(20.0);
        pipeline.stages[0].end.usage_sampled.bytes /= 2;
        let usage = &mut pipeline.stages[1].end.usage;
        usage.cpu_s = 3.0 * usage.wall_s;
        pipeline.stages[1].cpu_s = 3.0 * pipeline.stages[1].wall_s;
        insta::assert_snapshot!(joined(&of_samples(&profile)), @r"
        7 samples lost for lack of memory, 300 kept
        pipeline, 1: produce: 15 % of the samples are in functions that the table of costs does not know
        bytes from stage 2 to stage 3 are unknown: both ends splice, which the kernel does not count; or a child with other pipes ended, whose bytes count for its parent; or one end moved all of them just before its end; or the kernel counts none (CONFIG_TASK_IO_ACCOUNTING)
        16.62 s of the 20.00 s of processor time are in no stage: those of processes that lived too briefly to be seen, or that ran on after they were last seen
        1: produce: moved 50 % less per second in the phases with sampling than in those without
        2: filter: several of its processes or threads ran, or waited for a processor, at the same time (running on 3.0 processors on average); their times are scaled to the wall time, and sleep at the same time is not shown
        processes that the command has left running: 2
        ");
    }

    #[test]
    fn notes_about_the_setup_name_the_event_and_costly_mitigations() {
        let mut machine = Machine::default();
        machine.kernel.seccomp_filter = Some(true);
        machine.kernel.init_on_alloc = Some(true);
        for (name, state) in [("mds", "Mitigation: on"), ("meltdown", "Not affected")] {
            let mitigations = &mut machine.kernel.mitigations;
            mitigations.insert(name.to_owned(), state.to_owned());
        }
        let [cycles, clock] = [Event::Cycles, Event::CpuClock]
            .map(|event| of_setup(&machine, event, EventScope::Processors));
        assert_eq!(cycles[1..], clock[1..]);
        let tasks = of_setup(&machine, Event::CpuClock, EventScope::Tasks);
        assert_eq!(tasks[1..], clock);
        let text = format!("{}\n{}\n{}", tasks[0], cycles[0], joined(&clock));
        insta::assert_snapshot!(text, @r#"
        sampled by process: events of whole processors need CAP_PERFMON, or /proc/sys/kernel/perf_event_paranoid at 0 or below. The event is started and stopped at every context switch, which counts as "waking and scheduling". Where an end sleeps, that cost is an upper bound (<), and the other costs of running are lower bounds (>).
        sampled 1999 times per second of running time by processor cycles
        sampled 1999 times per second of running time by the kernel's cpu-clock, as there are no cycle counters: code with interrupts off is attributed to where they are enabled again
        mitigations that make system calls and switches slower are on: mds
        the kernel zeroes every page that it allocates (init_on_alloc): "zeroing of pages" needs no page fault
        a seccomp filter checks every system call
        "#);
    }
}
