//! The page-table formats of x86-64, and the usual one of aarch64.
//!
//! A table is one base page of 4 KiB with 512 entries of eight bytes, selected by 9 bits of
//! the address. Sources: the kernel's Documentation/mm/page_tables.rst,
//! Documentation/arch/x86/x86_64/mm.rst and 5level-paging.rst,
//! Documentation/arch/arm64/memory.rst.

use std::fmt;

use itertools::Itertools;
use serde::{Deserialize, Serialize};

use pipespeed_base::size;

pipespeed_base::named! {
    /// A family of processors.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Architecture {
        /// 64-bit Intel and AMD
        #[serde(rename = "x86-64")]
        X86_64 = "x86-64" | "x86_64",
        /// 64-bit Arm
        Aarch64 = "aarch64" | "arm64",
    }
}

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

/// Bits of the offset in a base page.
const PAGE_BITS: u32 = 12;

/// Bits of an address that select an entry of a table.
pub(super) const TABLE_BITS: u32 = 9;

const fn scheme(architecture: Architecture, levels: u32) -> Scheme {
    Scheme {
        architecture,
        page_bits: PAGE_BITS,
        levels,
        address_bits: PAGE_BITS + levels * TABLE_BITS,
    }
}

/// The known formats, the usual one of each architecture first.
const SCHEMES: [Scheme; 3] = [
    scheme(Architecture::X86_64, 4),
    scheme(Architecture::X86_64, 5),
    scheme(Architecture::Aarch64, 4),
];

/// No known format has this number of levels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the known page tables of {architecture} have {available}")]
pub struct SchemeError {
    /// The architecture asked for.
    pub architecture: Architecture,
    /// The known formats, in words.
    pub available: String,
}

impl Scheme {
    /// The format of an architecture with this number of levels, by default the usual one.
    ///
    /// # Errors
    /// There is none. The error lists the known ones.
    pub fn find(architecture: Architecture, levels: Option<u32>) -> Result<Scheme, SchemeError> {
        Scheme::all(architecture)
            .find(|scheme| levels.is_none_or(|levels| levels == scheme.levels))
            .ok_or_else(|| SchemeError {
                architecture,
                available: Scheme::all(architecture)
                    .map(|one| format!("{} levels ({} bits)", one.levels, one.address_bits))
                    .join(" or "),
            })
    }

    /// All known formats of an architecture.
    pub fn all(architecture: Architecture) -> impl Iterator<Item = Scheme> {
        let all = SCHEMES.into_iter();
        all.filter(move |scheme| scheme.architecture == architecture)
    }

    /// The size of a base page, in bytes.
    pub fn page_bytes(self) -> u64 {
        1 << self.page_bits
    }

    /// The kernel's names of the tables, from the top.
    pub fn names(self) -> &'static [&'static str] {
        match self.levels {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_levels() {
        use Architecture::{Aarch64, X86_64};
        for (architecture, levels, bits) in [
            (X86_64, None, 48),
            (X86_64, Some(4), 48),
            (X86_64, Some(5), 57),
            (Aarch64, None, 48),
            (Aarch64, Some(4), 48),
        ] {
            let scheme = Scheme::find(architecture, levels).unwrap();
            assert_eq!((scheme.address_bits, scheme.page_bytes()), (bits, 4096));
            assert_eq!(scheme.names().len(), scheme.levels as usize);
        }
        let error = |architecture| Scheme::find(architecture, Some(3)).unwrap_err().to_string();
        assert_eq!(
            [error(Aarch64), error(X86_64)],
            [
                "the known page tables of aarch64 have 4 levels (48 bits)",
                "the known page tables of x86-64 have 4 levels (48 bits) or 5 levels (57 bits)"
            ]
        );
    }
}
