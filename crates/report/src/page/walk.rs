//! The page-table walk of a buffer as a picture: the parts of the address, and below each
//! the table whose entry it selects.

use pipespeed_base::size;
use pipespeed_explain::pages::{MemoryRange, PagesReport, Walk, WalkLevel, findings};

use crate::blocks::{Blocks, Conclusion, TableBlock};
use crate::chart::svg::{Anchor, CARD, Colour, INK, MARGIN, SMALL, Svg, TEXT, length};
use crate::table::{Column, Table};

/// Height of the parts of the address, and of the tables.
const PART: i32 = 44;
const TABLE: i32 = 62;
/// Room for the arrows between them.
const ARROW: i32 = 34;
const GAP: i32 = 6;

/// The colours of tables, of the page where the walk ends, and of unused parts.
const USED: Colour = Colour(11, 105, 168);
const END: Colour = Colour(10, 122, 88);
const UNUSED: Colour = Colour(110, 119, 129);

/// The report on the pages behind an address, whose tables are known.
pub(super) fn blocks(report: &PagesReport) -> Blocks<'_> {
    let memory = report.memory.as_ref();
    let walk = report.walk.as_ref().map(|walk| WalkReport { walk, memory });
    let findings = memory.map(findings).unwrap_or_default().into_iter();
    let tables = walk.map(|walk| TableBlock::new("", table(walk)));
    Blocks {
        findings: findings.map(Conclusion::from).collect(),
        chart: Box::new(move |width| walk.map_or_else(String::new, |walk| drawing(walk, width))),
        tables: tables.into_iter().collect(),
    }
}

/// A walk, and the memory that it leads to; `None` if only the address was given.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WalkReport<'a> {
    walk: &'a Walk,
    memory: Option<&'a MemoryRange>,
}

/// The tables that the walk goes through, and the size of the page that it ends at.
fn used(report: WalkReport<'_>) -> (usize, u64) {
    let base_bytes = report.walk.scheme.page_bytes();
    let page_bytes = report.memory.and_then(MemoryRange::huge_page);
    let page_bytes = page_bytes.unwrap_or(base_bytes);
    let mut levels = report.walk.levels.iter();
    let last = levels.position(|level| level.covers() == page_bytes);
    let all = report.walk.levels.len();
    last.map_or((all, base_bytes), |at| (at + 1, page_bytes))
}

/// A part of the address, and what it selects.
struct AddressPart {
    fill: Colour,
    /// Two lines.
    part: [String; 2],
    /// Three lines on a table or on memory; `None` for a part of the offset that another part
    /// belongs to.
    selects: Option<(Colour, [String; 3])>,
}

/// The parts of the address, the highest bits first.
fn parts(report: WalkReport<'_>) -> Vec<AddressPart> {
    let walk = report.walk;
    let (tables, page_bytes) = used(report);
    let levels = walk.levels.iter().enumerate().map(|(at, level)| {
        let is_used = at < tables;
        let last_bit = level.lowest_bit + level.bits - 1;
        let name = if is_used {
            format!("{} {}", level.name, level.index)
        } else {
            "offset".to_owned()
        };
        let selects = [
            level.name.to_owned(),
            format!("entry {} of {}", level.index, level.entries),
            format!("covers {}", size::format(level.covers())),
        ];
        AddressPart {
            fill: if is_used { USED } else { UNUSED },
            part: [name, format!("bits {last_bit} to {}", level.lowest_bit)],
            selects: is_used.then_some((USED, selects)),
        }
    });
    let memory = [
        "memory".to_owned(),
        format!("page of {}", size::format(page_bytes)),
        format!("byte {}", walk.address & (page_bytes - 1)),
    ];
    let offset = AddressPart {
        fill: UNUSED,
        part: [
            "offset".to_owned(),
            format!("bits {} to 0", walk.scheme.page_bits - 1),
        ],
        selects: Some((END, memory)),
    };
    levels.chain([offset]).collect()
}

/// Draws the walk: side by side, or on a narrow card one below the other.
fn drawing(report: WalkReport<'_>, width: i32) -> String {
    let walk = report.walk;
    let page_bytes = used(report).1;
    let ends = if page_bytes > walk.scheme.page_bytes() {
        format!(
            "it ends one table early, at a huge page of {}",
            size::format(page_bytes)
        )
    } else {
        format!("it ends at a page of {}", size::format(page_bytes))
    };
    let title = format!("The walk to address {:#018x}", walk.address);
    let mut svg = Svg::new(&title, &[format!("{}; {ends}", walk.scheme)], width);
    svg.y += 10;
    let parts = parts(report);
    if svg.is_narrow() {
        draw_rows(&mut svg, &parts);
    } else {
        draw_columns(&mut svg, &parts);
    }
    let line = "Each index selects an entry of one table, which leads to the next table.";
    svg.y += 8;
    svg.note(line);
    svg.finish()
}

/// The parts of the address side by side, and below each what it selects.
fn draw_columns(svg: &mut Svg, parts: &[AddressPart]) {
    let columns = length(parts.len());
    let width = (svg.room() - (columns - 1) * GAP) / columns;
    let top = svg.y;
    let below = top + PART + ARROW;
    // What the whole offset selects begins below its first part.
    let mut from = MARGIN;
    for (at, part) in parts.iter().enumerate() {
        let x = MARGIN + length(at) * (width + GAP);
        draw_box(svg, (x, top), (width, PART), part.fill, &part.part);
        if let Some((fill, lines)) = &part.selects {
            arrow(svg, (x + width / 2, top + PART), below);
            draw_box(svg, (from, below), (x + width - from, TABLE), *fill, lines);
            from = x + width + GAP;
        }
    }
    svg.y = below + TABLE;
}

/// The parts of the address one below the other, and beside each what it selects.
fn draw_rows(svg: &mut Svg, parts: &[AddressPart]) {
    let width = (svg.room() - ARROW) / 2;
    let right = MARGIN + width + ARROW;
    let mut from = svg.y;
    for part in parts {
        let y = svg.y;
        draw_box(svg, (MARGIN, y), (width, TABLE), part.fill, &part.part);
        if let Some((fill, lines)) = &part.selects {
            let middle = y + TABLE / 2;
            let (start, end) = (MARGIN + width + 4, right - 4);
            svg.line((start, middle), (end, middle), INK);
            svg.polyline(
                &[(end - 6, middle - 4), (end, middle), (end - 6, middle + 4)],
                INK,
                1,
            );
            draw_box(svg, (right, from), (width, y + TABLE - from), *fill, lines);
            from = y + TABLE + GAP;
        }
        svg.y += TABLE + GAP;
    }
}

fn draw_box(svg: &mut Svg, (x, y): (i32, i32), size: (i32, i32), fill: Colour, lines: &[String]) {
    svg.rectangle(x..x + size.0, y..y + size.1, fill);
    let step = size.1 / (length(lines.len()) + 1);
    for (at, line) in lines.iter().enumerate() {
        let place = (x + size.0 / 2, y + step * (length(at) + 1));
        let size = if at == 0 { TEXT } else { SMALL };
        svg.text(line, place, Anchor::Middle, size, CARD);
    }
}

fn arrow(svg: &mut Svg, (x, from): (i32, i32), to: i32) {
    svg.line((x, from + 4), (x, to - 4), INK);
    svg.polyline(&[(x - 4, to - 10), (x, to - 4), (x + 4, to - 10)], INK, 1);
}

/// The same as a table.
fn table(report: WalkReport<'_>) -> Table {
    let (tables, page_bytes) = used(report);
    let mut table = Table::new([
        Column::left("table"),
        Column::left("bits of the address"),
        Column::right("entry"),
        Column::right("entries"),
        Column::right("an entry covers"),
    ]);
    let row = |level: &WalkLevel| {
        [
            level.name.to_owned(),
            format!(
                "{} to {}",
                level.lowest_bit + level.bits - 1,
                level.lowest_bit
            ),
            level.index.to_string(),
            level.entries.to_string(),
            size::format(level.covers()),
        ]
    };
    for level in &report.walk.levels[..tables] {
        table.row(row(level));
    }
    let offset = report.walk.address & (page_bytes - 1);
    table.row_with_text(
        ["page"],
        format!("byte {offset} of {}", size::format(page_bytes)),
    );
    table
}
