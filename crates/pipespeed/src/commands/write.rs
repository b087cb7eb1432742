//! `pipespeed write`, and the published `write`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, anyhow};
use fastpipe::pipe;

use super::ends::{Rules, buffer_error, check_huge_pages, say_used};
use crate::cli::{EndArgs, Sent, WriteArgs};
use pipespeed_base::failure::{is_reader_gone, say, usage};
use pipespeed_base::size;
use pipespeed_host::process_memory::Backing;
use pipespeed_measure::channel::Sink;
use pipespeed_measure::channel::pipe::PipeSink;
use pipespeed_measure::data::DataProducer;
use pipespeed_measure::endpoint::counters::Meter;
use pipespeed_measure::spec::{DataUse, PipeWriter, SinkSpec};

/// Writes to standard output.
///
/// # Errors
/// A message that names the wrong option or the limit, or the failed transfer.
pub fn run(args: &WriteArgs, rules: Rules) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let out = stdout.as_fd();
    let is_pipe = pipe::is_pipe(out).context("standard output")?;
    if !is_pipe && args.bytes.is_none() {
        let instead = match rules {
            Rules::Published => "",
            Rules::Subcommand => ", or add --bytes SIZE",
        };
        return Err(usage(format!(
            "standard output is not a pipe, and an endless write could fill a disk: pipe it into \
             a reader{instead}"
        )));
    }
    if !is_pipe && args.end.write_with_vmsplice {
        return Err(usage(
            "--write-with-vmsplice: standard output is not a pipe: pipe it into a reader, \
             or omit the option",
        ));
    }
    if !is_pipe && args.end.pipe_size.is_some() {
        return Err(usage("--pipe-size: standard output is not a pipe"));
    }
    check_buffer(&args.end)?;
    args.end.buffers_fit()?;
    if is_pipe {
        set_pipe_size(&args.end, out, rules)?;
    }

    let technique = if args.end.write_with_vmsplice {
        PipeWriter::Vmsplice(args.reuse)
    } else {
        PipeWriter::Write
    };
    let mut sink = PipeSink::new(
        out,
        technique,
        &SinkSpec {
            wait: args.end.waiting(),
            buffer_bytes: args.end.buf_size,
            loan_bytes: args.end.buf_size,
            same_buffer: args.end.same_buffer,
            pages: args.end.pages(),
            touched: !args.end.dont_touch_pages,
            locked: args.end.lock_memory,
            gift: args.end.gift,
            rewritten: args.data == Sent::Pattern,
            offset: 0,
        },
    )
    .map_err(|error| buffer_error(&args.end, error))?;
    check_huge_pages(&args.end, || sink.backing(Backing::examine))?;

    if args.end.verbose {
        say(&format!(
            "write: {}, {} x {} buffer, aligned to {}, {}",
            if args.end.write_with_vmsplice {
                "vmsplice"
            } else {
                "write"
            },
            sink.pieces(),
            size::format(sink.piece_len() as u64),
            size::format(sink.alignment() as u64),
            match pipe::capacity(out) {
                Ok(bytes) => format!("pipe of {}", size::format(bytes as u64)),
                Err(_) => "no pipe".to_owned(),
            },
        ));
    }
    if args.end.bytes_to_pipe.is_some() && rules == Rules::Subcommand {
        say(
            "write: --bytes-to-pipe has no effect on the writer: it ends when the reader closes \
             the pipe, or after --bytes SIZE",
        );
    }
    let meter = Meter::default();
    let before = meter.read(0, sink.counts());
    send(args, &mut sink)?;
    if args.end.verbose {
        let used = meter.read(sink.sent(), sink.counts()).since(&before);
        say_used("write", "sent", &used);
    }
    Ok(())
}

/// Sends until the reader closes the pipe or the requested bytes are sent.
fn send(args: &WriteArgs, sink: &mut PipeSink<BorrowedFd<'_>>) -> anyhow::Result<()> {
    let data = match args.data {
        Sent::Constant => DataUse::Read,
        Sent::Pattern => DataUse::Touch,
    };
    let mut producer = DataProducer::new(data, 0);
    let mut remaining = args.bytes.map_or(u64::MAX, |bytes| bytes as u64);
    while remaining > 0 {
        let n = (sink.piece_len() as u64).min(remaining) as usize;
        if !producer.is_idle() {
            producer.produce(&mut sink.lend()?[..n]);
        }
        match sink.commit(n) {
            Ok(()) => {}
            Err(incomplete) if is_reader_gone(&incomplete.source, io::stdout()) => return Ok(()),
            Err(incomplete) => {
                let sent = size::format(sink.sent());
                return Err(anyhow::Error::new(incomplete.source)
                    .context(format!("standard output, after {sent}")));
            }
        }
        if args.bytes.is_some() {
            remaining -= n as u64;
        }
    }
    Ok(())
}

/// Checks the buffer size for vmsplice, which sends whole pages. Each piece fills the
/// pipe unless --pipe-size is given.
fn check_buffer(end: &EndArgs) -> anyhow::Result<()> {
    // Two pages if the pipe gets half of the buffer, or the buffer is used in halves.
    let halved = end.pipe_size.is_none() || end.same_buffer;
    let unit = pipe::page_size() * if halved { 2 } else { 1 };
    if end.write_with_vmsplice && !end.buf_size.is_multiple_of(unit) {
        return Err(usage(format!(
            "--buf-size {}: with --write-with-vmsplice the buffer must be a multiple of {unit} \
             bytes ({})",
            end.buf_size,
            if halved { "two pages" } else { "a page" }
        )));
    }
    Ok(())
}

fn set_pipe_size(end: &EndArgs, out: BorrowedFd<'_>, rules: Rules) -> anyhow::Result<()> {
    let (bytes, option) = match (end.pipe_size, end.write_with_vmsplice) {
        (Some(bytes), _) => (bytes, "--pipe-size"),
        (None, true) => (end.buf_size / 2, "--buf-size (the pipe gets half of it)"),
        (None, false) => return Ok(()),
    };
    let granted = pipe::set_capacity(out, bytes).map_err(|error| anyhow!("{option}: {error}"))?;
    if rules == Rules::Published && granted != bytes {
        return Err(usage(format!(
            "{option}: the pipe's size would be {}, which the kernel rounds to {}: it must be a \
             power of two of pages (pipespeed write allows any size)",
            size::exact(bytes as u64),
            size::exact(granted as u64),
        )));
    }
    // The rounding of half a buffer is not reported, since nobody requested that size.
    let is_requested = end.pipe_size.is_some();
    if let Some(rounded) = super::rounding_warning(bytes, granted).filter(|_| is_requested) {
        say(&format!("write: {rounded}"));
    }
    Ok(())
}
