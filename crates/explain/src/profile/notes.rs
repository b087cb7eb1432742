//! What colours a profile, said aloud.

use super::account::FEW_BYTES;
use super::perf::{Event, FREQUENCY};
use super::record::{EndProfile, PipelineProfile, Profile};
use pipespeed_host::{Machine, Warning, WarningKind, warnings};

/// The mitigations that cost something in every system call, page or switch
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

/// Other shares of "other kernel" than this are told.
const MUCH_OTHER: f64 = 0.1;
/// So are rates that sampling lowers by more than this.
const SLOWED: f64 = 0.05;
/// And costs that miss the wall time by more.
const MISSED: f64 = 0.05;

/// What is known before anything is sampled.
pub fn standing(machine: &Machine, event: Event) -> Vec<Warning> {
    let by = match event {
        Event::Cycles => {
            format!("sampled by processor cycles, {FREQUENCY} times a second of running")
        }
        Event::CpuClock => format!(
            "sampled by the kernel's cpu-clock, {FREQUENCY} times a second of running, as there are no cycle counters: \
             what runs with interrupts off is seen where they are let in again"
        ),
    };
    let mut found = vec![Warning::new(WarningKind::Sampling, by)];
    found.extend(warnings::of_machine(machine));
    let on: Vec<&str> = COSTLY
        .iter()
        .copied()
        .filter(|name| {
            let state = machine.kernel.mitigations.get(*name);
            state.is_some_and(|state| state.starts_with("Mitigation"))
        })
        .collect();
    if !on.is_empty() {
        let message = format!(
            "mitigations that make system calls and switches slower are on: {}",
            on.join(", ")
        );
        found.push(Warning::new(WarningKind::Mitigations, message));
    }
    if machine.kernel.seccomp_filter == Some(true) {
        let message = "a seccomp filter looks at every system call";
        found.push(Warning::new(WarningKind::SeccompFilter, message));
    }
    found
}

/// What the samples themselves say.
pub fn of_samples(profile: &Profile) -> Vec<Warning> {
    let mut found = Vec::new();
    for case in &profile.cases {
        found.extend(case.disturbances.iter().cloned());
        let mut notes = Vec::new();
        let slowed = 1.0 - case.gib_per_s / case.gib_per_s_unsampled;
        if case.not_run.is_none() && slowed > SLOWED {
            notes.push(format!(
                "{:.0} % slower while sampled than between ({} and {} GiB/s)",
                slowed * 100.0,
                pipespeed_base::text::significant(case.gib_per_s),
                pipespeed_base::text::significant(case.gib_per_s_unsampled)
            ));
        }
        for end in &case.ends {
            of_end(&end.role, end, &mut notes);
        }
        let notes = notes.into_iter();
        found.extend(notes.map(|note| Warning::of_case(WarningKind::Sampling, &case.name, note)));
    }
    if let Some(pipeline) = &profile.pipeline {
        let mut notes = Vec::new();
        for stage in &pipeline.stages {
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

/// Of one end's samples.
fn of_end(whose: &str, end: &EndProfile, notes: &mut Vec<String>) {
    if end.lost > 0 {
        notes.push(format!(
            "{whose}: {} samples lost beside {} kept, for want of memory for them",
            end.lost, end.samples
        ));
    }
    if end.throttled > 0 {
        notes.push(format!(
            "{whose}: the kernel stopped sampling {} times for a while \
             (/proc/sys/kernel/perf_event_max_sample_rate, perf_cpu_time_max_percent)",
            end.throttled
        ));
    }
    let other = end.other_share_of_samples();
    if other > MUCH_OTHER {
        notes.push(format!(
            "{whose}: {:.0} % of the samples lie in functions that the table of costs does not know",
            other * 100.0
        ));
    }
    let missed = end.sum_of_shares() - 1.0;
    if missed.abs() > MISSED {
        notes.push(format!(
            "{whose}: the costs miss the wall time by {:+.0} %, as the scheduler's account does",
            missed * 100.0
        ));
    }
}

/// What bears on a pipeline as a whole.
fn of_pipeline(pipeline: &PipelineProfile, notes: &mut Vec<String>) {
    for (at, stages) in pipeline.stages.windows(2).enumerate() {
        if stages[0].given_bytes.is_none() {
            notes.push(format!(
                "bytes from stage {} to stage {} are unknown: both splice, which the kernel does not count, or it \
                 keeps no account of files (CONFIG_TASK_IO_ACCOUNTING), or hides it",
                at + 1,
                at + 2
            ));
        }
    }
    for stage in &pipeline.stages {
        let usage = &stage.end.usage;
        let sampled = &stage.end.usage_sampled;
        let slowed = 1.0 - usage.wall_ns_per_page() / sampled.wall_ns_per_page();
        if !stage.by_phases {
            notes.push(format!(
                "{}: too short, or its processes come and go too quickly, to tell phases with sampling from those \
                 without: its figures are of both",
                stage.end.role
            ));
        } else if slowed > SLOWED && usage.bytes >= FEW_BYTES {
            notes.push(format!(
                "{}: {:.0} % slower while sampled than between",
                stage.end.role,
                slowed * 100.0
            ));
        }
        if usage.cpu_s + usage.run_delay_s > usage.wall_s * (1.0 + MISSED) {
            notes.push(format!(
                "{}: its processes ran at the same time, on {:.1} processors on average; what they took is scaled \
                 down to the wall time, and sleeping beside it does not show",
                stage.end.role,
                stage.processors()
            ));
        }
    }
    if pipeline.left > 0 {
        notes.push(format!(
            "processes that went on after the last stage's end, and were ended: {}",
            pipeline.left
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::sample;

    fn joined(profile: &Profile) -> String {
        let found = of_samples(profile);
        let lines: Vec<String> = found.iter().map(Warning::to_string).collect();
        lines.join("\n")
    }

    #[test]
    fn a_clean_profile_needs_few_words() {
        let mut profile = sample::ladder();
        for case in &mut profile.cases {
            case.gib_per_s = case.gib_per_s_unsampled;
            case.ends.remove(0);
        }
        assert_eq!(joined(&profile), "");
    }

    #[test]
    fn what_colours_a_case_is_said_with_its_name() {
        let mut profile = sample::ladder();
        profile.cases.truncate(1);
        let case = &mut profile.cases[0];
        case.disturbances = vec![Warning::of_case(
            WarningKind::Steal,
            "write_read",
            "stolen time",
        )];
        case.ends[1].lost = 7;
        case.ends[1].throttled = 2;
        case.ends[1].costs.remove(0);
        let notes = joined(&profile);
        for said in [
            "write_read: stolen time",
            "write_read: 10 % slower while sampled",
            "write_read: writer: 15 % of the samples lie in functions",
            "write_read: reader: 7 samples lost beside 100 kept",
            "write_read: reader: the kernel stopped sampling 2 times",
            "write_read: reader: the costs miss the wall time by -50 %",
        ] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
    }

    #[test]
    fn a_pipeline_tells_what_it_could_not_see() {
        let mut profile = sample::pipeline();
        let pipeline = profile.pipeline.as_mut().unwrap();
        pipeline.left = 2;
        pipeline.stages[0].by_phases = false;
        let usage = &mut pipeline.stages[1].end.usage;
        usage.cpu_s = 3.0 * usage.wall_s;
        pipeline.stages[1].cpu_s = 3.0 * pipeline.stages[1].wall_s;
        let notes = joined(&profile);
        for said in [
            "bytes from stage 2 to stage 3 are unknown",
            "1: produce: too short",
            "2: filter: its processes ran at the same time, on 3.0 processors",
            "and were ended: 2",
        ] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
        assert!(!notes.contains("from stage 1"), "{notes}");
    }

    #[test]
    fn the_event_is_named_before_anything_else() {
        let machine = Machine::default();
        assert!(
            standing(&machine, Event::Cycles)[0]
                .message
                .contains("processor cycles")
        );
        assert!(
            standing(&machine, Event::CpuClock)[0]
                .message
                .contains("cpu-clock")
        );
        let mut machine = Machine::default();
        machine
            .kernel
            .mitigations
            .insert("mds".to_owned(), "Mitigation: on".to_owned());
        machine
            .kernel
            .mitigations
            .insert("meltdown".to_owned(), "Not affected".to_owned());
        let found = standing(&machine, Event::Cycles);
        let on = found
            .iter()
            .find(|warning| warning.kind == WarningKind::Mitigations)
            .unwrap();
        assert!(on.message.ends_with("are on: mds"), "{on}");
    }
}
