//! The page-table format of this machine.

use std::fs;

use fastpipe::pipe::page_size;
use pipespeed_host::process_memory::{Process, regions};

use super::scheme::{Architecture, Scheme, SchemeError, Wanted};

/// The architecture this program was built for, if its page tables are known.
pub fn own_architecture() -> Option<Architecture> {
    std::env::consts::ARCH.parse().ok()
}

/// The page-table format of this machine, which has this architecture.
///
/// # Errors
/// The page size of the machine is unknown for the architecture.
pub fn machine_scheme(architecture: Architecture) -> Result<Scheme, SchemeError> {
    let processor = || fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let address_bits = match architecture {
        Architecture::X86_64 => Some(x86_bits(&processor())),
        Architecture::Riscv64 => riscv_bits(&processor()),
        Architecture::Aarch64 => {
            let regions = regions(Process::Own).unwrap_or_default();
            let end = regions.iter().map(|region| region.end).max();
            end.and_then(|end| aarch64_bits(page_size() as u64, end))
        }
    };
    let wanted = Wanted {
        page_bytes: Some(page_size() as u64),
        levels: None,
        address_bits,
    };
    Scheme::find(architecture, wanted)
}

/// A kernel without five levels hides the processor's flag
/// (Documentation/arch/x86/x86_64/5level-paging.rst).
fn x86_bits(cpuinfo: &str) -> u32 {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let mut words = flags.unwrap_or_default().split_ascii_whitespace();
    if words.any(|word| word == "la57") {
        57
    } else {
        48
    }
}

/// The mode is named: `mmu : sv48`.
fn riscv_bits(cpuinfo: &str) -> Option<u32> {
    let line = cpuinfo.lines().find(|line| line.starts_with("mmu"))?;
    line.split_once("sv")?.1.trim().parse().ok()
}

/// The stack is close to the end of the address space, so the smallest one that
/// contains it is chosen. 52 bits can't be distinguished from 48, since a process gets
/// addresses of 52 bits only on request.
fn aarch64_bits(page_bytes: u64, end: u64) -> Option<u32> {
    let all = Scheme::all(Architecture::Aarch64);
    let sizes = all.filter(|scheme| scheme.page_bytes() == page_bytes);
    let bits = sizes.map(|scheme| scheme.address_bits);
    bits.filter(|bits| end <= 1 << bits).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_levels_are_detected_by_the_flag() {
        assert_eq!(x86_bits("processor\t: 0\nflags\t\t: fpu la57 vme\n"), 57);
        assert_eq!(x86_bits("processor\t: 0\nflags\t\t: fpu vme\n"), 48);
        assert_eq!(x86_bits(""), 48);
    }

    #[test]
    fn riscv_is_detected_by_its_mode() {
        assert_eq!(riscv_bits("hart\t: 0\nmmu\t\t: sv39\n"), Some(39));
        assert_eq!(riscv_bits("hart\t: 0\n"), None);
    }

    #[test]
    fn aarch64_is_detected_by_the_address_of_the_stack() {
        assert_eq!(aarch64_bits(4096, 0x7f_d000_0000), Some(39));
        assert_eq!(aarch64_bits(4096, 0xffff_d000_0000), Some(48));
        assert_eq!(aarch64_bits(16_384, 0x7fff_d000_0000), Some(47));
        assert_eq!(aarch64_bits(65_536, 0x3ff_d000_0000), Some(42));
        assert_eq!(aarch64_bits(65_536, 0xffff_d000_0000), Some(48));
    }

    #[test]
    fn this_machine_is_known() {
        let Some(architecture) = own_architecture() else {
            return pipespeed_testing::skip("page tables of this architecture are not known");
        };
        let scheme = machine_scheme(architecture).unwrap();
        assert_eq!(scheme.page_bytes(), page_size() as u64);
    }
}
