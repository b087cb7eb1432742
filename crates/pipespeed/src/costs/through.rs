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
use std::time::{Duration, Instant};

use fastpipe::buffer::Pages;
use fastpipe::pipe::page_size;

use super::baton::batons;
use super::ends::{In, Out, Receiver, Sender, Shared, ends};
use super::processors::{joined, on_processor};
use super::{Group, Kind, Per, Prepared, Probe, Value, prepared};
use crate::{size, stats};

/// The piece that each end moves by one call: the ladder's buffer.
pub const PIECE: usize = 256 << 10;

/// About so much goes through for one sample.
const VOLUME: usize = 6 << 20;

/// The same where pages are new on one processor and given back on another one,
/// whose list of free pages overflows now and then, while the first one's runs dry
/// (mm/page_alloc.c, free_pcppages_bulk() and rmqueue_bulk()): here every 2304
/// pages, each for 0.16 to 0.2 ms.
const VOLUME_OF_NEW: usize = 18 << 20;

/// Turns before those that count, which find everything cold.
const WARM_UP: u32 = 8;

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
    let mut all = vec![((one, one), Turns::Alone)];
    all.extend(two.map(|pair| (pair, Turns::Spinning)));
    all.extend(two.map(|pair| (pair, Turns::Sleeping)));
    let mut pipes: Vec<Result<Shared, (usize, String)>> = Vec::new();
    let mut pieces: Vec<usize> = Vec::new();
    for &(pipe, piece) in sizes {
        let known = |known: &Result<Shared, (usize, String)>| match known {
            Ok(known) => known.bytes == pipe,
            Err((bytes, _)) => *bytes == pipe,
        };
        if !pipes.iter().any(known) {
            pipes.push(Shared::new(pipe).map_err(|error| (pipe, error.to_string())));
        }
        if !pieces.contains(&piece) {
            pieces.push(piece);
        }
    }
    let mut probes = Vec::new();
    for technique in Technique::ALL {
        for &piece in &pieces {
            let mut granted = Vec::new();
            for pipe in &pipes {
                match pipe {
                    Ok(pipe) if sizes.contains(&(pipe.bytes, piece)) => granted.push(pipe.clone()),
                    Ok(_) => {}
                    Err((bytes, why)) if sizes.contains(&(*bytes, piece)) => {
                        probes.push(Err((kinds(technique, *bytes, piece, &all), why.clone())));
                    }
                    Err(_) => {}
                }
            }
            probes.extend(Through::prepared(technique, piece, granted, &all));
        }
    }
    probes
}

/// A writer's processor and a reader's, and how they take turns.
type Places = [((usize, usize), Turns)];

fn kinds(technique: Technique, pipe: usize, piece: usize, places: &Places) -> Vec<Kind> {
    let names = places
        .iter()
        .flat_map(|(_, turns)| names(technique, pipe, piece, *turns));
    names
        .map(|name| {
            let what = name.replace('_', " ");
            Kind::new(Group::Through, Per::Page, name, what)
        })
        .collect()
}

/// A way through several pipes, in all places.
struct Through {
    kinds: Vec<Kind>,
    sender: Sender,
    receiver: Receiver,
    pipes: Vec<Shared>,
    places: Vec<((usize, usize), Turns)>,
    /// Whether the pipe's pages are new for each turn.
    has_new_pages: bool,
}

impl Through {
    fn prepared(
        technique: Technique,
        piece: usize,
        pipes: Vec<Shared>,
        places: &Places,
    ) -> Option<Prepared> {
        let first = pipes.first()?;
        let (way_in, way_out) = technique.ways();
        let ends = ends(way_in, way_out, first, piece);
        let kinds: Vec<Kind> = pipes
            .iter()
            .flat_map(|pipe| kinds(technique, pipe.bytes, piece, places))
            .collect();
        let through = ends.map(|(sender, receiver)| Through {
            kinds: kinds.clone(),
            sender,
            receiver,
            pipes,
            places: places.to_vec(),
            has_new_pages: matches!(way_in, In::Write(_)),
        });
        Some(prepared(kinds, through))
    }

    fn alone(&mut self, count: u32) -> io::Result<[Vec<Duration>; 2]> {
        let (mut filling, mut emptying) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let started = Instant::now();
            self.sender.fill()?;
            let between = Instant::now();
            self.receiver.empty()?;
            emptying.push(between.elapsed());
            filling.push(between - started);
        }
        Ok([filling, emptying])
    }

    fn in_turns(
        &mut self,
        count: u32,
        there: usize,
        turns: Turns,
    ) -> io::Result<[Vec<Duration>; 2]> {
        let [first, second] = batons(turns)?;
        let (sender, receiver) = (&mut self.sender, &mut self.receiver);
        let (filling, emptying) = thread::scope(|scope| {
            let empty = move || on_processor(there, || second.run(count, || receiver.empty()));
            let other = thread::Builder::new().spawn_scoped(scope, empty)?;
            let filling = first.run(count, || sender.fill());
            Ok::<_, io::Error>((filling, joined(other)))
        })?;
        match (filling, emptying) {
            // The other one knows why.
            (Err(error), Err(cause)) if error.kind() == io::ErrorKind::Interrupted => Err(cause),
            (filling, emptying) => Ok([filling?, emptying?]),
        }
    }
}

/// How many turns make a sample.
fn count(pipe: usize, turns: Turns, has_new_pages: bool) -> u32 {
    let volume = match turns {
        Turns::Spinning | Turns::Sleeping if has_new_pages => VOLUME_OF_NEW,
        Turns::Alone | Turns::Spinning => VOLUME,
        // They take longer.
        Turns::Sleeping => VOLUME / 4,
    };
    WARM_UP + (volume / pipe).max(3) as u32
}

/// What a turn takes in nanoseconds: the mean where some are dear by nature, else
/// the median, since an interruption meets one of them.
fn each(turns: &[Duration], has_new_pages: bool) -> f64 {
    let counted = turns.iter().skip(WARM_UP as usize);
    let ns: Vec<f64> = counted.map(|turn| turn.as_nanos() as f64).collect();
    match has_new_pages {
        true => ns.iter().sum::<f64>() / ns.len().max(1) as f64,
        false => stats::median(&ns).unwrap_or(0.0),
    }
}

impl Probe for Through {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let mut values = Vec::new();
        for pipe in self.pipes.clone() {
            self.sender.turn_to(&pipe);
            self.receiver.turn_to(&pipe);
            let pages = pipe.bytes as f64 / page_size() as f64;
            for ((here, there), turns) in self.places.clone() {
                let count = count(pipe.bytes, turns, self.has_new_pages);
                let ends = on_processor(here, || match turns {
                    Turns::Alone => self.alone(count),
                    Turns::Spinning | Turns::Sleeping => self.in_turns(count, there, turns),
                })?;
                let has_new_pages = self.has_new_pages && turns != Turns::Alone;
                values.extend(ends.map(|turns| (each(&turns, has_new_pages) / pages).into()));
            }
        }
        Ok(values)
    }
}
