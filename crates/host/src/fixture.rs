//! Simulated machines for tests: directories with the files of /proc and /sys.

use std::fs;

use tempfile::TempDir;

use super::root::Root;

/// A directory that looks like a machine's root.
pub(super) struct Fixture {
    /// Removes the files when dropped.
    _directory: TempDir,
    /// The directory that stands for `/`.
    pub(super) root: Root,
}

/// A processor: its number, package, core and siblings, node, and for each
/// cache the level, kind, size in KiB and sharers.
pub(super) struct CpuFiles<'a> {
    pub(super) number: usize,
    pub(super) package: i32,
    pub(super) core: u32,
    pub(super) siblings: &'a str,
    pub(super) node: u32,
    pub(super) caches: &'a [(u8, &'a str, u64, &'a str)],
}

impl Fixture {
    pub(super) fn empty() -> Fixture {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = Root(directory.path().to_owned());
        Fixture {
            _directory: directory,
            root,
        }
    }

    /// Writes a file, and its directories.
    pub(super) fn file(self, path: &str, text: &str) -> Fixture {
        let path = self.root.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
        self
    }

    pub(super) fn removed(self, path: &str) -> Fixture {
        fs::remove_file(self.root.path(path)).expect("the file to be removed");
        self
    }

    pub(super) fn allowed(self, online: &str, allowed: &str) -> Fixture {
        let status = format!("Name:\tx\nCpus_allowed_list:\t{allowed}\nSeccomp:\t2\n");
        self.file("sys/devices/system/cpu/online", online)
            .file("proc/self/status", &status)
    }

    pub(super) fn cpu(self, cpu: CpuFiles) -> Fixture {
        let own = format!("sys/devices/system/cpu/cpu{}", cpu.number);
        let mut made = self
            .file(
                &format!("{own}/topology/physical_package_id"),
                &cpu.package.to_string(),
            )
            .file(&format!("{own}/topology/core_id"), &cpu.core.to_string())
            .file(
                &format!("{own}/topology/thread_siblings_list"),
                cpu.siblings,
            )
            .file(&format!("{own}/node{}/cpulist", cpu.node), "");
        for (i, (level, kind, kib, sharers)) in cpu.caches.iter().enumerate() {
            let cache = format!("{own}/cache/index{i}");
            made = made
                .file(&format!("{cache}/level"), &level.to_string())
                .file(&format!("{cache}/type"), kind)
                .file(&format!("{cache}/size"), &format!("{kib}K\n"))
                .file(&format!("{cache}/shared_cpu_list"), sharers);
        }
        made
    }
}

/// Two processors of a guest under KVM, two cores that share an L3.
pub(super) fn kvm_guest() -> Fixture {
    let clock = "sys/devices/system/clocksource/clocksource0";
    let mut made = Fixture::empty().allowed("0-1\n", "0-1");
    for number in 0..2 {
        let own = number.to_string();
        made = made.cpu(CpuFiles {
            number,
            package: 0,
            core: number as u32,
            siblings: &own,
            node: 0,
            caches: &[
                (1, "Data", 48, &own),
                (1, "Instruction", 32, &own),
                (2, "Unified", 2048, &own),
                (3, "Unified", 36864, "0-1"),
            ],
        });
    }
    made.file("proc/cpuinfo", "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R)   Processor\nstepping\t: 2\nmicrocode\t: 0x1\nflags\t\t: fpu vme hypervisor lahf_lm\n")
        .file("proc/sys/kernel/osrelease", "6.18.4\n")
        .file("proc/sys/kernel/arch", "x86_64\n")
        .file("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Thu Jan 1 00:00:00 UTC 2026\n")
        .file("proc/cmdline", "console=ttyS0 root=UUID=secret mitigations=auto psi=1 init=/x -- nosmt\n")
        .file("sys/bus/virtio/drivers/virtio_balloon/bind", "\n")
        .file("sys/bus/virtio/drivers/virtio_balloon/virtio0/features", "0110010100000000\n")
        .file("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        .file("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\ncpu1 50 0 50 400 0 0 0 0 0 0\nintr 5 1\n")
        .file("proc/loadavg", "0.24 0.07 0.02 3/91 3984\n")
        .file("proc/meminfo", "MemTotal:       24684092 kB\nMemFree: 1 kB\n")
        .file("proc/self/cgroup", "0::/app/one\n")
        .file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
        .file("sys/fs/cgroup/app/cpu.max", "150000 100000\n")
        .file("sys/fs/cgroup/app/cpu.stat", "usage_usec 9\nnr_throttled 0\nthrottled_usec 0\n")
        .file("sys/fs/cgroup/app/one/cpu.max", "max 100000\n")
        .file("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n")
        .file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .file("sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "always [inherit] madvise never\n")
        .file("sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "always inherit madvise [never]\n")
        .file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3\n")
        .file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4\n")
        .file("proc/sys/fs/pipe-max-size", "1048576\n")
        .file(&format!("{clock}/current_clocksource"), "tsc\n")
        .file(&format!("{clock}/available_clocksource"), "tsc kvm-clock \n")
}

/// Eight threads of `packages` packages, each a memory node: siblings are (0,4), (1,5), (2,6),
/// (3,7), and all threads of a package share an L3 of this size.
fn eight_threads(packages: usize, kib: u64) -> Fixture {
    let mut made = Fixture::empty().allowed("0-7", "0-7");
    for number in 0..8 {
        let package = number % 4 * packages / 4;
        let pair = format!("{},{}", number % 4, number % 4 + 4);
        let all = match (packages, package) {
            (1, _) => "0-7",
            (_, 0) => "0-1,4-5",
            _ => "2-3,6-7",
        };
        made = made.cpu(CpuFiles {
            number,
            package: package as i32,
            core: (number % (4 / packages)) as u32,
            siblings: &pair,
            node: package as u32,
            caches: &[
                (1, "Data", 32, &pair),
                (2, "Unified", 1024, &pair),
                (3, "Unified", kib, all),
            ],
        });
    }
    made
}

/// Four cores of two threads each.
pub(super) fn laptop() -> Fixture {
    let clock = "sys/devices/system/clocksource/clocksource0";
    let mut made = eight_threads(1, 8192);
    for number in 0..8 {
        let own = format!("sys/devices/system/cpu/cpu{number}/cpufreq");
        made = made
            .file(&format!("{own}/scaling_governor"), "powersave\n")
            .file(&format!("{own}/scaling_driver"), "intel_pstate\n");
    }
    made.file(
        "proc/cpuinfo",
        "model name\t: Example i7\nflags\t\t: fpu vme\n",
    )
    .file("sys/class/dmi/id/sys_vendor", "LENOVO\n")
    .file("sys/class/dmi/id/product_name", "20XW\n")
    .file("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")
    .file(&format!("{clock}/current_clocksource"), "hpet\n")
    .file(&format!("{clock}/available_clocksource"), "hpet acpi_pm\n")
}

/// Two packages of two cores of two threads.
pub(super) fn server() -> Fixture {
    eight_threads(2, 33792).file(
        "proc/cpuinfo",
        "model name\t: Example Xeon\nflags\t\t: fpu\n",
    )
}

/// One processor without any description.
pub(super) fn one_cpu() -> Fixture {
    Fixture::empty().allowed("0", "0")
}

/// Four small cores and two big ones, each kind with its own L2, without package
/// numbers and with a device tree.
pub(super) fn arm_board() -> Fixture {
    let mut made = Fixture::empty().allowed("0-5", "0-5");
    let mut info = String::new();
    for number in 0..6 {
        let own = number.to_string();
        let (part, capacity, cluster) = if number < 4 {
            ("0xd03", "485", "0-3")
        } else {
            ("0xd08", "1024", "4-5")
        };
        info += &format!("processor\t: {number}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n");
        made = made
            .cpu(CpuFiles {
                number,
                package: -1,
                core: number as u32,
                siblings: &own,
                node: 0,
                caches: &[(1, "Data", 32, &own), (2, "Unified", 0, cluster)],
            })
            .file(
                &format!("sys/devices/system/cpu/cpu{number}/cpu_capacity"),
                capacity,
            );
    }
    made.file("proc/cpuinfo", &info)
        .file("proc/device-tree/model", "FriendlyElec NanoPC-T4\0")
        .file(
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "arch_sys_counter\n",
        )
}
