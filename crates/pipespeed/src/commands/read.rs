//! `pipespeed read`, and the published `read`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use anyhow::{Context, anyhow};
use fastpipe::pipe;
use fastpipe::transfer::Incomplete;
use rustix::event::{PollFd, PollFlags, poll};

use super::ends::{self, Rules};
use crate::cli::EndArgs;
use pipespeed_base::failure::{say, usage};
use pipespeed_base::output::print;
use pipespeed_base::{size, standard};
use pipespeed_host::process_memory::Backing;
use pipespeed_measure::channel::pipe::PipeSource;
use pipespeed_measure::channel::{Source, Taken};
use pipespeed_measure::data::DataConsumer;
use pipespeed_measure::endpoint::counters::Meter;
use pipespeed_measure::record::GIB;
use pipespeed_measure::spec::{DataUse, PipeReader, SourceSpec};

/// Reads from standard input and prints the rate.
///
/// # Errors
/// A message that names the wrong option or the limit, or the failed transfer; a stream
/// shorter than --bytes-to-pipe.
pub fn run(end: &EndArgs, requested: Option<DataUse>, rules: Rules) -> anyhow::Result<()> {
    if standard::is_closed(0) {
        return Err(usage(
            "standard input is closed: pipe something into this command",
        ));
    }
    let stdin = io::stdin();
    let input = stdin.as_fd();
    let data = requested.unwrap_or(if end.read_with_splice {
        DataUse::Discard
    } else {
        DataUse::Read
    });
    let technique = technique(end, data)?;
    end.buffers_fit()?;
    prepare_input(end, input, rules)?;

    let mut source = PipeSource::new(
        input,
        technique,
        &SourceSpec {
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
            Ok(error) => ends::buffer_error(end, error),
            Err(error) => error,
        }
    })?;
    if let Some(buffer) = source.buffer() {
        ends::check_huge_pages(end, || Backing::examine(buffer))?;
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
    if end.bytes_to_pipe() > 0 {
        wait_for_data(input)?;
    }
    let meter = Meter::default();
    let before = meter.read(0, source.counts());
    let started = Instant::now();
    let received = receive(end, data, &mut source)?;
    let seconds = started.elapsed().as_secs_f64();
    if end.verbose {
        let used = meter.read(received, source.counts()).since(&before);
        ends::say_used("read", "received", &used);
    }
    if received == 0 && end.bytes_to_pipe() > 0 {
        return check_length(end, received);
    }
    let gib_per_s = received as f64 / GIB / seconds;
    let mut line = if end.csv {
        csv_line(end, received, gib_per_s)
    } else {
        result_line(end, received, gib_per_s)
    };
    // The published line does not mention the use of the data.
    if let (Some(data), false) = (requested, end.csv) {
        line.push_str(&format!(", {}", data.outcome()));
    }
    line.push('\n');
    let printed = print(line);
    super::first_error([check_length(end, received), printed])
}

/// How to read, for this use of the data.
fn technique(end: &EndArgs, data: DataUse) -> anyhow::Result<PipeReader> {
    match (end.read_with_splice, data) {
        (true, DataUse::Discard) => Ok(PipeReader::Splice),
        (true, _) => Ok(PipeReader::SpliceThrough),
        (false, DataUse::Discard) => Err(usage(
            "--data discard: read(2) copies the data into memory: \
             add --read-with-splice, or use --data read",
        )),
        (false, _) => Ok(PipeReader::Read),
    }
}

/// Sets the requested size of the pipe, and refuses what needs one if there is none.
fn prepare_input(end: &EndArgs, input: BorrowedFd<'_>, rules: Rules) -> anyhow::Result<()> {
    if let (Some(bytes), Rules::Subcommand) = (end.pipe_size, rules) {
        if !pipe::is_pipe(input).context("standard input")? {
            return Err(usage(
                "--pipe-size: standard input is not a pipe: pipe something into it, or omit the \
                 option",
            ));
        }
        let granted = pipe::set_capacity(input, bytes);
        let granted = granted.map_err(|error| anyhow!("--pipe-size: {error}"))?;
        if let Some(rounded) = super::rounding_warning(bytes, granted) {
            say(&format!("read: {rounded}"));
        }
    }
    if end.read_with_splice && !pipe::is_pipe(input).context("standard input")? {
        return Err(usage(
            "--read-with-splice: standard input is not a pipe: pipe something into it, \
             or omit the option",
        ));
    }
    Ok(())
}

/// Fails if the stream was shorter than --bytes-to-pipe, or empty. A stream shorter than
/// the default is reported only.
fn check_length(end: &EndArgs, received: u64) -> anyhow::Result<()> {
    let expected = end.bytes_to_pipe();
    if received >= expected {
        return Ok(());
    }
    if end.bytes_to_pipe.is_some() {
        return Err(anyhow!(
            "the stream ended early: got {received} bytes, expected {expected} (--bytes-to-pipe)"
        ));
    }
    if received == 0 {
        return Err(anyhow!(
            "nothing to read: standard input is empty; pipe something into this command"
        ));
    }
    say(&format!(
        "read: the stream ended after {}, before the default of {} (--bytes-to-pipe)",
        size::exact(received),
        size::exact(expected)
    ));
    Ok(())
}

/// Sleeps until the first byte arrives, so that the writer's start is not timed.
fn wait_for_data(input: BorrowedFd<'_>) -> io::Result<()> {
    let mut fds = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
    Ok(())
}

/// Receives --bytes-to-pipe, or the whole stream if it is shorter. Returns the number of
/// bytes.
fn receive(
    end: &EndArgs,
    data: DataUse,
    source: &mut PipeSource<BorrowedFd<'_>>,
) -> anyhow::Result<u64> {
    let mut consumer = DataConsumer::new(data, 0);
    let mut received = 0;
    while received < end.bytes_to_pipe() {
        let remaining = end.bytes_to_pipe() - received;
        let taken = source
            .take(remaining.min(usize::MAX as u64) as usize)
            .map_err(|Incomplete { source, .. }| {
                let so_far = size::format(received);
                anyhow::Error::new(source).context(format!("standard input, after {so_far}"))
            })?;
        if taken.is_empty() {
            break;
        }
        received += taken.len() as u64;
        if let Taken::Data(bytes) = taken {
            consumer.consume(bytes)?;
        }
    }
    Ok(received)
}

/// The published result. Iterations are whole buffers.
fn result_line(end: &EndArgs, received: u64, gib_per_s: f64) -> String {
    let iterations = received / end.buf_size as u64;
    format!(
        "{gib_per_s:.1}GiB/s, {} buffer, {iterations} iterations ({} piped)",
        size::exact(end.buf_size as u64),
        size::exact(received),
    )
}

/// The published columns: gigabytes_per_second (which are GiB/s),
/// bytes_to_pipe, buf_size, pipe_size, busy_loop, poll, huge_page,
/// check_huge_page, write_with_vmsplice, read_with_splice, gift, lock_memory,
/// dont_touch_pages, same_buffer. The options stand as given to this program, a pipe size
/// that was not given as 0; the bytes are those received.
fn csv_line(end: &EndArgs, received: u64, gib_per_s: f64) -> String {
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
        "{gib_per_s:.6},{received},{},{},{flags}",
        end.buf_size,
        end.pipe_size.unwrap_or(0),
    )
}
