//! The processors, their caches, and the places of the two chosen ones.

use serde::{Deserialize, Serialize};

use super::cache::{self, Cache};
use super::cpu_list::CpuList;
use super::root::{CPUS, Root, fields};
use super::topology::{Cpu, Topology};

/// The processors of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processors {
    /// The model's name; on aarch64 the names of all kinds of cores.
    pub model: Option<String>,
    /// Vendor, family, model and stepping, which distinguish x86-64 processors
    /// with generic names: `GenuineIntel 6/207/2`.
    pub signature: Option<String>,
    /// The version of the microcode, which may contain mitigations.
    pub microcode: Option<String>,
    /// The board's name in the device tree.
    pub board: Option<String>,
    /// The processors that are online.
    pub online: Option<CpuList>,
    /// The processors this process may use.
    pub allowed: CpuList,
    /// Whether cores run more than one thread: `on`, `off`, `forceoff`,
    /// `notsupported` (Documentation/ABI/testing/sysfs-devices-system-cpu).
    pub smt: Option<String>,
    /// The caches of the writer's processor, or of the first allowed one.
    pub caches: Vec<Cache>,
    /// The writer's processor; null if the scheduler chooses.
    pub writer: Option<Cpu>,
    /// The reader's processor; null if the scheduler chooses.
    pub reader: Option<Cpu>,
    /// The relation of the two in words; null if the scheduler chooses.
    pub relation: Option<String>,
    /// The level of the innermost data cache that their two cores share.
    pub shared_cache_level: Option<u8>,
}

impl Processors {
    pub(super) fn read(root: &Root, writer: Option<usize>, reader: Option<usize>) -> Processors {
        let topology = Topology::read(root);
        let info = root.text("proc/cpuinfo").unwrap_or_default();
        let board = root.text("proc/device-tree/model");
        let relation = writer.zip(reader).map(|(w, r)| topology.relation(w, r));
        let first = writer.or(topology.allowed.as_slice().first().copied());
        let place = |cpu: Option<usize>| {
            // The caches are recorded once, in detail.
            let caches = Vec::new();
            Some(Cpu {
                caches,
                ..topology.cpu(cpu?)?.clone()
            })
        };
        Processors {
            model: model(&info).or_else(|| board.clone()),
            signature: signature(&info),
            smt: root.text(format!("{CPUS}/smt/control")),
            microcode: fields(&info, "microcode").next().map(str::to_owned),
            board,
            caches: first.map(|cpu| cache::read(root, cpu)).unwrap_or_default(),
            writer: place(writer),
            reader: place(reader),
            relation: relation.map(|relation| relation.to_string()),
            shared_cache_level: relation.and_then(|relation| relation.shared_cache_level()),
            online: topology.online,
            allowed: topology.allowed,
        }
    }
}

/// The model according to `/proc/cpuinfo`, which has a name on x86-64 and
/// numbers on aarch64.
fn model(info: &str) -> Option<String> {
    if let Some(name) = fields(info, "model name").next() {
        // Intel pads some names with spaces.
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let makers = fields(info, "CPU implementer");
    let mut names: Vec<String> = Vec::new();
    for (maker, part) in makers.zip(fields(info, "CPU part")) {
        let name = arm_name(maker, part);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(" and "))
}

fn signature(info: &str) -> Option<String> {
    let first = |key| fields(info, key).next();
    let (vendor, family) = (first("vendor_id")?, first("cpu family")?);
    Some(format!(
        "{vendor} {family}/{}/{}",
        first("model")?,
        first("stepping")?
    ))
}

/// The names of ARM cores, each after the numbers of implementer and part in its MIDR_EL1 register
/// (arch/arm64/include/asm/cputype.h).
const ARM_CORES: &str = include_str!("arm-cores.txt");

/// The name of an ARM core.
fn arm_name(maker: &str, part: &str) -> String {
    let numbers = format!("{maker} {part} ");
    let name = ARM_CORES
        .lines()
        .find_map(|line| line.strip_prefix(&numbers));
    name.map_or_else(
        || format!("ARM implementer {maker} part {part}"),
        str::to_owned,
    )
}
