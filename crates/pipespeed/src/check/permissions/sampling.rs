//! Sampling the kernel, as `pipespeed profile` does.

use rustix::thread::sched_getcpu;

use crate::check::Outcome;
use crate::machine::Root;
use crate::profile::perf::{Event, Probe, best_event, ring_bytes};
use crate::profile::refusal::{Facts, Refusal, symbols};
use crate::profile::symbols::Symbols;

pub(super) fn run() -> anyhow::Result<Outcome> {
    let root = Root::default();
    Ok(match sampled(&root, &Facts::read(&root)) {
        Ok(event) => Outcome::pass(format!("yes, by {}", event.name())),
        Err(refusal) => Outcome::refused(in_short(&refusal)).noting(refusal.to_string()),
    })
}

fn sampled(root: &Root, facts: &Facts) -> Result<Event, Refusal> {
    let event = best_event(facts)?;
    let cpus = [sched_getcpu()];
    Probe::attach(event, std::process::id(), &cpus, ring_bytes(1), facts)?;
    let names = Symbols::read(&root.path("proc/kallsyms"));
    names.map_err(|error| symbols(error, facts))?;
    Ok(event)
}

/// What refuses, without the way out.
pub(super) fn in_short(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Paranoid { level, .. } => {
            format!("refused by perf_event_paranoid, which is {level}")
        }
        Refusal::Within { .. } => "refused to capabilities of a user namespace".to_owned(),
        Refusal::Unread { .. } => "refused, and perf_event_paranoid is hidden".to_owned(),
        Refusal::Elsewhere { .. } => "refused by a security module or lockdown".to_owned(),
        Refusal::Seccomp { .. } => "refused; a seccomp filter may be the cause".to_owned(),
        Refusal::Filter { .. } => "refused by a seccomp filter".to_owned(),
        Refusal::NotBuilt => "this kernel has no perf events".to_owned(),
        Refusal::Memory => "no memory for samples".to_owned(),
        Refusal::SymbolsHidden { kptr_restrict, .. } => {
            format!("names are hidden by kptr_restrict, which is {kptr_restrict}")
        }
        Refusal::NoSymbols(_) => "kernel functions have no names".to_owned(),
        Refusal::Files(_) => "too few file descriptors".to_owned(),
        Refusal::Other(error) => error.to_string(),
    }
}
