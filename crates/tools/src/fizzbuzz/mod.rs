//! FizzBuzz at the speed of memory.
//!
//! # Method
//! The 100 lines that begin at a multiple of 100, a *segment*, differ only in their
//! last two digits, and whether a line is a number depends on it modulo 15. So
//! for each number of digits there are three templates of a segment, into which
//! the digits from the hundreds up are filled in, the same ones on every line.
//!
//! ```text
//! 12300 is FizzBuzz: the segments of 12300, 12600, 12900 ... have the template
//!     FizzBuzz\n hhh01\n hhh02\n Fizz\n hhh04\n Buzz\n ...
//! with hhh = 123, 126, 129 ...
//!
//! fill(out):
//!     copy the rest of the spare buffer
//!     while a segment fits:
//!         out = template, each h replaced by its digit            [portable, vector]
//!         add one to the digits
//!     put another segment (or single lines up to the next segment or the last
//!     line) into the spare buffer:                                [naive]
//!         copy as much of it as fits
//! ```
//!
//! Filling in treats all bytes alike, so that it needs no branch and can process
//! 32 or 64 bytes at a time; see [`vector`].
//!
//! The idea of one instruction that selects a digit or a literal character for
//! many bytes at once is by ais523, whose program was the first to exceed
//! 50 GiB/s of FizzBuzz.

pub mod naive;
mod portable;
mod template;
pub mod vector;

use self::naive::push_line;
use self::template::{LINES, MAX_SEGMENT, SLACK, Template};

/// The last line supported.
pub const LAST: u64 = 1 << 63;

/// Code path that fills segments in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Without special instructions.
    Portable,
    /// 32 bytes at a time, on x86-64.
    Avx2,
    /// 64 bytes at a time, on x86-64.
    Avx512,
}

pipespeed_base::named!(Path {
    Portable = "portable": "without special instructions",
    Avx2 = "avx2": "32 bytes at a time, on x86-64",
    Avx512 = "avx512": "64 bytes at a time, on x86-64",
});

impl Path {
    /// All paths, the fastest one last.
    pub const ALL: [Path; 3] = [Path::Portable, Path::Avx2, Path::Avx512];

    /// Whether this processor has the instructions.
    pub fn is_supported(self) -> bool {
        match self {
            Path::Portable => true,
            Path::Avx2 => vector::has_avx2(),
            Path::Avx512 => vector::has_avx512(),
        }
    }

    /// The fastest path that this processor supports.
    pub fn fastest() -> Path {
        let mut fastest_first = Path::ALL.into_iter().rev();
        fastest_first
            .find(|path| path.is_supported())
            .unwrap_or(Path::Portable)
    }

    /// Fills in the segments of `run`, as long as one and [`SLACK`] bytes fit into
    /// `out`. Returns the numbers of segments and bytes written.
    fn fill(self, run: Run<'_>, out: &mut [u8]) -> (u64, usize) {
        match self {
            Path::Portable => portable::fill(run, out),
            Path::Avx2 => vector::fill_avx2(run, out),
            Path::Avx512 => vector::fill_avx512(run, out),
        }
    }
}

/// Consecutive segments with the same number of digits.
#[derive(Clone, Copy)]
struct Run<'a> {
    /// Segment number `n` has `templates[n % 3]`.
    templates: &'a [Template; 3],
    /// The first segment's number: its first line divided by 100.
    hundreds: u64,
    /// Maximum number of segments.
    most: u64,
}

/// Generates the lines of a range, piece by piece.
pub struct FizzBuzz {
    lines: Lines,
    /// Lines not yet returned are in `spare[spare_at..spare_end]`.
    spare: [u8; MAX_SEGMENT + SLACK],
    spare_at: usize,
    spare_end: usize,
}

/// The lines not yet generated.
struct Lines {
    next: u64,
    last: u64,
    path: Path,
    /// Templates of the lines below `era_end`.
    templates: Box<[Template; 3]>,
    era_end: u64,
}

impl FizzBuzz {
    /// The lines `from..=last`, up to [`LAST`], by the fastest path that this
    /// processor supports.
    pub fn new(from: u64, last: u64) -> Self {
        Self::by(Path::fastest(), from, last)
    }

    /// The lines `from..=last`, up to [`LAST`], by `path`.
    ///
    /// # Panics
    /// If this processor does not support it.
    pub fn by(path: Path, from: u64, last: u64) -> Self {
        assert!(path.is_supported(), "{} is not supported", path.name());
        FizzBuzz {
            lines: Lines {
                next: from,
                last: last.min(LAST),
                path,
                templates: Box::new(Template::three(LINES)),
                era_end: 0,
            },
            spare: [0; _],
            spare_at: 0,
            spare_end: 0,
        }
    }

    /// Fills `out` with the next bytes. Returns their number, which is less than
    /// the length of `out` only at the end.
    pub fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut at = 0;
        loop {
            let n = (out.len() - at).min(self.spare_end - self.spare_at);
            let rest = &self.spare[self.spare_at..self.spare_at + n];
            out[at..at + n].copy_from_slice(rest);
            self.spare_at += n;
            at += n;
            if at == out.len() || self.lines.next > self.lines.last {
                return at;
            }
            at += self.lines.write_segments(&mut out[at..]);
            if at < out.len() {
                self.spare_at = 0;
                self.spare_end = self.lines.write_spare(&mut self.spare);
            }
        }
    }
}

impl Lines {
    /// Writes as many complete segments as fit. Returns the number of bytes.
    fn write_segments(&mut self, out: &mut [u8]) -> usize {
        let mut at = 0;
        // Numbers below 100 have no hundreds to fill in.
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

    /// Writes a segment, or the lines up to the next segment or the last line.
    /// Returns the number of bytes.
    fn write_spare(&mut self, out: &mut [u8; MAX_SEGMENT + SLACK]) -> usize {
        let mut at = self.write_segments(out);
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
