//! What of the machine, or of what went on there, limits what figures say.

use super::Machine;
use super::noise::NoiseDelta;
use crate::{Warning, WarningKind};

/// Share of stolen processor time above which a run is warned of.
const STEAL_SHARE: f64 = 0.005;
/// Processors used by others above which a run is warned of.
const OTHER_LOAD: f64 = 0.1;

/// What about the machine itself bears on figures, whatever is measured.
pub fn standing(machine: &Machine) -> Vec<Warning> {
    let found = [
        one_processor(machine),
        guest(machine),
        quota(machine),
        governor(machine),
        clock_source(machine),
        pressure_stall(machine),
    ];
    found.into_iter().flatten().collect()
}

/// What disturbed a run, by the readings around its trials taken together: a
/// single trial is too short for the kernel's ticks.
pub fn of_run(deltas: &[NoiseDelta]) -> Vec<Warning> {
    let overall = NoiseDelta::overall(deltas).unwrap_or_default();
    let mut found = Vec::new();
    if let Some(share) = overall.steal_share.filter(|share| *share > STEAL_SHARE) {
        let message = format!(
            "the hypervisor gave {:.1} % of our processors' time to others (steal): repeat the run when the host is \
             quieter, or on processors of its own",
            share * 100.0
        );
        found.push(Warning::new(WarningKind::Steal, message));
    }
    let throttled = || deltas.iter().filter_map(|delta| delta.throttled_s);
    let throttled_s: f64 = throttled().sum();
    if throttled_s > 0.0 {
        let trials = throttled().filter(|seconds| *seconds > 0.0).count();
        let message = format!(
            "the control group's quota stopped processes for {throttled_s:.2} s in {trials} of {} trials: raise its \
             cpu.max to 2 processors or more",
            deltas.len()
        );
        found.push(Warning::new(WarningKind::Throttled, message));
    }
    if let Some(load) = overall.other_load.filter(|load| *load > OTHER_LOAD) {
        let message = format!(
            "other processes used {load:.2} processors on average while trials ran: stop them, or pin the ends away \
             from them with --cpus"
        );
        found.push(Warning::new(WarningKind::OtherLoad, message));
    }
    found
}

fn one_processor(machine: &Machine) -> Option<Warning> {
    let [only] = machine.processors.allowed.as_slice() else {
        return None;
    };
    let message = match machine
        .processors
        .online
        .as_ref()
        .map(|online| online.len())
    {
        Some(online) if online > 1 => format!(
            "this process may use only processor {only} of the {online} there are, so both ends share it: widen its \
             affinity (taskset) or cpuset"
        ),
        _ => format!(
            "there is only one processor (number {only}), so both ends share it: use a machine of two or more to \
             see how fast data move between processors"
        ),
    };
    Some(Warning::new(WarningKind::Placement, message))
}

fn guest(machine: &Machine) -> Option<Warning> {
    let virtualisation = &machine.virtualisation;
    if virtualisation.guest != Some(true) {
        return None;
    }
    let by = match &virtualisation.hypervisor {
        Some(name) => format!(" under {name}"),
        None => String::new(),
    };
    let message = format!(
        "this is a guest{by}, where waking a sleeping peer takes several microseconds: cases that block look worse \
         than on bare metal, so judge those by runs on the machine that matters"
    );
    Some(Warning::new(WarningKind::Guest, message))
}

/// A quota of two processors or more doesn't stop two ends by itself, but it
/// does as soon as anything runs beside them.
fn quota(machine: &Machine) -> Option<Warning> {
    let quota = machine.cgroup.cpu_quota?;
    let usable = machine.processors.allowed.len();
    // A quota of all there are can't be used up.
    if usable > 0 && quota >= usable as f64 {
        return None;
    }
    let period = match machine.cgroup.period_s {
        Some(period_s) => format!(" in each {:.0} ms", period_s * 1e3),
        None => String::new(),
    };
    let effect = if quota < 2.0 {
        "two busy ends are stopped once they used it up; raise cpu.max to 2 processors or more"
    } else {
        "the ends are stopped if these and other processes of the group use it up; raise cpu.max if trials are throttled"
    };
    let message = format!("the control group may use {quota:.2} processors{period}: {effect}");
    Some(Warning::new(WarningKind::Throttled, message))
}

fn governor(machine: &Machine) -> Option<Warning> {
    let frequency = &machine.frequency;
    let others: Vec<&str> = frequency
        .governors
        .iter()
        .map(String::as_str)
        .filter(|governor| *governor != "performance")
        .collect();
    if others.is_empty() {
        return None;
    }
    let driver = match &frequency.driver {
        Some(driver) => format!(" (driver {driver})"),
        None => String::new(),
    };
    let message = format!(
        "the frequency governor is {}{driver}, so the clock rate may change within and between trials: set it with \
         cpupower frequency-set -g performance",
        others.join(" and ")
    );
    Some(Warning::new(WarningKind::Governor, message))
}

fn clock_source(machine: &Machine) -> Option<Warning> {
    let clock = &machine.clock;
    let source = clock.source.as_deref()?;
    if clock.without_system_call()? {
        return None;
    }
    let tsc = if clock.available.iter().any(|name| name == "tsc") {
        "choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource, if it is stable here"
    } else {
        "no faster source is offered here, so trust long trials more than single latencies"
    };
    let message = format!(
        "the clock source is {source}, which the vDSO cannot read, so that each look at the clock is a system call: \
         {tsc}"
    );
    Some(Warning::new(WarningKind::ClockSource, message))
}

fn pressure_stall(machine: &Machine) -> Option<Warning> {
    if machine.kernel.pressure_stall != Some(true) {
        return None;
    }
    let message = "the kernel keeps pressure-stall accounts, which costs a little on every sleep and wake-up: boot with \
                   psi=0 to see blocking cases without it";
    Some(Warning::new(WarningKind::PressureStall, message))
}
