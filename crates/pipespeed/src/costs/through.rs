//! A pipeful through a pipe while nobody sleeps: by one processor that does
//! both ends' work, and by two that take turns.
//!
//! With two, what one end leaves in its cache has to come over to the other:
//! the data, the pipe's slots and lock, and the pages themselves, which go back
//! to the other processor's free lists. That is what the ends of a real
//! pipeline pay, and no microbenchmark on one processor shows it. If they sleep
//! until it is their turn, each finds its processor's caches gone cold, too.

use std::io;
use std::thread;
use std::time::Instant;

use fastpipe::buffer::Pages;
use fastpipe::pipe::page_size;

use super::baton::{WARM_UP, batons, usual};
use super::ends::{In, Out, Receiver, Sender, ends};
use super::processors::on_processor;
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};
use crate::size;

/// The piece that each end moves by one call: the ladder's buffer.
pub const PIECE: usize = 256 << 10;

/// About so much goes through for one sample.
const VOLUME: usize = 6 << 20;

/// The ways through a pipe, each with the pages of its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Technique {
    /// write(2) and read(2).
    WriteRead,
    /// The same with buffers of huge pages.
    WriteReadHuge,
    /// vmsplice(2) and read(2).
    VmspliceRead,
    /// The same with huge pages.
    VmspliceReadHuge,
    /// vmsplice(2), and splice(2) to /dev/null.
    VmspliceSplice,
    /// The same with huge pages.
    VmspliceSpliceHuge,
}

impl Technique {
    /// All of them.
    pub const ALL: [Technique; 6] = [
        Technique::WriteRead,
        Technique::WriteReadHuge,
        Technique::VmspliceRead,
        Technique::VmspliceReadHuge,
        Technique::VmspliceSplice,
        Technique::VmspliceSpliceHuge,
    ];

    /// The name of the ladder's rung that blocks.
    pub fn name(self) -> &'static str {
        match self {
            Technique::WriteRead => "write_read",
            Technique::WriteReadHuge => "write_read_huge",
            Technique::VmspliceRead => "vmsplice_read",
            Technique::VmspliceReadHuge => "vmsplice_read_huge",
            Technique::VmspliceSplice => "vmsplice_splice",
            Technique::VmspliceSpliceHuge => "vmsplice_splice_huge",
        }
    }

    pub(super) fn ways(self) -> (In, Out) {
        let vmsplice = |pages| In::Vmsplice {
            pages,
            touched: true,
        };
        match self {
            Technique::WriteRead => (In::Write(Pages::Base), Out::Read(Pages::Base)),
            Technique::WriteReadHuge => (In::Write(Pages::Huge), Out::Read(Pages::Huge)),
            Technique::VmspliceRead => (vmsplice(Pages::Base), Out::Read(Pages::Base)),
            Technique::VmspliceReadHuge => (vmsplice(Pages::Huge), Out::Read(Pages::Huge)),
            Technique::VmspliceSplice => (vmsplice(Pages::Base), Out::SpliceToNull),
            Technique::VmspliceSpliceHuge => (vmsplice(Pages::Huge), Out::SpliceToNull),
        }
    }
}

/// Who does the work at the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turns {
    /// One processor.
    Alone,
    /// Two in turns; who waits spins.
    Spinning,
    /// Two in turns; who waits sleeps. Sleeping and waking are not counted.
    Sleeping,
}

/// The names of the costs of a way through a pipe of so many bytes with pieces
/// of so many: in, and out.
pub fn names(technique: Technique, pipe: usize, piece: usize, turns: Turns) -> [String; 2] {
    let place = match turns {
        Turns::Alone => "one_cpu",
        Turns::Spinning => "two_cpus",
        Turns::Sleeping => "two_cpus_after_sleep",
    };
    let (name, pipe, piece) = (technique.name(), size::short(pipe), size::short(piece));
    ["in", "out"].map(|end| format!("{name}_{end}_{pipe}_pieces_{piece}_{place}"))
}

/// All techniques, for all those sizes of the pipe and of the piece; on one
/// processor, and on two where a pair is given.
pub(super) fn probes(
    sizes: &[(usize, usize)],
    one: usize,
    two: Option<(usize, usize)>,
) -> Vec<Prepared> {
    let mut probes = Vec::new();
    for technique in Technique::ALL {
        for &(pipe, piece) in sizes {
            let through = |cpus, turns| Through::prepared(technique, pipe, piece, cpus, turns);
            probes.push(through((one, one), Turns::Alone));
            if let Some(pair) = two {
                probes.push(through(pair, Turns::Spinning));
                probes.push(through(pair, Turns::Sleeping));
            }
        }
    }
    probes
}

struct Through {
    kinds: Vec<Kind>,
    sender: Sender,
    receiver: Receiver,
    pipe: usize,
    /// The sender's processor and the receiver's.
    cpus: (usize, usize),
    turns: Turns,
}

impl Through {
    fn prepared(
        technique: Technique,
        pipe: usize,
        piece: usize,
        cpus: (usize, usize),
        turns: Turns,
    ) -> Prepared {
        let names = names(technique, pipe, piece, turns);
        let kinds = names.map(|name| Kind::new(Group::Through, Per::Page, name, ""));
        let (way_in, way_out) = technique.ways();
        let through = ends(way_in, way_out, pipe, piece).map(|(sender, receiver)| Through {
            kinds: kinds.to_vec(),
            sender,
            receiver,
            pipe,
            cpus,
            turns,
        });
        prepared(kinds.to_vec(), through)
    }

    fn count(&self) -> u32 {
        let volume = match self.turns {
            Turns::Alone | Turns::Spinning => VOLUME,
            // They take longer.
            Turns::Sleeping => VOLUME / 4,
        };
        WARM_UP + (volume / self.pipe).max(3) as u32
    }

    fn alone(&mut self) -> io::Result<[f64; 2]> {
        let (mut filling, mut emptying) = (Vec::new(), Vec::new());
        for _ in 0..self.count() {
            let started = Instant::now();
            self.sender.fill()?;
            let between = Instant::now();
            self.receiver.empty()?;
            emptying.push(between.elapsed());
            filling.push(between - started);
        }
        Ok([usual(&filling), usual(&emptying)])
    }

    fn in_turns(&mut self) -> io::Result<[f64; 2]> {
        let count = self.count();
        let [here, there] = batons(self.turns)?;
        let (sender, receiver, cpu) = (&mut self.sender, &mut self.receiver, self.cpus.1);
        let (filling, emptying) = thread::scope(|scope| {
            let other =
                scope.spawn(move || on_processor(cpu, || there.run(count, || receiver.empty())));
            let filling = here.run(count, || sender.fill());
            let died = |_| Err(io::Error::other("a thread of a probe has died"));
            (filling, other.join().unwrap_or_else(died))
        });
        match (filling, emptying) {
            // The other one knows why.
            (Err(error), Err(cause)) if error.kind() == io::ErrorKind::Interrupted => Err(cause),
            (filling, emptying) => Ok([filling?, emptying?]),
        }
    }
}

impl Probe for Through {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let here = self.cpus.0;
        let ends = on_processor(here, || match self.turns {
            Turns::Alone => self.alone(),
            Turns::Spinning | Turns::Sleeping => self.in_turns(),
        })?;
        let pages = self.pipe as f64 / page_size() as f64;
        Ok(ends.map(|ns| (ns / pages).into()).to_vec())
    }
}
