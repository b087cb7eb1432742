//! The suite memory: rates by the size of the block, with a column for each way to access
//! it, and the ladder's rungs.

use itertools::Itertools as _;
use pipespeed_base::Named;
use pipespeed_base::size;
use pipespeed_host::{Cache, CacheKind};
use pipespeed_measure::record::{CaseResult, Estimate, Run, Verdict};
use pipespeed_measure::spec::{Act, DataUse, PageKind};

use super::blocks::TableBlock;
use super::cases::{cases, comparisons, level, not_measured};
use super::channels::{position, size_ticks};
use super::chart::lines::{LineChart, LineSeries, Panel};
use super::chart::palette;
use super::chart::svg::MUTED;
use super::conditions::{self, marks_of_run, rounds_of_points, subtitle};
use super::findings::is_below;
use super::format::{grouped, interval, ratio, significant, times};
use super::steps::{cases_without_twin, fastest, measured, step};
use super::table::{Column, Table};

/// The size of a case's block, in bytes.
fn block(case: &CaseResult) -> usize {
    case.configuration.buffer_bytes
}

/// The memory that a case accesses, in bytes: two blocks for a copy.
fn footprint(case: &CaseResult) -> usize {
    let blocks = case.configuration.act.map_or(1, Act::blocks);
    block(case).saturating_mul(blocks)
}

/// The cases of one way to access a block, without the null control's twin.
fn of_way(run: &Run, way: Act) -> impl Iterator<Item = &CaseResult> {
    cases_without_twin(run).filter(move |case| case.configuration.act == Some(way))
}

/// The ladder's rungs, without the null control's twin.
fn rungs(run: &Run) -> impl Iterator<Item = &CaseResult> {
    cases_without_twin(run).filter(|case| case.configuration.act.is_none())
}

/// The data caches, the innermost first, with their sizes in bytes.
fn caches(run: &Run) -> Vec<(&Cache, u64)> {
    let all = run.header.machine.processors.caches.iter();
    all.filter(|cache| cache.kind != CacheKind::Instruction)
        .filter_map(|cache| Some((cache, cache.bytes?)))
        .sorted_by_key(|(cache, _)| cache.level)
        .collect()
}

/// `L2 1MiB`.
fn cache_name((cache, bytes): (&Cache, u64)) -> String {
    format!("L{} {}", cache.level, size::format(bytes))
}

/// The innermost cache of at least this size: `L2`, or `memory` if all are smaller; empty
/// if the machine's caches are unknown.
fn place(run: &Run, bytes: usize) -> String {
    let caches = caches(run);
    let holds = |(_, size): &&(&Cache, u64)| *size >= bytes as u64;
    match caches.iter().find(holds) {
        Some((cache, _)) => format!("L{}", cache.level),
        None if caches.is_empty() => String::new(),
        None => "memory".to_owned(),
    }
}

/// The cases of all ways.
fn all_ways(run: &Run) -> impl Iterator<Item = &CaseResult> {
    Act::values().flat_map(|way| of_way(run, way))
}

/// The tables: the rates of memory, and the ladder.
pub(super) fn tables(run: &Run) -> Vec<TableBlock> {
    let of_memory = "One process accessing a block of memory, GiB/s by the size of the block";
    let ladder = cases(run, rungs(run)).table;
    vec![
        TableBlock::headed(of_memory, table(run, &sizes(run))),
        TableBlock::headed("The ladder in the same rounds", ladder),
        comparisons(run),
    ]
}

/// The sizes of the blocks, the smallest first.
fn sizes(run: &Run) -> Vec<usize> {
    all_ways(run).map(block).sorted().dedup().collect()
}

fn table(run: &Run, sizes: &[usize]) -> Table {
    let mut ways = Act::VALUES.to_vec();
    ways.retain(|way| of_way(run, *way).next().is_some());
    let mut columns = vec![Column::right("block"), Column::left("in")];
    for &way in &ways {
        columns.push(Column::right(way.title().replacen(' ', "\n", 1)));
        columns.push(Column::left(level(run)).optional(1));
    }
    let mut table = Table::new(columns);
    for &bytes in sizes {
        let mut row = vec![size::format(bytes as u64), places(run, &ways, bytes)];
        for &way in &ways {
            let case = of_way(run, way).find(|case| block(case) == bytes);
            let rate = case.and_then(measured).map(|(_, rate)| rate);
            row.push(rate.map_or_else(|| "-".to_owned(), |rate| significant(rate.median)));
            row.push(rate.map_or_else(String::new, |rate| interval(rate.interval)));
        }
        table.row(row);
    }
    table
}

/// The cache that holds blocks of a size: `L2`, or `L2, copy L3` where the two
/// blocks of a copy do not fit.
fn places(run: &Run, ways: &[Act], bytes: usize) -> String {
    let places = ways
        .iter()
        .map(|&way| (way.title(), place(run, bytes.saturating_mul(way.blocks()))));
    let one = place(run, bytes);
    let further = places.filter(|(_, place)| *place != one);
    let further = further.map(|(title, place)| format!(", {title} {place}"));
    format!("{one}{}", further.format(""))
}

/// The cases without a figure, by reason.
fn missing(run: &Run) -> Vec<String> {
    let unmeasured = all_ways(run).filter(|case| case.summary.is_none());
    let reasons = unmeasured.map(|case| (not_measured(case.not_run.as_ref()), &*case.name));
    let lines = grouped(reasons)
        .into_iter()
        .map(|(reason, names)| format!("Not measured: {}: {reason}", names.join(", ")));
    lines.collect()
}

/// Notes on the method, with the caches and the meaning of the columns.
pub(super) fn method(run: &Run) -> Vec<String> {
    let caches = caches(run).into_iter().map(cache_name).join(", ");
    let caches = if caches.is_empty() {
        "unknown on this machine"
    } else {
        &caches
    };
    let pages = all_ways(run).next().map(|case| case.configuration.pages);
    let pages = pages.unwrap_or(PageKind::Base);
    let mut notes = conditions::method(run);
    notes.insert(1, format!("Caches: {caches}. Blocks in {pages} pages."));
    notes.push(
        "Read: every byte by wide loads; write: memset; copy: memcpy to a second block, in bytes \
         copied, so that a copy exceeds a cache from half its size on; scalar: 8 bytes at a time."
            .to_owned(),
    );
    notes
}

/// Conclusions that the intervals support, even if each is wrong by the null control's
/// tolerance.
pub(super) fn findings(run: &Run) -> Vec<String> {
    let fastest = fastest(rungs(run).filter_map(measured));
    let is_other =
        |rung: &&CaseResult| fastest.is_some_and(|(fastest, _)| fastest.name != rung.name);
    let plain = rungs(run).next().filter(is_other);
    let against = |rung, what| against_the_copy(run, rung, what);
    let sentences = [
        fastest.and_then(|(rung, _)| against(rung, "the fastest rung")),
        fastest.and_then(|fastest| beyond_memory(run, fastest)),
        plain.and_then(|rung| against(rung, "a plain pipe")),
        through_the_caches(run),
        scalar(run),
    ];
    sentences
        .into_iter()
        .flatten()
        .chain(missing(run))
        .collect()
}

/// Compares a rung with a copy in memory.
fn against_the_copy(run: &Run, rung: &CaseResult, what: &str) -> Option<String> {
    let step = step(rung)?;
    let copy = run.case(step.base)?;
    let verb = match step.ratio.verdict {
        Verdict::Faster => "is faster than",
        Verdict::Slower => "is slower than",
        Verdict::Same => "is as fast as",
        Verdict::Undecided => return None,
    };
    let ratio = ratio(step.ratio.estimate);
    let (name, block) = (&rung.name, within(run, copy));
    let sentence = format!("{name}, {what}, {verb} memcpy of {block}: {ratio}");
    // A reader that discards the data does less than a copy.
    let unseen = rung.data == DataUse::Discard && step.ratio.verdict != Verdict::Slower;
    Some(if unseen {
        format!("{sentence}; it does not touch the data.")
    } else {
        format!("{sentence}.")
    })
}

/// Whether a pipe moves more than the processor can read from memory.
fn beyond_memory(run: &Run, (rung, rate): (&CaseResult, &Estimate)) -> Option<String> {
    let (case, memory) = of_way(run, Act::Read).filter_map(measured).last()?;
    let largest = caches(run).into_iter().map(|(_, bytes)| bytes).max()?;
    (block(case) as u64 > largest && is_below(memory, rate, run.null_tolerance())).then(|| {
        format!(
            "{} moves more ({} GiB/s) than one processor reads from memory ({} GiB/s, blocks of {}).",
            rung.name,
            significant(rate.median),
            significant(memory.median),
            size::format(block(case) as u64)
        )
    })
}

/// The change of the rates from the smallest block to the largest.
fn through_the_caches(run: &Run) -> Option<String> {
    let tolerance = run.null_tolerance();
    let shown = |case, rate: &Estimate| (significant(rate.median), within(run, case));
    let fall = |way: Act| {
        let mut cases = of_way(run, way).filter_map(measured);
        let ((first, near), (last, far)) = (cases.next()?, cases.last()?);
        let ((near_rate, near_place), (far_rate, far_place)) =
            (shown(first, near), shown(last, far));
        let title = way.title();
        is_below(far, near, tolerance).then(|| {
            format!("{title} from {near_rate} GiB/s ({near_place}) to {far_rate} ({far_place})")
        })
    };
    let falls = [Act::Read, Act::Write, Act::Copy]
        .into_iter()
        .filter_map(fall)
        .join("; ");
    (!falls.is_empty()).then(|| format!("Rates fall with the size of the block: {falls}."))
}

/// The effect of access word by word, in the smallest and the largest block.
fn scalar(run: &Run) -> Option<String> {
    let tolerance = run.null_tolerance();
    let costs = |(name, scalar, wide): (&str, Act, Act)| {
        let pairs = of_way(run, scalar).filter_map(|case| {
            let (_, slow) = measured(case)?;
            let fast = of_way(run, wide).find(|other| block(other) == block(case))?;
            Some((case, slow, measured(fast)?.1))
        });
        let pairs: Vec<_> = pairs.collect();
        let ends = [pairs.first(), pairs.last().filter(|_| pairs.len() > 1)];
        let ends = ends
            .into_iter()
            .flatten()
            .filter(|(_, slow, fast)| {
                is_below(slow, fast, tolerance) || is_below(fast, slow, tolerance)
            })
            .map(|(case, slow, fast)| {
                let share = times(slow.median / fast.median);
                format!("{share} ({})", within(run, case))
            })
            .join(" and ");
        (!ends.is_empty()).then(|| format!("{name} {ends}"))
    };
    let ways = [
        ("reading", Act::ReadScalar, Act::Read),
        ("writing", Act::WriteScalar, Act::Write),
    ];
    let costs = ways.into_iter().filter_map(costs).join(", ");
    (!costs.is_empty())
        .then(|| format!("8 bytes at a time instead of wide loads and stores: {costs}."))
}

/// The block, and the cache that holds it, or both blocks of a copy: `256KiB, L2`.
fn within(run: &Run, case: &CaseResult) -> String {
    let bytes = size::format(block(case) as u64);
    match place(run, footprint(case)) {
        place if place.is_empty() => bytes,
        place => format!("{bytes}, {place}"),
    }
}

/// The rates by the size of the block, with the sizes of the caches as vertical lines and
/// the ladder's rungs as horizontal ones.
pub(super) fn chart(run: &Run, width: i32) -> String {
    let mut below_title = subtitle(run);
    below_title.push(
        "one process accessing a block; copy: bytes copied, in twice the block; dashed: the \
         ladder's rungs, intervals at the right"
            .to_owned(),
    );
    let line = |(at, &way): (usize, &Act)| LineSeries {
        name: way.title().to_owned(),
        colour: palette::LINES[(at + 1) % palette::LINES.len()],
        mark: Some(at),
        points: of_way(run, way)
            .filter_map(measured)
            .map(|(case, rate)| (position(block(case)), *rate))
            .collect(),
    };
    let lines = Act::VALUES.iter().enumerate().map(line);
    let marker = |(cache, bytes)| (position(bytes as usize), cache_name((cache, bytes)));
    let rung = |(rung, rate): (&CaseResult, &Estimate)| LineSeries {
        name: match rung.data {
            DataUse::Discard => format!("{} ({})", rung.name, rung.data.outcome()),
            _ => rung.name.clone(),
        },
        colour: MUTED,
        mark: None,
        points: vec![(0.0, *rate)],
    };
    let lines = lines.filter(|line| !line.points.is_empty());
    let panel = Panel {
        title: String::new(),
        lines: rungs(run)
            .filter_map(measured)
            .map(rung)
            .chain(lines)
            .collect(),
        markers: caches(run).into_iter().map(marker).collect(),
    };
    let chart = LineChart {
        title: "pipespeed: memory by the size of the block, and the ladder",
        subtitle: below_title,
        panels: vec![panel],
        height: 440,
        ticks: size_ticks(&sizes(run)),
        x_label: "size of the block",
        y_unit: "GiB/s",
        repeated: rounds_of_points(run),
        width,
    };
    chart.draw(&marks_of_run(run))
}

#[cfg(test)]
mod tests;
