//! What the elementary costs make of a pipeline: two ends that take turns at a
//! pipe, played through step by step.
//!
//! What it knows of pipes (fs/pipe.c and fs/splice.c of Linux 5.10 to 6.18):
//!
//! - A call holds the pipe's lock for as long as it moves pages, so the two
//!   ends never move any at the same time. On its way into the kernel and out of
//!   it, it doesn't: that goes on while the other end moves pages.
//! - A writer that finds the pipe full, and a reader that finds it empty,
//!   sleeps, or comes back with would-block at once.
//! - An end that has moved all it could wakes the other if that sleeps. Then it
//!   goes on, while the other is still waking up. splice(2) wakes the writer
//!   before it lets the lock go (fs/splice.c, splice_from_pipe_end): if an
//!   interrupt makes that last, the writer has come to wait for the lock by
//!   then, and the two are in step.
//!   The other calls let the lock go first; there an interrupt that lasts just as
//!   long as the other takes to wake up has the caller come back while that holds
//!   the lock. Whatever interrupts one that wakes or is woken is part of the
//!   wake-up as it was measured.
//! - Ends that wait for the lock spin. If one is interrupted meanwhile, the other
//!   is back before it, finds the pipe as it left it, and sleeps: they are out of
//!   step. They spin only while the lock's owner runs, be it in an interrupt: if
//!   another process takes its processor, they sleep until it has let the lock go
//!   (kernel/locking/mutex.c, mutex_spin_on_owner). When the host takes a guest's
//!   processor they sleep, too, if it tells (vcpu_is_preempted()); here that counts
//!   as an interrupt, since a process can't tell the one from the other.
//! - A write(2) that is not through looks whether there is room again before it
//!   asks for the lock, and sleeps if there is none; a new call asks first.
//! - On one processor whoever is woken runs at once, and the other goes on when
//!   that sleeps.
//!
//! Its figures are costs that were measured by themselves; none is fitted.

use crate::stats::{Rng, median};

mod chances;

use self::chances::Course;
pub use self::chances::{Interruption, Interruptions, Spread, WakeUp, WakeUps};

/// What waiting for the other end takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Waiting {
    /// Both ends spin, each on its processor; a would-block takes so many
    /// nanoseconds.
    Spin(f64),
    /// They sleep, on one processor; a switch takes so many nanoseconds.
    SleepOnOne(f64),
    /// They sleep, on two processors. Whether they fall in step, so that neither
    /// ever needs to sleep, is a matter of chance.
    SleepOnTwo {
        /// Nanoseconds a page on the way in, of a call that comes after a
        /// sleep: the caches have gone cold.
        cold_in_ns: f64,
        /// The same on the way out.
        cold_out_ns: f64,
        /// The writer's wake-ups, and the reader's.
        wake_ups: [WakeUps; 2],
        /// What gets in the way of the ends.
        interruptions: Interruptions,
    },
}

/// A pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Pages that the pipe holds.
    pub capacity: usize,
    /// Pages that one call of either end moves at most.
    pub piece: usize,
    /// Nanoseconds a page on the way in.
    pub in_ns: f64,
    /// Nanoseconds a page on the way out.
    pub out_ns: f64,
    /// How many nanoseconds of each call are not spent under the lock: the way
    /// into the kernel and out again. They are in the pages' part in `in_ns`
    /// and `out_ns`, as far as a call that moves a piece has it.
    pub outside_ns: f64,
    /// Whether a call goes on until its piece is through, as write(2) does, or
    /// comes back when the pipe is full, as vmsplice(2) does.
    pub writes_all: bool,
    /// Whether the reader wakes the writer before it lets the lock go, as
    /// splice(2) does; read(2), write(2) and vmsplice(2) let go first.
    pub wakes_locked: bool,
    /// What the ends do when they can't go on.
    pub waiting: Waiting,
}

/// Played before the clock starts; in nanoseconds and in calls at most.
const WARM_UP: (f64, usize) = (2e6, 2000);

/// Then so long is timed, in trials.
const PLAYED_NS: f64 = 6e9;

/// A trial has no more calls than that for each nanosecond of it.
const MOST_CALLS: f64 = 5e-3;

/// Nanoseconds for each page that goes through, the median of some trials, which
/// should be as long as those that the prediction is compared with: ends that fall in
/// step do so in spells, of which a short trial has few, so that the median of
/// short trials is less than that of long ones. The same seed makes the same
/// prediction of the same costs; predictions that are put together should have
/// different ones, or the same chances decide all.
pub fn ns_per_page(pipeline: &Pipeline, trial_ns: f64, seed: u64) -> f64 {
    // The reader is there first, and finds nothing.
    let asleep_ns = match pipeline.waiting {
        Waiting::Spin(_) => None,
        Waiting::SleepOnOne(_) | Waiting::SleepOnTwo { .. } => Some(0.0),
    };
    let reader = End {
        asleep_ns,
        ..End::default()
    };
    let interruptions = match &pipeline.waiting {
        Waiting::SleepOnTwo { interruptions, .. } => Some(interruptions),
        Waiting::Spin(_) | Waiting::SleepOnOne(_) => None,
    };
    let mut chance = Rng::new(seed);
    let mut play = Play {
        pipeline,
        ends: [End::default(), reader],
        unlocked_ns: 0.0,
        held: 0,
        passed: 0,
        course: Course::new(interruptions, &mut chance),
        chance,
    };
    play.interrupt_later(WRITER, 0.0);
    play.interrupt_later(READER, 0.0);
    play.on(WARM_UP);
    let trials = match pipeline.waiting {
        // Chance has no part in it.
        Waiting::Spin(_) | Waiting::SleepOnOne(_) => 1,
        Waiting::SleepOnTwo { .. } => (PLAYED_NS / trial_ns).round().max(1.0) as usize,
    };
    let each: Vec<f64> = (0..trials).map(|_| play.trial(trial_ns)).collect();
    median(&each).unwrap_or(f64::INFINITY)
}

const WRITER: usize = 0;
const READER: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct End {
    /// When it wants to go on.
    ready_ns: f64,
    /// When it was through with waking the other or being woken: what interrupted
    /// it before is in what that took.
    woken_ns: f64,
    /// Since when it sleeps.
    asleep_ns: Option<f64>,
    /// Since when it has been awake, or was when it last was.
    awake_ns: f64,
    /// Pages of its piece that it has moved.
    moved: usize,
    /// What takes its processor next.
    interruption: Option<Interruption>,
    /// Whether it has slept since it last moved pages.
    is_cold: bool,
}

struct Play<'a> {
    pipeline: &'a Pipeline,
    ends: [End; 2],
    /// When the pipe's lock was, or will be, let go.
    unlocked_ns: f64,
    /// Pages in the pipe.
    held: usize,
    /// Pages that have left it.
    passed: usize,
    /// What takes the ends' processors.
    course: Course<'a>,
    chance: Rng,
}

impl Play<'_> {
    fn trial(&mut self, ns: f64) -> f64 {
        let begun = (self.passed, self.unlocked_ns);
        self.on((ns, (MOST_CALLS * ns) as usize));
        let pages = (self.passed - begun.0).max(1);
        (self.unlocked_ns - begun.1) / pages as f64
    }

    fn on(&mut self, (ns, calls): (f64, usize)) {
        let end = self.unlocked_ns + ns;
        for _ in 0..calls {
            if self.unlocked_ns >= end {
                return;
            }
            let next = self.next();
            if !self.is_interrupted(next) {
                self.step(next);
            }
        }
    }

    /// Who gets the lock next: whoever has wanted it for longest.
    fn next(&self) -> usize {
        let [writer, reader] = &self.ends;
        match (writer.asleep_ns, reader.asleep_ns) {
            (Some(_), _) => READER,
            (None, Some(_)) => WRITER,
            (None, None) if reader.ready_ns < writer.ready_ns => READER,
            (None, None) => WRITER,
        }
    }

    fn step(&mut self, at: usize) {
        let end = &mut self.ends[at];
        let start = end.ready_ns.max(self.unlocked_ns);
        let (mut in_ns, mut out_ns) = (self.pipeline.in_ns, self.pipeline.out_ns);
        if let Waiting::SleepOnTwo {
            cold_in_ns,
            cold_out_ns,
            ..
        } = &self.pipeline.waiting
            && end.is_cold
        {
            (in_ns, out_ns) = (*cold_in_ns, *cold_out_ns);
        }
        let (possible, ns) = match at {
            WRITER => (self.pipeline.capacity - self.held, in_ns),
            _ => (self.held, out_ns),
        };
        if possible == 0 {
            return self.wait(at, start);
        }
        // A writer's piece goes on until all of it is moved; a reader's call
        // ends with what there is.
        let pages = possible.min(self.pipeline.piece - end.moved);
        end.moved = match at {
            WRITER => (end.moved + pages) % self.pipeline.piece,
            _ => 0,
        };
        end.is_cold = false;
        // A write that is not through is in the kernel still.
        let goes_on = at == WRITER && self.pipeline.writes_all && end.moved > 0;
        let outside_ns = if goes_on {
            0.0
        } else {
            self.pipeline.outside_ns
        };
        let mut done = start + pages as f64 * self.locked_ns(ns);
        let taken = self.taken_within(at, done);
        done += taken.map_or(0.0, |taken| taken.ns);
        let end = &mut self.ends[at];
        self.unlocked_ns = done;
        end.ready_ns = done + outside_ns;
        match at {
            WRITER => self.held += pages,
            _ => {
                self.held -= pages;
                self.passed += pages;
            }
        }
        let [writer, reader] = &self.ends;
        let reader_waits = reader.asleep_ns.is_none() && reader.ready_ns <= done;
        let is_full = self.held == self.pipeline.capacity;
        if at == WRITER && self.pipeline.writes_all && is_full && writer.moved > 0 && reader_waits {
            // Nothing has been read yet when it looks.
            return self.wait(WRITER, done);
        }
        if taken.is_some_and(|taken| taken.is_turn) {
            let waiter = &mut self.ends[1 - at];
            if waiter.asleep_ns.is_none() && waiter.ready_ns <= done {
                waiter.asleep_ns = Some(waiter.ready_ns.max(start));
            }
        }
        self.wake_other(at, done, outside_ns);
    }

    /// A page's part of what a call takes under the lock.
    fn locked_ns(&self, ns: f64) -> f64 {
        let a_call = self.pipeline.piece.min(self.pipeline.capacity);
        (ns - self.pipeline.outside_ns / a_call as f64).max(0.0)
    }

    /// Whether something takes the end's processor before it goes on; if so it
    /// wants to go on later.
    fn is_interrupted(&mut self, at: usize) -> bool {
        let woken_ns = self.ends[at].woken_ns;
        if self.begins_before(at, woken_ns).is_some() {
            // It is in what the wake-up took.
            self.interrupt_later(at, woken_ns);
        }
        let start = self.ends[at].ready_ns.max(self.unlocked_ns);
        let Some(taken) = self.begins_before(at, start) else {
            return false;
        };
        // What it is about takes so much longer.
        let over = self.ends[at].ready_ns.max(taken.at_ns) + taken.ns;
        self.ends[at].ready_ns = over;
        self.interrupt_later(at, over.max(start));
        over > start
    }

    /// What takes an end's processor from it before that time, while it holds
    /// the lock.
    fn taken_within(&mut self, at: usize, done: f64) -> Option<Interruption> {
        let taken = self.begins_before(at, done)?;
        self.interrupt_later(at, done + taken.ns);
        Some(taken)
    }

    fn begins_before(&self, at: usize, ns: f64) -> Option<Interruption> {
        self.ends[at].interruption.filter(|next| next.at_ns < ns)
    }

    fn interrupt_later(&mut self, at: usize, now: f64) {
        self.ends[at].interruption = self.course.next(at, now, &mut self.chance);
    }

    fn wait(&mut self, at: usize, now: f64) {
        let (this, other) = (at, 1 - at);
        match &self.pipeline.waiting {
            Waiting::Spin(would_block_ns) => self.ends[this].ready_ns = now + would_block_ns,
            Waiting::SleepOnTwo { .. } => self.ends[this].asleep_ns = Some(now),
            Waiting::SleepOnOne(switch_ns) => {
                self.ends[this].asleep_ns = Some(now);
                self.ends[other].ready_ns = now + switch_ns;
            }
        }
    }

    fn wake_other(&mut self, at: usize, now: f64, outside_ns: f64) {
        let (this, other) = (at, 1 - at);
        let Some(asleep) = self.ends[other].asleep_ns.take() else {
            return;
        };
        self.ends[other].is_cold = true;
        match &self.pipeline.waiting {
            Waiting::Spin(_) => {}
            Waiting::SleepOnTwo { wake_ups, .. } => {
                let awake = self.ends[this].awake_ns;
                let wake_up = wake_ups[other].any(now - asleep, now - awake, &mut self.chance);
                let (woken, called) = (now + wake_up.until_ns, now + wake_up.call_ns);
                if at == READER && self.pipeline.wakes_locked {
                    self.unlocked_ns = called;
                }
                self.ends[other].ready_ns = woken;
                self.ends[other].woken_ns = woken;
                self.ends[other].awake_ns = woken;
                self.ends[this].ready_ns = called + outside_ns;
                self.ends[this].woken_ns = called;
            }
            // Until the other sleeps again.
            Waiting::SleepOnOne(switch_ns) => {
                self.ends[other].ready_ns = now + switch_ns;
                self.ends[this].ready_ns = f64::INFINITY;
            }
        }
    }
}

#[cfg(test)]
mod tests;
