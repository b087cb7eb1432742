//! `pipespeed read`, and the published `read`.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use anyhow::{Context, anyhow};
use fastpipe::pipe;
use fastpipe::transfer::Incomplete;
use rustix::event::{PollFd, PollFlags, poll};

use crate::cli::EndArgs;
use pipespeed_base::failure::{say, to_stdout, usage};
use pipespeed_base::size;
use pipespeed_measure::channel::pipe::PipeSource;
use pipespeed_measure::channel::{Source, Taken};
use pipespeed_measure::endpoint::counters::Meter;
use pipespeed_measure::endpoint::data::Consumer;
use pipespeed_measure::endpoint::spec::{SourceSpec, SourceTechnique};
use pipespeed_measure::record::{DataUse, GIB};

/// Reads from standard input and prints the rate.
///
/// # Errors
/// A message that names the wrong option or the limit, or the failed transfer.
pub fn run(end: &EndArgs, requested: Option<DataUse>) -> anyhow::Result<()> {
    let stdin = io::stdin();
    let input = stdin.as_fd();
    let data = requested.unwrap_or(if end.read_with_splice {
        DataUse::Discard
    } else {
        DataUse::Read
    });
    let technique = match (end.read_with_splice, data) {
        (true, DataUse::Discard) => SourceTechnique::Splice,
        (true, _) => SourceTechnique::SpliceThrough,
        (false, DataUse::Discard) => {
            return Err(usage(
                "--data discard: read(2) copies the data into memory: \
                 add --read-with-splice, or use --data read",
            ));
        }
        (false, _) => SourceTechnique::Read,
    };
    end.buffers_fit()?;
    let mut pipe_size = None;
    if let Some(bytes) = end.pipe_size {
        if !pipe::is_pipe(input).context("standard input")? {
            return Err(usage("--pipe-size: standard input is not a pipe"));
        }
        let granted = pipe::set_capacity(input, bytes);
        let granted = granted.map_err(|error| anyhow!("--pipe-size: {error}"))?;
        if let Some(rounded) = super::rounding_warning(bytes, granted) {
            say(&format!("read: {rounded}"));
        }
        pipe_size = Some(granted);
    }
    if end.read_with_splice && !pipe::is_pipe(input).context("standard input")? {
        return Err(usage(
            "--read-with-splice: standard input is not a pipe: pipe something into it, \
             or omit the option",
        ));
    }

    let mut source = PipeSource::new(
        input,
        &SourceSpec {
            technique,
            wait: end.waiting(),
            buffer_bytes: end.buf_size,
            pages: end.pages(),
            touched: !end.dont_touch_pages,
            locked: end.lock_memory,
            offset: 0,
        },
    )
    .map_err(|error| {
        use fastpipe::buffer::BufferError;
        match error.downcast::<BufferError>() {
            Ok(error) => super::write::buffer_error(end, error),
            Err(error) => error,
        }
    })?;
    if let Some(buffer) = source.buffer() {
        super::write::check_huge_pages(end, || buffer.backing())?;
    }

    if end.verbose {
        say(&format!(
            "read: {}, {} buffer",
            if end.read_with_splice {
                "splice"
            } else {
                "read"
            },
            size::format(end.buf_size as u64)
        ));
    }
    wait_for_data(input)?;
    let meter = Meter::new();
    let before = meter.read(0, source.counts());
    let started = Instant::now();
    let received = receive(end, data, &mut source)?;
    let seconds = started.elapsed().as_secs_f64();
    if end.verbose {
        let used = meter.read(received, source.counts()).since(&before);
        say(&format!(
            "read: {} received in {:.3} s, {} system calls, {} would-blocks, {} page faults",
            size::format(used.bytes),
            used.seconds,
            used.syscalls,
            used.would_blocks,
            used.page_faults,
        ));
    }
    let mut line = if end.csv {
        csv_line(end, pipe_size, received as f64 / GIB / seconds)
    } else {
        result_line(end, received as f64 / GIB / seconds)
    };
    // The published line does not mention the use of the data.
    if let (Some(data), false) = (requested, end.csv) {
        line.push_str(&format!(", {}", data.outcome()));
    }
    to_stdout(writeln!(io::stdout(), "{line}"))
}

/// Sleeps until the first byte arrives, so that the writer's start is not timed.
fn wait_for_data(input: BorrowedFd<'_>) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
    Ok(())
}

fn receive(
    end: &EndArgs,
    data: DataUse,
    source: &mut PipeSource<BorrowedFd<'_>>,
) -> anyhow::Result<u64> {
    let mut consumer = Consumer::new(data, 0);
    let mut received = 0;
    while received < end.bytes_to_pipe as u64 {
        let remaining = end.bytes_to_pipe as u64 - received;
        let taken = source
            .take(remaining.min(usize::MAX as u64) as usize)
            .map_err(|Incomplete { source, .. }| {
                let so_far = size::format(received);
                anyhow::Error::new(source).context(format!("standard input, after {so_far}"))
            })?;
        if taken.is_empty() {
            return Err(anyhow!(
                "the stream ended early: got {received} bytes, expected {} (--bytes-to-pipe)",
                end.bytes_to_pipe
            ));
        }
        received += taken.len() as u64;
        if let Taken::Data(bytes) = taken {
            consumer.consume(bytes)?;
        }
    }
    Ok(received)
}

fn result_line(end: &EndArgs, gib_per_s: f64) -> String {
    let iterations = end.bytes_to_pipe.div_ceil(end.buf_size);
    format!(
        "{gib_per_s:.1}GiB/s, {} buffer, {iterations} iterations ({} piped)",
        size::format(end.buf_size as u64),
        size::format(end.bytes_to_pipe as u64),
    )
}

/// The published columns: gigabytes_per_second (which are GiB/s),
/// bytes_to_pipe, buf_size, pipe_size, busy_loop, poll, huge_page,
/// check_huge_page, write_with_vmsplice, read_with_splice, gift, lock_memory,
/// dont_touch_pages, same_buffer. The pipe size is the granted one if --pipe-size is
/// given.
fn csv_line(end: &EndArgs, pipe_size: Option<usize>, gib_per_s: f64) -> String {
    let flags = [
        end.busy_loop,
        end.poll,
        end.huge_page,
        end.check_huge_page,
        end.write_with_vmsplice,
        end.read_with_splice,
        end.gift,
        end.lock_memory,
        end.dont_touch_pages,
        end.same_buffer,
    ]
    .map(|flag| if flag { "1" } else { "0" })
    .join(",");
    format!(
        "{gib_per_s:.6},{},{},{},{flags}",
        end.bytes_to_pipe,
        end.buf_size,
        pipe_size.unwrap_or(if end.write_with_vmsplice {
            end.buf_size / 2
        } else {
            0
        }),
    )
}
