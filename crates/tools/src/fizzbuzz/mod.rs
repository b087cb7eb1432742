//! FizzBuzz as fast as memory can be written, and exact.
//!
//! # How
//! Numbers of one digit count differ from line to line in their last digits
//! only, and whether a line is a number depends on it modulo 15. So 100 lines
//! that begin at a multiple of 100, a *segment*, look like one of three
//! templates: the digits from the hundreds on are to be filled in,
//! the same ones on every line.
//!
//! ```text
//! 12300 is FizzBuzz: the segments of 12300, 12600, 12900 ... have the template
//!     FizzBuzz\n hhh01\n hhh02\n Fizz\n hhh04\n Buzz\n ...
//! with hhh = 123, 126, 129 ...
//!
//! fill(out):
//!     give what was left over the last time
//!     as many segments as fit:
//!         out = template, each h replaced by its digit            [portable, vector]
//!         add one to the digits
//!     a segment more (or lines one by one, to where a segment begins, or to
//!     the last line), into a buffer aside:                        [naive]
//!         give as much of it as fits; the rest is left over
//! ```
//!
//! Filling in does the same to every byte, so that it needs no branch and can
//! be done to 32 or 64 bytes at a time; see [`vector`].
//!
//! The idea of one instruction that picks a digit or a literal character for
//! many bytes at once is ais523's, whose program was the first to make more
//! than 50 GiB/s of FizzBuzz.

pub mod naive;
mod portable;
mod template;
pub mod vector;

use self::naive::push_line;
use self::template::{LINES, LONGEST, SLACK, Template};

/// The last line there is.
pub const LAST: u64 = 1 << 63;

/// How segments are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Without any special instruction.
    Portable,
    /// 32 bytes at a time, on x86-64.
    Avx2,
    /// 64 bytes at a time, on x86-64.
    Avx512,
}

pipespeed_base::named!(Path {
    Portable = "portable": "without any special instruction",
    Avx2 = "avx2": "32 bytes at a time, on x86-64",
    Avx512 = "avx512": "64 bytes at a time, on x86-64",
});

impl Path {
    /// All there are, the fastest one last.
    pub const ALL: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];

    /// Whether this processor has the instructions.
    pub fn is_known_here(self) -> bool {
        match self {
            Path::Portable => true,
            Path::Avx2 => vector::has_avx2(),
            Path::Avx512 => vector::has_avx512(),
        }
    }

    /// The fastest that this processor knows.
    pub fn fastest() -> Path {
        let known = Path::ALL
            .into_iter()
            .rev()
            .find(|path| path.is_known_here());
        known.unwrap_or(Path::Portable)
    }

    /// Fills in up to `most` segments, of which the first is the `hundreds`th,
    /// as long as one and [`SLACK`] bytes fit into `out`. Returns how many
    /// segments, and how many bytes these are.
    fn fill(self, run: Run<'_>, out: &mut [u8]) -> (u64, usize) {
        match self {
            Path::Portable => portable::fill(run, out),
            Path::Avx2 => vector::fill_avx2(run, out),
            Path::Avx512 => vector::fill_avx512(run, out),
        }
    }
}

/// Segments that follow one another and have the same digit count.
#[derive(Clone, Copy)]
struct Run<'a> {
    /// That of the `n`th segment is `templates[n % 3]`.
    templates: &'a [Template; 3],
    /// The first segment's number: its first line divided by 100.
    hundreds: u64,
    /// How many segments.
    most: u64,
}

/// The lines from one number to another, made piece by piece.
pub struct FizzBuzz {
    lines: Lines,
    /// Lines that were made and not given yet: `aside[aside_at..aside_end]`.
    aside: [u8; LONGEST + SLACK],
    aside_at: usize,
    aside_end: usize,
}

/// The lines that were not made yet.
struct Lines {
    next: u64,
    last: u64,
    path: Path,
    /// For lines up to `era_end`, which is excluded.
    templates: Box<[Template; 3]>,
    era_end: u64,
}

impl FizzBuzz {
    /// The lines `from..=last`, up to [`LAST`], made by the fastest way that
    /// this processor knows.
    pub fn new(from: u64, last: u64) -> Self {
        Self::by(Path::fastest(), from, last)
    }

    /// The same, made in a certain way.
    ///
    /// # Panics
    /// If this processor does not know it.
    pub fn by(path: Path, from: u64, last: u64) -> Self {
        assert!(path.is_known_here(), "{} is unknown here", path.name());
        FizzBuzz {
            lines: Lines {
                next: from,
                last: last.min(LAST),
                path,
                templates: Box::new(Template::three(LINES)),
                era_end: 0,
            },
            aside: [0; _],
            aside_at: 0,
            aside_end: 0,
        }
    }

    /// Fills `out` with the next bytes of the lines. Returns how many: fewer
    /// than asked for at the end only.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut at = 0;
        loop {
            let n = (out.len() - at).min(self.aside_end - self.aside_at);
            let given = &self.aside[self.aside_at..self.aside_at + n];
            out[at..at + n].copy_from_slice(given);
            self.aside_at += n;
            at += n;
            if at == out.len() || self.lines.next > self.lines.last {
                return at;
            }
            at += self.lines.segments(&mut out[at..]);
            if at < out.len() {
                self.aside_at = 0;
                self.aside_end = self.lines.some(&mut self.aside);
            }
        }
    }
}

impl Lines {
    /// Makes whole segments, as many as are next and fit. Returns how many
    /// bytes these are.
    fn segments(&mut self, out: &mut [u8]) -> usize {
        let mut at = 0;
        // From 100 on there are hundreds.
        while self.next >= LINES && self.next.is_multiple_of(LINES) && self.next <= self.last {
            if self.next >= self.era_end {
                *self.templates = Template::three(self.next);
                self.era_end = template::era_end(self.next);
            }
            let run = Run {
                templates: &self.templates,
                hundreds: self.next / LINES,
                most: (self.era_end.min(self.last + 1) - self.next) / LINES,
            };
            let (count, bytes) = self.path.fill(run, &mut out[at..]);
            at += bytes;
            self.next += count * LINES;
            if self.next < self.era_end {
                break;
            }
        }
        at
    }

    /// Makes some lines, and not none.
    fn some(&mut self, out: &mut [u8; LONGEST + SLACK]) -> usize {
        let mut at = self.segments(out);
        if at == 0 {
            while self.next <= self.last {
                at += push_line(self.next, &mut out[at..]);
                self.next += 1;
                if self.next.is_multiple_of(LINES) {
                    break;
                }
            }
        }
        at
    }
}

#[cfg(test)]
mod tests;
