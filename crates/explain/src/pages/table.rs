//! The pages of a range as text of at most 80 columns.

use itertools::Itertools;

use super::record::{Huge, HugePageSource, MemoryMapping, MemoryRange, Page, PageState};
use pipespeed_base::size;
use pipespeed_base::text::pluralize;
use pipespeed_host::process_memory::PageFlags;

/// More pages than this are grouped into runs of similar ones.
const MAX_SINGLE_PAGES: usize = 32;
/// At most this many rows are shown.
const MAX_ROWS: usize = 64;

/// A table of the pages, and conclusions.
pub fn table(memory: &MemoryRange) -> String {
    let grouped = memory.pages.len() > MAX_SINGLE_PAGES;
    let groups = memory.pages.chunk_by(|a, b| grouped && alike(a, b));
    let mut kinds: Vec<PageFlags> = Vec::new();
    let mut rows = vec![(
        "page".to_owned(),
        "virtual address     state    frame       follows  huge page  flags".to_owned(),
    )];
    let mut first = 0;
    let mut hidden_rows = 0;
    for pages in groups {
        let number = match pages.len() {
            1 => first.to_string(),
            count => format!("{first}-{}", first + count - 1),
        };
        first += pages.len();
        if rows.len() <= MAX_ROWS {
            rows.push((number, row(pages, &mut kinds)));
        } else {
            hidden_rows += 1;
        }
    }
    let widths = rows.iter().map(|(number, _)| number.len());
    let width = widths.max().unwrap_or(0);
    let rows = rows.iter();
    let mut text = rows
        .map(|(number, row)| format!("{number:>width$} {row}\n"))
        .join("");
    if hidden_rows > 0 {
        text += &format!("and {hidden_rows} more rows: --json has every page\n");
    }
    for (i, flags) in kinds.iter().enumerate() {
        let line = format!("flags {}: {}", i + 1, flags.names().join(" "));
        text += &paragraph(&line, "         ");
    }
    text.push('\n');
    for line in findings(memory) {
        text += &paragraph(&line, "  ");
    }
    text
}

/// Whether two pages belong to the same run.
fn alike(a: &Page, b: &Page) -> bool {
    let contiguous = b.follows.is_none_or(|follows| follows);
    a.state == b.state && contiguous && a.huge == b.huge && a.flags.map(kind) == b.flags.map(kind)
}

/// The flags without those that distinguish the head of a compound page from its tail.
fn kind(flags: PageFlags) -> PageFlags {
    PageFlags(flags.0 & !(1 << 15 | 1 << 16))
}

fn row(pages: &[Page], kinds: &mut Vec<PageFlags>) -> String {
    let page = &pages[0];
    let frame = page.frame.map(|frame| format!("{frame:#x}"));
    let follows = page
        .follows
        .map(|follows| if follows { "yes" } else { "no" });
    let flags = page.flags.map(|flags| {
        let flags = if pages.len() > 1 { kind(flags) } else { flags };
        let known = kinds.iter().position(|known| *known == flags);
        let index = known.unwrap_or_else(|| {
            kinds.push(flags);
            kinds.len() - 1
        });
        (index + 1).to_string()
    });
    format!(
        "{:#018x}  {:<8} {:<10}  {:<7}  {:<9}  {}",
        page.address,
        page.state,
        frame.as_deref().unwrap_or("-"),
        follows.unwrap_or("-"),
        huge(page.huge, page.state),
        flags.as_deref().unwrap_or("-"),
    )
}

fn huge(huge: Huge, state: PageState) -> String {
    match (huge.backed, huge.compound_bytes) {
        (Some(true), _) if huge.reserved => "reserved".to_owned(),
        (Some(true), _) => "yes".to_owned(),
        // Several base pages that the kernel handles as one.
        (Some(false), Some(bytes)) => format!("no, {}", size::format(bytes)),
        (Some(false), None) => "no".to_owned(),
        (None, _) if matches!(state, PageState::Present | PageState::Unknown) => "?".to_owned(),
        (None, _) => "-".to_owned(),
    }
}

/// Conclusions in sentences, as [`table`] has them.
pub fn findings(memory: &MemoryRange) -> Vec<String> {
    let mut lines = vec![contiguity(memory)];
    lines.extend(zeroes(memory));
    lines.extend(how_huge_is_known(memory));
    lines.extend(memory.mappings.iter().take(8).map(mapping));
    if memory.mappings.len() > 8 {
        lines.push(format!("and {} more mappings", memory.mappings.len() - 8));
    }
    lines.extend(memory.hidden.iter().map(ToString::to_string));
    lines
}

fn contiguity(memory: &MemoryRange) -> String {
    let count = memory.pages.len();
    let pages = pluralize(count, "page");
    let all = |holds: fn(&Page) -> bool| memory.pages.iter().all(holds);
    let present = memory
        .pages
        .iter()
        .filter(|p| p.state == PageState::Present);
    let present = present.count();
    let there = match present {
        0 if all(|page| page.state == PageState::Unknown) => {
            return format!("{pages}; whether they are in memory is not shown.");
        }
        0 => return format!("{pages}, none in memory: the first access to each faults."),
        _ if present == count => format!("{pages}, in memory"),
        _ => format!("{pages}, {present} of them in memory"),
    };
    let how = match memory.runs {
        _ if present == 1 => ".".to_owned(),
        None => "; whether they are contiguous in physical memory is not shown.".to_owned(),
        Some(1) if all(|page| page.huge.backed == Some(true)) => {
            ": contiguous in physical memory, as a huge page is.".to_owned()
        }
        Some(1) => ": contiguous in physical memory, which is not guaranteed.".to_owned(),
        Some(runs) => {
            let split = format!(": not contiguous in physical memory, but in {runs} pieces");
            let addresses = ", though their addresses follow one another.";
            split + if present < count { "." } else { addresses }
        }
    };
    there + &how
}

/// Explains pages that the sums of the mapping do not count.
fn zeroes(memory: &MemoryRange) -> Option<String> {
    let pages = memory.pages.iter().filter_map(|page| page.flags);
    let count = pages.filter(|flags| flags.is_zero_page()).count();
    (count > 0).then(|| {
        format!(
            "{} never written, but read: the kernel's zero page, which does not count as memory of \
             the mapping.",
            pluralize(count, "page")
        )
    })
}

fn how_huge_is_known(memory: &MemoryRange) -> Option<String> {
    let any = |holds: &dyn Fn(&Page) -> bool| memory.pages.iter().any(holds);
    let line = if any(&|page| page.huge.shown_by == Some(HugePageSource::Kpageflags)) {
        let mut mappings = memory.mappings.iter();
        let split = mappings.any(|mapping| mapping.huge_bytes < mapping.resident_bytes);
        if split && any(&|page| page.huge.backed == Some(true)) {
            "Huge pages are known from /proc/kpageflags, frame by frame. According to smaps, not all \
             of them are mapped by huge entries: for the others the walk continues to base pages."
        } else {
            "Huge pages are known from /proc/kpageflags, frame by frame."
        }
    } else if any(&|page| page.huge.shown_by == Some(HugePageSource::Smaps)) {
        "Huge pages are known from smaps, for the mapping as a whole."
    } else if any(&|page| page.state == PageState::Present) {
        "Only part of the mapping is in huge pages; which part is not shown."
    } else {
        return None;
    };
    Some(line.to_owned())
}

fn mapping(mapping: &MemoryMapping) -> String {
    let name = match &*mapping.name {
        "" => "anonymous",
        name => name,
    };
    let (start, end, permissions) = (mapping.start, mapping.end, &mapping.permissions);
    let line = format!("Mapping {start:#x}-{end:#x} {permissions} {name}");
    let (Some(resident), Some(huge)) = (mapping.resident_bytes, mapping.huge_bytes) else {
        return line;
    };
    let size = size::format(end - start);
    if resident == 0 {
        return format!("{line}: {size}, none of it in memory");
    }
    let huge = match huge {
        0 => "none of it".to_owned(),
        all if all == resident => "all of it".to_owned(),
        some => format!("{} of it", size::format(some)),
    };
    let resident = size::format(resident);
    format!("{line}: {size}, {resident} in memory, {huge} mapped as huge pages (smaps)")
}

fn paragraph(line: &str, indent: &str) -> String {
    pipespeed_base::text::wrap(line, 80, indent) + "\n"
}

#[cfg(test)]
mod tests;
