//! What colours a profile, said aloud.

use super::perf::{Event, FREQUENCY};
use super::record::Profile;
use crate::machine::{Machine, warnings};

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
pub fn standing(machine: &Machine, event: Event) -> Vec<String> {
    let mut notes = vec![match event {
        Event::Cycles => {
            format!("sampled by processor cycles, {FREQUENCY} times a second of running")
        }
        Event::CpuClock => format!(
            "sampled by the kernel's cpu-clock, {FREQUENCY} times a second of running, as there are no cycle counters: \
             what runs with interrupts off is seen where they are let in again"
        ),
    }];
    notes.extend(
        warnings::standing(machine)
            .into_iter()
            .map(|warning| warning.message),
    );
    let on: Vec<&str> = COSTLY
        .iter()
        .copied()
        .filter(|name| {
            let state = machine.kernel.mitigations.get(*name);
            state.is_some_and(|state| state.starts_with("Mitigation"))
        })
        .collect();
    if !on.is_empty() {
        notes.push(format!(
            "mitigations that make system calls and switches slower are on: {}",
            on.join(", ")
        ));
    }
    if machine.kernel.seccomp_filter == Some(true) {
        notes.push("a seccomp filter looks at every system call".to_owned());
    }
    notes
}

/// What the samples themselves say.
pub fn of_samples(profile: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    for case in &profile.cases {
        let disturbed = case.disturbances.iter();
        notes.extend(disturbed.map(|what| format!("{}: {what}", case.name)));
        for end in &case.ends {
            let whose = format!("{}, {}", case.name, end.role);
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
            let missed = end.sum_ns_per_page() / end.usage.wall_ns_per_page() - 1.0;
            if missed.abs() > MISSED {
                notes.push(format!(
                    "{whose}: the costs miss the wall time by {:+.0} %, as the scheduler's account does",
                    missed * 100.0
                ));
            }
        }
        let slowed = 1.0 - case.gib_per_s / case.gib_per_s_unsampled;
        if case.refused.is_none() && slowed > SLOWED {
            notes.push(format!(
                "{}: {:.0} % slower while sampled than between ({} and {} GiB/s)",
                case.name,
                slowed * 100.0,
                crate::report::significant(case.gib_per_s),
                crate::report::significant(case.gib_per_s_unsampled)
            ));
        }
    }
    notes
}
