//! The kernel and those of its settings that every system call pays for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::root::Root;
use super::topology::CPUS;

/// The kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// Its release, as by uname(2).
    pub release: Option<String>,
    /// The architecture, as by uname(2).
    pub architecture: Option<String>,
    /// How it preempts itself, as its version names it: `PREEMPT_DYNAMIC`.
    pub preemption: Option<String>,
    /// What it does about each of the processor's vulnerabilities
    /// (Documentation/admin-guide/hw-vuln/index.rst), by their names.
    pub mitigations: BTreeMap<String, String>,
    /// The parameters given to it at boot that bear on speed, `mitigations=`
    /// among them; the others may tell of people and are left out.
    pub boot_parameters: Vec<String>,
    /// Whether it keeps pressure-stall accounts
    /// (Documentation/accounting/psi.rst).
    pub pressure_stall: Option<bool>,
    /// Whether a seccomp(2) filter looks at every system call of ours, as it
    /// does in most containers.
    pub seccomp_filter: Option<bool>,
    /// What stands between this process and speculative loads past stores
    /// (proc_pid_status(5), `Speculation_Store_Bypass`).
    pub store_bypass: Option<String>,
    /// The security modules, some of which look at every read and write
    /// (Documentation/admin-guide/LSM/index.rst).
    pub security_modules: Option<String>,
}

/// The parameters worth keeping
/// (Documentation/admin-guide/kernel-parameters.txt): mitigations, what a
/// page's allocation costs, who may disturb a processor, how it idles.
const PARAMETERS: &[&str] = &[
    "amd_pstate",
    "apparmor",
    "audit",
    "clocksource",
    "cpuidle.governor",
    "cpuidle.off",
    "cpuidle_haltpoll.force",
    "default_hugepagesz",
    "gather_data_sampling",
    "haltpoll.guest_halt_poll_ns",
    "hugepages",
    "hugepagesz",
    "idle",
    "indirect_target_selection",
    "init_on_alloc",
    "init_on_free",
    "intel_idle.max_cstate",
    "intel_pstate",
    "isolcpus",
    "kpti",
    "l1tf",
    "lsm",
    "mds",
    "mitigations",
    "mmio_stale_data",
    "no_hash_pointers",
    "nohz",
    "nohz_full",
    "nopti",
    "nosmt",
    "nospectre_v1",
    "nospectre_v2",
    "page_poison",
    "preempt",
    "processor.max_cstate",
    "psi",
    "pti",
    "randomize_kstack_offset",
    "rcu_nocbs",
    "retbleed",
    "selinux",
    "slab_debug",
    "slub_debug",
    "spec_rstack_overflow",
    "spec_store_bypass_disable",
    "spectre_bhi",
    "spectre_v2",
    "spectre_v2_user",
    "srbds",
    "thp_anon",
    "thp_shmem",
    "threadirqs",
    "transparent_hugepage",
    "tsa",
    "tsc",
    "tsx",
    "tsx_async_abort",
    "vmscape",
];

impl Kernel {
    pub(super) fn read(root: &Root) -> Kernel {
        let called = root.is_system().then(rustix::system::uname);
        let status = |key: &str| root.field("proc/self/status", key);
        let own = |text: &std::ffi::CStr| text.to_str().ok().map(str::to_owned);
        let version = root.text("proc/sys/kernel/version");
        Kernel {
            release: root
                .text("proc/sys/kernel/osrelease")
                .or_else(|| own(called.as_ref()?.release())),
            architecture: root
                .text("proc/sys/kernel/arch") // since Linux 6.1
                .or_else(|| own(called.as_ref()?.machine())),
            // The rest of the version is dates and names of builders.
            preemption: version.and_then(|version| {
                let mut words = version.split_whitespace();
                words
                    .find(|word| word.starts_with("PREEMPT"))
                    .map(str::to_owned)
            }),
            mitigations: mitigations(root),
            boot_parameters: boot_parameters(root),
            pressure_stall: pressure_stall(root),
            // 0 is none, 1 the strict mode, 2 a filter (proc_pid_status(5)).
            seccomp_filter: status("Seccomp").map(|mode| mode == "2"),
            store_bypass: status("Speculation_Store_Bypass"),
            security_modules: root.text("sys/kernel/security/lsm"),
        }
    }
}

fn mitigations(root: &Root) -> BTreeMap<String, String> {
    let own = format!("{CPUS}/vulnerabilities");
    let names = root.names(&own).into_iter();
    names
        .filter_map(|name| {
            let text = root.text(format!("{own}/{name}"))?;
            Some((name, text))
        })
        .collect()
}

fn boot_parameters(root: &Root) -> Vec<String> {
    let words = root.words("proc/cmdline").unwrap_or_default();
    // What follows "--" is handed to the first process.
    let given = words.into_iter().take_while(|word| word != "--");
    given
        .filter(|word| {
            let key = word.split('=').next().unwrap_or_default();
            // The kernel takes '-' and '_' as the same in a parameter's name.
            PARAMETERS.contains(&key.replace('-', "_").as_str())
        })
        .collect()
}

/// With accounting compiled in but switched off (`psi=0`) the files are there
/// and reading them fails with EOPNOTSUPP (kernel/sched/psi.c).
fn pressure_stall(root: &Root) -> Option<bool> {
    let kept = root.text("proc/pressure/cpu").is_some();
    (kept || root.exists("proc/stat")).then_some(kept)
}
