//! A pipeful through a pipe while nobody sleeps: by one processor that does
//! both ends' work, and by two that take turns.
//!
//! With two, what one end leaves in its cache has to come over to the other:
//! the data, the pipe's slots and lock, and the pages themselves, which go back
//! to the other processor's free lists. That is what the ends of a real
//! pipeline pay, and no microbenchmark on one processor shows it.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastpipe::buffer::Pages;
use fastpipe::pipe::page_size;

use super::ends::{In, Out, Receiver, Sender, ends};
use super::processors::on_processor;
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};
use crate::{size, stats};

/// The piece that each end moves by one call: the ladder's buffer.
pub const PIECE: usize = 256 << 10;

/// About so much goes through for one sample.
const VOLUME: usize = 3 << 20;

/// Turns before those that count: the first finds everything cold.
const WARM_UP: u32 = 2;

/// A turn takes less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);

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

    fn ways(self) -> (In, Out) {
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

/// The names of the costs of a way through a pipe of so many bytes with pieces
/// of so many: in, and out.
pub fn names(technique: Technique, pipe: usize, piece: usize, crosses: bool) -> [String; 2] {
    let place = if crosses { "two" } else { "one" };
    let (name, pipe, piece) = (technique.name(), size::short(pipe), size::short(piece));
    ["in", "out"].map(|end| format!("{name}_{end}_{pipe}_pieces_{piece}_{place}_cpu"))
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
            probes.push(Through::prepared(technique, pipe, piece, (one, one)));
            if let Some(pair) = two {
                probes.push(Through::prepared(technique, pipe, piece, pair));
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
}

impl Through {
    fn prepared(technique: Technique, pipe: usize, piece: usize, cpus: (usize, usize)) -> Prepared {
        let names = names(technique, pipe, piece, cpus.0 != cpus.1);
        let kinds = names.map(|name| Kind::new(Group::Through, Per::Page, name, ""));
        let (way_in, way_out) = technique.ways();
        let through = ends(way_in, way_out, pipe, piece).map(|(sender, receiver)| Through {
            kinds: kinds.to_vec(),
            sender,
            receiver,
            pipe,
            cpus,
        });
        prepared(kinds.to_vec(), through)
    }

    fn turns(&self) -> u32 {
        WARM_UP + (VOLUME / self.pipe).max(3) as u32
    }

    fn alone(&mut self) -> io::Result<(f64, f64)> {
        let (mut filling, mut emptying) = (Vec::new(), Vec::new());
        for _ in 0..self.turns() {
            let started = Instant::now();
            self.sender.fill()?;
            let between = Instant::now();
            self.receiver.empty()?;
            emptying.push(between.elapsed());
            filling.push(between - started);
        }
        Ok((usual(&filling), usual(&emptying)))
    }

    fn in_turns(&mut self) -> io::Result<(f64, f64)> {
        let turns = self.turns();
        let baton = Baton::default();
        let (sender, receiver, there) = (&mut self.sender, &mut self.receiver, self.cpus.1);
        thread::scope(|scope| {
            let baton = &baton;
            let other = scope
                .spawn(move || on_processor(there, || baton.run(turns, 1, || receiver.empty())));
            let filling = baton.run(turns, 0, || sender.fill());
            let emptying = other
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of a probe has died")));
            match (filling, emptying) {
                // The other one knows why.
                (Err(error), Err(cause)) if error.kind() == io::ErrorKind::Interrupted => {
                    Err(cause)
                }
                (filling, emptying) => Ok((filling?, emptying?)),
            }
        })
    }
}

impl Probe for Through {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let here = self.cpus.0;
        let (filling, emptying) = on_processor(here, || match self.cpus.0 == self.cpus.1 {
            true => self.alone(),
            false => self.in_turns(),
        })?;
        let pages = self.pipe as f64 / page_size() as f64;
        Ok([filling, emptying].map(|ns| (ns / pages).into()).to_vec())
    }
}

/// The median of the turns in nanoseconds: an interruption meets one of them.
fn usual(turns: &[Duration]) -> f64 {
    let ns: Vec<f64> = turns
        .iter()
        .skip(WARM_UP as usize)
        .map(|turn| turn.as_nanos() as f64)
        .collect();
    stats::median(&ns).unwrap_or(0.0)
}

/// Goes back and forth between two threads that spin until they have it.
#[derive(Default)]
struct Baton(AtomicU32);

impl Baton {
    /// Both may stop waiting.
    const DROPPED: u32 = u32::MAX;

    /// Acts whenever it is this thread's turn: `parity` says which numbers are.
    /// The time that is usual.
    fn run(
        &self,
        turns: u32,
        parity: u32,
        mut act: impl FnMut() -> io::Result<()>,
    ) -> io::Result<f64> {
        let mut taken = Vec::new();
        for turn in 0..turns {
            let mine = 2 * turn + parity;
            self.wait(mine)?;
            let started = Instant::now();
            if let Err(error) = act() {
                self.0.store(Self::DROPPED, Ordering::Release);
                return Err(error);
            }
            taken.push(started.elapsed());
            self.0.store(mine + 1, Ordering::Release);
        }
        Ok(usual(&taken))
    }

    fn wait(&self, mine: u32) -> io::Result<()> {
        let started = Instant::now();
        loop {
            for _ in 0..1 << 16 {
                match self.0.load(Ordering::Acquire) {
                    Self::DROPPED => return Err(io::ErrorKind::Interrupted.into()),
                    number if number == mine => return Ok(()),
                    _ => std::hint::spin_loop(),
                }
            }
            // Its thread is gone, or something keeps it off its processor.
            if started.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}
