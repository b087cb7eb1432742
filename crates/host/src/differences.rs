//! Differences between two machines that affect speed.

use serde::{Deserialize, Serialize};

use super::{CacheKind, Machine};

/// A property in which two machines differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The name of the property.
    pub what: String,
    /// Its value on the older machine, or `unknown`.
    pub old: String,
    /// Its value on the newer machine, or `unknown`.
    pub new: String,
}

impl Machine {
    /// The differences between this machine and a newer one that affect speed,
    /// without what changes from run to run, such as free pages and load.
    pub fn differences(&self, newer: &Machine) -> Vec<Difference> {
        let (old, new) = (facts(self), facts(newer));
        let value = |facts: &[(String, Option<String>)], what: &str| {
            let found = facts.iter().find(|(name, _)| name == what);
            found
                .and_then(|(_, value)| value.clone())
                .unwrap_or_else(|| "unknown".to_owned())
        };
        let added = new
            .iter()
            .filter(|(what, _)| !old.iter().any(|(name, _)| name == what));
        old.iter()
            .chain(added)
            .map(|(what, _)| Difference {
                what: what.clone(),
                old: value(&old, what),
                new: value(&new, what),
            })
            .filter(|difference| difference.old != difference.new)
            .collect()
    }
}

type Fact = (String, Option<String>);

/// The properties compared, the most important first, with unique names.
fn facts(machine: &Machine) -> Vec<Fact> {
    let mut facts = Vec::new();
    hardware(machine, &mut |what, value| {
        facts.push((what.to_owned(), value))
    });
    kernel(machine, &mut |what, value| {
        facts.push((what.to_owned(), value))
    });
    memory(machine, &mut |what, value| {
        facts.push((what.to_owned(), value))
    });
    facts
}

type Push<'a> = &'a mut dyn FnMut(&str, Option<String>);

fn hardware(machine: &Machine, push: Push) {
    let processors = &machine.processors;
    let virtualisation = &machine.virtualisation;
    push("processor", processors.model.clone());
    push("board", or_none(&processors.board));
    push("signature", or_none(&processors.signature));
    push("simultaneous multithreading", or_none(&processors.smt));
    push("microcode", or_none(&processors.microcode));
    push(
        "processors allowed",
        Some(processors.allowed.len().to_string()),
    );
    push(
        "relation of the chosen processors",
        or_none(&processors.relation),
    );
    let node = |place: &Option<super::Place>| place.as_ref().and_then(|place| place.numa_node);
    let spread = node(&processors.writer)
        .zip(node(&processors.reader))
        .map(|(writer, reader)| {
            if writer == reader {
                "one".to_owned()
            } else {
                "two".to_owned()
            }
        });
    push("memory nodes of the chosen processors", spread);
    let cores = [&processors.writer, &processors.reader];
    let capacities = cores.map(|place| {
        place
            .as_ref()?
            .capacity
            .map(|capacity| capacity.to_string())
    });
    push("capacity of the writer's core", capacities[0].clone());
    push("capacity of the reader's core", capacities[1].clone());
    for cache in processors
        .caches
        .iter()
        .filter(|cache| cache.kind != CacheKind::Instruction)
    {
        push(
            &format!("L{} cache", cache.level),
            cache.bytes.map(|bytes| format!("{} KiB", bytes >> 10)),
        );
    }
    push("guest", virtualisation.guest.map(yes));
    push("hypervisor", or_none(&virtualisation.hypervisor));
    push("product", or_none(&virtualisation.product));
    push("container", or_none(&virtualisation.container));
    let frequency = &machine.frequency;
    push("frequency driver", or_none(&frequency.driver));
    push("frequency governor", Some(listed(&frequency.governors)));
    push("energy preference", Some(listed(&frequency.preferences)));
    push(
        "lowest clock rate",
        frequency
            .lowest_khz
            .map(|khz| format!("{} MHz", khz / 1000)),
    );
    push(
        "highest clock rate",
        frequency
            .highest_khz
            .map(|khz| format!("{} MHz", khz / 1000)),
    );
    push("boost", frequency.boost.map(on));
    push("idle driver", or_none(&frequency.idle_driver));
    push("idle governor", or_none(&frequency.idle_governor));
    push(
        "halt polling",
        frequency.halt_poll_ns.map(|ns| format!("{ns} ns")),
    );
    push("clock source", machine.clock.source.clone());
}

fn kernel(machine: &Machine, push: Push) {
    let kernel = &machine.kernel;
    push("kernel", kernel.release.clone());
    push("architecture", kernel.architecture.clone());
    push("preemption", or_none(&kernel.preemption));
    for (name, state) in &kernel.mitigations {
        push(&format!("mitigation of {name}"), Some(state.clone()));
    }
    push("boot parameters", Some(listed(&kernel.boot_parameters)));
    push("pressure-stall accounts", kernel.pressure_stall.map(on));
    push("seccomp filter", kernel.seccomp_filter.map(on));
    push("speculative store bypass", or_none(&kernel.store_bypass));
    push("security modules", kernel.security_modules.clone());
    let quota = machine.cgroup.cpu_quota;
    push(
        "quota of the control group",
        Some(quota.map_or("none".to_owned(), |quota| format!("{quota:.2} processors"))),
    );
}

fn memory(machine: &Machine, push: Push) {
    let memory = &machine.memory;
    let bytes = |bytes: u64| format!("{bytes} bytes");
    push("base page", Some(bytes(memory.base_page_bytes as u64)));
    for pages in &memory.huge_pages {
        push(
            &format!("reserved huge pages of {} KiB", pages.page_bytes >> 10),
            pages.total.map(|total| total.to_string()),
        );
    }
    let thp = |of: fn(&super::Transparent) -> &Option<String>| {
        let set = memory
            .transparent
            .as_ref()
            .map(|transparent| of(transparent).clone());
        set.unwrap_or_else(|| Some("none".to_owned()))
    };
    push(
        "transparent huge pages",
        thp(|transparent| &transparent.enabled),
    );
    push(
        "transparent huge pages, defrag",
        thp(|transparent| &transparent.defrag),
    );
    push(
        "transparent huge pages, shared memory",
        thp(|transparent| &transparent.shmem_enabled),
    );
    for size in memory
        .transparent
        .iter()
        .flat_map(|transparent| &transparent.sizes)
    {
        push(
            &format!("transparent pages of {} KiB", size.page_bytes >> 10),
            size.enabled.clone(),
        );
    }
    push("pipe-max-size", machine.pipes.max_bytes.map(bytes));
    push(
        "pipe-user-pages-soft",
        machine.pipes.user_pages_soft.map(|pages| pages.to_string()),
    );
    push(
        "pipe-user-pages-hard",
        machine.pipes.user_pages_hard.map(|pages| pages.to_string()),
    );
}

/// For properties where `None` means that the machine has none.
fn or_none(value: &Option<String>) -> Option<String> {
    Some(value.clone().unwrap_or_else(|| "none".to_owned()))
}

fn listed(values: &[String]) -> String {
    match values {
        [] => "none".to_owned(),
        values => values.join(" "),
    }
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn on(is: bool) -> String {
    if is { "on" } else { "off" }.to_owned()
}
