//! Ranking of pairs of processors for two busy ends.

use super::topology::{Cpu, Relation, Topology};

/// Rank of a pair for `Different`: the least is the best.
pub(super) type Rank = (u8, u8, bool, bool, usize, usize);

pub(super) fn rank(a: &Cpu, b: &Cpu, topology: &Topology) -> Rank {
    let far = match a.relation(b) {
        Relation::SharedCache(_) => 0,
        Relation::Package => 1,
        Relation::Packages | Relation::Unknown => 2,
        // Two threads of one core share its execution units, which `different` is
        // meant to avoid, however close their caches are.
        Relation::Siblings | Relation::One => 3,
    };
    let kinds = match (is_slow(a, topology), is_slow(b, topology)) {
        (false, false) => 0,
        (true, true) => 1,
        _ => 2,
    };
    let other_node = a.numa_node != b.numa_node;
    (
        far,
        kinds,
        other_node,
        near_zero(a) || near_zero(b),
        a.number,
        b.number,
    )
}

/// Whether this is a small core of a hybrid machine: under 80 % of the fastest
/// one. Equal cores may differ by a few percent in their maximum clock rate.
pub(super) fn is_slow(cpu: &Cpu, topology: &Topology) -> bool {
    let fastest = topology.cpus.iter().filter_map(|cpu| cpu.capacity).max();
    match (cpu.capacity, fastest) {
        (Some(own), Some(fastest)) => u64::from(own) * 10 < u64::from(fastest) * 8,
        _ => false,
    }
}

/// Whether this is processor 0 or a sibling of it, which by default handle
/// interrupts and much of the kernel's housekeeping.
pub(super) fn near_zero(cpu: &Cpu) -> bool {
    cpu.number == 0 || cpu.siblings.contains(0)
}

/// A warning if the pair does not fulfil `Different`.
pub(super) fn shortfall(a: &Cpu, b: &Cpu, topology: &Topology) -> Option<String> {
    let pair = format!("processors {} and {}", a.number, b.number);
    match a.relation(b) {
        Relation::SharedCache(_) if is_slow(a, topology) != is_slow(b, topology) => Some(format!(
            "the two ends run on different kinds of cores ({pair}), one of them slower: there are no two of a kind"
        )),
        Relation::SharedCache(_) => None,
        Relation::Siblings | Relation::One => Some(format!(
            "the two ends run on siblings of one core ({pair}), since no other core is allowed: they share its \
             execution units, so rates are lower than on two cores"
        )),
        Relation::Package => Some(format!(
            "the two ends run on cores that share no known cache ({pair}): data may pass through memory, so rates \
             may be lower"
        )),
        Relation::Packages => Some(format!(
            "the two ends run in different packages ({pair}), since no two allowed cores share a cache: data cross \
             packages, so rates are lower"
        )),
        Relation::Unknown => Some(format!(
            "the relation of the two ends' processors is unknown ({pair}): they may be threads of one core"
        )),
    }
}
