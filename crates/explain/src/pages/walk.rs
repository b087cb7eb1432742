//! An address, split into the indices of its page-table walk.

use serde::{Deserialize, Serialize};

use super::hexadecimal::{from_hexadecimal, hexadecimal};
use super::scheme::{Architecture, Scheme, TABLE_BITS};

/// The half of the address space that contains an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Half {
    /// The lower half, for processes.
    User,
    /// The upper half, for the kernel.
    Kernel,
    /// Neither: the bits above the translated ones are invalid, and using the address
    /// faults.
    NonCanonical,
}

/// One table of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WalkLevel {
    /// The kernel's name of the table: `PGD`, `P4D`, `PUD`, `PMD`, `PTE`.
    pub name: &'static str,
    /// The index of the entry.
    pub index: u64,
    /// The number of entries.
    pub entries: u64,
    /// The lowest bit of the index in the address.
    pub lowest_bit: u32,
    /// The number of bits of the index.
    pub bits: u32,
}

impl WalkLevel {
    /// The bytes of address space that one entry covers.
    pub fn covers(&self) -> u64 {
        1 << self.lowest_bit
    }
}

/// The page-table walk of an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedWalk")]
pub struct Walk {
    /// The address.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// The page-table format.
    #[serde(rename = "page_tables")]
    pub scheme: Scheme,
    /// Its half of the address space.
    pub half: Half,
    /// The top byte if it is a tag, which aarch64 ignores.
    pub tag: Option<u8>,
    /// The tables, from the top.
    pub levels: Vec<WalkLevel>,
    /// The offset in the base page.
    pub offset: u64,
}

/// The fields of a saved walk from which the others follow.
#[derive(Deserialize)]
struct SavedWalk {
    #[serde(deserialize_with = "from_hexadecimal")]
    address: u64,
    page_tables: Scheme,
}

impl TryFrom<SavedWalk> for Walk {
    type Error = &'static str;

    fn try_from(saved: SavedWalk) -> Result<Walk, Self::Error> {
        if !Scheme::all(saved.page_tables.architecture).any(|known| known == saved.page_tables) {
            return Err("unknown page tables");
        }
        Ok(Walk::new(saved.address, saved.page_tables))
    }
}

impl Walk {
    /// Splits an address. An address that is not canonical has indices, too, which no
    /// processor would use.
    pub fn new(address: u64, scheme: Scheme) -> Walk {
        let mut above = scheme.address_bits;
        let mut levels = Vec::new();
        for (name, below) in scheme.names().iter().zip((0..scheme.levels).rev()) {
            let lowest_bit = scheme.page_bits + below * TABLE_BITS;
            let bits = above - lowest_bit;
            levels.push(WalkLevel {
                name,
                index: address >> lowest_bit & low_bits(bits),
                entries: 1 << bits,
                lowest_bit,
                bits,
            });
            above = lowest_bit;
        }
        let (half, tag) = half(address, scheme);
        Walk {
            address,
            scheme,
            half,
            tag,
            levels,
            offset: address & low_bits(scheme.page_bits),
        }
    }

    /// The first address of its base page.
    pub fn page(&self) -> u64 {
        self.address & !low_bits(self.scheme.page_bits)
    }
}

/// The half of the address space, and the tag.
fn half(address: u64, scheme: Scheme) -> (Half, Option<u8>) {
    match scheme.architecture {
        // The untranslated bits equal the highest translated bit. The upper half is the
        // kernel's.
        Architecture::X86_64 => {
            let shift = scheme.address_bits - 1;
            let half = match address >> shift {
                0 => Half::User,
                above if above == low_bits(64 - shift) => Half::Kernel,
                _ => Half::NonCanonical,
            };
            (half, None)
        }
        // There are two top tables: one for addresses whose untranslated bits are 0, and
        // one for those whose are 1, chosen by bit 55. Linux lets programs use the top
        // byte as a tag (Documentation/arch/arm64/tagged-pointers.rst).
        Architecture::Aarch64 => {
            let above = (address & low_bits(56)) >> scheme.address_bits;
            let top = (address >> 56) as u8;
            if above == 0 {
                (Half::User, (top != 0).then_some(top))
            } else if above == low_bits(56 - scheme.address_bits) {
                (Half::Kernel, (top != 0xff).then_some(top))
            } else {
                (Half::NonCanonical, None)
            }
        }
    }
}

fn low_bits(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count).unwrap_or(0)
}

#[cfg(test)]
mod tests;
