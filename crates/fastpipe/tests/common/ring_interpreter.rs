//! An interpreter for programs of bytes: it drives both ends of a ring in one thread and
//! compares them with a `VecDeque`. Used by the property tests and a fuzz target, so it
//! depends only on the library and `decisions.rs`.
//!
//! A program may also write anything to the shared memory, as a hostile peer could.
//! From then on the bytes are not predicted, but no length exceeds the ring's, every
//! error is a documented one, and nothing panics or faults.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use fastpipe::ring::{self, Consumer, PeerState, Producer};
use fastpipe::wait::Wait;
use rustix::io::pwrite;

use super::decisions::{Decisions, stream};

/// Byte offsets of the header's words: magic, version, capacity, head, tail; then for the
/// producer and the consumer: state, asleep, spins, bound_to, wants, generation.
pub const WORDS: [u64; 17] = [
    0, 8, 16, 128, 256, 384, 388, 392, 396, 400, 408, 512, 516, 520, 524, 528, 536,
];
const HEAD: u64 = 128;
const TAIL: u64 = 256;

const MAX_STEPS: usize = 300;

/// A size from 0 to more than the capacity of most rings.
fn size(decisions: &mut Decisions<'_>) -> usize {
    let fine = decisions.byte();
    match decisions.byte() % 4 {
        0 => fine % 40,
        1 => 4090 + fine % 12,
        2 => 24 * fine,
        _ => 300 * fine,
    }
}

/// A word near a critical value, or an arbitrary one.
fn word(decisions: &mut Decisions<'_>) -> u64 {
    let near = decisions.pick(&[0u64, 1, 4096, 8192, 65536, 1 << 31, 1 << 32, 1 << 63]);
    let off = decisions.byte() as u64;
    match decisions.byte() % 4 {
        0 => near.wrapping_add(off),
        1 => near.wrapping_sub(off),
        2 => off,
        _ => near.wrapping_mul(off | 1).rotate_left(off as u32),
    }
}
struct Machine {
    /// `None` while the end is being passed on.
    producer: Option<Producer>,
    consumer: Option<Consumer>,
    file: OwnedFd,
    model: VecDeque<u8>,
    made: usize,
    hostile: bool,
}

impl Machine {
    fn new(decisions: &mut Decisions<'_>) -> Self {
        let capacity = decisions.pick(&[1, 5000, 10_000, 65_536]);
        let (producer, consumer) = ring::pair(capacity).unwrap();
        let file = producer.as_fd().try_clone_to_owned().unwrap();
        let granted = producer.capacity();
        assert!(granted >= capacity);
        let mut machine = Machine {
            producer: Some(producer),
            consumer: Some(consumer),
            file,
            model: VecDeque::new(),
            made: 0,
            hostile: false,
        };
        // Positions are modulo 2^64. After that many bytes an end that is passed on continues elsewhere, unless the
        // capacity divides it.
        let last = if granted.is_power_of_two() {
            u64::MAX
        } else {
            1 << 63
        };
        let start = decisions.pick(&[0, last - 9000, last, (1 << 32) - 5000]);
        drop(machine.producer.take().unwrap().into_fd().unwrap());
        drop(machine.consumer.take().unwrap().into_fd().unwrap());
        machine.poke(HEAD, start);
        machine.poke(TAIL, start);
        machine.attach_again();
        machine
    }

    fn poke(&self, at: u64, word: u64) {
        pwrite(&self.file, &word.to_ne_bytes(), at).unwrap();
    }

    /// Returns false if a hostile header prevents attaching.
    fn attach_again(&mut self) -> bool {
        for end in 0..2 {
            let file = self.file.try_clone().unwrap();
            let failed = if end == 0 && self.producer.is_none() {
                Producer::from_fd(file)
                    .map(|mut producer| {
                        producer.set_wait(Wait::Never);
                        self.producer = Some(producer);
                    })
                    .err()
            } else if end == 1 && self.consumer.is_none() {
                Consumer::from_fd(file)
                    .map(|mut consumer| {
                        consumer.set_wait(Wait::Never);
                        self.consumer = Some(consumer);
                    })
                    .err()
            } else {
                None
            };
            if let Some(error) = failed {
                assert!(self.hostile, "{error}");
                let kinds = [ErrorKind::InvalidData, ErrorKind::ResourceBusy];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                return false;
            }
        }
        true
    }

    /// Checks that an error is a documented one.
    fn allow(&self, error: &std::io::Error, expected: Option<ErrorKind>) {
        let kinds = [
            ErrorKind::WouldBlock,
            ErrorKind::InvalidData,
            ErrorKind::BrokenPipe,
            ErrorKind::ConnectionReset,
            ErrorKind::InvalidInput,
        ];
        if self.hostile {
            assert!(kinds.contains(&error.kind()), "{error:?}");
        } else {
            assert_eq!(Some(error.kind()), expected, "{error:?}");
        }
    }

    /// Checks the state that each end reports.
    fn look(&mut self) {
        let room = self.room();
        match self.producer.as_mut().unwrap().room() {
            Ok(n) => assert!(self.hostile || n == room),
            Err(error) => self.allow(&error, None),
        }
        match self.consumer.as_mut().unwrap().unread() {
            Ok(n) => assert!(self.hostile || n == self.model.len()),
            Err(error) => self.allow(&error, None),
        }
    }

    fn write(&mut self, len: usize) {
        let data = stream(self.made as u64, len);
        let room = self.room();
        let producer = self.producer.as_mut().unwrap();
        match producer.write(&data) {
            Ok(n) => {
                assert!(n <= len && n <= producer.capacity());
                assert!(self.hostile || n == len.min(room), "{n} of {len} in {room}");
                self.model.extend(&data[..n]);
                self.made += n;
            }
            Err(error) => self.allow(&error, (room == 0).then_some(ErrorKind::WouldBlock)),
        }
    }

    fn room(&self) -> usize {
        let capacity = self.producer.as_ref().unwrap().capacity();
        capacity.saturating_sub(self.model.len())
    }

    fn lend(&mut self, at_least: usize, how: usize) {
        let room = self.room();
        let producer = self.producer.as_mut().unwrap();
        let capacity = producer.capacity();
        match producer.lend(at_least) {
            Ok(mut slot) => {
                let len = slot.len();
                assert!(len >= at_least.max(1) && len <= capacity);
                assert!(self.hostile || len <= room);
                let n = at_least.min(len);
                let data = stream(self.made as u64, n);
                match how % 3 {
                    0 => {
                        let (first, second) = data.split_at(n / 3);
                        slot.write_at(n / 3, second);
                        slot.write_at(0, first);
                    }
                    1 => {
                        slot.fill(0..len, 0);
                        for (to, from) in slot.atomics().iter().zip(&data) {
                            to.store(*from, Ordering::Relaxed);
                        }
                    }
                    _ => {
                        // SAFETY: there is one thread, and no other process has the
                        // memory.
                        let bytes = unsafe { slot.bytes_mut() };
                        bytes[..n].copy_from_slice(&data);
                    }
                }
                if how % 7 != 6 {
                    slot.commit(n);
                    self.model.extend(&data);
                    self.made += n;
                }
            }
            Err(error) => {
                let expected = if at_least > capacity / 2 {
                    ErrorKind::InvalidInput
                } else {
                    ErrorKind::WouldBlock
                };
                let fits = at_least <= capacity / 2 && at_least.max(1) <= room;
                self.allow(&error, (!fits).then_some(expected));
            }
        }
    }

    fn read(&mut self, len: usize) {
        let mut into = vec![0; len];
        let consumer = self.consumer.as_mut().unwrap();
        match consumer.read(&mut into) {
            Ok(n) => {
                assert!(n <= len);
                assert!(self.hostile || n == len.min(self.model.len()));
                self.compare(&into[..n]);
            }
            Err(error) => {
                self.allow(
                    &error,
                    self.model.is_empty().then_some(ErrorKind::WouldBlock),
                );
            }
        }
    }

    /// Compares `got` with the model's next bytes, and removes these.
    fn compare(&mut self, got: &[u8]) {
        let n = got.len().min(self.model.len());
        let expected: Vec<u8> = self.model.drain(..n).collect();
        assert!(self.hostile || got == expected);
    }

    fn peek(&mut self, at_least: usize, how: usize) {
        let consumer = self.consumer.as_mut().unwrap();
        let capacity = consumer.capacity();
        let held = self.model.len();
        match consumer.peek(at_least) {
            Ok(mut view) => {
                let len = view.len();
                assert!(len <= capacity);
                assert!(self.hostile || (len <= held && len >= at_least.max(1)));
                let mut got = vec![0; at_least.min(len)];
                match how % 3 {
                    0 => {
                        let (first, second) = got.split_at_mut(at_least.min(len) / 3);
                        view.read_at(first.len(), second);
                        view.read_at(0, first);
                    }
                    1 => {
                        for (to, from) in got.iter_mut().zip(view.atomics()) {
                            *to = from.load(Ordering::Relaxed);
                        }
                    }
                    _ => {
                        // SAFETY: as in `lend`.
                        let bytes = unsafe { view.bytes() };
                        let n = got.len();
                        got.copy_from_slice(&bytes[..n]);
                    }
                }
                if how % 7 != 6 {
                    view.release(got.len());
                    self.compare(&got);
                }
            }
            Err(error) => {
                let expected = if at_least > capacity / 2 {
                    ErrorKind::InvalidInput
                } else {
                    ErrorKind::WouldBlock
                };
                let there = at_least <= capacity / 2 && at_least.max(1) <= held;
                self.allow(&error, (!there).then_some(expected));
            }
        }
    }

    fn end(self) {
        drop(self.producer);
        let mut consumer = self.consumer.unwrap();
        if !self.hostile {
            assert_eq!(consumer.peer_state().unwrap(), PeerState::Closed);
            let mut rest = Vec::new();
            consumer.read_to_end(&mut rest).unwrap();
            assert!(self.model == rest);
            assert!(consumer.peek(1).unwrap().is_empty());
        }
    }
}

/// Runs the program `bytes`.
pub fn run(bytes: &[u8]) {
    let mut decisions = Decisions::new(bytes);
    let may_be_hostile = decisions.byte() % 2 == 1;
    let mut machine = Machine::new(&mut decisions);
    for _ in 0..MAX_STEPS {
        if decisions.is_empty() {
            break;
        }
        match decisions.byte() % 16 {
            0..3 => machine.write(size(&mut decisions)),
            3..6 => machine.lend(size(&mut decisions), decisions.byte()),
            6..9 => machine.read(size(&mut decisions)),
            9..12 => machine.peek(size(&mut decisions), decisions.byte()),
            12 => {
                // Pass the end on, with all bytes in the ring.
                match decisions.byte() % 2 {
                    0 => drop(machine.producer.take().unwrap().into_fd().unwrap()),
                    _ => drop(machine.consumer.take().unwrap().into_fd().unwrap()),
                }
                if !machine.attach_again() {
                    return;
                }
            }
            _ if may_be_hostile => {
                machine.hostile = true;
                let at = decisions.pick(&WORDS);
                machine.poke(at, word(&mut decisions));
                // Any error is allowed, but no panic.
                let _ = machine.producer.as_ref().unwrap().peer_state();
                let _ = machine.consumer.as_ref().unwrap().peer_state();
                machine.look();
            }
            _ => {
                let state = machine.producer.as_ref().unwrap().peer_state();
                assert_eq!(state.unwrap(), PeerState::Running);
                machine.look();
            }
        }
    }
    machine.end();
}
