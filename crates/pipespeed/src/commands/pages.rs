//! `pipespeed pages`.

use anyhow::{Context, anyhow};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;

use crate::cli::PagesArgs;
use crate::commands::files::SavedFiles;
use crate::commands::{first_error, header, memory_suffices};
use pipespeed_base::failure::{say, usage};
use pipespeed_base::process::require_own_proc;
use pipespeed_base::text::wrap;
use pipespeed_explain::pages::{
    Half, MemoryRange, PagesRecord, PagesReport, RingRecord, Scheme, UnknownTables, Walk, drawing,
    look, machine_scheme, ring_drawing, ring_steps, table,
};
use pipespeed_host::Machine;
use pipespeed_host::process_memory::ExaminedProcess;
use pipespeed_measure::record::{Kind, RecordHeader, to_json};
use serde::Serialize;

/// Shows the pages and page tables of an address or buffer.
///
/// # Errors
/// Wrong usage, the memory can't be examined, or the record can't be saved.
pub fn run(args: &PagesArgs) -> anyhow::Result<()> {
    let files = SavedFiles::new([("--json", &args.json)])?;
    if args.pipe {
        return show_pipe(&files);
    }
    let (heading, report) = match (args.buffer, args.address) {
        (Some(bytes), _) => show_buffer(args, bytes, machine_scheme())?,
        (None, Some(address)) => match args.pid {
            Some(pid) => show_process(args, pid, address)?,
            None => decode(args, address)?,
        },
        (None, None) => return Err(usage("--address, --buffer or --pipe is required")),
    };
    let text = heading + &describe(&report);
    let record = |header| PagesRecord { header, report };
    show(&files, Kind::Pages, text, record)
}

/// The walk, if there is one, and the pages.
fn describe(report: &PagesReport) -> String {
    let huge_page = report.memory.as_ref().and_then(MemoryRange::huge_page);
    let walk = report.walk.as_ref().map(|walk| drawing(walk, huge_page));
    let pages = report.memory.as_ref().map(table);
    let parts: Vec<String> = walk.into_iter().chain(pages).collect();
    parts.join("\n")
}

/// Prints the text and saves the record.
fn show<R: Serialize>(
    files: &SavedFiles,
    kind: Kind,
    text: String,
    record: impl FnOnce(RecordHeader) -> R,
) -> anyhow::Result<()> {
    if files.use_stdout() {
        say(text.trim_end());
    }
    let shown = files.print(false, |_| text);
    let record = record(header(kind, Machine::read(None, None)));
    first_error([files.save(|_| Ok(to_json(&record))), shown])
}

/// Steps a pipe through system calls and shows its slots.
fn show_pipe(files: &SavedFiles) -> anyhow::Result<()> {
    let steps = ring_steps().context("--pipe")?;
    let heading = wrap(HOW_OBSERVED, 80, "  ") + "\n\n";
    let text = heading + &ring_drawing(&steps);
    let record = |header| RingRecord {
        header,
        page_bytes: page_size(),
        steps,
    };
    show(files, Kind::PagesOfPipe, text, record)
}

/// What of a pipe's ring is observed, and what is derived.
const HOW_OBSERVED: &str = "\
A pipe is a ring of slots, each of which refers to a part of a page. Observed on a real pipe: the \
bytes moved and unread, and the number, lengths and data of the slots (tee(2) duplicates the pipe; \
splice(2) into a pipe of one slot takes the duplicate apart). Derived by the rules of the kernel, \
since user space can't see them: head, tail, offsets and pages. Each step is checked: the derived \
slots must be the observed ones. \"own 2\" is page 2 of the memory that the call sent.";

/// Shows how an address is translated, without examining memory.
fn decode(args: &PagesArgs, address: u64) -> anyhow::Result<(String, PagesReport)> {
    let own = || machine_scheme().map_err(|unknown| usage(format!("{unknown} (see --arch)")));
    let scheme = match (args.arch, args.levels) {
        (None, None) => own()?,
        (architecture, levels) => {
            let architecture = match architecture {
                Some(architecture) => architecture,
                None => own()?.architecture,
            };
            Scheme::find(architecture, levels)
                .map_err(|error| usage(format!("{error} (see --arch)")))?
        }
    };
    let report = PagesReport {
        walk: Some(Walk::new(address, scheme)),
        memory: None,
    };
    Ok((String::new(), report))
}

/// The walk to an address, and a line that says why there is none.
fn walk_to(address: u64, scheme: Result<Scheme, UnknownTables>) -> (Option<Walk>, String) {
    match scheme {
        Ok(scheme) => (Some(Walk::new(address, scheme)), String::new()),
        Err(unknown) => {
            let line = wrap(&format!("No walk is shown: {unknown}."), 80, "  ");
            (None, line + "\n\n")
        }
    }
}

/// Allocates a buffer and shows its pages.
fn show_buffer(
    args: &PagesArgs,
    bytes: u64,
    scheme: Result<Scheme, UnknownTables>,
) -> anyhow::Result<(String, PagesReport)> {
    let (pages, kind) = match (args.huge, args.hugetlb) {
        (true, _) => (
            Pages::Huge,
            "transparent huge pages, if the system grants them",
        ),
        (_, true) => (Pages::HugeTlb, "reserved huge pages"),
        _ => (Pages::Base, "base pages"),
    };
    if !args.untouched {
        memory_suffices("--buffer", usize::try_from(bytes)?, bytes)?;
    }
    let mapped = Buffer::builder()
        .len(usize::try_from(bytes)?)
        .pages(pages)
        .touched(!args.untouched)
        .map();
    let buffer = mapped.map_err(|error| anyhow!("--buffer: {error}"))?;
    let address = buffer.as_ptr().addr() as u64;
    let memory = look(ExaminedProcess::Own, address, bytes)?;
    let touched = if args.untouched {
        "not written to"
    } else {
        "each written to once"
    };
    let heading = wrap(
        &format!("A buffer of {bytes} bytes: {kind}, {touched}."),
        80,
        "  ",
    ) + "\n\n";
    let (walk, no_walk) = walk_to(address, scheme);
    let report = PagesReport {
        walk,
        memory: Some(memory),
    };
    Ok((heading + &no_walk, report))
}

/// Shows the memory of another process.
fn show_process(args: &PagesArgs, pid: u32, address: u64) -> anyhow::Result<(String, PagesReport)> {
    require_own_proc()?;
    let (walk, no_walk) = walk_to(address, machine_scheme());
    // On x86-64 one page of the upper half is mapped for processes, for the old vsyscall:
    // the list of mappings decides about the halves.
    if let Some(walk) = &walk
        && walk.half == Half::NonCanonical
    {
        return Err(anyhow!(
            "--address {address:#x}: not an address on this machine ({}): its top bits are not \
             all equal",
            walk.scheme
        ));
    }
    // Addresses in /proc have no tags.
    let untagged = match walk.as_ref().and_then(|walk| walk.tag) {
        Some(_) => address & (u64::MAX >> 8),
        None => address,
    };
    let length = args.length.unwrap_or(1);
    let memory = look(ExaminedProcess::Other(pid), untagged, length)?;
    let heading = format!("Memory of process {pid}.\n\n{no_walk}");
    let report = PagesReport {
        walk,
        memory: Some(memory),
    };
    Ok((heading, report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use pipespeed_testing::says;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: PagesArgs,
    }

    #[test]
    fn without_known_page_tables_the_pages_are_shown() {
        let Line { args } = Line::parse_from(["pages", "--buffer", "10000"]);
        let unknown = UnknownTables {
            architecture: "aarch64",
            page_bytes: 65_536,
        };
        let (heading, report) = show_buffer(&args, 10_000, Err(unknown)).unwrap();
        let text = heading + &describe(&report);
        says(
            &text,
            &["No walk is shown: ", "pages of 64KiB", "in memory"],
        );
        let saved = serde_json::to_value(&report).unwrap();
        assert!(saved["walk"].is_null() && saved["memory"]["pages"].is_array());
    }
}
