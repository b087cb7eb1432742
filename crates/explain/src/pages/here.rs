//! The page-table format of this machine.

use std::fs;

use fastpipe::pipe::page_size;
use pipespeed_host::process_memory::{ExaminedProcess, regions};

use super::scheme::{Architecture, Scheme};
use pipespeed_base::size;

/// The page tables of this machine have no known format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the page tables of this machine ({architecture}, pages of {}) are not known: only those of \
     x86-64, and of aarch64 with pages of 4KiB and 48-bit addresses",
    size::format(*page_bytes)
)]
pub struct UnknownTables {
    /// The architecture, as Rust names it.
    pub architecture: &'static str,
    /// The size of a base page.
    pub page_bytes: u64,
}

/// The page-table format of this machine.
///
/// # Errors
/// It is not known.
pub fn machine_scheme() -> Result<Scheme, UnknownTables> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let regions = regions(ExaminedProcess::Own).unwrap_or_default();
    let end = regions.iter().map(|region| region.end).max();
    scheme_of(std::env::consts::ARCH, page_size() as u64, &cpuinfo, end)
}

/// The format of a machine with this /proc/cpuinfo, where the last mapping of a process
/// ends at `end`.
fn scheme_of(
    architecture: &'static str,
    page_bytes: u64,
    cpuinfo: &str,
    end: Option<u64>,
) -> Result<Scheme, UnknownTables> {
    let unknown = UnknownTables {
        architecture,
        page_bytes,
    };
    let architecture = architecture.parse().map_err(|_| unknown)?;
    let levels = match architecture {
        Architecture::X86_64 => x86_levels(cpuinfo),
        Architecture::Aarch64 if page_bytes == 4096 && end.is_none_or(has_48_bits) => 4,
        Architecture::Aarch64 => return Err(unknown),
    };
    Scheme::find(architecture, Some(levels)).map_err(|_| unknown)
}

/// A kernel without five levels hides the processor's flag
/// (Documentation/arch/x86/x86_64/5level-paging.rst).
fn x86_levels(cpuinfo: &str) -> u32 {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let mut words = flags.unwrap_or_default().split_ascii_whitespace();
    if words.any(|word| word == "la57") {
        5
    } else {
        4
    }
}

/// Whether an address space of aarch64 has 48 bits rather than 39: the stack is close to
/// its end. 52 bits can't be distinguished from 48, since a process gets addresses of 52
/// bits only on request.
fn has_48_bits(end: u64) -> bool {
    end > 1 << 39
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_detected_by_flags_pages_and_the_stack() {
        const STACK: Option<u64> = Some(0xffff_d000_0000);
        for (architecture, page_bytes, cpuinfo, end, levels) in [
            (
                "x86_64",
                4096,
                "processor\t: 0\nflags\t\t: fpu la57 vme\n",
                STACK,
                Some(5),
            ),
            (
                "x86_64",
                4096,
                "processor\t: 0\nflags\t\t: fpu vme\n",
                STACK,
                Some(4),
            ),
            ("x86_64", 4096, "", None, Some(4)),
            ("aarch64", 4096, "", STACK, Some(4)),
            ("aarch64", 4096, "", None, Some(4)),
            // 39 bits, and larger pages.
            ("aarch64", 4096, "", Some(0x7f_d000_0000), None),
            ("aarch64", 16_384, "", STACK, None),
            ("aarch64", 65_536, "", STACK, None),
            ("riscv64", 4096, "hart\t: 0\nmmu\t\t: sv48\n", STACK, None),
        ] {
            let found = scheme_of(architecture, page_bytes, cpuinfo, end);
            let found_levels = found.ok().map(|scheme| scheme.levels);
            assert_eq!(
                found_levels, levels,
                "{architecture} {page_bytes} {cpuinfo}"
            );
        }
        let unknown = scheme_of("aarch64", 65_536, "", STACK)
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("(aarch64, pages of 64KiB)"), "{unknown}");
    }

    #[test]
    fn this_machine_is_known() {
        match machine_scheme() {
            Ok(scheme) => assert_eq!(scheme.page_bytes(), page_size() as u64),
            Err(unknown) if std::env::consts::ARCH == "x86_64" => panic!("{unknown}"),
            Err(unknown) => pipespeed_testing::skip(unknown),
        }
    }
}
