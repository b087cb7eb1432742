//! What a page costs on its way into a pipe and out of it.
//!
//! A pipe is filled and emptied by one thread, a pipeful at a time; the calls
//! that put in and those that take out are timed apart.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use super::{Group, Kind, Per, Prepared, Probe, prepared};

/// A pipeful, and the piece that is put in by one call: the ladder's buffer.
const PIECE: usize = 256 << 10;

/// How often it is filled and emptied for one sample.
const TIMES: u32 = 12;

/// How a pipe is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Write,
    Vmsplice { pages: Pages, touched: bool },
    Tee,
    Splice,
}

/// How it is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Out {
    Read,
    SpliceToNull,
}

pub(super) fn probes() -> Vec<Prepared> {
    let copying = |name: &str, what: &str| Kind::new(Group::Copying, Per::Page, name, what);
    let referring = |name: &str, what: &str| Kind::new(Group::Referring, Per::Page, name, what);
    let base = |touched| In::Vmsplice {
        pages: Pages::Base,
        touched,
    };
    let huge = |touched| In::Vmsplice {
        pages: Pages::Huge,
        touched,
    };
    let all = [
        (
            In::Write,
            Out::Read,
            Some(copying("write", "write, into new pages of the pipe's")),
            Some(copying("read", "read, and the pages given back")),
        ),
        (
            base(true),
            Out::Read,
            Some(referring("vmsplice_base", "vmsplice of base pages")),
            Some(copying(
                "read_vmspliced",
                "read of a page that was vmspliced",
            )),
        ),
        (
            base(true),
            Out::SpliceToNull,
            None,
            Some(referring(
                "splice_to_null_base",
                "splice of base pages to /dev/null",
            )),
        ),
        (
            huge(true),
            Out::SpliceToNull,
            Some(referring("vmsplice_huge", "vmsplice of huge pages")),
            Some(referring(
                "splice_to_null_huge",
                "splice of huge pages to /dev/null",
            )),
        ),
        (
            base(false),
            Out::SpliceToNull,
            Some(referring(
                "vmsplice_base_untouched",
                "vmsplice of base pages nobody wrote to",
            )),
            None,
        ),
        (
            huge(false),
            Out::SpliceToNull,
            Some(referring(
                "vmsplice_huge_untouched",
                "vmsplice of huge pages nobody wrote to",
            )),
            None,
        ),
        (
            In::Tee,
            Out::SpliceToNull,
            Some(referring("tee", "tee from another pipe")),
            None,
        ),
        (
            In::Splice,
            Out::SpliceToNull,
            Some(referring("splice", "splice from another pipe")),
            None,
        ),
    ];
    all.into_iter()
        .map(|(way_in, way_out, put, take)| {
            let kinds: Vec<Kind> = put.iter().chain(&take).cloned().collect();
            let shown = (put.is_some(), take.is_some());
            prepared(kinds.clone(), Filled::new(kinds, way_in, way_out, shown))
        })
        .collect()
}

struct Filled {
    kinds: Vec<Kind>,
    /// Whether the way in and the way out are told.
    shown: (bool, bool),
    way_in: In,
    way_out: Out,
    reader: OwnedFd,
    writer: OwnedFd,
    /// What `tee` and `splice` take from.
    other: (OwnedFd, OwnedFd),
    from: Buffer,
    to: Buffer,
    null: std::fs::File,
}

impl Filled {
    fn new(kinds: Vec<Kind>, way_in: In, way_out: Out, shown: (bool, bool)) -> io::Result<Self> {
        let pipe_of = || {
            let ends = pipe::create()?;
            pipe::set_capacity(&ends.1, PIECE)?;
            Ok::<_, io::Error>(ends)
        };
        let (reader, writer) = pipe_of()?;
        let (pages, touched) = match way_in {
            In::Vmsplice { pages, touched } => (pages, touched),
            _ => (Pages::Base, true),
        };
        let from = Buffer::builder()
            .len(PIECE)
            .pages(pages)
            .touched(touched)
            .map()?;
        if pages == Pages::Huge
            && touched
            && !from.backing().is_ok_and(|backing| backing.all_huge())
        {
            let why = "this system grants no huge pages, or does not show them";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(Filled {
            kinds,
            shown,
            way_in,
            way_out,
            reader,
            writer,
            other: pipe_of()?,
            from,
            to: Buffer::builder().len(PIECE).map()?,
            null: std::fs::File::options().write(true).open("/dev/null")?,
        })
    }

    fn put(&mut self) -> io::Result<()> {
        let mut out = Output::new(&self.writer, Wait::Never);
        let mut other = Input::new(&self.other.0, Wait::Never);
        match self.way_in {
            In::Write => out.write(&self.from)?,
            In::Vmsplice { .. } => {
                out.vmsplice(&[self.from.slice(..)], VmspliceOptions::default())?;
            }
            In::Tee => drop(other.tee(&self.writer, PIECE)?),
            In::Splice => {
                other.splice(&self.writer, PIECE as u64, SpliceOptions::default())?;
            }
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        let mut input = Input::new(&self.reader, Wait::Never);
        match self.way_out {
            Out::Read => drop(input.read(&mut self.to)?),
            Out::SpliceToNull => {
                input.splice(&self.null, PIECE as u64, SpliceOptions::default())?;
            }
        }
        Ok(())
    }

    /// Fills the pipe that `tee` and `splice` take from.
    fn refill(&mut self) -> io::Result<()> {
        let is_used = matches!(self.way_in, In::Tee | In::Splice);
        if is_used && pipe::unread(&self.other.0)? == 0 {
            Output::new(&self.other.1, Wait::Never)
                .vmsplice(&[self.from.slice(..)], VmspliceOptions::default())?;
        }
        Ok(())
    }
}

impl Probe for Filled {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<f64>> {
        let (mut putting, mut taking) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..TIMES {
            self.refill()?;
            let started = Instant::now();
            self.put()?;
            let between = Instant::now();
            self.take()?;
            taking += between.elapsed();
            putting += between - started;
        }
        let pages = f64::from(TIMES) * (PIECE / page_size()) as f64;
        let mut values = Vec::new();
        if self.shown.0 {
            values.push(putting.as_nanos() as f64 / pages);
        }
        if self.shown.1 {
            values.push(taking.as_nanos() as f64 / pages);
        }
        Ok(values)
    }
}
