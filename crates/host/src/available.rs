//! Memory available to this process: the minimum of what the machine and each of our
//! control groups have left.
//!
//! Source: proc_meminfo(5) (MemAvailable),
//! Documentation/admin-guide/cgroup-v2.rst (memory.max, memory.current,
//! memory.stat), and for version 1 Documentation/admin-guide/cgroup-v1/memory.rst.

use std::path::Path;

use pipespeed_base::size;

use super::cgroup::{has_controller, parse_groups, up_to_mount};
use super::memory::meminfo;
use super::root::Root;

/// Requests may take at most this share of the available memory, in percent. The rest is left
/// for page tables and other processes.
const MAX_PERCENT: u64 = 80;

/// A request takes too much of the available memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} of memory needed, but at most {} may be used, {MAX_PERCENT} % of what is available ({})",
    size::format(*.needed), size::format(.available.usable()), .available.limit
)]
pub struct TooMuchMemory {
    needed: u64,
    available: Available,
}

/// Available memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Available {
    /// In bytes.
    pub bytes: u64,
    /// The name of the limit.
    pub limit: &'static str,
}

impl Available {
    /// The bytes that a request may take.
    fn usable(self) -> u64 {
        self.bytes / 100 * MAX_PERCENT
    }
}

/// Checks that requested memory leaves enough for others. Otherwise the kernel would reclaim
/// memory of other processes, or kill one. Passes if the available memory is unknown.
///
/// # Errors
/// [`TooMuchMemory`], if `needed` bytes are more than a request may take.
pub fn check_memory(root: &Root, needed: u64) -> Result<(), TooMuchMemory> {
    match available_memory(root) {
        Some(available) if needed > available.usable() => Err(TooMuchMemory { needed, available }),
        _ => Ok(()),
    }
}

/// Names of a cgroup version's files for the limit and the usage, and of the
/// line in memory.stat with the part of the usage that is reclaimed first.
struct CgroupFiles {
    limit: &'static str,
    used: &'static str,
    reclaimable: &'static str,
}

const V1: CgroupFiles = CgroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const V2: CgroupFiles = CgroupFiles {
    limit: "memory.max",
    used: "memory.current",
    reclaimable: "inactive_file",
};

/// Reads the memory that is available to this process; `None` if it is unknown.
pub fn available_memory(root: &Root) -> Option<Available> {
    memory_left(root, &root.text("proc/self/cgroup").unwrap_or_default())
}

/// As [`available_memory`], for the processes in these control groups, given as the text of proc_pid_cgroup(5).
pub fn memory_left(root: &Root, groups: &str) -> Option<Available> {
    let machine = meminfo(root, "MemAvailable").map(|bytes| Available {
        bytes,
        limit: "MemAvailable of /proc/meminfo",
    });
    let groups = smallest_group(root, groups).map(|bytes| Available {
        bytes,
        limit: "the limit of a control group",
    });
    let both = machine.into_iter().chain(groups);
    both.min_by_key(|available| available.bytes)
}

/// The minimum memory that one of the groups or one above it has left.
fn smallest_group(root: &Root, groups: &str) -> Option<u64> {
    let mut smallest = None;
    for (controllers, path) in parse_groups(groups) {
        let (mount, files) = match &*controllers {
            "" => ("sys/fs/cgroup", &V2),
            _ if has_controller(&controllers, "memory") => ("sys/fs/cgroup/memory", &V1),
            _ => continue,
        };
        let groups = up_to_mount(mount, &path).into_iter();
        let remaining = groups.filter_map(|group| remaining(root, &group, files));
        smallest = smallest.into_iter().chain(remaining).min();
    }
    smallest
}

/// The memory a group has left; `None` without a limit. (Version 2 writes `max`
/// for that, which is not a number.)
fn remaining(root: &Root, group: &Path, files: &CgroupFiles) -> Option<u64> {
    let limit: u64 = root.number(group.join(files.limit))?;
    let used: u64 = root.number(group.join(files.used))?;
    let reclaimable = root
        .text(group.join("memory.stat"))
        .and_then(|text| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let (_, bytes) = lines.find(|(name, _)| *name == files.reclaimable)?;
            bytes.parse::<u64>().ok()
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    const MIB: u64 = 1 << 20;

    fn machine(kib: u64) -> Fixture {
        let text = format!("MemTotal: 99999999 kB\nMemAvailable:   {kib} kB\n");
        Fixture::empty().file("proc/meminfo", &text)
    }

    fn bytes(fixture: &Fixture) -> Option<u64> {
        available_memory(&fixture.root).map(|available| available.bytes)
    }

    #[test]
    fn without_groups_the_machine_sets_the_limit() {
        assert_eq!(bytes(&machine(2048)), Some(2 * MIB));
        assert_eq!(bytes(&Fixture::empty()), None);
        assert_eq!(bytes(&machine(u64::MAX)), None);
    }

    #[test]
    fn the_group_with_the_least_memory_sets_the_limit() {
        let fixture = machine(1 << 20)
            .file("proc/self/cgroup", "0::/a/b\n")
            .file("sys/fs/cgroup/a/b/memory.max", "max")
            .file("sys/fs/cgroup/a/b/memory.current", "5")
            .file("sys/fs/cgroup/a/memory.max", "104857600")
            .file("sys/fs/cgroup/a/memory.current", "62914560")
            .file(
                "sys/fs/cgroup/a/memory.stat",
                "anon 1\ninactive_file 10485760\n",
            );
        assert_eq!(
            available_memory(&fixture.root),
            Some(Available {
                bytes: 50 * MIB,
                limit: "the limit of a control group",
            })
        );
    }

    #[test]
    fn a_request_may_take_four_fifths_of_the_available_memory() {
        let fixture = machine(100 << 10);
        assert_eq!(check_memory(&fixture.root, 80 * MIB), Ok(()));
        let refused = check_memory(&fixture.root, 80 * MIB + 1).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "80.00MiB of memory needed, but at most 80MiB may be used, 80 % of what is available \
             (MemAvailable of /proc/meminfo)"
        );
        assert_eq!(check_memory(&Fixture::empty().root, u64::MAX), Ok(()));
    }

    #[test]
    fn version_1_is_read_where_only_the_mount_is_visible() {
        let fixture = machine(1 << 20)
            .file("proc/self/cgroup", "4:memory:/docker/x\n0::/\n")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "33554432")
            .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "41943040")
            .file(
                "sys/fs/cgroup/memory/memory.stat",
                "total_inactive_file 16777216",
            );
        assert_eq!(bytes(&fixture), Some(8 * MIB));
        let unlimited = fixture.file(
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712",
        );
        assert_eq!(bytes(&unlimited), Some(1 << 30));
    }
}
