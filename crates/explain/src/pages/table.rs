//! The pages of a range, as text of at most 80 columns.

use std::fmt::Write;

use fastpipe::memory::PageFlags;

use super::record::{Huge, Mapping, Memory, Page, State};
use pipespeed_base::size;
use pipespeed_base::text::pluralize;

/// More pages than these are shown in runs of like ones.
const SINGLY: usize = 32;
/// More rows than these are left to the JSON.
const ROWS: usize = 64;

/// A table of the pages, and what follows from it.
pub fn table(memory: &Memory) -> String {
    let mut text = String::new();
    let groups = groups(&memory.pages);
    let mut kinds: Vec<PageFlags> = Vec::new();
    let shown = groups.iter().take(ROWS);
    let numbers: Vec<String> = shown.clone().map(Group::number).collect();
    let width = numbers.iter().map(String::len).max().unwrap_or(0).max(4);
    // Writing to a String can't fail.
    let _ = writeln!(
        text,
        "{:>width$} virtual address     state    frame       follows  huge page  flags",
        "page"
    );
    for (group, number) in shown.zip(numbers) {
        let _ = writeln!(text, "{number:>width$} {}", row(group, &mut kinds));
    }
    if groups.len() > ROWS {
        let _ = writeln!(
            text,
            "and {} more rows: --json has every page",
            groups.len() - ROWS
        );
    }
    for (i, flags) in kinds.iter().enumerate() {
        let names: Vec<&str> = flags.names().collect();
        let line = format!("flags {}: {}", i + 1, names.join(" "));
        text += &paragraph(&line, "         ");
    }
    text.push('\n');
    for line in findings(memory) {
        text += &paragraph(&line, "  ");
    }
    text
}

/// Pages that are shown in one row.
struct Group<'a> {
    first: usize,
    pages: &'a [Page],
}

impl Group<'_> {
    /// The pages' numbers, counted from 0.
    fn number(&self) -> String {
        match self.pages.len() {
            1 => self.first.to_string(),
            many => format!("{}-{}", self.first, self.first + many - 1),
        }
    }
}

fn groups(pages: &[Page]) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    let mut first = 0;
    for pages in pages.chunk_by(|a, b| pages.len() > SINGLY && alike(a, b)) {
        groups.push(Group { first, pages });
        first += pages.len();
    }
    groups
}

/// A compound page's head and tails are alike.
fn alike(a: &Page, b: &Page) -> bool {
    let (a_flags, b_flags) = (a.flags.map(kind), b.flags.map(kind));
    let contiguous = b.follows.is_none_or(|follows| follows);
    a.state == b.state && contiguous && a.huge == b.huge && a_flags == b_flags
}

/// The flags without those that tell apart the parts of a compound page.
fn kind(flags: PageFlags) -> PageFlags {
    PageFlags(flags.0 & !(1 << 15 | 1 << 16))
}

fn row(group: &Group<'_>, kinds: &mut Vec<PageFlags>) -> String {
    let page = &group.pages[0];
    let frame = page
        .frame
        .map_or("-".to_owned(), |frame| format!("{frame:#x}"));
    let follows = match page.follows {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    };
    let flags = match page.flags {
        None => "-".to_owned(),
        Some(flags) => {
            let flags = match group.pages.len() {
                1 => flags,
                _ => kind(flags),
            };
            let known = kinds.iter().position(|known| *known == flags);
            let number = known.unwrap_or_else(|| {
                kinds.push(flags);
                kinds.len() - 1
            });
            (number + 1).to_string()
        }
    };
    format!(
        "{:#018x}  {:<8} {frame:<10}  {follows:<7}  {:<9}  {flags}",
        page.address,
        page.state,
        huge(page.huge, page.state),
    )
}

fn huge(huge: Huge, state: State) -> String {
    match huge.backed {
        Some(true) if huge.reserved => "reserved".to_owned(),
        Some(true) => "yes".to_owned(),
        // Several base pages that the kernel handles as one.
        Some(false) => match huge.compound_bytes {
            Some(bytes) => format!("no, {}", size::format(bytes)),
            None => "no".to_owned(),
        },
        None if matches!(state, State::Present | State::Unknown) => "?".to_owned(),
        None => "-".to_owned(),
    }
}

/// What follows from the pages, in sentences.
fn findings(memory: &Memory) -> Vec<String> {
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

fn contiguity(memory: &Memory) -> String {
    let pages = pluralize(memory.pages.len(), "page");
    let present = memory.pages.iter().filter(|p| p.state == State::Present);
    let present = present.count();
    let there = match present {
        0 if memory.pages.iter().all(|p| p.state == State::Unknown) => {
            return format!("{pages}; whether in memory is not shown.");
        }
        0 => return format!("{pages}, none in memory: the first use of each brings it there."),
        all if all == memory.pages.len() => format!("{pages}, in memory"),
        some => format!("{pages}, {some} of them in memory"),
    };
    match memory.runs {
        _ if present == 1 => format!("{there}."),
        Some(1)
            if memory
                .pages
                .iter()
                .all(|page| page.huge.backed == Some(true)) =>
        {
            format!("{there}: contiguous in physical memory, as a huge page is.")
        }
        Some(1) => format!("{there}: contiguous in physical memory, though nothing promises it."),
        // With gaps between them not even the addresses do.
        Some(runs) if present < memory.pages.len() => {
            format!("{there}: not contiguous in physical memory, but in {runs} pieces.")
        }
        Some(runs) => format!(
            "{there}: not contiguous in physical memory, but in {runs} pieces, though their \
             addresses follow one another."
        ),
        None => format!("{there}; whether contiguous in physical memory is not shown."),
    }
}

/// Else these pages would seem to contradict the sums of the mapping.
fn zeroes(memory: &Memory) -> Option<String> {
    let zero = |page: &&Page| page.flags.is_some_and(PageFlags::is_zero_page);
    match memory.pages.iter().filter(zero).count() {
        0 => None,
        count => Some(format!(
            "{} read before anything was written: the kernel's page of zeroes, which counts as no \
             memory of the mapping.",
            pluralize(count, "page")
        )),
    }
}

fn how_huge_is_known(memory: &Memory) -> Option<String> {
    let shown_by = |file| {
        let mut pages = memory.pages.iter();
        pages.any(|page| page.huge.shown_by == Some(file))
    };
    if shown_by("kpageflags") {
        let mut line = "Huge or not is known from /proc/kpageflags, frame by frame.".to_owned();
        let mut mappings = memory.mappings.iter();
        let split = mappings.any(|mapping| mapping.huge_bytes < mapping.resident_bytes);
        let mut pages = memory.pages.iter();
        if split && pages.any(|page| page.huge.backed == Some(true)) {
            line += " By smaps not all of it is mapped by huge entries: where it is not, the walk \
                     goes on to base pages.";
        }
        Some(line)
    } else if shown_by("smaps") {
        Some("Huge or not is known from smaps, for the mapping as a whole.".to_owned())
    } else if memory.pages.iter().any(|page| page.state == State::Present) {
        Some("Only a part of the mapping is in huge pages; which part is not shown.".to_owned())
    } else {
        None
    }
}

fn mapping(mapping: &Mapping) -> String {
    let name = match &*mapping.name {
        "" => "anonymous",
        name => name,
    };
    let mut line = format!(
        "Mapping {:#x}-{:#x} {} {name}",
        mapping.start, mapping.end, mapping.permissions
    );
    if let (Some(resident), Some(huge)) = (mapping.resident_bytes, mapping.huge_bytes) {
        let huge = match huge {
            0 => "none of it".to_owned(),
            all if all == resident => "all of it".to_owned(),
            some => format!("{} of it", size::format(some)),
        };
        line += &match resident {
            0 => format!(
                ": {}, none of it in memory",
                size::format(mapping.end - mapping.start)
            ),
            _ => format!(
                ": {}, {} in memory, {huge} mapped as huge pages (smaps)",
                size::format(mapping.end - mapping.start),
                size::format(resident)
            ),
        };
    }
    line
}

fn paragraph(line: &str, indent: &str) -> String {
    pipespeed_base::text::wrap(line, 80, indent) + "\n"
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
