//! Probes that one thread drives: calls, pages through a pipe, page faults.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages, huge_page_size};
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::pinning::Pipes;
use super::{PIECE, Sampler};

/// Calls in a sample.
const CALLS: u32 = 2000;

/// Times that a pipe is filled and drained for a sample.
const TIMES: u32 = 12;

/// Bytes that are faulted in for a sample, in huge or in base pages.
const FAULTED: usize = 4 << 20;

/// How a pipe is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Write,
    Vmsplice,
    Tee,
}

/// How it is drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drain {
    Read,
    /// To /dev/null.
    Splice,
}

/// A call that does nothing.
pub(super) fn call() -> io::Result<Sampler> {
    Ok(Box::new(|| {
        let started = Instant::now();
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
        Ok(vec![each(started.elapsed(), CALLS.into())])
    }))
}

/// A read of an empty pipe with O_NONBLOCK.
pub(super) fn would_block() -> io::Result<Sampler> {
    let (reader, writer) = pipe::create()?;
    rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
    Ok(Box::new(move || {
        // Without it the pipe would be at its end.
        let _open = &writer;
        let started = Instant::now();
        for _ in 0..CALLS {
            match rustix::io::read(&reader, &mut [0]) {
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(vec![each(started.elapsed(), CALLS.into())])
    }))
}

/// A pipe that is filled and drained, each by one call; `pages` are those of the
/// memory that its content comes from. The values are those of filling and of
/// draining, a page.
pub(super) fn passage(fill: Fill, pages: Pages, drain: Drain) -> io::Result<Sampler> {
    let (reader, writer) = pipe_of(PIECE)?;
    let mut output = Output::new(writer, Wait::Never);
    let mut input = Input::new(reader, Wait::Never);
    let from = mapped(PIECE, pages, true)?;
    let mut to = mapped(PIECE, Pages::Base, true)?;
    let null = dev_null()?;
    let mut other = None;
    if fill == Fill::Tee {
        let (reader, writer) = pipe_of(PIECE)?;
        let piece = from.slice(..);
        Output::new(&writer, Wait::Never).vmsplice(&[piece], VmspliceOptions::default())?;
        // Both, or the pipe would be at its end. Its content stays there.
        other = Some((reader, writer));
    }
    Ok(Box::new(move || {
        let (mut filling, mut draining) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..TIMES {
            let started = Instant::now();
            match (fill, &other) {
                (Fill::Write, _) => output.write(&from)?,
                (_, Some((reader, _))) => {
                    Input::new(reader, Wait::Never).tee(&output, PIECE)?;
                }
                (_, None) => output.vmsplice(&[from.slice(..)], VmspliceOptions::default())?,
            }
            let filled = Instant::now();
            match drain {
                Drain::Read => {
                    input.read(&mut to)?;
                }
                Drain::Splice => {
                    input.splice(&null, PIECE as u64, SpliceOptions::default())?;
                }
            }
            draining += filled.elapsed();
            filling += filled - started;
        }
        let pages = f64::from(TIMES) * (PIECE / page_size()) as f64;
        Ok(vec![each(filling, pages), each(draining, pages)])
    }))
}

/// A read of vmspliced base pages, a page.
pub(super) fn read_vmspliced() -> io::Result<Sampler> {
    let mut both = passage(Fill::Vmsplice, Pages::Base, Drain::Read)?;
    Ok(Box::new(move || Ok(both()?.split_off(1))))
}

/// Pages pinned, as estimated by [`pinning`](super::pinning), and moved from pipe
/// to pipe.
pub(super) fn pinned(pages: Pages) -> io::Result<Sampler> {
    let pipes = Pipes::new(pages, false)?;
    Ok(Box::new(move || {
        let sample = pipes.sample()?;
        Ok(vec![sample.estimate_ns, sample.splice_ns])
    }))
}

/// The first write to a page, a fault each.
pub(super) fn fault(pages: Pages) -> io::Result<Sampler> {
    let step = match pages {
        Pages::Base => page_size(),
        _ => huge_page_size(),
    };
    let mut buffer = mapped(FAULTED.max(step), pages, true)?;
    Ok(Box::new(move || {
        buffer.renew()?;
        let started = Instant::now();
        for at in (0..buffer.len()).step_by(step) {
            buffer[at] = 1;
        }
        black_box(&mut *buffer);
        Ok(vec![each(started.elapsed(), (buffer.len() / step) as f64)])
    }))
}

/// Nanoseconds for one of `count`.
pub(super) fn each(time: Duration, count: f64) -> f64 {
    time.as_nanos() as f64 / count
}

pub(super) fn dev_null() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}

/// A new pipe of exactly that size in bytes.
///
/// # Errors
/// Where it is not granted.
pub(super) fn pipe_of(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe::create()?;
    let granted = pipe::set_capacity(&ends.1, bytes)?;
    if granted != bytes {
        let why = format!("a pipe of {bytes} bytes is granted {granted}");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(ends)
}

/// Memory that is proven to lie in pages of that kind.
///
/// # Errors
/// When it can't be had, or huge pages were asked for and are not granted.
pub(super) fn mapped(bytes: usize, pages: Pages, touched: bool) -> io::Result<Buffer> {
    let map = |bytes: usize, touched: bool| {
        Buffer::builder()
            .len(bytes)
            .pages(pages)
            .touched(touched)
            .map()
            .map_err(io::Error::from)
    };
    if pages != Pages::Base && !touched {
        // Untouched memory shows no pages: a page that was touched stands for it.
        huge_pages_or_refuse(&map(huge_page_size(), true)?)?;
    }
    let buffer = map(bytes, touched)?;
    if touched {
        huge_pages_or_refuse(&buffer)?;
    }
    Ok(buffer)
}

/// Refuses a buffer that should lie in huge pages and does not, or can't be
/// shown to.
fn huge_pages_or_refuse(buffer: &Buffer) -> io::Result<()> {
    let asked = buffer.pages() != Pages::Base;
    if asked && !buffer.backing().is_ok_and(|backing| backing.all_huge()) {
        let why = "this system grants no huge pages, or does not show them";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_through_a_pipe_can_be_repeated_and_takes_time() {
        for fill in [Fill::Write, Fill::Vmsplice, Fill::Tee] {
            for drain in [Drain::Read, Drain::Splice] {
                let mut probe = passage(fill, Pages::Base, drain).unwrap();
                for _ in 0..2 {
                    let values = probe().unwrap();
                    assert_eq!(values.len(), 2);
                    assert!(values.iter().all(|ns| *ns > 0.0), "{fill:?} {drain:?}");
                }
            }
        }
    }
}
