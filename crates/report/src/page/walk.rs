//! The page-table walk of a buffer as a picture: the parts of the address, and below each
//! the table whose entry it selects.

use pipespeed_base::size;
use pipespeed_explain::pages::{Level, Report};

use super::super::chart::svg::{
    Anchor, CARD, Colour, INK, MARGIN, MUTED, SMALL, Svg, TEXT, WIDTH, length,
};
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

/// The tables that the walk goes through, and the size of the page that it ends at.
fn used(report: &Report) -> (usize, u64) {
    let base_bytes = report.walk.scheme.page_bytes();
    let memory = report.memory.as_ref();
    let page_bytes = memory.and_then(|memory| memory.huge_page());
    let page_bytes = page_bytes.unwrap_or(base_bytes);
    let mut levels = report.walk.levels.iter();
    let last = levels.position(|level| level.covers() == page_bytes);
    let all = report.walk.levels.len();
    last.map_or((all, base_bytes), |at| (at + 1, page_bytes))
}

/// Whether the page at the address is certainly a huge one.
pub(super) fn is_huge(report: &Report) -> bool {
    used(report).1 > report.walk.scheme.page_bytes()
}

/// Draws the walk.
pub(super) fn drawing(report: &Report) -> String {
    let walk = &report.walk;
    let (tables, page_bytes) = used(report);
    let ends = if page_bytes > walk.scheme.page_bytes() {
        format!(
            "it ends one table early, at a huge page of {}",
            size::format(page_bytes)
        )
    } else {
        format!("it ends at a page of {}", size::format(page_bytes))
    };
    let title = format!("The walk to address {:#018x}", walk.address);
    let mut svg = Svg::new(&title, &[format!("{}; {ends}", walk.scheme)]);
    svg.y += 10;
    let columns = length(walk.levels.len() + 1);
    let width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns;
    let top = svg.y;
    let below = top + PART + ARROW;
    let x = |at: usize| MARGIN + length(at) * (width + GAP);
    for (at, level) in walk.levels.iter().enumerate() {
        let is_used = at < tables;
        let fill = if is_used { USED } else { UNUSED };
        let name = if is_used {
            format!("{} {}", level.name, level.index)
        } else {
            "offset".to_owned()
        };
        let bits = format!(
            "bits {} to {}",
            level.lowest_bit + level.bits - 1,
            level.lowest_bit
        );
        draw_box(&mut svg, (x(at), top), (width, PART), fill, &[&name, &bits]);
        if is_used {
            arrow(&mut svg, (x(at) + width / 2, top + PART), below);
            let entry = format!("entry {} of {}", level.index, level.entries);
            let covers = format!("covers {}", size::format(level.covers()));
            let lines: [&str; 3] = [level.name, &entry, &covers];
            draw_box(&mut svg, (x(at), below), (width, TABLE), fill, &lines);
        }
    }
    let last = walk.levels.len();
    let offset = walk.address & (page_bytes - 1);
    let bits = format!("bits {} to 0", walk.scheme.page_bits - 1);
    draw_box(
        &mut svg,
        (x(last), top),
        (width, PART),
        UNUSED,
        &["offset", &bits],
    );
    arrow(&mut svg, (x(last) + width / 2, top + PART), below);
    let page = format!("page of {}", size::format(page_bytes));
    let byte = format!("byte {offset}");
    draw_box(
        &mut svg,
        (x(tables), below),
        (x(last) + width - x(tables), TABLE),
        END,
        &["memory", &page, &byte],
    );
    let line = "Each index selects an entry of one table, which leads to the next table.";
    svg.y = below + TABLE;
    svg.text(line, (MARGIN, svg.y + 16), Anchor::Start, SMALL, MUTED);
    svg.y += 26;
    svg.finish()
}

fn draw_box(svg: &mut Svg, (x, y): (i32, i32), size: (i32, i32), fill: Colour, lines: &[&str]) {
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
pub(super) fn table(report: &Report) -> Table {
    let (tables, page_bytes) = used(report);
    let mut table = Table::new([
        Column::left("table"),
        Column::left("bits of the address"),
        Column::right("entry"),
        Column::right("entries"),
        Column::right("an entry covers"),
    ]);
    let row = |level: &Level| {
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
