//! The walk through the page tables as a text drawing.

use super::scheme::{Architecture, Scheme};
use super::walk::{Half, Walk};
use pipespeed_base::size;

/// The largest huge page, in bytes.
const MAX_PAGE: u64 = 1 << 30;

/// Draws which bits of the address select which entry of which table, in at most 76
/// columns. `page_bytes` is the size of the page if it is known to be a huge one.
pub fn drawing(walk: &Walk, page_bytes: Option<u64>) -> String {
    let mut text = format!("{:#018x} ({})\n\n", walk.address, walk.scheme);
    text += &bits(walk);
    text += "\n";
    text += &steps(walk, page_bytes);
    for note in notes(walk) {
        text += &note;
        text += "\n";
    }
    text
}

/// A part of the address.
struct Field {
    name: &'static str,
    lowest_bit: u32,
    bits: u32,
    value: u64,
    /// Whether the value is an index or an offset, which is also shown as a decimal.
    is_number: bool,
}

/// Four rows: the numbers of the bits, the names, the bits, the values.
fn bits(walk: &Walk) -> String {
    let address_bits = walk.scheme.address_bits;
    let above = Field {
        name: "above",
        lowest_bit: address_bits,
        bits: 64 - address_bits,
        value: walk.address >> address_bits,
        is_number: false,
    };
    let levels = walk.levels.iter().map(|level| Field {
        name: level.name,
        lowest_bit: level.lowest_bit,
        bits: level.bits,
        value: level.index,
        is_number: true,
    });
    let offset = Field {
        name: "offset",
        lowest_bit: 0,
        bits: walk.scheme.page_bits,
        value: walk.offset,
        is_number: true,
    };
    let mut rows: [String; 4] = Default::default();
    for field in std::iter::once(above).chain(levels).chain([offset]) {
        let digits = field.bits as usize;
        let mut numbers = (field.lowest_bit + field.bits - 1).to_string();
        if digits > 1 {
            let lowest = field.lowest_bit.to_string();
            let width = digits.saturating_sub(numbers.len()).max(lowest.len() + 1);
            numbers += &format!("{lowest:>width$}");
        }
        let number = field.is_number.then(|| field.value.to_string());
        let cells = [
            numbers,
            field.name.to_owned(),
            format!("{:0digits$b}", field.value),
            number.unwrap_or_default(),
        ];
        let width = cells.iter().map(String::len).max().unwrap_or(0);
        for (row, cell) in rows.iter_mut().zip(cells) {
            *row += &format!(" {cell:^width$}");
        }
    }
    rows.map(|row| format!(" {}\n", row.trim_end())).concat()
}

/// A line for each table, and one for the byte at the end.
fn steps(walk: &Walk, page_bytes: Option<u64>) -> String {
    let base_bytes = walk.scheme.page_bytes();
    let page_bytes = page_bytes.unwrap_or(base_bytes);
    let mut lines = Vec::new();
    for level in &walk.levels {
        let covers = level.covers();
        let end = if covers == page_bytes && covers > base_bytes {
            ": a huge page, where the walk ends"
        } else if page_bytes == base_bytes && (base_bytes + 1..=MAX_PAGE).contains(&covers) {
            " (or a huge page)"
        } else {
            ""
        };
        let (name, index, entries) = (level.name, level.index, level.entries);
        let size = size::format(covers);
        lines.push(format!(
            "{name} entry {index} of {entries}, covers {size}{end}"
        ));
        if covers == page_bytes {
            break;
        }
    }
    let byte = walk.address & (page_bytes - 1);
    lines.push(format!("byte {byte} ({byte:#x}) of the page"));
    let indented = lines.iter().enumerate().map(|(depth, line)| match depth {
        0 => format!("  {line}\n"),
        _ => format!("  {:1$}`-- {line}\n", "", 4 * (depth - 1)),
    });
    indented.collect()
}

/// Remarks about the address as a whole.
fn notes(walk: &Walk) -> Vec<String> {
    let scheme = walk.scheme;
    let mut notes = Vec::new();
    match walk.half {
        Half::User => {}
        Half::Kernel => notes.push("The upper half of the address space: the kernel's.".to_owned()),
        Half::NonCanonical => {
            let (lowest, highest) = match scheme.architecture {
                Architecture::Aarch64 => (scheme.address_bits, 55),
                Architecture::X86_64 => (scheme.address_bits - 1, 63),
            };
            notes.push(format!(
                "Not canonical: using it faults, since bits {highest} to {lowest} are not all equal."
            ));
            let mut others = Scheme::all(scheme.architecture);
            if let Some(other) =
                others.find(|other| Walk::new(walk.address, *other).half != Half::NonCanonical)
            {
                notes.push(format!(
                    "With {} levels ({} bits) it is canonical: --levels {}.",
                    other.levels, other.address_bits, other.levels
                ));
            }
        }
    }
    if let Some(tag) = walk.tag {
        notes.push(format!(
            "The top byte, {tag:#04x}, is a tag, which the processor ignores."
        ));
    }
    notes
}
