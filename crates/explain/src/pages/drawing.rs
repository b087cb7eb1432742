//! The walk through the page tables, drawn in text.

use super::scheme::{Architecture, Scheme};
use super::walk::{Half, Level, Walk};
use pipespeed_base::size;

/// The largest page that an entry above the lowest table maps, in bytes.
const LARGEST_PAGE: u64 = 1 << 30;

/// Draws which bits of the address choose which entry of which table, at most
/// 76 columns wide. `page_bytes` is the size of the page at its end, where it
/// is known to be a huge one.
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

/// A part of the address: its name, highest and lowest bit, value.
struct Field {
    name: &'static str,
    highest: u32,
    lowest: u32,
    value: u64,
}

/// Four rows: the bits' numbers, the names, the bits, the values.
fn bits(walk: &Walk) -> String {
    let above = Field {
        name: "above",
        highest: 63,
        lowest: walk.scheme.address_bits,
        value: walk.address >> walk.scheme.address_bits,
    };
    let levels = walk.levels.iter().map(|level| Field {
        name: level.name,
        highest: level.lowest_bit + level.bits - 1,
        lowest: level.lowest_bit,
        value: level.index,
    });
    let offset = Field {
        name: "offset",
        highest: walk.scheme.page_bits - 1,
        lowest: 0,
        value: walk.offset,
    };
    let mut rows: [String; 4] = Default::default();
    for field in std::iter::once(above).chain(levels).chain([offset]) {
        let digits = (field.highest - field.lowest + 1) as usize;
        let (left, right) = (field.highest.to_string(), field.lowest.to_string());
        let numbers = match digits {
            1 => left,
            _ => {
                let gap = digits.saturating_sub(left.len() + right.len()).max(1);
                format!("{left}{}{right}", " ".repeat(gap))
            }
        };
        let value = match field.name {
            "above" => String::new(),
            _ => field.value.to_string(),
        };
        let cells = [
            numbers,
            field.name.to_owned(),
            format!("{:0digits$b}", field.value),
            value,
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
    let page_bytes = page_bytes.unwrap_or(walk.scheme.page_bytes());
    let mut text = String::new();
    let mut depth = 0;
    let mut line = |what: String| {
        let indent = match depth {
            0 => String::new(),
            _ => format!("{}`-- ", " ".repeat(4 * (depth - 1))),
        };
        text += &format!("  {indent}{what}\n");
        depth += 1;
    };
    for level in &walk.levels {
        let Level {
            name,
            index,
            entries,
            ..
        } = level;
        let covers = level.covers();
        let ends = match covers {
            _ if covers == page_bytes && covers > walk.scheme.page_bytes() => {
                ": a huge page, where the walk ends"
            }
            _ if page_bytes == walk.scheme.page_bytes()
                && (page_bytes + 1..=LARGEST_PAGE).contains(&covers) =>
            {
                " (or a huge page)"
            }
            _ => "",
        };
        line(format!(
            "{name} entry {index} of {entries}, covers {}{ends}",
            size::format(covers)
        ));
        if covers == page_bytes {
            break;
        }
    }
    let byte = walk.address & (page_bytes - 1);
    line(format!("byte {byte} ({byte:#x}) of the page"));
    text
}

/// What is to be said of the address as a whole.
fn notes(walk: &Walk) -> Vec<String> {
    let Scheme {
        architecture,
        address_bits,
        ..
    } = walk.scheme;
    let mut notes = Vec::new();
    match walk.half {
        Half::User => {}
        Half::Kernel => notes.push("The upper half of the address space: the kernel's.".to_owned()),
        Half::NonCanonical => {
            let lowest = match architecture {
                Architecture::Aarch64 => address_bits,
                _ => address_bits - 1,
            };
            let highest = match architecture {
                Architecture::Aarch64 => 55,
                _ => 63,
            };
            notes.push(format!(
                "Not canonical: to use it faults, since bits {highest} to {lowest} are not all alike."
            ));
            let mut others = Scheme::all(architecture);
            if let Some(other) = others.find(|other| {
                other.page_bits == walk.scheme.page_bits
                    && Walk::of(walk.address, *other).half != Half::NonCanonical
            }) {
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
