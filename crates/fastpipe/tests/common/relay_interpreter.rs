//! An interpreter for programs of bytes: it relays from a pipe or socket to another and
//! compares what comes out with a `Vec<u8>`. Used by the tests and a fuzz target, so it
//! depends only on the library and `decisions.rs`.
//!
//! One thread does everything: a relay calls back before each attempt, and the program
//! then writes to the input, reads from the output, resizes or closes. A relay that ends
//! is followed by another one between the same two descriptors.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use fastpipe::pipe;
use fastpipe::relay::{
    Activity, End, Flow, Options, Progress, Side, Technique, relay, relay_inspecting,
};
use fastpipe::wait::Wait;
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;

use super::decisions::{Decisions, assert_same, stream};

/// Maximum number of operations of a program.
const MAX_STEPS: usize = 200;

/// No more bytes are written to the input after this number.
const MAX_WRITTEN: usize = 2 << 20;

/// Largest capacity of the output.
const MAX_CAPACITY: usize = 1 << 18;

/// A size from 0 to about 150 KiB, mostly small and often near a page boundary.
fn size(decide: &mut Decisions<'_>) -> usize {
    let fine = decide.byte();
    match decide.byte() % 5 {
        0 => fine % 20,
        1 => 4090 + fine % 12,
        2 => 37 * fine,
        3 => 4096 * (fine % 20),
        _ => 600 * fine,
    }
}

/// Creates the end to read from and the end to write to. The mode of a pipe is one of
/// `modes`.
fn channel(decide: &mut Decisions<'_>, modes: [PipeFlags; 2]) -> (OwnedFd, OwnedFd) {
    if decide.one_in(4) {
        let (a, b) = UnixStream::pair().unwrap();
        return (a.into(), b.into());
    }
    let (reader, writer) = rustix::pipe::pipe_with(decide.pick(&modes)).unwrap();
    let _ = pipe::set_capacity_up_to(&writer, decide.pick(&[65_536, 4096, 16_384]));
    (reader, writer)
}

/// The world around the relays, and what they have moved.
struct World {
    /// Non-blocking; `None` once the input has ended.
    feeder: Option<File>,
    /// `None` once the output has no reader.
    reader: Option<File>,
    output_is_pipe: bool,
    /// The writer may change between bytes and packets.
    mixes_packets: bool,
    written: usize,
    /// The stream so far: what was read from the output, and what a relay handed back.
    got: Vec<u8>,
    /// Bytes taken by the relays that have ended.
    taken: usize,
    steps: usize,
}

impl World {
    fn write(&mut self, len: usize) {
        if self.written >= MAX_WRITTEN {
            return;
        }
        if let Some(feeder) = &mut self.feeder {
            match feeder.write(&stream(self.written as u64, len)) {
                Ok(n) => self.written += n,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }

    /// Writes packets from now on, or other bytes again.
    fn change_mode(&self) {
        if let Some(feeder) = &self.feeder {
            let flags = rustix::fs::fcntl_getfl(feeder).unwrap();
            rustix::fs::fcntl_setfl(feeder, flags ^ OFlags::DIRECT).unwrap();
        }
    }

    fn unread(&self) -> usize {
        self.reader
            .as_ref()
            .map_or(0, |fd| pipe::unread(fd).unwrap())
    }

    /// Reads about `most` bytes. Never less than a page at a time: packets are spliced
    /// as such, and a shorter read would cut them. After other bytes only a read of the
    /// pipe's capacity never cuts one.
    fn read(&mut self, most: usize) {
        let least = match &self.reader {
            // The relay may have raised it.
            Some(reader) if self.mixes_packets && self.output_is_pipe => {
                pipe::capacity(reader).unwrap()
            }
            _ => pipe::page_size(),
        };
        let mut chunk = vec![0; most.clamp(least, least.max(MAX_CAPACITY))];
        let mut left = most;
        while left > 0
            && self.unread() > 0
            && let Some(reader) = &mut self.reader
        {
            let n = reader.read(&mut chunk).unwrap();
            self.got.extend_from_slice(&chunk[..n]);
            left = left.saturating_sub(n);
        }
    }

    /// Makes sure that the relay ends: no operation follows.
    fn finish(&mut self) {
        self.feeder = None;
        self.read(usize::MAX);
    }

    /// Executes an operation, and returns what the relay should do.
    fn step(&mut self, decide: &mut Decisions<'_>, output: &OwnedFd) -> Flow {
        self.steps += 1;
        if decide.is_empty() || self.steps > MAX_STEPS {
            self.finish();
            return Flow::Continue;
        }
        match decide.byte() % 16 {
            0..4 => self.write(size(decide)),
            4..8 => self.read(size(decide)),
            8 => {
                let bytes = decide.pick(&[1 << 12, 1 << 14, 1 << 16, MAX_CAPACITY]);
                if self.output_is_pipe {
                    // Refused if more is queued, or above a limit.
                    let _ = pipe::set_capacity(output, bytes);
                }
            }
            9 if decide.one_in(4) => self.feeder = None,
            14 if self.mixes_packets => self.change_mode(),
            10 if decide.one_in(8) => self.reader = None,
            11 if decide.one_in(4) => return Flow::Stop,
            12 => {
                let (bytes, within) = (size(decide) as u64, None);
                return Flow::AtMost { bytes, within };
            }
            13 => {
                let (bytes, within) = (size(decide) as u64, None);
                return Flow::CallAfter { bytes, within };
            }
            _ => {}
        }
        Flow::Continue
    }
}

fn options(decide: &mut Decisions<'_>, limit: Option<u64>) -> Options {
    let waits = [
        Wait::Block,
        Wait::Poll,
        Wait::Spin,
        Wait::Adaptive,
        Wait::Never,
    ];
    // The callback is due before each attempt.
    let mut options = Options::new()
        .interval(Duration::ZERO)
        .wait(decide.pick(&waits))
        .raise_capacity(decide.one_in(2))
        .raise_input_capacity(decide.one_in(4));
    if let Some(limit) = limit {
        options = options.limit(limit);
    }
    if decide.one_in(3) {
        options = options.block(size(decide).max(100));
    }
    match decide.byte() % 6 {
        0 => options.technique(Technique::Splice),
        1 => options.technique(Technique::SpliceThroughPipe),
        2 | 3 => options.copy(),
        _ => options,
    }
}

/// Runs the program.
///
/// # Panics
/// If a byte was lost, repeated or displaced, or a relay violated its documentation.
pub fn run(program: &[u8]) {
    let mut decide = Decisions::new(program);
    let mode = PipeFlags::CLOEXEC;
    let (input, feeder) = channel(&mut decide, [mode, mode | PipeFlags::DIRECT]);
    let (reader, output) = channel(&mut decide, [mode; 2]);
    // Both open files are ours alone. Only a non-blocking socket is spliced to.
    rustix::io::ioctl_fionbio(&feeder, true).unwrap();
    rustix::io::ioctl_fionbio(&output, decide.one_in(2)).unwrap();
    let mut world = World {
        feeder: Some(feeder.into()),
        reader: Some(reader.into()),
        output_is_pipe: pipe::is_pipe(&output).unwrap(),
        mixes_packets: pipe::is_pipe(&input).unwrap() && decide.one_in(2),
        written: 0,
        got: Vec::new(),
        taken: 0,
        steps: 0,
    };
    while relay_once(&mut world, &mut decide, &input, &output) {}
    if world.reader.is_some() {
        assert_eq!(pipe::unread(&input).unwrap(), 0, "the end came too early");
        assert_same(&world.got, &stream(0, world.written));
    }
}

/// Runs one relay. Returns whether another one may follow.
fn relay_once(
    world: &mut World,
    decide: &mut Decisions<'_>,
    input: &OwnedFd,
    output: &OwnedFd,
) -> bool {
    let limit = decide.one_in(3).then(|| size(decide) as u64);
    let inspects = decide.one_in(4);
    let options = options(decide, limit);
    let start = world.taken;
    let (mut seen, mut taken, mut allowed) = (Vec::new(), 0, u64::MAX);
    let progress = |progress: &Progress<'_>| {
        assert!(progress.taken - taken <= allowed, "took more than allowed");
        assert!(progress.given <= progress.taken);
        assert!(limit.is_none_or(|limit| progress.taken <= limit));
        if world.reader.is_some() {
            let arrived = world.got.len() - start + world.unread();
            assert_eq!(arrived as u64, progress.given);
        }
        let waiting = pipe::unread(input).unwrap() as u64;
        let taken_in_all = start as u64 + progress.taken;
        assert_eq!(taken_in_all + waiting, world.written as u64);
        taken = progress.taken;
        if progress.activity == Activity::Ended {
            return Flow::Continue;
        }
        let flow = world.step(decide, output);
        allowed = match flow {
            Flow::AtMost { bytes, .. } | Flow::CallAfter { bytes, .. } => bytes,
            Flow::Continue | Flow::Stop => u64::MAX,
        };
        flow
    };
    let outcome = if inspects {
        let look = |bytes: &[u8]| {
            seen.extend_from_slice(bytes);
            Flow::Continue
        };
        relay_inspecting(input, output, &options, look, progress)
    } else {
        relay(input, output, &options, progress)
    };
    let (taken, given, undelivered, ended) = match outcome {
        Ok(done) => {
            let ended = match done.end {
                End::EndOfData => {
                    assert!(world.feeder.is_none(), "the input has not ended");
                    true
                }
                End::Limit => {
                    assert_eq!(Some(done.taken), limit);
                    false
                }
                End::Stopped => false,
                other => panic!("{other:?}"),
            };
            (done.taken, done.given, done.undelivered, ended)
        }
        Err(error) => {
            let gone = world.reader.is_none() && error.side == Side::Output;
            let blocked = error.source.kind() == ErrorKind::WouldBlock;
            assert!(gone || blocked, "{error}: {}", error.source);
            assert!(!gone || blocked || error.reader_is_gone());
            (
                error.taken,
                error.given,
                error.undelivered,
                gone && !blocked,
            )
        }
    };
    assert_eq!(taken, given + undelivered.len() as u64);
    if inspects {
        assert_eq!(seen.len() as u64, given);
        assert_same(&seen, &stream(start as u64, seen.len()));
    }
    let end = start + given as usize;
    assert_same(&undelivered, &stream(end as u64, undelivered.len()));
    world.taken += taken as usize;
    world.read(usize::MAX);
    world.got.extend_from_slice(&undelivered);
    !ended
}
