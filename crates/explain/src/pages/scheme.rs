//! Page-table formats of several architectures.
//!
//! A table is one base page of entries of eight bytes. With pages of 4 KiB it has 512
//! entries, selected by 9 bits of the address; the top table uses the remaining bits.
//! Sources: the kernel's Documentation/mm/page_tables.rst,
//! Documentation/arch/x86/x86_64/mm.rst and 5level-paging.rst,
//! Documentation/arch/arm64/memory.rst with PGTABLE_LEVELS of
//! arch/arm64/Kconfig, Documentation/arch/riscv/vm-layout.rst.

use std::fmt;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use pipespeed_base::size;

/// A family of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// 64-bit Intel and AMD.
    #[serde(rename = "x86-64")]
    X86_64,
    /// 64-bit Arm.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
}

pipespeed_base::named!(Architecture {
    X86_64 = "x86-64" | "x86_64": "64-bit Intel and AMD",
    Aarch64 = "aarch64" | "arm64": "64-bit Arm",
    Riscv64 = "riscv64": "64-bit RISC-V",
});

/// A page-table format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheme {
    /// The architecture that has it.
    pub architecture: Architecture,
    /// Bits of the offset in a base page: 12 for 4 KiB.
    pub page_bits: u32,
    /// Number of tables in a walk.
    pub levels: u32,
    /// Number of translated bits of an address.
    pub address_bits: u32,
}

const fn scheme(
    architecture: Architecture,
    page_bits: u32,
    levels: u32,
    address_bits: u32,
) -> Scheme {
    Scheme {
        architecture,
        page_bits,
        levels,
        address_bits,
    }
}

/// All formats that Linux uses. If several match, the first is chosen.
const SCHEMES: [Scheme; 15] = {
    use Architecture::{Aarch64, Riscv64, X86_64};
    [
        scheme(X86_64, 12, 4, 48),
        scheme(X86_64, 12, 5, 57),
        scheme(Aarch64, 12, 4, 48),
        scheme(Aarch64, 12, 3, 39),
        scheme(Aarch64, 12, 5, 52),
        scheme(Aarch64, 14, 4, 48),
        scheme(Aarch64, 14, 3, 47),
        scheme(Aarch64, 14, 2, 36),
        scheme(Aarch64, 14, 4, 52),
        scheme(Aarch64, 16, 3, 48),
        scheme(Aarch64, 16, 2, 42),
        scheme(Aarch64, 16, 3, 52),
        scheme(Riscv64, 12, 4, 48),
        scheme(Riscv64, 12, 3, 39),
        scheme(Riscv64, 12, 5, 57),
    ]
};

/// Requirements for a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The size of a base page, in bytes.
    pub page_bytes: Option<u64>,
    /// Number of tables.
    pub levels: Option<u32>,
    /// Number of translated bits.
    pub address_bits: Option<u32>,
}

/// No format meets the requirements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{architecture} has no such page tables: it has {available}")]
pub struct SchemeError {
    /// The architecture asked for.
    pub architecture: Architecture,
    /// The available formats.
    pub available: String,
}

impl Scheme {
    /// The first format of an architecture that meets the requirements.
    ///
    /// # Errors
    /// There is none. The error lists the available ones.
    pub fn find(architecture: Architecture, wanted: Wanted) -> Result<Scheme, SchemeError> {
        let mut all = Scheme::all(architecture);
        let fits = |scheme: &Scheme| {
            wanted.page_bytes.is_none_or(|n| n == scheme.page_bytes())
                && wanted.levels.is_none_or(|n| n == scheme.levels)
                && wanted.address_bits.is_none_or(|n| n == scheme.address_bits)
        };
        all.find(fits).ok_or_else(|| SchemeError {
            architecture,
            available: in_words(architecture),
        })
    }

    /// All formats of an architecture.
    pub fn all(architecture: Architecture) -> impl Iterator<Item = Scheme> {
        let all = SCHEMES.into_iter();
        all.filter(move |scheme| scheme.architecture == architecture)
    }

    /// The size of a base page, in bytes.
    pub fn page_bytes(self) -> u64 {
        1 << self.page_bits
    }

    /// Bits of an address that select an entry of a table below the top one.
    pub fn table_bits(self) -> u32 {
        self.page_bits - 3
    }

    /// The kernel's names of the tables, from the top.
    pub fn names(self) -> &'static [&'static str] {
        match self.levels {
            2 => &["PGD", "PTE"],
            3 => &["PGD", "PMD", "PTE"],
            4 => &["PGD", "PUD", "PMD", "PTE"],
            _ => &["PGD", "P4D", "PUD", "PMD", "PTE"],
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} pages, {} levels, {}-bit addresses",
            self.architecture,
            size::format(self.page_bytes()),
            self.levels,
            self.address_bits
        )
    }
}

/// `4KiB pages with 4 (48 bits) or 5 (57 bits) levels`.
fn in_words(architecture: Architecture) -> String {
    let all: Vec<Scheme> = Scheme::all(architecture).collect();
    let sizes = all.chunk_by(|a, b| a.page_bits == b.page_bits);
    let mut sizes = sizes.map(|schemes| {
        let levels = schemes.iter();
        let mut levels = levels.map(|one| format!("{} ({} bits)", one.levels, one.address_bits));
        let size = size::format(schemes[0].page_bytes());
        format!("{size} pages with {} levels", levels.join(" or "))
    });
    sizes.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_base::Named;

    fn wanted(page_bytes: u64, levels: u32) -> Wanted {
        Wanted {
            page_bytes: Some(page_bytes),
            levels: Some(levels),
            address_bits: None,
        }
    }

    #[test]
    fn the_default_has_48_bits() {
        for architecture in Architecture::VALUES {
            let scheme = Scheme::find(*architecture, Wanted::default()).unwrap();
            assert_eq!((scheme.address_bits, scheme.levels), (48, 4));
            assert_eq!(scheme.page_bytes(), 4096);
        }
    }

    #[test]
    fn the_top_table_uses_at_least_one_bit_and_no_more_than_others() {
        for scheme in SCHEMES {
            let below = scheme.page_bits + (scheme.levels - 1) * scheme.table_bits();
            let top = scheme.address_bits - below;
            assert!((1..=scheme.table_bits()).contains(&top), "{scheme}: {top}");
            assert_eq!(scheme.names().len(), scheme.levels as usize);
        }
    }

    #[test]
    fn an_unavailable_format_is_refused_with_a_list() {
        let error = Scheme::find(Architecture::X86_64, wanted(65_536, 4)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x86-64 has no such page tables: it has 4KiB pages with 4 (48 bits) or 5 (57 bits) levels"
        );
        let error = Scheme::find(Architecture::Aarch64, wanted(65_536, 5)).unwrap_err();
        assert!(
            error
                .available
                .ends_with("64KiB pages with 3 (48 bits) or 2 (42 bits) or 3 (52 bits) levels")
        );
        assert!(Scheme::find(Architecture::Aarch64, wanted(16_384, 2)).is_ok());
    }
}
