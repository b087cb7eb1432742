//! `pipespeed pages`.

use anyhow::{Context, anyhow};
use fastpipe::buffer::{Buffer, Pages};
use fastpipe::memory::Process;
use fastpipe::pipe::page_size;

use crate::cli::PagesArgs;
use crate::commands::files::Files;
use crate::commands::{header, memory_suffices};
use pipespeed_base::failure::{say, usage};
use pipespeed_base::process::require_own_proc;
use pipespeed_base::text::wrap;
use pipespeed_explain::pages::{
    Architecture, Half, Memory, Record, Report, RingRecord, Scheme, SchemeError, Walk, Wanted,
    drawing, look, machine_scheme, own_architecture, ring_drawing, ring_steps, table,
};
use pipespeed_host::Machine;
use pipespeed_measure::record::{Header, Kind, to_json};
use serde::Serialize;

/// Shows the pages and page tables of an address or buffer.
///
/// # Errors
/// Wrong usage, the memory can't be examined, or the record can't be saved.
pub fn run(args: &PagesArgs) -> anyhow::Result<()> {
    let files = Files::new([("--json", &args.json)])?;
    if args.pipe {
        return show_pipe(&files);
    }
    let (heading, report) = match (args.buffer, args.address) {
        (Some(bytes), _) => show_buffer(args, bytes)?,
        (None, Some(address)) => match args.pid {
            Some(pid) => show_process(args, pid, address)?,
            None => decode(args, address)?,
        },
        (None, None) => return Err(usage("--address, --buffer or --pipe is required")),
    };
    let mut text = heading;
    text += &drawing(
        &report.walk,
        report.memory.as_ref().and_then(Memory::huge_page),
    );
    if let Some(memory) = &report.memory {
        text.push('\n');
        text += &table(memory);
    }
    let record = |header| Record { header, report };
    show(&files, Kind::Pages, text, record)
}

/// Prints the text and saves the record.
fn show<R: Serialize>(
    files: &Files,
    kind: Kind,
    text: String,
    record: impl FnOnce(Header) -> R,
) -> anyhow::Result<()> {
    if files.use_stdout() {
        say(text.trim_end());
    }
    files.print(false, |_| text)?;
    let record = record(header(kind, Machine::read(None, None)));
    files.save(|_| Ok(to_json(&record)))
}

/// Steps a pipe through system calls and shows its slots.
fn show_pipe(files: &Files) -> anyhow::Result<()> {
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
fn decode(args: &PagesArgs, address: u64) -> anyhow::Result<(String, Report)> {
    let wanted = Wanted {
        page_bytes: args.page_size,
        levels: args.levels,
        address_bits: args.address_bits,
    };
    let scheme = match (args.arch, own_architecture()) {
        (None, Some(own)) if wanted == Wanted::default() => machine_scheme(own),
        (None, Some(own)) => Scheme::find(own, with_own_pages(own, wanted))
            // Only aarch64 has pages above 4K.
            .or_else(|error| large_page_scheme(wanted).ok_or(error)),
        (Some(architecture), _) => Scheme::find(architecture, wanted),
        (None, None) => {
            return Err(usage(
                "the page tables of this machine are unknown: choose an architecture with --arch",
            ));
        }
    };
    let scheme = scheme.map_err(|error: SchemeError| usage(format!("{error} (see --arch)")))?;
    let report = Report {
        walk: Walk::of(address, scheme),
        memory: None,
    };
    Ok((String::new(), report))
}

/// Fills in this machine's page size, unless there is no such scheme.
fn with_own_pages(own: Architecture, wanted: Wanted) -> Wanted {
    let pages = Wanted {
        page_bytes: wanted
            .page_bytes
            .or_else(|| machine_scheme(own).ok().map(Scheme::page_bytes)),
        ..wanted
    };
    match Scheme::find(own, pages) {
        Ok(_) => pages,
        Err(_) => wanted,
    }
}

fn large_page_scheme(wanted: Wanted) -> Option<Scheme> {
    let larger = wanted.page_bytes.is_some_and(|bytes| bytes > 4096);
    let scheme = larger.then(|| Scheme::find(Architecture::Aarch64, wanted).ok());
    scheme.flatten()
}

/// Allocates a buffer and shows its pages.
fn show_buffer(args: &PagesArgs, bytes: u64) -> anyhow::Result<(String, Report)> {
    let scheme = own_scheme()?;
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
    let memory = look(Process::Own, address, bytes)?;
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
    let report = Report {
        walk: Walk::of(address, scheme),
        memory: Some(memory),
    };
    Ok((heading, report))
}

/// Shows the memory of another process.
fn show_process(args: &PagesArgs, pid: u32, address: u64) -> anyhow::Result<(String, Report)> {
    require_own_proc()?;
    let walk = Walk::of(address, own_scheme()?);
    match walk.half {
        // On x86-64 one page of the upper half is mapped for processes, for the old
        // vsyscall: the list of mappings decides.
        Half::User | Half::Kernel => {}
        Half::NonCanonical => {
            return Err(anyhow!(
                "--address {address:#x}: not an address on this machine ({}): its top bits \
                 are not all equal",
                walk.scheme
            ));
        }
    }
    // Addresses in /proc have no tags.
    let untagged = match walk.tag {
        Some(_) => address & (u64::MAX >> 8),
        None => address,
    };
    let length = args.length.unwrap_or(1);
    let memory = look(Process::Other(pid), untagged, length)?;
    let heading = format!("Memory of process {pid}.\n\n");
    let report = Report {
        walk,
        memory: Some(memory),
    };
    Ok((heading, report))
}

fn own_scheme() -> anyhow::Result<Scheme> {
    let Some(own) = own_architecture() else {
        return Err(anyhow!(
            "the page tables of this machine's processor are unknown"
        ));
    };
    Ok(machine_scheme(own)?)
}
