//! How the page tables of an architecture are built.
//!
//! Every table fills one base page with entries of eight bytes, so that a table
//! of 4 KiB has 512 of them and takes 9 bits of an address; the topmost takes
//! what is left. Sources: the kernel's Documentation/mm/page_tables.rst,
//! Documentation/arch/x86/x86_64/mm.rst and 5level-paging.rst,
//! Documentation/arch/arm64/memory.rst with PGTABLE_LEVELS of
//! arch/arm64/Kconfig, Documentation/arch/riscv/vm-layout.rst.

use std::fmt;

use serde::Serialize;

use pipespeed_base::size;

/// A family of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

/// One way in which page tables are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Scheme {
    /// The processors that have it.
    pub architecture: Architecture,
    /// The bits of an address that count within a base page: 12 for 4 KiB.
    pub page_bits: u32,
    /// How many tables a walk passes through.
    pub levels: u32,
    /// The bits of an address that are translated.
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

/// All that Linux uses. Where several fit, the first one is meant.
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

/// Which of an architecture's schemes is wanted; what is not said is left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The size of a base page, in bytes.
    pub page_bytes: Option<u64>,
    /// How many tables.
    pub levels: Option<u32>,
    /// The bits that are translated.
    pub address_bits: Option<u32>,
}

/// No scheme is as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{architecture} has no page tables like that: it has {there_are}")]
pub struct SchemeError {
    /// The architecture asked for.
    pub architecture: Architecture,
    /// Those it has, in words.
    pub there_are: String,
}

impl Scheme {
    /// The first of an architecture's schemes that is as wanted.
    ///
    /// # Errors
    /// There is none; the error tells which there are.
    pub fn find(architecture: Architecture, wanted: Wanted) -> Result<Scheme, SchemeError> {
        let mut all = Scheme::all(architecture);
        let fits = |scheme: &Scheme| {
            wanted.page_bytes.is_none_or(|n| n == scheme.page_bytes())
                && wanted.levels.is_none_or(|n| n == scheme.levels)
                && wanted.address_bits.is_none_or(|n| n == scheme.address_bits)
        };
        all.find(fits).ok_or_else(|| SchemeError {
            architecture,
            there_are: in_words(architecture),
        })
    }

    /// All schemes of an architecture.
    pub fn all(architecture: Architecture) -> impl Iterator<Item = Scheme> {
        let all = SCHEMES.into_iter();
        all.filter(move |scheme| scheme.architecture == architecture)
    }

    /// The size of a base page, in bytes.
    pub fn page_bytes(self) -> u64 {
        1 << self.page_bits
    }

    /// The bits of an address that a table takes, the topmost left out.
    pub fn table_bits(self) -> u32 {
        self.page_bits - 3
    }

    /// The levels' names from the top, as the kernel says them: it leaves out
    /// those between that a machine does not have.
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

/// As `4KiB pages with 4 levels (48 bits) or 5 (57)`.
fn in_words(architecture: Architecture) -> String {
    let mut words = String::new();
    let mut last = 0;
    for scheme in Scheme::all(architecture) {
        if scheme.page_bits == last {
            words += &format!(" or {} ({})", scheme.levels, scheme.address_bits);
            continue;
        }
        if last != 0 {
            words += "; ";
        }
        last = scheme.page_bits;
        words += &format!(
            "{} pages with {} levels ({} bits)",
            size::format(scheme.page_bytes()),
            scheme.levels,
            scheme.address_bits
        );
    }
    words
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
    fn what_is_left_open_is_48_bits() {
        for architecture in Architecture::VALUES {
            let scheme = Scheme::find(*architecture, Wanted::default()).unwrap();
            assert_eq!((scheme.address_bits, scheme.levels), (48, 4));
            assert_eq!(scheme.page_bytes(), 4096);
        }
    }

    #[test]
    fn the_topmost_table_takes_a_bit_at_least_and_no_more_than_the_others() {
        for scheme in SCHEMES {
            let below = scheme.page_bits + (scheme.levels - 1) * scheme.table_bits();
            let top = scheme.address_bits - below;
            assert!((1..=scheme.table_bits()).contains(&top), "{scheme}: {top}");
            assert_eq!(scheme.names().len(), scheme.levels as usize);
        }
    }

    #[test]
    fn what_there_is_not_is_refused_with_what_there_is() {
        let error = Scheme::find(Architecture::X86_64, wanted(65_536, 4)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x86-64 has no page tables like that: it has 4KiB pages with 4 levels (48 bits) or 5 (57)"
        );
        let error = Scheme::find(Architecture::Aarch64, wanted(65_536, 5)).unwrap_err();
        assert!(
            error
                .there_are
                .ends_with("64KiB pages with 3 levels (48 bits) or 2 (42) or 3 (52)")
        );
        assert!(Scheme::find(Architecture::Aarch64, wanted(16_384, 2)).is_ok());
    }
}
