//! An interpreter for programs of bytes: it drives a writer and its reader and compares
//! them with a `Vec<u8>`. Used by the property tests and a fuzz target, so it depends
//! only on the library and `decisions.rs`.
//!
//! If the writer never waits, one thread does everything in an order decided by the
//! program; the reader may also pass pages onward and read them much later. Otherwise
//! the reader is a thread that reads pieces of given sizes.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use fastpipe::buffer::Pages;
use fastpipe::method::{AssertReaderCopies, Method};
use fastpipe::pipe;
use fastpipe::wait::Wait;
use fastpipe::writer::{Frozen, Writer};
use rustix::pipe::{SpliceFlags, splice};

use super::decisions::{Decisions, assert_same, fill, stream};

/// A program sends at most about this many bytes.
const MAX_SENT: usize = 8 << 20;

/// Maximum number of operations of a program.
const MAX_STEPS: usize = 60;

/// A size from 0 to about 700 KiB, mostly small and often near a page boundary.
fn size(decide: &mut Decisions<'_>) -> usize {
    let fine = decide.byte();
    match decide.byte() % 6 {
        0 => fine % 40,
        1 => 4090 + fine % 12,
        2 => 4096 * (fine % 40),
        3 => 300 * fine,
        4 => 65_530 + fine % 12,
        _ => 2777 * fine,
    }
}
/// The read end of the pipe, for a program in one thread.
struct Near {
    file: File,
    got: Vec<u8>,
    /// The pipe that holds the pages passed onward; `held` are their offsets and lengths.
    onward: (OwnedFd, OwnedFd),
    held: Vec<(usize, usize)>,
}

impl Near {
    fn new(reader: OwnedFd) -> Self {
        Near {
            file: File::from(reader),
            got: Vec::new(),
            onward: pipe::create().unwrap(),
            held: Vec::new(),
        }
    }

    fn read(&mut self, most: usize) {
        let n = most.min(pipe::unread(&self.file).unwrap());
        let from = self.got.len();
        self.got.resize(from + n, 0);
        self.file.read_exact(&mut self.got[from..]).unwrap();
    }

    /// Splices at most `most` bytes onward, to be read later. Leaves a gap for them in `got`.
    fn hold(&mut self, most: usize) {
        let n = most.min(pipe::unread(&self.file).unwrap());
        if n == 0 {
            return;
        }
        let to = self.onward.1.as_fd();
        let held = splice(&self.file, None, to, None, n, SpliceFlags::NONBLOCK);
        let Ok(held) = held else {
            return;
        };
        self.held.push((self.got.len(), held));
        self.got.resize(self.got.len() + held, 0);
    }

    /// Reads the held bytes into their gaps.
    fn look(&mut self) {
        let mut onward = File::from(self.onward.0.try_clone().unwrap());
        for (at, len) in self.held.drain(..) {
            onward.read_exact(&mut self.got[at..at + len]).unwrap();
        }
    }
}

/// Runs the program.
///
/// # Panics
/// If the reader did not get exactly the bytes sent, or the writer violated its
/// documentation.
pub fn run(program: &[u8]) {
    let mut decide = Decisions::new(program);
    let never = !decide.byte().is_multiple_of(4);
    let (reader, writer) = pipe::create().unwrap();
    let capacity = decide.pick(&[65_536, 4096, 16_384, 262_144]);
    let _ = pipe::set_capacity_up_to(&writer, capacity);
    let method = decide.pick(&[
        Method::Fresh,
        Method::CowChecked,
        Method::Drained(AssertReaderCopies),
        Method::Copy { piece: 5000 },
        Method::Auto,
    ]);
    let waits = [Wait::Block, Wait::Poll, Wait::Adaptive, Wait::Spin];
    let wait = if never {
        Wait::Never
    } else {
        decide.pick(&waits)
    };
    let mut builder = Writer::builder().method(method).wait(wait);
    builder = builder.pages(decide.pick(&[Pages::Base, Pages::Huge, Pages::HugeTlb]));
    builder = match decide.byte() % 3 {
        0 => builder,
        1 => builder.region(size(&mut decide)),
        _ => builder.region(4 << 20),
    };
    builder = match decide.byte() % 3 {
        0 => builder,
        1 => builder.loan(size(&mut decide)),
        _ => builder.loan(8192),
    };
    builder = match decide.byte() % 3 {
        0 => builder.keep_capacity(),
        1 => builder.capacity(1 << decide.pick(&[12, 16, 18, 20])),
        _ => builder,
    };
    if !decide.byte().is_multiple_of(4) {
        builder = builder.at_once();
    }
    let mut out = builder.open(writer).unwrap();
    if never {
        let copies = matches!(method, Method::Drained(_));
        let mut near = Near::new(reader);
        let sent = steps(&mut out, &mut decide, Some((&mut near, copies)));
        end_near(out, near, &sent, decide.byte().is_multiple_of(2));
        return;
    }
    let size = 1 + size(&mut decide);
    let reading = std::thread::spawn(move || {
        let (mut file, mut got) = (File::from(reader), Vec::new());
        let mut chunk = vec![0; 4096 + size];
        for most in [4096 + size, size.max(500)].iter().cycle() {
            match file.read(&mut chunk[..*most]).unwrap() {
                0 => break,
                n => got.extend_from_slice(&chunk[..n]),
            }
        }
        got
    });
    let sent = steps(&mut out, &mut decide, None);
    if decide.byte().is_multiple_of(2) {
        out.wait_drained().unwrap();
        assert_eq!(pipe::unread(&out).unwrap(), 0);
        drop(out);
    } else {
        assert_eq!(out.finish().unwrap().counts.bytes, sent.len() as u64);
    }
    assert_same(&reading.join().unwrap(), &sent);
}

/// Ends the writer by finishing or dropping it, and reads the remaining bytes.
fn end_near(mut out: Writer, mut near: Near, sent: &[u8], finish: bool) {
    while out.queued() > 0 || pipe::unread(&near.file).unwrap() > 0 {
        near.read(usize::MAX);
        if let Err(error) = out.flush() {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
    }
    if finish {
        let report = out.finish().unwrap();
        assert_eq!(report.counts.bytes, sent.len() as u64);
    } else {
        drop(out);
    }
    near.read(usize::MAX);
    near.look();
    assert_same(&near.got, sent);
}

/// Returns the writer's answer; `None` if it was `WouldBlock`, which is only allowed under
/// [`Wait::Never`] with queued bytes.
#[track_caller]
fn taken<T>(answer: std::io::Result<T>, never: bool, queued: u128) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            assert!(never && queued > 0, "nothing stood in the way");
            None
        }
    }
}

/// Executes the operations. Returns the bytes that the writer accepted.
fn steps(
    out: &mut Writer,
    decide: &mut Decisions<'_>,
    mut near: Option<(&mut Near, bool)>,
) -> Vec<u8> {
    let never = near.is_some();
    let mut sent: Vec<u8> = Vec::new();
    for _ in 0..MAX_STEPS {
        if decide.is_empty() || sent.len() > MAX_SENT {
            break;
        }
        let queued = out.queued();
        match decide.byte() % 12 {
            0..3 => {
                let (ask, n) = (size(decide), size(decide));
                if let Some(mut loan) = taken(out.lend(ask), never, queued) {
                    assert!(loan.len() >= ask.max(1));
                    assert!(loan.as_ptr().addr().is_multiple_of(pipe::page_size()));
                    let n = n.min(loan.len());
                    loan.fill(b'?');
                    fill(&mut loan[..n], sent.len() as u64);
                    loan.commit(n).unwrap();
                    sent.extend(stream(sent.len() as u64, n));
                }
            }
            3 => {
                if let Some(mut loan) = taken(out.lend(size(decide)), never, queued) {
                    loan.fill(b'!');
                }
            }
            4..6 => {
                let bytes = stream(sent.len() as u64, size(decide));
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let answer = out.write(rest);
                    let Some(n) = taken(answer, never, out.queued()) else {
                        break;
                    };
                    sent.extend_from_slice(&rest[..n]);
                    rest = &rest[n..];
                }
            }
            6 => {
                let flushed = out.flush();
                if taken(flushed, never, out.queued()).is_some() {
                    assert_eq!(out.queued(), 0);
                }
            }
            7 => {
                let data = stream(sent.len() as u64, 1 + size(decide));
                let most = (1 << 20) / data.len() + 1;
                let times = (decide.byte() * decide.byte() + decide.byte() % 3).min(most);
                let frozen = Frozen::new(&data).unwrap();
                if taken(out.repeat(&frozen, times as u64), never, queued).is_some() {
                    sent.extend(data.repeat(times));
                }
            }
            8 => {
                let shift = decide.pick(&[12, 14, 16, 18, 20]);
                // Refused if more is queued, or above a limit.
                let _ = pipe::set_capacity(&*out, 1 << shift);
            }
            9 | 10 => {
                let most = size(decide);
                if let Some((near, _)) = &mut near {
                    near.read(most);
                }
            }
            _ => {
                let most = size(decide);
                match &mut near {
                    Some((near, false)) => near.hold(most),
                    Some((near, true)) => near.read(most),
                    None => {}
                }
            }
        }
        if let Some((near, _)) = &near {
            let there = near.got.len() + pipe::unread(&near.file).unwrap();
            assert_eq!(there as u128 + out.queued(), sent.len() as u128);
        }
    }
    sent
}
