//! What makes one pair of processors better than another for two busy ends.

use super::topology::{Cpu, Relation, Topology};

/// What makes a pair better for `Different`; the least is the best.
pub(super) type Rank = (u8, u8, bool, bool, usize, usize);

pub(super) fn rank(a: &Cpu, b: &Cpu, topology: &Topology) -> Rank {
    let far = match a.relation(b) {
        Relation::SharedCache(_) => 0,
        Relation::Package => 1,
        Relation::Packages | Relation::Unknown => 2,
        // Two threads of one core take turns in its units: not what
        // `different` means, however near their caches are.
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

/// Whether it is one of the small cores of a machine with unlike ones. Equal
/// cores may differ by a few percent in their best clock rate.
pub(super) fn is_slow(cpu: &Cpu, topology: &Topology) -> bool {
    let fastest = topology.cpus.iter().filter_map(|cpu| cpu.capacity).max();
    match (cpu.capacity, fastest) {
        (Some(own), Some(fastest)) => u64::from(own) * 10 < u64::from(fastest) * 8,
        _ => false,
    }
}

/// Whether it is processor 0 or shares its core: interrupts that nobody moved
/// land there, and so does much of the kernel's housekeeping.
pub(super) fn near_zero(cpu: &Cpu) -> bool {
    cpu.number == 0 || cpu.siblings.contains(0)
}

/// What the best pair lacks of what `Different` promises.
pub(super) fn lack(a: &Cpu, b: &Cpu, topology: &Topology) -> Option<String> {
    let pair = format!("processors {} and {}", a.number, b.number);
    match a.relation(b) {
        Relation::SharedCache(_) if is_slow(a, topology) != is_slow(b, topology) => Some(format!(
            "the two ends run on unlike cores ({pair}), one of them slower, for there are no two alike to choose from"
        )),
        Relation::SharedCache(_) => None,
        Relation::Siblings | Relation::One => Some(format!(
            "the two ends run on siblings of one core ({pair}), for no other core is allowed here: they take turns \
             in its units, and figures are lower than on two cores"
        )),
        Relation::Package => Some(format!(
            "the two ends run on cores that share no cache the kernel knows of ({pair}): data may pass through \
             memory, and figures be lower for it"
        )),
        Relation::Packages => Some(format!(
            "the two ends run in different packages ({pair}), for no two allowed cores share a cache: data cross \
             from one package to the other, and figures are lower for it"
        )),
        Relation::Unknown => Some(format!(
            "the kernel doesn't say how {pair}, on which the two ends run, lie to each other: they may be threads \
             of one core"
        )),
    }
}
