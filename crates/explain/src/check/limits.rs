//! Checks of capacity, slots and limits.

use fastpipe::buffer::{Buffer, PageSlice};
use fastpipe::pipe::{self, Limits, page_size};
use itertools::Itertools;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::pipes::{MoveOutcome, PipePair, at, page, read, write};
use super::{CheckGroup, CheckResult};
use pipespeed_base::size;
use pipespeed_base::text::pluralize;
use pipespeed_host::Root;
use pipespeed_host::refusals::{Privileges, RefusableCall, errno_of};

checks! {
    CHECKS, CheckGroup::Limits;

    /// Fills a new pipe one page at a time until a write would block. Expected: 16 slots of one
    /// page each, 65536 bytes with 4096-byte pages, and F_GETPIPE_SZ reports the same. A user
    /// whose pipes exceed fs.pipe-user-pages-soft gets new pipes of two slots (one before Linux
    /// 5.14), which slows down every program that uses them.
    "default-capacity" => default_capacity {
        statement: "the capacity of a new pipe",
        reference: "pipe(7), \"Pipe capacity\"; fcntl(2), F_GETPIPE_SZ; alloc_pipe_info() in fs/pipe.c",
    }

    /// Fills a pipe by one write(2) of its capacity, then writes one more byte. With O_NONBLOCK
    /// that write fails with EAGAIN; without it, the writer sleeps until somebody reads. Two
    /// programs that both write more than this before they read deadlock (try pipespeed latency
    /// --naive).
    "full-pipe" => full_pipe {
        statement: "a full pipe does not accept one more byte",
        reference: "pipe(7), \"Pipe capacity\"; POSIX.1-2024, write(); pipe_write() in fs/pipe.c",
    }

    /// Writes single bytes until a pipe of two slots is full. write(2) appends to the page in the
    /// last slot while it has room, so small writes use the whole capacity.
    "one-byte-writes" => one_byte_writes {
        statement: "the number of one-byte writes that fill two slots",
        reference: "pipe_write() in fs/pipe.c (PIPE_BUF_FLAG_CAN_MERGE)",
    }

    /// Adds one-byte pieces by vmsplice(2) until the pipe is full. Each piece occupies a slot,
    /// however small: 16 bytes fill a pipe of 16 slots. Use write(2) for small pieces.
    "one-byte-pieces" => one_byte_pieces {
        statement: "the number of one-byte pieces by vmsplice that fill a pipe",
        reference: "vmsplice(2); add_to_pipe() in fs/splice.c",
    }

    /// Sends a piece as long as the pipe's capacity that starts 100 bytes into a page. A piece
    /// occupies one slot per page it touches, and this one touches one page more than there are
    /// slots, so its end does not fit. Align buffers to pages.
    "unaligned-piece" => unaligned_piece {
        statement: "how much of an unaligned pipeful fits by vmsplice",
        reference: "vmsplice(2); iter_to_pipe() in fs/splice.c",
    }

    /// Requests sizes that are not a power of two of pages. The kernel rounds up; the smallest
    /// pipe is one page. Use the capacity that fcntl(2) returns, not the one you requested.
    "capacity-rounding" => capacity_rounding {
        statement: "F_SETPIPE_SZ grants at least what is asked for",
        reference: "fcntl(2), F_SETPIPE_SZ; round_pipe_size() in fs/pipe.c",
    }

    /// Doubles the capacity of a pipe until the kernel refuses (EPERM) or it reaches 16 MiB. Only
    /// CAP_SYS_RESOURCE allows more than fs.pipe-max-size, which is 1 MiB by default. Root in a
    /// container often lacks it. A larger pipe means fewer sleeps and wake-ups.
    "largest-capacity" => largest_capacity {
        statement: "capacity above pipe-max-size needs CAP_SYS_RESOURCE",
        reference: "fcntl(2), F_SETPIPE_SZ; pipe(7), /proc/sys/fs/pipe-max-size; pipe_set_size() in fs/pipe.c",
    }

    /// Requests a capacity of one page for a full pipe, which must fail with EBUSY and change
    /// nothing. Then half of the data is read, the pipe is shrunk to half, and the rest is read:
    /// it must be the same bytes in the same order.
    "resize-keeps-data" => resize_keeps_data {
        statement: "resizing loses no data: a size that is too small is refused",
        reference: "fcntl(2), F_SETPIPE_SZ, EBUSY; pipe_resize_ring() in fs/pipe.c",
    }

    /// Sets the capacity at the read end, then fills the pipe at the write end. Readers such as
    /// pv and cat may resize the pipe at any time. A writer that has written one old capacity
    /// since can't conclude that its earlier pages were read.
    "either-end-resizes" => either_end_resizes {
        statement: "either end resizes the pipe for both",
        reference: "fcntl(2), F_SETPIPE_SZ",
    }

    /// Reads the two limits. Above fs.pipe-user-pages-soft, a user's new pipes have few slots and
    /// can't be enlarged; above fs.pipe-user-pages-hard, no pipe can be created (ENFILE); 0 means
    /// no limit. CAP_SYS_RESOURCE and CAP_SYS_ADMIN exempt a process, unless it has them only in
    /// a user namespace.
    "user-page-limits" => user_page_limits {
        statement: "the maximum number of pages in all pipes of a user",
        reference: "pipe(7), /proc/sys/fs/pipe-user-pages-soft and -hard; alloc_pipe_info() in fs/pipe.c",
    }
}

/// The slots of a new pipe (PIPE_DEF_BUFFERS).
const DEFAULT_SLOTS: usize = 16;

fn default_capacity() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let (reported, slots) = (pipe.capacity()?, pipe.slots()?);
    let bytes = pipe.fill(page_size())?;
    let page = page_size();
    let outcome = CheckResult::seen(format!("{bytes} bytes, {slots} slots of {page} bytes"));
    Ok(if bytes != reported {
        CheckResult::fail(format!(
            "{bytes} bytes, but F_GETPIPE_SZ reports {reported}"
        ))
    } else if slots < DEFAULT_SLOTS {
        outcome
            .with_note("this user's pipes hold more pages than fs.pipe-user-pages-soft: close some")
    } else {
        outcome
    })
}

fn full_pipe() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let capacity = pipe.capacity()?;
    let (first, next) = (pipe.write(capacity)?, pipe.write(1)?);
    let holds = (first, next) == (MoveOutcome::Bytes(capacity), MoveOutcome::WouldBlock);
    let seen = format!("{first} bytes at once, then {next} for one more");
    Ok(CheckResult::pass_if(holds, seen))
}

fn one_byte_writes() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let capacity = pipe.set_capacity(2 * page_size())?;
    let bytes = pipe.fill(1)?;
    Ok(CheckResult::seen(format!(
        "{bytes}, of {capacity} bytes of capacity"
    )))
}

fn one_byte_pieces() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let slots = pipe.slots()?;
    let memory = page()?;
    let pieces: Vec<PageSlice<'_>> = (0..2 * slots).map(|at| memory.slice(at..=at)).collect();
    let bytes = pipe.vmsplice(&pieces)?;
    Ok(CheckResult::seen(format!("{bytes}, of {slots} slots")))
}

fn unaligned_piece() -> anyhow::Result<CheckResult> {
    const OFFSET: usize = 100;
    let pipe = PipePair::new()?;
    let capacity = pipe.capacity()?;
    let memory = Buffer::builder().len(capacity + page_size()).map();
    let memory = at("mmap(2)", memory)?;
    let bytes = pipe.vmsplice(&[memory.slice(OFFSET..OFFSET + capacity)])?;
    Ok(CheckResult::seen(format!("{bytes} of {capacity} bytes")))
}

fn capacity_rounding() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let page = page_size();
    let mut sizes = Vec::new();
    // The largest first: a pipe can always be made smaller.
    for asked in [5 * page + 123, 3 * page, page + 1, 1] {
        sizes.push((pipe.set_capacity(asked)?, asked));
    }
    let holds = sizes.iter().all(|(granted, asked)| granted >= asked);
    let smallest = sizes.last().map(|(granted, _)| *granted);
    let holds = holds && smallest == Some(page) && pipe.fill(page)? == page;
    let mut seen = sizes
        .iter()
        .map(|(granted, asked)| format!("{granted} for {asked}"));
    Ok(CheckResult::pass_if(holds, seen.join(", ")))
}

fn largest_capacity() -> anyhow::Result<CheckResult> {
    /// The largest capacity that is tried, to save memory.
    const MAX_ASKED: usize = 16 << 20;
    let pipe = PipePair::new()?;
    let mut granted = pipe.capacity()?;
    let mut refused = String::new();
    while granted < MAX_ASKED {
        match pipe.set_capacity(2 * granted) {
            Ok(more) => granted = more,
            Err(failed) => {
                let refusal = failed.refusal().ok_or(failed)?;
                refused = format!(", then {}", refusal.errno_name());
                break;
            }
        }
    }
    let Some(limit) = Limits::read().max_size else {
        return Ok(CheckResult::seen(format!(
            "{granted} bytes{refused}; pipe-max-size can't be read"
        )));
    };
    let process = Privileges::current(&Root::default());
    let exempt = process.has_system_wide(CapabilitySet::SYS_RESOURCE);
    let seen = format!("{granted} bytes{refused}; pipe-max-size is {limit}");
    let outcome = CheckResult::pass_if(exempt || granted <= limit, seen);
    Ok(if refused.is_empty() || 2 * granted > limit {
        outcome
    } else {
        outcome.with_note("this user's pipes hold as many pages as fs.pipe-user-pages-soft allows")
    })
}

fn resize_keeps_data() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let page = page_size();
    let before = pipe.capacity()?;
    if before == page {
        return Ok(CheckResult::refused("pipes have one slot only here")
            .with_note("this user's pipes hold more pages than fs.pipe-user-pages-soft"));
    }
    // Each byte differs from its neighbours.
    let bytes: Vec<u8> = (0..before).map(|at| (at % 251) as u8).collect();
    write(&pipe.write, &bytes)?;
    let shrunk = pipe.set_capacity(page);
    let after = pipe.capacity()?;
    read(&pipe.read, before / 2)?;
    let smaller = pipe.set_capacity(before / 2)?;
    let mut rest = vec![0; before];
    let read = at("read(2)", rustix::io::read(&pipe.read, &mut rest))?;
    let same = rest[..read] == bytes[before / 2..];
    let kept = if same { "kept" } else { "not kept" };
    let (busy, shrunk) = match shrunk {
        Ok(granted) => (false, format!("{granted} granted")),
        Err(failed) if errno_of(&failed.error) == Some(Errno::BUSY) => (true, "EBUSY".to_owned()),
        Err(failed) => (false, failed.to_string()),
    };
    let holds = same && busy && after == before;
    let seen = format!("{shrunk} for {page} with {before} bytes; {read} bytes {kept} at {smaller}");
    Ok(CheckResult::pass_if(holds, seen))
}

fn either_end_resizes() -> anyhow::Result<CheckResult> {
    let pipe = PipePair::new()?;
    let granted = pipe::set_capacity(&pipe.read, page_size());
    let granted = at(RefusableCall::SetPipeSize, granted)?;
    let reported = pipe.capacity()?;
    let taken = pipe.write(4 * page_size())?;
    let holds = (reported, taken) == (granted, MoveOutcome::Bytes(granted));
    let seen =
        format!("{granted} set by the reader, {reported} shown to the writer, {taken} taken");
    Ok(CheckResult::pass_if(holds, seen))
}

/// The capability that exempts this process from the limits on a user's pages.
fn exempt() -> Option<&'static str> {
    let process = Privileges::current(&Root::default());
    if process.has_system_wide(CapabilitySet::SYS_RESOURCE) {
        Some("CAP_SYS_RESOURCE")
    } else {
        let admin = process.has_system_wide(CapabilitySet::SYS_ADMIN);
        admin.then_some("CAP_SYS_ADMIN")
    }
}

fn user_page_limits() -> anyhow::Result<CheckResult> {
    let limits = Limits::read();
    let (Some(soft), Some(hard)) = (limits.user_pages_soft, limits.user_pages_hard) else {
        return Ok(CheckResult::refused(
            "/proc/sys/fs/pipe-user-pages-soft and -hard can't be read",
        ));
    };
    let outcome = CheckResult::seen(format!("soft {}, hard {}", pages(soft), pages(hard)));
    Ok(match exempt() {
        Some(name) => outcome.with_note(format!("this process is exempt: it has {name}")),
        None => outcome,
    })
}

fn pages(count: usize) -> String {
    if count == 0 {
        return "none".to_owned();
    }
    let bytes = count as u64 * page_size() as u64;
    format!("{} ({})", pluralize(count, "page"), size::format(bytes))
}
