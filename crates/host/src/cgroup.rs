//! Our control group and those above it, as far as they ration processor time.
//!
//! Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst ("CPU"), and for
//! version 1 Documentation/scheduler/sched-bwc.rst.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::root::Root;

/// What our control group allows. Its path is not kept, since it holds names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// The version of the hierarchy that rations processors: 1 or 2; null where
    /// none can be seen.
    pub version: Option<u8>,
    /// How many processors' time we and our group may use: the least
    /// `cpu.max` of our group and those above it. Null is no limit.
    pub cpu_quota: Option<f64>,
    /// The period of that quota in seconds: the group stops until the period's
    /// end once the quota is used up.
    pub period_s: Option<f64>,
}

/// A group with a quota.
pub(super) struct Rationed {
    /// Its directory, from the root.
    pub(super) directory: PathBuf,
    quota: f64,
    period_s: f64,
}

/// The groups that ration our processor time.
pub(super) struct Rations {
    /// The version of the hierarchy; `None` where there is none to be seen.
    pub(super) version: Option<u8>,
    /// Those of the groups, innermost first, that have a quota.
    pub(super) groups: Vec<Rationed>,
}

impl Cgroup {
    pub(super) fn read(root: &Root) -> Cgroup {
        let rations = Rations::read(root);
        let least = rations
            .groups
            .iter()
            .min_by(|a, b| a.quota.total_cmp(&b.quota));
        Cgroup {
            version: rations.version,
            cpu_quota: least.map(|group| group.quota),
            period_s: least.map(|group| group.period_s),
        }
    }
}

impl Rations {
    /// Finds our groups. Either version may ration processors, and on a hybrid
    /// system the version 1 hierarchy of the `cpu` controller does.
    pub(super) fn read(root: &Root) -> Rations {
        let own = root.text("proc/self/cgroup").unwrap_or_default();
        for line in own.lines() {
            // hierarchy:controllers:path
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if controllers.split(',').any(|name| name == "cpu") {
                let joined = format!("sys/fs/cgroup/{controllers}");
                let mount = [
                    joined.as_str(),
                    "sys/fs/cgroup/cpu,cpuacct",
                    "sys/fs/cgroup/cpu",
                ]
                .into_iter()
                .find(|mount| root.exists(mount));
                if let Some(mount) = mount {
                    return Rations {
                        version: Some(1),
                        groups: rationed(root, mount, path, quota_v1),
                    };
                }
            }
        }
        let path = own.lines().find_map(|line| line.strip_prefix("0::"));
        let mount = "sys/fs/cgroup";
        match path {
            Some(path) if root.exists(format!("{mount}/cgroup.controllers")) => Rations {
                version: Some(2),
                groups: rationed(root, mount, path, quota_v2),
            },
            _ => Rations {
                version: None,
                groups: Vec::new(),
            },
        }
    }
}

type Quota = fn(&Root, &Path) -> Option<(f64, f64)>;

/// The groups with a quota from our own up to the mount. In a container the
/// path may be the host's and not be there: then only the mount itself is,
/// which is the container's own group.
fn rationed(root: &Root, mount: &str, path: &str, quota: Quota) -> Vec<Rationed> {
    let path = path.trim_start_matches('/');
    // A group outside our cgroup namespace shows as "..": nothing to follow.
    let path = if path.split('/').any(|part| part == "..") {
        ""
    } else {
        path
    };
    let own = Path::new(mount).join(path);
    own.ancestors()
        .take_while(|directory| directory.starts_with(mount))
        .filter_map(|directory| {
            let (quota, period_s) = quota(root, directory)?;
            Some(Rationed {
                directory: directory.to_owned(),
                quota,
                period_s,
            })
        })
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
