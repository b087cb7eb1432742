//! Detection of virtual machines and containers.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::frequency::CLOCK_SOURCES;
use super::root::{Root, fields};

/// Hypervisor and container of this process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualisation {
    /// Whether the kernel runs as a guest; null if unknown.
    pub guest: Option<bool>,
    /// The hypervisor's name, if known.
    pub hypervisor: Option<String>,
    /// Vendor and product name from the firmware (DMI).
    pub product: Option<String>,
    /// The kind of container this process runs in; null if none is detected.
    pub container: Option<String>,
    /// Whether the guest tells the host which memory is free, so that the host takes it back
    /// (virtio-balloon); null without such a device.
    pub free_page_reporting: Option<bool>,
}

impl Virtualisation {
    pub(super) fn read(root: &Root) -> Virtualisation {
        let dmi = |name: &str| root.text(format!("sys/class/dmi/id/{name}"));
        let (vendor, name) = (dmi("sys_vendor"), dmi("product_name"));
        let product = match (&vendor, &name) {
            (Some(vendor), Some(name)) => Some(format!("{vendor} {name}")),
            _ => vendor.or(name),
        };
        let flag = hypervisor_flag(root);
        // On x86-64 the processor reports a hypervisor (cpuid leaf 1, ecx bit 31,
        // set by all common hypervisors), and the other sources only name it.
        // Elsewhere they are all there is.
        let hypervisor = match flag {
            Some(false) => by_kernel(root),
            _ => by_kernel(root)
                .or_else(|| product.as_deref().and_then(by_product).map(str::to_owned))
                .or_else(|| by_clock(root)),
        };
        let guest = match (flag, hypervisor.as_deref()) {
            // Xen's first domain lacks the flag but is named by the kernel.
            (_, Some(_)) | (Some(true), None) => Some(true),
            (Some(false), None) => Some(false),
            // A known machine without any sign of a hypervisor.
            (None, None) => {
                (product.is_some() || root.exists("proc/device-tree/model")).then_some(false)
            }
        };
        Virtualisation {
            guest,
            hypervisor,
            product,
            container: container(root),
            free_page_reporting: free_page_reporting(root),
        }
    }
}

/// Bit VIRTIO_BALLOON_F_REPORTING (include/uapi/linux/virtio_balloon.h) of a device's features.
const REPORTING_BIT: usize = 5;

fn free_page_reporting(root: &Root) -> Option<bool> {
    const DRIVER: &str = "sys/bus/virtio/drivers/virtio_balloon";
    let entries = fs::read_dir(root.path(DRIVER)).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let features = names.filter_map(|name| {
        let device = Path::new(DRIVER).join(name);
        root.text(device.join("features"))
    });
    // A digit a bit, the lowest first (drivers/virtio/virtio.c).
    let reports = features.map(|bits| bits.as_bytes().get(REPORTING_BIT) == Some(&b'1'));
    reports.reduce(|one, other| one || other)
}

/// Whether the processor's flags include `hypervisor`; `None` without flags.
fn hypervisor_flag(root: &Root) -> Option<bool> {
    let info = root.text("proc/cpuinfo")?;
    let flags = fields(&info, "flags").next()?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The hypervisor according to the kernel.
fn by_kernel(root: &Root) -> Option<String> {
    // Documentation/ABI/stable/sysfs-hypervisor-xen.
    if let Some(kind) = root.text("sys/hypervisor/type") {
        let first = root
            .text("proc/xen/capabilities")
            .is_some_and(|text| text.contains("control_d"));
        return Some(match (kind.as_str(), first) {
            ("xen", true) => "Xen (its first domain)".to_owned(),
            ("xen", false) => "Xen".to_owned(),
            (other, _) => other.to_owned(),
        });
    }
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    if release.to_lowercase().contains("microsoft") {
        return Some("Hyper-V (WSL)".to_owned());
    }
    // The virtual board of QEMU and others for aarch64 guests.
    let board = root.text("proc/device-tree/compatible");
    if board.is_some_and(|board| board.contains("linux,dummy-virt")) {
        return Some("a virtual board (QEMU, Firecracker or the like)".to_owned());
    }
    let node = root.text("proc/device-tree/hypervisor/compatible")?;
    Some(match node {
        node if node.contains("kvm") => "KVM".to_owned(),
        node if node.contains("xen") => "Xen".to_owned(),
        node => node.replace('\0', " "),
    })
}

/// The hypervisor according to the firmware's names.
fn by_product(product: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 15] = [
        ("KVM", "KVM"),
        ("QEMU", "QEMU"),
        ("Google Compute Engine", "KVM (Google Compute Engine)"),
        ("Microsoft Corporation Virtual Machine", "Hyper-V"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("Xen", "Xen"),
        ("Parallels", "Parallels"),
        ("BHYVE", "bhyve"),
        ("Bochs", "Bochs"),
        ("OpenStack", "KVM (OpenStack)"),
        ("DigitalOcean", "KVM (DigitalOcean)"),
        ("Hetzner vServer", "KVM (Hetzner)"),
        ("Apple Virtualization", "Apple Virtualization"),
        ("Alibaba Cloud ECS", "KVM (Alibaba Cloud)"),
    ];
    if product.contains("Amazon EC2") {
        // Amazon's bare-metal machines have the same vendor.
        return (!product.contains(".metal")).then_some("KVM (Amazon EC2)");
    }
    NAMES
        .iter()
        .find(|(part, _)| product.contains(part))
        .map(|(_, name)| *name)
}

/// The hypervisor according to clock sources that only guests have.
fn by_clock(root: &Root) -> Option<String> {
    let clocks = root.words(format!("{CLOCK_SOURCES}/available_clocksource"));
    let offered = |part: &str| clocks.iter().any(|clock| clock.starts_with(part));
    const CLOCKS: [(&str, &str); 3] = [
        ("kvm-clock", "KVM"),
        ("hyperv_clocksource", "Hyper-V"),
        ("xen", "Xen"),
    ];
    let found = CLOCKS.iter().find(|(clock, _)| offered(clock));
    found.map(|(_, name)| (*name).to_owned())
}

/// The kind of container, by files and control groups of container managers.
/// Paths of control groups contain identifiers, so only the kind is kept.
fn container(root: &Root) -> Option<String> {
    let groups = root.text("proc/self/cgroup").unwrap_or_default();
    // Files that Podman and Docker create in every container come first, since
    // inside a container the path of the control group is often just "/".
    let files = [
        ("run/.containerenv", "podman"),
        ("run/secrets/kubernetes.io", "kubernetes"),
        (".dockerenv", "docker"),
    ];
    let by_file = files.iter().find(|(file, _)| root.exists(file));
    let words = [
        ("kubepods", "kubernetes"),
        ("libpod", "podman"),
        ("docker", "docker"),
        ("lxc", "lxc"),
    ];
    let by_group = || words.iter().find(|(part, _)| groups.contains(part));
    match by_file.or_else(by_group) {
        Some((_, kind)) => Some((*kind).to_owned()),
        // systemd writes the manager's name here (systemd's CONTAINER_INTERFACE).
        None => root.text("run/systemd/container"),
    }
}
