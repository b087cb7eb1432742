//! The steps that the experiments with pages consist of: a page with a known
//! byte, pipes it goes through, and what is read at the end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fastpipe::buffer::Buffer;
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use crate::check::{Outcome, refusal};

/// What a page holds when it is handed over, and what is written to it later.
pub(super) const OLD: u8 = b'o';
pub(super) const NEW: u8 = b'n';

/// A step that could not be taken.
#[derive(Debug)]
pub(super) struct Stopped {
    what: &'static str,
    error: io::Error,
}

pub(super) type Step<T> = Result<T, Stopped>;

/// Names the step that an error belongs to.
pub(super) fn at<T>(what: &'static str, outcome: Result<T, impl Into<io::Error>>) -> Step<T> {
    outcome.map_err(|error| Stopped {
        what,
        error: error.into(),
    })
}

/// Makes an experiment; a step that the system refuses is its outcome.
///
/// # Errors
/// When a step fails otherwise.
pub(super) fn found(experiment: impl FnOnce() -> Step<Outcome>) -> anyhow::Result<Outcome> {
    experiment().or_else(|Stopped { what, error }| {
        let mut outcome = refusal::or_error(what, error)?;
        outcome.seen = format!("{what} is {}", outcome.seen);
        Ok(outcome)
    })
}

/// A page of base size, all of it [`OLD`].
pub(super) fn old_page() -> Step<Buffer> {
    let mut page = at("mmap(2)", Buffer::builder().len(page_size()).map())?;
    page.fill(OLD);
    Ok(page)
}

/// Both ends of a pipe. Nothing here sleeps: what is taken out is there.
pub(super) struct Pipe {
    pub(super) reader: OwnedFd,
    pub(super) writer: OwnedFd,
}

impl Pipe {
    pub(super) fn new() -> Step<Self> {
        let (reader, writer) = at("pipe2(2)", pipe::create())?;
        Ok(Pipe { reader, writer })
    }

    /// A pipe that refers to a page, or has a copy of it.
    pub(super) fn holding(page: &Buffer, options: VmspliceOptions) -> Step<Self> {
        let pipe = Pipe::new()?;
        let mut output = Output::new(&pipe.writer, Wait::Never);
        at("vmsplice(2)", output.vmsplice(&[page.slice(..)], options))?;
        Ok(pipe)
    }

    /// Moves a page on, by splice.
    pub(super) fn splice(&self, to: impl AsFd, options: SpliceOptions) -> Step<()> {
        spliced(&self.reader, to, options)
    }

    /// Lets another pipe have it too.
    pub(super) fn tee(&self, to: &Pipe) -> Step<()> {
        let mut input = Input::new(&self.reader, Wait::Never);
        at("tee(2)", input.tee(&to.writer, page_size())).map(drop)
    }

    /// Takes everything out. Returns the first byte.
    pub(super) fn first_byte(&self) -> Step<u8> {
        let mut bytes = vec![0; page_size()];
        let mut input = Input::new(&self.reader, Wait::Never);
        at("read(2)", input.read_some(&mut bytes))?;
        Ok(bytes[0])
    }

    /// The bytes that are in it.
    pub(super) fn unread(&self) -> Step<usize> {
        at("ioctl(2) FIONREAD", pipe::unread(&self.reader))
    }
}

/// Whether the kernel refers to pages at all: nothing else is to be seen of
/// them where vmsplice copies.
pub(super) fn vmsplice_refers() -> Step<bool> {
    let mut page = old_page()?;
    let pipe = Pipe::holding(&page, VmspliceOptions::default())?;
    page[0] = NEW;
    Ok(pipe.first_byte()? == NEW)
}

/// The outcome of an experiment that needs pages to be referred to.
pub(super) fn needs_references(
    experiment: impl FnOnce() -> Step<Outcome>,
) -> anyhow::Result<Outcome> {
    found(|| match vmsplice_refers()? {
        true => experiment(),
        false => Ok(Outcome::seen("can't be told, vmsplice(2) copies here")
            .noting("see vmsplice-refers; no page of the caller's is ever in a pipe")),
    })
}

/// Moves a page from one descriptor to another.
pub(super) fn spliced(from: impl AsFd, to: impl AsFd, options: SpliceOptions) -> Step<()> {
    let mut input = Input::new(from, Wait::Never);
    at("splice(2)", input.splice(to, page_size() as u64, options)).map(drop)
}
