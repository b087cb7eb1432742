//! Whether the machine is a guest, and whether we are in a container.

use serde::{Deserialize, Serialize};

use super::clock::CLOCK_SOURCES;
use super::root::{Root, fields};

/// What lies between this process and the hardware.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualisation {
    /// Whether the kernel runs as a guest; null where nothing tells.
    pub guest: Option<bool>,
    /// The hypervisor's name, where something tells it.
    pub hypervisor: Option<String>,
    /// The maker and product of the machine by its firmware (DMI).
    pub product: Option<String>,
    /// The kind of container this process is in; null where nothing tells of
    /// one.
    pub container: Option<String>,
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
        // x86-64 has the processor itself say so (leaf 1 of cpuid, bit 31 of
        // ecx, set by every hypervisor of note); firmware and the rest then
        // only lend the name. Elsewhere they are all there is.
        let hypervisor = match flag {
            Some(false) => by_kernel(root),
            _ => by_kernel(root)
                .or_else(|| product.as_deref().and_then(by_product).map(str::to_owned))
                .or_else(|| by_clock(root)),
        };
        let guest = match (flag, hypervisor.as_deref()) {
            // The first domain of Xen manages the machine, yet runs on Xen.
            (_, Some(_)) | (Some(true), None) => Some(true),
            (Some(false), None) => Some(false),
            // A machine that names itself, and no hypervisor.
            (None, None) => {
                (product.is_some() || root.exists("proc/device-tree/model")).then_some(false)
            }
        };
        Virtualisation {
            guest,
            hypervisor,
            product,
            container: container(root),
        }
    }
}

/// Whether the processor's flags name a hypervisor; `None` where they can't.
fn hypervisor_flag(root: &Root) -> Option<bool> {
    let info = root.text("proc/cpuinfo")?;
    let flags = fields(&info, "flags").next()?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// What the kernel says by itself.
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
    // The board that QEMU and others made up for aarch64 guests.
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

/// The hypervisors that show in the names given by firmware.
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
        // Amazon lends whole machines too, under the same maker's name.
        return (!product.contains(".metal")).then_some("KVM (Amazon EC2)");
    }
    NAMES
        .iter()
        .find(|(part, _)| product.contains(part))
        .map(|(_, name)| *name)
}

/// The clocks that only guests are offered give their host away.
fn by_clock(root: &Root) -> Option<String> {
    let clocks = root.words(format!("{CLOCK_SOURCES}/available_clocksource"))?;
    let offered = |part: &str| clocks.iter().any(|clock| clock.starts_with(part));
    let name = match () {
        () if offered("kvm-clock") => "KVM",
        () if offered("hyperv_clocksource") => "Hyper-V",
        () if offered("xen") => "Xen",
        () => return None,
    };
    Some(name.to_owned())
}

/// The kind of container, by the traces container managers leave. Paths of
/// control groups hold identifiers, so only the kind is kept.
fn container(root: &Root) -> Option<String> {
    let groups = root.text("proc/self/cgroup").unwrap_or_default();
    let words = [
        ("kubepods", "kubernetes"),
        ("libpod", "podman"),
        ("docker", "docker"),
        ("lxc", "lxc"),
    ];
    let by_group = words
        .iter()
        .find(|(part, _)| groups.contains(part))
        .map(|(_, kind)| *kind);
    // A container's own view of its control group often is "/", so these
    // files, which Podman and Docker put into every container, come first.
    let kind = match () {
        () if root.exists("run/.containerenv") => "podman",
        () if root.exists("run/secrets/kubernetes.io") => "kubernetes",
        () if root.exists(".dockerenv") => "docker",
        () => match by_group {
            Some(kind) => kind,
            // systemd writes the manager's name here (systemd's CONTAINER_INTERFACE).
            None => return root.text("run/systemd/container"),
        },
    };
    Some(kind.to_owned())
}
