//! Complete machines, read from fixtures and from the real one.

use std::fs;

use super::fixture::{Fixture, arm_board, kvm_guest, laptop, one_cpu, server};
use super::*;
use crate::warnings::of_machine;

fn read(made: &Fixture) -> Machine {
    let topology = Topology::read(&made.root);
    let chosen = choose(Placement::Different, &topology).expect("processors");
    Machine::read_below(&made.root, chosen.writer, chosen.reader)
}

#[test]
fn invented_machines_are_read_completely_and_give_their_warnings() {
    let mut shown = String::new();
    for (name, made) in [
        ("KVM guest", kvm_guest()),
        ("laptop", laptop()),
        ("ARM board", arm_board()),
        ("one processor", one_cpu()),
    ] {
        let mut machine = read(&made);
        // The only thing that is this machine's.
        machine.memory.base_page_bytes = 4096;
        let record = serde_json::to_string_pretty(&machine).unwrap();
        shown += &format!("{name}: {record}\n");
        for warning in of_machine(&machine) {
            shown += &format!("{:?}: {}\n", warning.kind, warning.message);
        }
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn pages_are_zeroed_by_boot_parameter_else_by_the_configuration() {
    let on = "CONFIG_A=y\nCONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n";
    let off = "CONFIG_A=y\n# CONFIG_INIT_ON_ALLOC_DEFAULT_ON is not set\n";
    let boot = "boot/config-6.1.0-32-amd64";
    let modules = "lib/modules/6.1.0-32-amd64/config";
    for (parameters, file, configuration, expected) in [
        ("quiet", boot, on, Some(true)),
        ("quiet", modules, on, Some(true)),
        ("quiet", boot, off, Some(false)),
        ("quiet", "boot/config-6.1.0-31-amd64", on, None),
        ("init_on_alloc=0", boot, on, Some(false)),
        ("init_on_alloc=1", boot, off, Some(true)),
        ("init_on_alloc=1 init_on_alloc=off", boot, on, Some(false)),
        ("init_on_alloc=?", boot, on, Some(true)),
        ("quiet -- init_on_alloc=0", boot, on, Some(true)),
    ] {
        let made = Fixture::empty()
            .file("proc/sys/kernel/osrelease", "6.1.0-32-amd64\n")
            .file("proc/cmdline", parameters)
            .file(file, configuration);
        let machine = Machine::read_below(&made.root, None, None);
        assert_eq!(
            machine.kernel.init_on_alloc, expected,
            "{parameters}, {file}: {configuration}"
        );
    }
}

#[test]
fn a_built_in_configuration_is_read() {
    let made = Fixture::empty()
        .file("proc/sys/kernel/osrelease", "6.18.5\n")
        .file("plain", "CONFIG_INIT_ON_ALLOC_DEFAULT_ON=y\n");
    let compressed = std::process::Command::new("gzip")
        .args(["-c"])
        .arg(made.root.path("plain"))
        .output();
    let Ok(compressed) = compressed else {
        return println!("skipped: no gzip");
    };
    std::fs::write(made.root.path("proc/config.gz"), compressed.stdout).unwrap();
    let machine = Machine::read_below(&made.root, None, None);
    assert_eq!(machine.kernel.init_on_alloc, Some(true));
}

#[test]
fn in_a_version_1_container_the_mount_is_our_group() {
    let made = Fixture::empty()
        .file("proc/self/cgroup", "3:cpu,cpuacct:/docker/0123\n0::/\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n")
        .file("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    let machine = Machine::read_below(&made.root, None, None);
    assert_eq!(machine.cgroup.version, Some(1));
    assert_eq!(machine.cgroup.cpu_quota, Some(0.5));
    assert_eq!(machine.virtualisation.container.as_deref(), Some("docker"));
}

#[test]
fn a_limit_of_writes_applies_to_the_groups_below() {
    let group = "sys/fs/cgroup/blkio/docker";
    let limit = |text: &str| {
        Fixture::empty()
            .file(&format!("{group}/blkio.throttle.write_bps_device"), text)
            .file(&format!("{group}/blkio.throttle.read_bps_device"), "")
    };
    let is_limited = |made: &Fixture, groups: &str| limits_bytes(&made.root, groups);
    let limited = limit("254:0 2097152\n");
    assert!(is_limited(&limited, "5:blkio:/docker/0123\n0::/\n"));
    assert!(!is_limited(&limited, "5:blkio:/\n4:cpu:/docker/0123\n"));
    assert!(!is_limited(&limit(""), "5:blkio:/docker/0123\n"));
    let unified = Fixture::empty().file(
        "sys/fs/cgroup/a/io.max",
        "8:16 rbps=max wbps=1048576 riops=max wiops=max\n",
    );
    assert!(is_limited(&unified, "0::/a/b\n") && !is_limited(&unified, "0::/c\n"));
    let of_calls = Fixture::empty().file(
        "sys/fs/cgroup/a/io.max",
        "8:16 rbps=max wbps=max riops=100 wiops=max\n",
    );
    assert!(!is_limited(&of_calls, "0::/a\n"));
}

#[test]
fn only_a_virtual_machine_is_a_guest() {
    let rented = |product: &str| {
        let made = Fixture::empty()
            .file("sys/class/dmi/id/sys_vendor", "Amazon EC2\n")
            .file("sys/class/dmi/id/product_name", product);
        Machine::read_below(&made.root, None, None)
            .virtualisation
            .guest
    };
    assert_eq!(rented("c7g.metal"), Some(false));
    assert_eq!(rented("c7g.large"), Some(true));
    let made = arm_board().file("proc/device-tree/compatible", "linux,dummy-virt\0");
    assert_eq!(read(&made).virtualisation.guest, Some(true));
}

#[test]
fn empty_root_gives_a_record_of_nulls_and_no_warning() {
    let made = Fixture::empty();
    let machine = Machine::read_below(&made.root, Some(2), Some(3));
    let base_page_bytes = rustix::param::page_size();
    let mut expected = Machine {
        memory: MemoryInfo {
            base_page_bytes,
            ..MemoryInfo::default()
        },
        ..Machine::default()
    };
    expected.processors.relation = Some("different processors, relation unknown".to_owned());
    assert_eq!(machine, expected);
    assert!(of_machine(&machine).is_empty());
    let delta =
        NoiseProbe::open(&made.root)
            .take()
            .since(&NoiseProbe::open(&made.root).take(), &[0], 0.0);
    assert_eq!(
        (delta.steal_share, delta.throttled_s, delta.other_load),
        (None, None, None)
    );
}

#[test]
fn malformed_files_become_gaps() {
    let made = kvm_guest()
        .file("proc/cpuinfo", "\u{fffd}\0:::\n")
        .file("proc/loadavg", "much\n")
        .file("proc/sys/fs/pipe-max-size", "-5\n")
        .file("sys/fs/cgroup/app/cpu.max", "1e9\n")
        .file("sys/devices/system/cpu/online", "0-18446744073709551615\n")
        .removed("proc/sys/kernel/osrelease");
    fs::create_dir(made.root.path("proc/sys/kernel/osrelease")).unwrap();
    let machine = Machine::read_below(&made.root, Some(0), Some(1));
    assert_eq!(machine.processors.model, None);
    assert_eq!(machine.processors.online, None);
    assert_eq!((machine.load, machine.pipes.max_bytes), (None, None));
    assert_eq!(
        (machine.cgroup.cpu_quota, machine.kernel.release),
        (None, None)
    );
}

#[test]
fn records_may_have_gaps() {
    assert_eq!(
        serde_json::from_str::<Machine>("{}").unwrap(),
        Machine::default()
    );
}

#[test]
fn only_differences_that_affect_speed_are_listed() {
    let old = read(&kvm_guest());
    assert!(old.differences(&old).is_empty());
    let made = kvm_guest()
        .file("proc/loadavg", "9 9 9 1/1 1\n")
        .file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "0\n",
        )
        .file("proc/sys/kernel/osrelease", "6.19.0\n")
        .file("sys/devices/system/cpu/vulnerabilities/new", "Vulnerable\n")
        .file(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never\n",
        );
    let found = old.differences(&read(&made));
    let listed: Vec<(&str, &str, &str)> = found
        .iter()
        .map(|one| (one.what.as_str(), one.old.as_str(), one.new.as_str()))
        .collect();
    assert_eq!(
        listed,
        [
            ("kernel", "6.18.4", "6.19.0"),
            ("transparent huge pages", "madvise", "always"),
            ("mitigation of new", "unknown", "Vulnerable"),
        ]
    );
    assert!(!old.differences(&read(&server())).is_empty());
}

#[test]
fn this_machine_can_be_read() {
    let topology = Topology::read(&Root::default());
    let chosen = choose(Placement::Different, &topology);
    let (writer, reader) = chosen.map_or((None, None), |chosen| (chosen.writer, chosen.reader));
    let machine = Machine::read(writer, reader);
    assert_eq!(writer.is_some(), machine.processors.writer.is_some());
    assert!(machine.differences(&machine).is_empty());
    for warning in of_machine(&machine) {
        assert!(!warning.message.ends_with('.'), "{}", warning.message);
    }
    let probe = NoiseProbe::default();
    let first = probe.take();
    let delta = probe.take().since(&first, &[], 0.0);
    assert!(delta.seconds >= 0.0 && delta.other_load.is_none_or(|load| load >= 0.0));
}
