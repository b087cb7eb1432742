//! What a page costs on its way into a pipe and out of it.
//!
//! A pipe is filled and emptied by one thread, a pipeful at a time; the calls
//! that put in and those that take out are timed apart.

use std::io;
use std::time::{Duration, Instant};

use fastpipe::buffer::Pages;
use fastpipe::pipe::page_size;

use super::ends::{In, Out, Receiver, Sender, Shared, ends};
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};

/// A pipeful, and the piece that is put in by one call: the ladder's buffer.
const PIECE: usize = 256 << 10;

/// How often it is filled and emptied for one sample.
const TIMES: u32 = 12;

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
            In::Write(Pages::Base),
            Out::Read(Pages::Base),
            Some(copying("write", "write, into new pages of the pipe's")),
            Some(copying("read", "read, and the pages given back")),
        ),
        (
            base(true),
            Out::Read(Pages::Base),
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
    sender: Sender,
    receiver: Receiver,
}

impl Filled {
    fn new(kinds: Vec<Kind>, way_in: In, way_out: Out, shown: (bool, bool)) -> io::Result<Self> {
        let (sender, receiver) = ends(way_in, way_out, &Shared::new(PIECE)?, PIECE)?;
        Ok(Filled {
            kinds,
            shown,
            sender,
            receiver,
        })
    }
}

impl Probe for Filled {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let (mut filling, mut emptying) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..TIMES {
            self.sender.prepare()?;
            let started = Instant::now();
            self.sender.fill()?;
            let between = Instant::now();
            self.receiver.empty()?;
            emptying += between.elapsed();
            filling += between - started;
        }
        let pages = f64::from(TIMES) * (PIECE / page_size()) as f64;
        let mut values: Vec<Value> = Vec::new();
        if self.shown.0 {
            values.push((filling.as_nanos() as f64 / pages).into());
        }
        if self.shown.1 {
            values.push((emptying.as_nanos() as f64 / pages).into());
        }
        Ok(values)
    }
}
