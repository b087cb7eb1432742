//! CPU quotas of our control group and those above it.
//!
//! Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst ("CPU"), and for
//! version 1 Documentation/scheduler/sched-bwc.rst.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::root::Root;

/// CPU quota of our control group. Its path is not kept, since it contains names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// The version of the hierarchy with the `cpu` controller: 1 or 2; null if
    /// none is visible.
    pub version: Option<u8>,
    /// CPU time per second, in processors: the lowest `cpu.max` of our group and those
    /// above it. Null means no limit.
    pub cpu_quota: Option<f64>,
    /// The period of that quota in seconds. Once the quota is used up, the group
    /// is stopped until the period ends.
    pub period_s: Option<f64>,
}

/// A group with a CPU quota.
pub(super) struct Limited {
    /// Its directory, from the root.
    pub(super) directory: PathBuf,
    quota: f64,
    period_s: f64,
}

/// The CPU quotas that apply to us.
#[derive(Default)]
pub(super) struct OwnQuotas {
    /// The version of the hierarchy; `None` if none is visible.
    pub(super) version: Option<u8>,
    /// The groups with a quota, innermost first.
    pub(super) groups: Vec<Limited>,
}

impl Cgroup {
    pub(super) fn read(root: &Root) -> Cgroup {
        let quotas = OwnQuotas::read(root);
        let groups = quotas.groups.iter();
        let lowest = groups.min_by(|a, b| a.quota.total_cmp(&b.quota));
        Cgroup {
            version: quotas.version,
            cpu_quota: lowest.map(|group| group.quota),
            period_s: lowest.map(|group| group.period_s),
        }
    }
}

/// How often a CPU quota stopped the processes of a control group, since the group exists.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Throttling {
    /// The quota: CPU time per second, in processors.
    pub quota: f64,
    /// Periods in which a process of the group could run.
    pub periods: u64,
    /// Periods in which the quota was used up before their end.
    pub throttled: u64,
    /// For how long its processes were stopped then, summed over the processors.
    pub stopped: Duration,
}

impl Throttling {
    /// Reads the counts of each quota that applies to the processes in these control groups, given
    /// as the text of proc_pid_cgroup(5), the innermost group first. Empty if there is no quota.
    pub fn read(root: &Root, groups: &str) -> Vec<Throttling> {
        let limited = OwnQuotas::of_groups(root, groups).groups.into_iter();
        limited
            .filter_map(|group| {
                let text = root.text(group.directory.join("cpu.stat"))?;
                let count = |key: &str| {
                    let mut lines = text.lines();
                    lines.find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
                };
                Some(Throttling {
                    quota: group.quota,
                    periods: count("nr_periods ")?,
                    throttled: count("nr_throttled ")?,
                    stopped: Duration::from_nanos(
                        count("throttled_time ")
                            .or_else(|| count("throttled_usec ").map(|us: u64| us * 1000))
                            .unwrap_or_default(),
                    ),
                })
            })
            .collect()
    }
}

impl OwnQuotas {
    /// Finds our groups.
    pub(super) fn read(root: &Root) -> OwnQuotas {
        let groups = root.text("proc/self/cgroup").unwrap_or_default();
        OwnQuotas::of_groups(root, &groups)
    }

    /// Finds groups by the text of proc_pid_cgroup(5). Either version may have the `cpu`
    /// controller; on a hybrid system version 1 has.
    fn of_groups(root: &Root, groups: &str) -> OwnQuotas {
        let own = parse_groups(groups);
        for (controllers, path) in &own {
            if has_controller(controllers, "cpu") {
                let mounts = [controllers, "cpu,cpuacct", "cpu"];
                let mut mounts = mounts.iter().map(|name| format!("sys/fs/cgroup/{name}"));
                if let Some(mount) = mounts.find(|mount| root.exists(mount)) {
                    return OwnQuotas {
                        version: Some(1),
                        groups: limited(root, &mount, path, quota_v1),
                    };
                }
            }
        }
        let unified = own.iter().find(|(controllers, _)| controllers.is_empty());
        let mount = "sys/fs/cgroup";
        match unified {
            Some((_, path)) if root.exists(format!("{mount}/cgroup.controllers")) => OwnQuotas {
                version: Some(2),
                groups: limited(root, mount, path, quota_v2),
            },
            _ => OwnQuotas::default(),
        }
    }
}

/// Whether a control group limits how many bytes a second its processes read or write, on any device. `groups` is the
/// text of proc_pid_cgroup(5).
///
/// Source: `io.max` in Documentation/admin-guide/cgroup-v2.rst, `blkio.throttle.*` in cgroup-v1/blkio-controller.rst.
pub fn limits_bytes(root: &Root, groups: &str) -> bool {
    const V1: [&str; 2] = [
        "blkio.throttle.read_bps_device",
        "blkio.throttle.write_bps_device",
    ];
    // Lines of version 1 are of devices with a limit; those of version 2 hold others, too: `8:16 rbps=max wbps=1048576`.
    let has_limit = |line: &str| {
        let mut values = line.split_ascii_whitespace().skip(1);
        values.any(|value| match value.split_once('=') {
            Some((key, limit)) => key.ends_with("bps") && limit != "max",
            None => true,
        })
    };
    let is_limited = |mount: &str, path: &str, files: &[&str]| {
        let limits = |directory: PathBuf| {
            let mut texts = files
                .iter()
                .filter_map(|file| root.text(directory.join(file)));
            texts.any(|text| text.lines().any(has_limit))
        };
        up_to_mount(mount, path).into_iter().any(limits)
    };
    parse_groups(groups).iter().any(|(controllers, path)| {
        if controllers.is_empty() {
            return is_limited("sys/fs/cgroup", path, &["io.max"]);
        }
        has_controller(controllers, "blkio")
            && [controllers, "blkio"]
                .iter()
                .any(|name| is_limited(&format!("sys/fs/cgroup/{name}"), path, &V1))
    })
}

/// The controllers and the path of each of our groups.
/// The controllers and the path of each group, from the lines `hierarchy:controllers:path`.
/// Version 2 has no controllers there.
pub(super) fn parse_groups(text: &str) -> Vec<(String, String)> {
    let groups = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        Some((controllers.to_owned(), path.to_owned()))
    });
    groups.collect()
}

pub(super) fn has_controller(controllers: &str, name: &str) -> bool {
    controllers.split(',').any(|found| found == name)
}

type Quota = fn(&Root, &Path) -> Option<(f64, f64)>;

/// The groups with a quota, from our own up to the mount.
fn limited(root: &Root, mount: &str, path: &str, quota: Quota) -> Vec<Limited> {
    let groups = up_to_mount(mount, path).into_iter();
    groups
        .filter_map(|directory| {
            let (quota, period_s) = quota(root, &directory)?;
            Some(Limited {
                directory,
                quota,
                period_s,
            })
        })
        .collect()
}

/// The directories of the group at `path` and of those above it, innermost first.
///
/// In a container the path may be the host's and most directories missing; the
/// mount is then the container's own group.
pub(super) fn up_to_mount(mount: &str, path: &str) -> Vec<PathBuf> {
    let path = path.trim_start_matches('/');
    // A group outside our cgroup namespace begins with "..".
    let outside = path.split('/').any(|part| part == "..");
    let own = Path::new(mount).join(if outside { "" } else { path });
    own.ancestors()
        .take_while(|directory| directory.starts_with(mount))
        .map(Path::to_owned)
        .collect()
}

/// `cpu.max` is "quota period" in microseconds, or "max period".
fn quota_v2(root: &Root, directory: &Path) -> Option<(f64, f64)> {
    let text = root.text(directory.join("cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    share(quota.parse().ok()?, period.parse().ok()?)
}

/// The quota is in microseconds, or -1 for none.
fn quota_v1(root: &Root, directory: &Path) -> Option<(f64, f64)> {
    share(
        root.number(directory.join("cpu.cfs_quota_us"))?,
        root.number(directory.join("cpu.cfs_period_us"))?,
    )
}

/// Processors and the period in seconds.
fn share(quota_us: i64, period_us: i64) -> Option<(f64, f64)> {
    (quota_us > 0 && period_us > 0)
        .then(|| (quota_us as f64 / period_us as f64, period_us as f64 / 1e6))
}
