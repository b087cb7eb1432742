//! Differences between two machines that affect speed.

use serde::{Deserialize, Serialize};

use super::{CacheKind, Machine};
use pipespeed_base::text::fixed;

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
        let (old, new) = (Facts::new(self).0, Facts::new(newer).0);
        let value = |facts: &[Fact], what: &str| {
            let found = facts.iter().find(|(name, _)| name == what);
            let value = found.and_then(|(_, value)| value.clone());
            value.unwrap_or_else(|| "unknown".to_owned())
        };
        let is_added = |(what, _): &&Fact| !old.iter().any(|(name, _)| name == what);
        let all = old.iter().chain(new.iter().filter(is_added));
        all.map(|(what, _)| Difference {
            what: what.clone(),
            old: value(&old, what),
            new: value(&new, what),
        })
        .filter(|difference| difference.old != difference.new)
        .collect()
    }
}

/// A property with its value; `None` if that is unknown.
type Fact = (String, Option<String>);

/// The properties compared, the most important first, with unique names.
struct Facts(Vec<Fact>);

impl Facts {
    fn new(machine: &Machine) -> Facts {
        let mut facts = Facts(Vec::new());
        facts.add_hardware(machine);
        facts.add_frequency(machine);
        facts.add_kernel(machine);
        facts.add_memory(machine);
        facts
    }

    /// Adds a property that is unknown if it is `None`.
    fn add(&mut self, what: &str, value: Option<impl ToString>) {
        let value = value.map(|value| value.to_string());
        self.0.push((what.to_owned(), value));
    }

    /// Adds a property that the machine does not have if it is `None`.
    fn add_or_none(&mut self, what: &str, value: Option<impl ToString>) {
        let value = value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        self.add(what, Some(value));
    }

    fn add_list(&mut self, what: &str, values: &[String]) {
        self.add_or_none(what, (!values.is_empty()).then(|| values.join(" ")));
    }

    fn add_switch(&mut self, what: &str, is_on: Option<bool>) {
        self.add(what, is_on.map(|is_on| if is_on { "on" } else { "off" }));
    }

    fn add_hardware(&mut self, machine: &Machine) {
        let processors = &machine.processors;
        self.add("processor", processors.model.as_ref());
        self.add_or_none("board", processors.board.as_ref());
        self.add_or_none("signature", processors.signature.as_ref());
        self.add_or_none("simultaneous multithreading", processors.smt.as_ref());
        self.add_or_none("microcode", processors.microcode.as_ref());
        self.add("processors allowed", Some(processors.allowed.len()));
        let relation = processors.relation.as_ref();
        self.add_or_none("relation of the chosen processors", relation);
        let (writer, reader) = (processors.writer.as_ref(), processors.reader.as_ref());
        let node = |place: Option<&super::Cpu>| place?.numa_node;
        let nodes = node(writer)
            .zip(node(reader))
            .map(|(writer, reader)| if writer == reader { "one" } else { "two" });
        self.add("memory nodes of the chosen processors", nodes);
        let capacity = |place: Option<&super::Cpu>| place?.capacity;
        self.add("capacity of the writer's core", capacity(writer));
        self.add("capacity of the reader's core", capacity(reader));
        let caches = processors.caches.iter();
        for cache in caches.filter(|cache| cache.kind != CacheKind::Instruction) {
            let size = cache.bytes.map(|bytes| format!("{} KiB", bytes >> 10));
            self.add(&format!("L{} cache", cache.level), size);
        }
        let virtualisation = &machine.virtualisation;
        let guest = virtualisation.guest;
        self.add("guest", guest.map(|is| if is { "yes" } else { "no" }));
        self.add_or_none("hypervisor", virtualisation.hypervisor.as_ref());
        self.add_or_none("product", virtualisation.product.as_ref());
        self.add_or_none("container", virtualisation.container.as_ref());
        self.add_switch("free page reporting", virtualisation.free_page_reporting);
    }

    fn add_frequency(&mut self, machine: &Machine) {
        let frequency = &machine.frequency;
        self.add_or_none("frequency driver", frequency.driver.as_ref());
        self.add_list("frequency governor", &frequency.governors);
        self.add_list("energy preference", &frequency.preferences);
        let rate = |khz: Option<u64>| khz.map(|khz| format!("{} MHz", khz / 1000));
        self.add("lowest clock rate", rate(frequency.lowest_khz));
        self.add("highest clock rate", rate(frequency.highest_khz));
        self.add_switch("boost", frequency.boost);
        self.add_or_none("idle driver", frequency.idle_driver.as_ref());
        self.add_or_none("idle governor", frequency.idle_governor.as_ref());
        let polling = frequency.halt_poll_ns.map(|ns| format!("{ns} ns"));
        self.add("halt polling", polling);
        self.add("clock source", machine.clock.source.as_ref());
    }

    fn add_kernel(&mut self, machine: &Machine) {
        let kernel = &machine.kernel;
        self.add("kernel", kernel.release.as_ref());
        self.add("architecture", kernel.architecture.as_ref());
        self.add_or_none("preemption", kernel.preemption.as_ref());
        for (name, state) in &kernel.mitigations {
            self.add(&format!("mitigation of {name}"), Some(state));
        }
        self.add_list("boot parameters", &kernel.boot_parameters);
        self.add_switch("zeroing of allocated pages", kernel.init_on_alloc);
        self.add_switch("pressure-stall accounts", kernel.pressure_stall);
        self.add_switch("seccomp filter", kernel.seccomp_filter);
        self.add_or_none("speculative store bypass", kernel.store_bypass.as_ref());
        self.add("security modules", kernel.security_modules.as_ref());
        let quota = machine.cgroup.cpu_quota;
        let quota = quota.map(|quota| format!("{} processors", fixed(quota, 2)));
        self.add_or_none("quota of the control group", quota);
    }

    fn add_memory(&mut self, machine: &Machine) {
        let memory = &machine.memory;
        let base_page = format!("{} bytes", memory.base_page_bytes);
        self.add("base page", Some(base_page));
        for pages in &memory.huge_pages {
            let what = format!("reserved huge pages of {} KiB", pages.page_bytes >> 10);
            self.add(&what, pages.total);
        }
        let what = "transparent huge pages";
        if let Some(transparent) = &memory.transparent {
            self.add(what, transparent.enabled.as_ref());
            self.add(&format!("{what}, defrag"), transparent.defrag.as_ref());
            let shared = transparent.shmem_enabled.as_ref();
            self.add(&format!("{what}, shared memory"), shared);
            for size in &transparent.sizes {
                let what = format!("transparent pages of {} KiB", size.page_bytes >> 10);
                self.add(&what, size.enabled.as_ref());
            }
        } else {
            for of in ["", ", defrag", ", shared memory"] {
                self.add(&format!("{what}{of}"), Some("none"));
            }
        }
        let pipes = &machine.pipes;
        let max_bytes = pipes.max_bytes.map(|bytes| format!("{bytes} bytes"));
        self.add("pipe-max-size", max_bytes);
        self.add("pipe-user-pages-soft", pipes.user_pages_soft);
        self.add("pipe-user-pages-hard", pipes.user_pages_hard);
    }
}
