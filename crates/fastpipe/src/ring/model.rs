//! Checks of the memory orderings in every interleaving, by loom. The code
//! under test is the header's own, compiled with loom's atomics. The data is a few cells
//! in which loom detects races; a lost wake-up is a deadlock.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use self::header::{EndState, Header, Woken};
use super::cursor::{self, Cursor, Role};
use super::error;
use crate::wait::Bound;

// The same files once more, beside another `sync`. The model calls a part of them.
#[allow(clippy::duplicate_mod, dead_code)]
#[path = "header.rs"]
mod header;
mod sync;
#[allow(clippy::duplicate_mod)]
#[path = "word.rs"]
mod word;

const CAPACITY: usize = 2;

#[derive(Default)]
struct Ring {
    header: Header,
    data: [UnsafeCell<u64>; CAPACITY],
    /// Of the producer and the consumer.
    bells: [ModelBell; 2],
}

impl Ring {
    fn bell(&self, role: Role) -> &ModelBell {
        match role {
            Role::Producer => &self.bells[0],
            Role::Consumer => &self.bells[1],
        }
    }
}

/// As the socket of an end that waits by its descriptor.
struct ModelBell {
    rung: Mutex<bool>,
    rings: Condvar,
}

impl Default for ModelBell {
    fn default() -> Self {
        ModelBell {
            rung: Mutex::new(false),
            rings: Condvar::new(),
        }
    }
}

impl ModelBell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.rings.notify_one();
    }

    fn silence(&self) {
        *self.rung.lock().unwrap() = false;
    }

    /// As poll(2), without a time limit.
    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.rings.wait(rung).unwrap();
        }
    }
}

struct ModelEnd {
    ring: Arc<Ring>,
    role: Role,
    cursor: Cursor,
    /// Waits by its descriptor.
    polls: bool,
}

impl ModelEnd {
    fn new(ring: &Arc<Ring>, role: Role) -> Self {
        Self::attach(ring, role).expect("a new ring's ends are free")
    }

    /// `None` if the end is in use.
    fn attach(ring: &Arc<Ring>, role: Role) -> Option<Self> {
        let cursor = ring.header.attach(role, CAPACITY as u64).unwrap()?;
        Some(ModelEnd {
            ring: Arc::clone(ring),
            role,
            cursor,
            polls: false,
        })
    }

    /// As `RingSide::wait_slowly` under `Wait::Block`, or under `Wait::Never` followed by a poll:
    /// waits until `at_least` words are available, or the end. Returns false if there are none.
    fn wait(&mut self, at_least: usize) -> bool {
        let header = &self.ring.header;
        loop {
            let state = header.peer(self.role).unwrap();
            header.refresh(self.role, &mut self.cursor).unwrap();
            if self.cursor.available() >= at_least {
                return true;
            }
            if state != EndState::Open {
                return self.cursor.available() > 0;
            }
            let (role, cursor) = (self.role, &mut self.cursor);
            if self.polls {
                self.ring.bell(role).silence();
                if header.arm(role, cursor, at_least).unwrap() {
                    self.ring.bell(role).wait();
                }
            } else {
                let limit = Duration::MAX;
                header.sleep(role, cursor, at_least, limit).unwrap();
            }
        }
    }

    fn cell(&self) -> &UnsafeCell<u64> {
        &self.ring.data[self.cursor.offset()]
    }

    fn publish(&mut self) {
        let woken = self.ring.header.publish(self.role, &mut self.cursor, 1);
        self.woke(woken);
    }

    fn woke(&self, woken: Woken) {
        if woken == Woken::ByDescriptor {
            self.ring.bell(self.role.other()).ring();
        }
    }

    fn close(self) {
        let woken = self.ring.header.close(self.role, true);
        self.woke(woken);
    }
}

fn produce(mut end: ModelEnd, words: u64) -> u64 {
    for word in 0..words {
        if !end.wait(1) {
            return word;
        }
        end.cell().with_mut(|at| {
            // SAFETY: loom checks that nobody else accesses it.
            unsafe { *at = word }
        });
        end.publish();
    }
    end.close();
    words
}

/// Takes at most `most` words, and waits for `at_least` at a time.
fn consume(mut end: ModelEnd, most: u64, at_least: usize) -> u64 {
    let mut expected = 0;
    while expected < most && end.wait(at_least) {
        for _ in 0..at_least.min(end.cursor.available()) {
            let word = end.cell().with(|at| {
                // SAFETY: loom checks that nobody writes to it.
                unsafe { *at }
            });
            assert_eq!(word, expected);
            end.publish();
            expected += 1;
        }
    }
    if expected >= most {
        end.close();
    }
    expected
}

fn check(words: u64, wanted: u64, at_least: usize) {
    check_waits(words, wanted, at_least, [false, false], 3);
}

/// `polls`: whether the producer and the consumer wait by their descriptors. `preemptions`: how many to
/// try.
fn check_waits(words: u64, wanted: u64, at_least: usize, polls: [bool; 2], preemptions: usize) {
    let mut model = loom::model::Builder::new();
    // More preemptions find nothing more, and take hours.
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let ring = Arc::new(Ring::default());
        let (mut producer, mut consumer) = (
            ModelEnd::new(&ring, Role::Producer),
            ModelEnd::new(&ring, Role::Consumer),
        );
        [producer.polls, consumer.polls] = polls;
        let producing = thread::spawn(move || produce(producer, words));
        let got = consume(consumer, wanted, at_least);
        let put = producing.join().unwrap();
        assert_eq!(got, words.min(wanted));
        assert!(put >= got);
    });
}

#[test]
fn words_arrive_in_order_and_no_end_sleeps_forever() {
    check(3, 10, 1);
}

#[test]
fn a_consumer_that_closes_its_end_wakes_its_producer() {
    check(4, 1, 1);
}

#[test]
fn an_end_that_waits_by_its_descriptor_is_woken() {
    check_waits(3, 10, 1, [false, true], 3);
    check_waits(3, 10, 1, [true, false], 3);
    check_waits(3, 1, 1, [true, true], 3);
}

#[test]
fn an_empty_stream_ends() {
    check(0, 1, 1);
}

#[test]
fn a_wait_for_several_words_ends_by_any_or_death() {
    check(3, 10, 2);
}

/// Puts one word into the ring if the producer's end is free. Returns the number
/// of words, 0 or 1.
fn produce_in_turn(ring: &Arc<Ring>) -> u64 {
    let Some(mut end) = ModelEnd::attach(ring, Role::Producer) else {
        return 0;
    };
    // Producers take turns, so the words are the positions.
    let word = end.cursor.position();
    end.cell().with_mut(|at| {
        // SAFETY: loom checks that nobody else accesses it.
        unsafe { *at = word }
    });
    end.publish();
    ring.header.pass_on(Role::Producer);
    1
}

#[test]
fn an_end_that_is_passed_on_continues_at_its_position() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ring = Arc::new(Ring::default());
        let mut consumer = ModelEnd::new(&ring, Role::Consumer);
        let producing = [(); 2].map(|()| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || produce_in_turn(&ring))
        });
        let take = |consumer: &mut ModelEnd| {
            consumer
                .ring
                .header
                .refresh(Role::Consumer, &mut consumer.cursor)
                .unwrap();
            let there = consumer.cursor.available();
            for _ in 0..there {
                let word = consumer.cell().with(|at| {
                    // SAFETY: loom checks that nobody writes to it.
                    unsafe { *at }
                });
                assert_eq!(word, consumer.cursor.position());
                consumer.publish();
            }
        };
        take(&mut consumer);
        let put: u64 = producing.map(|thread| thread.join().unwrap()).iter().sum();
        take(&mut consumer);
        assert!(put > 0);
        assert_eq!(consumer.cursor.position(), put);
    });
}

#[test]
fn a_dead_owner_is_seen_to_have_passed_on() {
    loom::model(|| {
        let ring = Arc::new(Ring::default());
        let before = ring.header.peer_generation(Role::Consumer);
        let dead = Arc::new(AtomicBool::new(false));
        let owner = {
            let (ring, dead) = (Arc::clone(&ring), Arc::clone(&dead));
            thread::spawn(move || {
                let end = ModelEnd::new(&ring, Role::Producer);
                end.ring.header.pass_on(Role::Producer);
                // As the kernel would report it.
                dead.store(true, Release);
            })
        };
        if dead.load(Acquire) {
            assert_ne!(ring.header.peer_generation(Role::Consumer), before);
        }
        owner.join().unwrap();
    });
}

#[test]
fn only_ends_bound_to_the_same_processor_share_one() {
    loom::model(|| {
        let header = Header::default();
        for (one, other, shared) in [(1, 1, true), (1, 2, false), (1, 0, false), (0, 0, false)] {
            header.set_bound(Role::Producer, Bound(one));
            header.set_bound(Role::Consumer, Bound(other));
            assert_eq!(header.shares_processor(Role::Producer), shared);
            assert_eq!(header.shares_processor(Role::Consumer), shared);
        }
        // The next owner is not bound.
        header.set_bound(Role::Producer, Bound(1));
        header.set_bound(Role::Consumer, Bound(1));
        header.pass_on(Role::Producer);
        assert!(!header.shares_processor(Role::Consumer));
    });
}
