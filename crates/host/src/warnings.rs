//! Warnings about the machine and about other load on it.

use super::Machine;
use super::noise::NoiseDelta;
pub use crate::warning::{disturbances, disturbances_and_load};
use crate::{Warning, WarningKind};

/// A larger share of steal time causes a warning.
const MAX_STEAL_SHARE: f64 = 0.005;
/// A larger load by other processes, in processors, causes a warning.
const MAX_OTHER_LOAD: f64 = 0.1;

/// Warnings about properties of the machine that affect every measurement.
pub fn of_machine(machine: &Machine) -> Vec<Warning> {
    let found = [
        one_processor(machine),
        guest(machine),
        quota(machine),
        governor(machine),
        clock_source(machine),
        pressure_stall(machine),
        free_page_reporting(machine),
    ];
    found.into_iter().flatten().collect()
}

/// Warnings about disturbances during a run, summed over all trials, since a
/// single trial is too short for the kernel's ticks.
pub fn of_noise(deltas: &[NoiseDelta]) -> Vec<Warning> {
    let overall = NoiseDelta::overall(deltas).unwrap_or_default();
    let mut found = Vec::new();
    if let Some(share) = overall.steal_share.filter(|share| *share > MAX_STEAL_SHARE) {
        let message = format!(
            "the hypervisor withheld {:.1} % of the processors' time (steal): repeat the run on dedicated \
             processors, on a quieter host, or without a limit for this guest",
            share * 100.0
        );
        found.push(Warning::new(WarningKind::Steal, message));
    }
    let throttled = || deltas.iter().filter_map(|delta| delta.throttled_s);
    let throttled_s: f64 = throttled().sum();
    if throttled_s > 0.0 {
        let trials = throttled().filter(|seconds| *seconds > 0.0).count();
        let message = format!(
            "the control group's CPU quota stopped processes in {trials} of {} trials ({throttled_s:.2} s, summed over \
             processors): raise the quota, or stop what else runs in the group",
            deltas.len()
        );
        found.push(Warning::new(WarningKind::Throttled, message));
    }
    if let Some(load) = overall.other_load.filter(|load| *load > MAX_OTHER_LOAD) {
        let message = format!(
            "other processes used {load:.2} processors on average during trials: stop them, or choose \
             processors that are idle with --cpus"
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
            "this process may use only processor {only} of {online}, so both ends share it: widen its affinity \
             (taskset) or cpuset"
        ),
        Some(_) => format!(
            "there is only one processor (number {only}), so both ends share it: use a machine with two or more to \
             measure transfers between processors"
        ),
        None => format!("this process may use only processor {only}, so both ends share it"),
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
        "this is a guest{by}: waking a sleeping process usually takes longer than on bare metal, so measure cases \
         that block on the target machine"
    );
    Some(Warning::new(WarningKind::Guest, message))
}

/// Warns about a CPU quota. The two ends alone don't exceed a quota of two
/// processors, but may do so together with other processes of the group.
fn quota(machine: &Machine) -> Option<Warning> {
    let quota = machine.cgroup.cpu_quota?;
    let usable = machine.processors.allowed.len();
    // A quota of all processors can't be exceeded.
    if usable > 0 && quota >= usable as f64 {
        return None;
    }
    let period = match machine.cgroup.period_s {
        Some(period_s) => format!(" per {:.0} ms", period_s * 1e3),
        None => String::new(),
    };
    let effect = if quota < 2.0 {
        "two ends that are busy at once exceed it and are stopped; raise it to 2 processors or more"
    } else {
        "the ends are stopped if they and other processes of the group exceed it; raise it if trials are throttled"
    };
    let message =
        format!("the control group's CPU quota is {quota:.2} processors{period}: {effect}");
    Some(Warning::new(WarningKind::Quota, message))
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
    if clock.is_in_vdso()? {
        return None;
    }
    let tsc = if clock.available.iter().any(|name| name == "tsc") {
        "choose tsc in /sys/devices/system/clocksource/clocksource0/current_clocksource, if it is stable here"
    } else {
        "no faster source is available, so trust long trials more than single latencies"
    };
    let message = format!(
        "the clock source is {source}, which the vDSO cannot read, so every clock read takes a system call: \
         {tsc}"
    );
    Some(Warning::new(WarningKind::ClockSource, message))
}

fn pressure_stall(machine: &Machine) -> Option<Warning> {
    if machine.kernel.pressure_stall != Some(true) {
        return None;
    }
    let message = "pressure-stall accounting is on, which makes every sleep and wake-up slightly slower: boot with \
                   psi=0 to measure blocking cases without it";
    Some(Warning::new(WarningKind::PressureStall, message))
}

fn free_page_reporting(machine: &Machine) -> Option<Warning> {
    if machine.virtualisation.free_page_reporting != Some(true) {
        return None;
    }
    let message = "the host takes back memory that has been free for a few seconds (free page reporting), so that its next \
                   use may take tens of times as long: cases that allocate pages vary (Fresh, memory)";
    Some(Warning::new(WarningKind::FreePageReporting, message))
}
