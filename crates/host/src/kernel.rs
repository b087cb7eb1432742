//! The kernel, and its settings that affect the cost of system calls.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use pipespeed_base::process::read_output;
use serde::{Deserialize, Serialize};

use super::root::{CPUS, Root};

/// The kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// The release, as in uname(2).
    pub release: Option<String>,
    /// The architecture, as in uname(2).
    pub architecture: Option<String>,
    /// The preemption model from the kernel's version: `PREEMPT_DYNAMIC`.
    pub preemption: Option<String>,
    /// The mitigation of each vulnerability of the processor, by its name
    /// (Documentation/admin-guide/hw-vuln/index.rst).
    pub mitigations: BTreeMap<String, String>,
    /// The boot parameters that affect speed, such as `mitigations=`. Others may
    /// contain private data and are left out.
    pub boot_parameters: Vec<String>,
    /// Whether every page is zeroed when it is allocated: by the boot parameter
    /// `init_on_alloc`, else by the default of the kernel's configuration, if that is readable.
    pub init_on_alloc: Option<bool>,
    /// Whether pressure-stall accounting is on
    /// (Documentation/accounting/psi.rst).
    pub pressure_stall: Option<bool>,
    /// Whether a seccomp(2) filter checks our system calls, as in most
    /// containers.
    pub seccomp_filter: Option<bool>,
    /// The mitigation of speculative store bypass in this process
    /// (proc_pid_status(5), `Speculation_Store_Bypass`).
    pub store_bypass: Option<String>,
    /// The security modules, some of which check every read and write
    /// (Documentation/admin-guide/LSM/index.rst).
    pub security_modules: Option<String>,
}

/// The names of the boot parameters that are recorded, a line each.
const PARAMETERS: &str = include_str!("boot-parameters.txt");

impl Kernel {
    pub(super) fn read(root: &Root) -> Kernel {
        let called = root.is_system().then(rustix::system::uname);
        let status = |key: &str| root.field("proc/self/status", key);
        let own = |text: &std::ffi::CStr| text.to_str().ok().map(str::to_owned);
        let version = root.words("proc/sys/kernel/version");
        let release = root
            .text("proc/sys/kernel/osrelease")
            .or_else(|| own(called.as_ref()?.release()));
        Kernel {
            init_on_alloc: init_on_alloc(root, release.as_deref()),
            release,
            architecture: root
                .text("proc/sys/kernel/arch") // since Linux 6.1
                .or_else(|| own(called.as_ref()?.machine())),
            // The rest of the version is the build's date and author.
            preemption: version.into_iter().find(|word| word.starts_with("PREEMPT")),
            mitigations: mitigations(root),
            boot_parameters: boot_parameters(root),
            pressure_stall: pressure_stall(root),
            // 0: none, 1: strict mode, 2: filter (proc_pid_status(5)).
            seccomp_filter: status("Seccomp").map(|mode| mode == "2"),
            store_bypass: status("Speculation_Store_Bypass"),
            security_modules: root.text("sys/kernel/security/lsm"),
        }
    }
}

fn mitigations(root: &Root) -> BTreeMap<String, String> {
    let own = format!("{CPUS}/vulnerabilities");
    let read = |name| Some((root.text(format!("{own}/{name}"))?, name));
    let found = root.names(&own).into_iter().filter_map(read);
    found.map(|(text, name)| (name, text)).collect()
}

fn boot_parameters(root: &Root) -> Vec<String> {
    let words = root.words("proc/cmdline");
    // Words after "--" are for init.
    let parameters = words.into_iter().take_while(|word| word != "--");
    parameters
        .filter(|word| {
            let key = word.split('=').next().unwrap_or_default();
            // In parameter names the kernel treats '-' as '_'.
            PARAMETERS.lines().any(|name| name == key.replace('-', "_"))
        })
        .collect()
}

/// Whether every page is zeroed when it is allocated (mm/mm_init.c).
fn init_on_alloc(root: &Root, release: Option<&str>) -> Option<bool> {
    let parameters = boot_parameters(root);
    let last = parameters.iter().rev().find_map(|word| {
        word.replace('-', "_")
            .strip_prefix("init_on_alloc=")
            .map(str::to_owned)
    });
    // The words of kstrtobool (lib/kstrtox.c), of which other values change nothing.
    match last.as_deref().map(str::as_bytes) {
        Some([b'y' | b'Y' | b't' | b'T' | b'1', ..] | [b'o' | b'O', b'n' | b'N', ..]) => {
            return Some(true);
        }
        Some([b'n' | b'N' | b'f' | b'F' | b'0', ..] | [b'o' | b'O', b'f' | b'F', ..]) => {
            return Some(false);
        }
        _ => {}
    }
    let release = release?;
    let files = [
        format!("boot/config-{release}"),
        format!("lib/modules/{release}/config"),
    ];
    let configuration = files
        .iter()
        .find_map(|file| root.text(file))
        .or_else(|| built_in_configuration(root))?;
    let is_default = |line: &str| line == "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y";
    Some(configuration.lines().any(is_default))
}

/// The kernel's configuration, some 50 KiB, is unpacked in less time.
const MAX_GZIP: Duration = Duration::from_secs(5);

/// The configuration in the kernel itself (CONFIG_IKCONFIG_PROC).
fn built_in_configuration(root: &Root) -> Option<String> {
    let file = File::open(root.path("proc/config.gz")).ok()?;
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (bytes, status) = read_output(&mut gzip, MAX_GZIP).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (status.success() && !text.is_empty()).then_some(text)
}

/// Whether pressure-stall accounting is on. If it is compiled in but off
/// (`psi=0`), its files exist and reading them fails with EOPNOTSUPP
/// (kernel/sched/psi.c).
fn pressure_stall(root: &Root) -> Option<bool> {
    let is_on = root.text("proc/pressure/cpu").is_some();
    (is_on || root.exists("proc/stat")).then_some(is_on)
}
