//! Memory measured: a table of rates by the size of the block, a way to go over
//! it a column, and the ladder's rungs beside it.

mod findings;

use comfy_table::{CellAlignment, Table, presets};

use pipespeed_base::size;
use pipespeed_host::{Cache, CacheKind};
use pipespeed_measure::endpoint::spec::PageKind;
use pipespeed_measure::record::{CaseResult, NotRun, Run};
use pipespeed_measure::suite::memory::{ROWS, way_of};

pub(super) use self::findings::findings;

use super::comparisons::comparisons;
use super::format::{interval, percent, significant, wrap};
use super::steps::is_twin;
use super::style::{BOLD, DIM, Style, YELLOW};
use super::table::{cases, reason};

/// The size of a case's block, in bytes.
pub(super) fn block(case: &CaseResult) -> usize {
    case.configuration.buffer_bytes
}

/// The memory that a case goes over: two blocks of a copy, in bytes.
pub(super) fn footprint(case: &CaseResult) -> usize {
    block(case) * way_of(case).map_or(1, |way| ROWS[way].blocks())
}

/// The cases of one way to go over a block, by its place among the ways, less
/// the null control's twin.
pub(super) fn of_way(run: &Run, way: usize) -> impl Iterator<Item = &CaseResult> {
    run.cases
        .iter()
        .filter(move |case| way_of(case) == Some(way) && !is_twin(run, &case.name))
}

/// The ladder's rungs, less the null control's twin.
pub(super) fn rungs(run: &Run) -> impl Iterator<Item = &CaseResult> {
    run.cases
        .iter()
        .filter(|case| way_of(case).is_none() && !is_twin(run, &case.name))
}

/// The data caches, the innermost first, with their sizes in bytes.
pub(super) fn caches(run: &Run) -> Vec<(&Cache, u64)> {
    let all = run.header.machine.processors.caches.iter();
    let mut caches: Vec<(&Cache, u64)> = all
        .filter(|cache| cache.kind != CacheKind::Instruction)
        .filter_map(|cache| Some((cache, cache.bytes?)))
        .collect();
    caches.sort_by_key(|(cache, _)| cache.level);
    caches
}

/// The innermost cache that holds so many bytes: `L2`, or `memory` beyond all;
/// empty where the machine doesn't tell of caches.
pub(super) fn place(run: &Run, bytes: usize) -> String {
    let caches = caches(run);
    let holds = |(_, size): &&(&Cache, u64)| *size >= bytes as u64;
    match caches.iter().find(holds) {
        Some((cache, _)) => format!("L{}", cache.level),
        None if caches.is_empty() => String::new(),
        None => "memory".to_owned(),
    }
}

/// The tables, and what has to be known to read them.
pub(super) fn blocks(run: &Run, style: Style) -> Vec<String> {
    let heading = |text: &str| style.paint(&wrap(text, style.width(), "  "), BOLD);
    let mut blocks = Vec::new();
    let sizes = sizes(run);
    if !sizes.is_empty() {
        let text = "One process going over a block of memory, GiB/s by the size of the block";
        blocks.push(format!("{}\n{}", heading(text), table(run, &sizes, style)));
        let notes = [not_measured(run, style), explained(run, style)];
        blocks.extend(notes.into_iter().filter(|block| !block.is_empty()));
    }
    let ladder = Run {
        cases: rungs(run).cloned().collect(),
        ..run.clone()
    };
    if !ladder.cases.is_empty() {
        let text = "The ladder in the same rounds";
        blocks.push(format!("{}\n{}", heading(text), cases(&ladder, style)));
        blocks.push(comparisons(&ladder, style));
    }
    blocks
}

/// The sizes of the blocks, the smallest first.
pub(super) fn sizes(run: &Run) -> Vec<usize> {
    let mut sizes: Vec<usize> = (0..ROWS.len())
        .flat_map(|way| of_way(run, way))
        .map(block)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The table, without intervals where the terminal is too narrow for them.
fn table(run: &Run, sizes: &[usize], style: Style) -> String {
    let fits = |lines: &[String]| {
        let mut widths = lines.iter().map(|line| line.chars().count());
        widths.all(|width| width <= style.width())
    };
    let mut lines = laid(run, sizes, true);
    if !fits(&lines) {
        lines = laid(run, sizes, false);
        let note = format!(
            "(too narrow to show: {} intervals)",
            percent(run.settings.confidence)
        );
        lines.push(style.paint(&wrap(&note, style.width(), " "), DIM));
    }
    lines.join("\n")
}

fn laid(run: &Run, sizes: &[usize], with_intervals: bool) -> Vec<String> {
    let ways: Vec<usize> = (0..ROWS.len())
        .filter(|way| of_way(run, *way).next().is_some())
        .collect();
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    // A title of two words stands in two lines, so all stand on the second.
    let title = |text: &str| match text.split_once(' ') {
        Some((first, second)) => format!("{first}\n{second}"),
        None => format!("\n{text}"),
    };
    let mut header = vec!["\nblock".to_owned(), "\nin".to_owned()];
    for &way in &ways {
        header.push(title(ROWS[way].title));
        header.extend(with_intervals.then(String::new));
    }
    grid.set_header(header);
    for &bytes in sizes {
        let mut row = vec![size::format(bytes as u64), places(run, &ways, bytes)];
        for &way in &ways {
            let case = of_way(run, way).find(|case| block(case) == bytes);
            let summary = case.and_then(|case| case.summary.as_ref());
            row.push(summary.map_or_else(|| "-".to_owned(), |s| significant(s.gib_per_s.median)));
            let shown = summary.map(|s| interval(s.gib_per_s.interval));
            row.extend(with_intervals.then(|| shown.unwrap_or_default()));
        }
        grid.add_row(row);
    }
    for (index, column) in grid.column_iter_mut().enumerate() {
        let of_interval = with_intervals && index >= 2 && index % 2 == 1;
        column.set_padding((
            0,
            if with_intervals && index % 2 == 0 {
                1
            } else {
                2
            },
        ));
        if index != 1 && !of_interval {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Where blocks of a size lie: `L2`, or `L2, copy L3` where a way whose blocks
/// are two has to go further out.
fn places(run: &Run, ways: &[usize], bytes: usize) -> String {
    let one = place(run, bytes);
    let further: Vec<String> = ways
        .iter()
        .map(|&way| (&ROWS[way], place(run, bytes * ROWS[way].blocks())))
        .filter(|(_, place)| *place != one)
        .map(|(row, place)| format!(", {} {place}", row.title))
        .collect();
    one + &further.concat()
}

/// Which blocks have no figure, and why: those with the same reason together.
fn not_measured(run: &Run, style: Style) -> String {
    let mut told: Vec<(Option<&NotRun>, Vec<&str>)> = Vec::new();
    let unmeasured = (0..ROWS.len())
        .flat_map(|way| of_way(run, way))
        .filter(|case| case.summary.is_none());
    for case in unmeasured {
        let not_run = case.not_run.as_ref();
        match told.iter_mut().find(|(other, _)| *other == not_run) {
            Some((_, names)) => names.push(&case.name),
            None => told.push((not_run, vec![&case.name])),
        }
    }
    let lines = told.into_iter().map(|(not_run, names)| {
        let line = format!("{}: {}", names.join(", "), reason(not_run));
        style.paint(&wrap(&line, style.width(), "  "), YELLOW)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What the columns mean, and what the blocks lie in.
fn explained(run: &Run, style: Style) -> String {
    let caches: Vec<String> = caches(run)
        .into_iter()
        .map(|(cache, bytes)| format!("L{} {}", cache.level, size::format(bytes)))
        .collect();
    let caches = if caches.is_empty() {
        "this machine does not tell of its caches".to_owned()
    } else {
        caches.join(", ")
    };
    let pages = (0..ROWS.len()).find_map(|way| of_way(run, way).next());
    let pages = pages.map_or(PageKind::Base, |case| case.configuration.pages);
    let text = format!(
        "Caches: {caches}. Blocks in {pages} pages. Read looks at every byte by wide loads, write is \
         memset, copy is memcpy to a second block: bytes copied, each of which is read once and \
         written once, and a copy leaves a cache at half its size. Scalar: 8 bytes at a time."
    );
    style.paint(&wrap(&text, style.width(), "  "), DIM)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
