//! A wake-up on another processor, by what the two have done before.
//!
//! A processor that has just run out of work is not idle at once. Woken on the
//! way there it takes little; later it takes an interrupt, and on a guest the
//! host may have given the processor away by then. Pipelines that keep up with
//! each other sleep for a microsecond now and then: one end, while the other is
//! awake. Those that don't sleep in turns, for tens of microseconds, and who wakes
//! the other has been woken itself not long ago. On a guest that takes longer, and
//! not the same in both directions.
//!
//! There are two threads, on the writer's processor and on the reader's. Asleep in
//! turns, each works for a while when it is woken, and wakes the other. Else the
//! one says in shared memory when it goes to sleep in a read; the other spins until
//! the time is over, and writes.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::calls::each;
use super::clock::{now_ns, spin_until, work_until};
use super::processors::{joined, on_processor};
use super::{Group, Kind, Per, Prepared, Probe, Value};

/// Who is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The end that reads, by the one that writes.
    Reader,
    /// The end that writes, by the one that reads.
    Writer,
}

impl Woken {
    /// Both.
    pub const ALL: [Woken; 2] = [Woken::Reader, Woken::Writer];

    /// For names and tables.
    pub fn name(self) -> &'static str {
        match self {
            Woken::Reader => "reader",
            Woken::Writer => "writer",
        }
    }
}

/// What went before a wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It has slept for so many nanoseconds, and its waker not at all meanwhile.
    Asleep(u64),
    /// Its waker was itself woken so many nanoseconds ago, when it slept already.
    InTurns(u64),
}

/// How long the sleeper sleeps before it is woken, in nanoseconds.
const ASLEEP_NS: [u64; 13] = [
    500, 1000, 2000, 4000, 6000, 8000, 10_000, 12_000, 16_000, 20_000, 30_000, 60_000, 200_000,
];

/// How long each works before it wakes the other where they sleep in turns, in
/// nanoseconds.
const WORK_NS: [u64; 2] = [1000, 10_000];

impl Before {
    /// All that are measured, in turns first, and the shortest first.
    pub fn all() -> impl Iterator<Item = Before> {
        let in_turns = WORK_NS.into_iter().map(Before::InTurns);
        in_turns.chain(ASLEEP_NS.into_iter().map(Before::Asleep))
    }

    /// Wake-ups of a sample, of each end.
    fn times(self) -> u64 {
        match self {
            Before::InTurns(_) => MANY_TIMES,
            Before::Asleep(ns) if ns < LONG_NS => TIMES,
            Before::Asleep(_) => FEW_TIMES,
        }
    }
}

/// Once in some hundreds a processor happens to be awake, so that its sleeper runs
/// before the caller is through with waking it; then two ends that sleep fall in
/// step. So they do when the clock's tick makes the call last just so long. That is
/// seldom enough to need many.
const MANY_TIMES: u64 = 2000;
/// By a waker that is awake: ends of a pipeline seldom come to that.
const TIMES: u64 = 300;
/// The same where the sleeps are long, which is more seldom still.
const FEW_TIMES: u64 = 15;
const LONG_NS: u64 = 60_000;

/// The two sleep and wake for so long before anything counts. On a guest a
/// wake-up gets dearer in the first some tens of milliseconds after a process has
/// begun: here from 18 us to 27 or more. Traced: the timer is stopped and set
/// again around every sleep then, 6 us on the way in and 9 on the way out; and
/// the interrupt takes the host longer to hand over.
pub(super) const SETTLING_NS: u64 = 60_000_000;
const SETTLING_WORK_NS: u64 = 10_000;
/// What each reads at the end of that.
const SETTLED: u64 = u64::MAX;

/// The names of what a wake-up takes until the sleeper runs, and what it takes
/// its caller.
pub fn names(woken: Woken, before: Before) -> [String; 2] {
    let who = woken.name();
    let before = match before {
        Before::Asleep(ns) => format!("asleep_{ns}ns"),
        Before::InTurns(ns) => format!("in_turns_{ns}ns"),
    };
    ["wake_up", "wake_call"].map(|what| format!("{what}_{who}_{before}"))
}

/// Those of all that is measured; the writer's processor and the reader's.
pub(super) fn probes(pair: Option<(usize, usize)>) -> Vec<Prepared> {
    let Some(cpus) = pair else {
        return Vec::new();
    };
    let of = |woken| Before::all().flat_map(move |before| kinds(woken, before));
    let kinds = Woken::ALL.into_iter().flat_map(of).collect();
    vec![Ok(Box::new(Sleeps { kinds, cpus }))]
}

fn kinds(woken: Woken, before: Before) -> [Kind; 2] {
    let [until, call] = names(woken, before);
    let what = format!("the {}, {}", woken.name(), in_words(before));
    let part = format!("{what}: the caller's part");
    let kind = |name, what| Kind::new(Group::Sleeps, Per::WakeUp, name, what);
    [kind(until, what), kind(call, part)]
}

/// What went before, for people.
pub fn in_words(before: Before) -> String {
    match before {
        Before::Asleep(ns) => format!("asleep for {} us", ns as f64 / 1e3),
        Before::InTurns(ns) => format!("in turns, {} us of work", ns as f64 / 1e3),
    }
}

struct Sleeps {
    kinds: Vec<Kind>,
    cpus: (usize, usize),
}

impl Probe for Sleeps {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let (here, there) = self.cpus;
        // Whoever fails closes its ends, which wakes the other.
        let (from_writer, to_reader) = io::pipe()?;
        let (from_reader, to_writer) = io::pipe()?;
        let words = &Words::default();
        let (writer, reader) = thread::scope(|scope| {
            let end = |input, output| End {
                input,
                output,
                words,
                turn: 0,
                called: Vec::new(),
                until: Vec::new(),
            };
            let reader = end(from_writer, to_writer);
            let reader = move || on_processor(there, || reader.answer());
            let reader = thread::Builder::new().spawn_scoped(scope, reader)?;
            let writer = end(from_reader, to_reader);
            let writer = on_processor(here, || writer.lead());
            match (writer, joined(reader)) {
                (Ok(writer), Ok(reader)) => Ok((writer, reader)),
                (Err(error), Err(other)) if is_of_the_other(&error) => Err(other),
                (Err(error), _) | (_, Err(error)) => Err(error),
            }
        })?;
        // What the calls take where nobody sleeps.
        let (mut input, mut output) = io::pipe()?;
        let calls = on_processor(here, || {
            let started = Instant::now();
            for _ in 0..TIMES {
                output.write_all(&[0; 8])?;
                input.read_exact(&mut [0; 8])?;
            }
            Ok(each(started, TIMES as u32))
        })?;
        let both = |until: Vec<Vec<f64>>, called: Vec<Vec<f64>>| until.into_iter().zip(called);
        let of_reader = both(reader.until, writer.called);
        let values = of_reader.chain(both(writer.until, reader.called));
        let values = values.flat_map(|(until, called)| {
            [
                Value::of_many(until, calls),
                Value::of_many(called, calls / 2.0),
            ]
        });
        Ok(values.collect())
    }
}

/// Whether it is what the other's failure looks like.
fn is_of_the_other(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, TimedOut, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | TimedOut | UnexpectedEof)
}

/// What the two threads tell each other.
#[derive(Default)]
struct Words {
    /// How often a caller has been ready.
    ready: AtomicU64,
    /// Since when the sleeper sleeps; 0 while it does not.
    asleep_ns: AtomicU64,
    /// One of the two is through, or has failed.
    is_over: AtomicBool,
}

impl Words {
    fn wait_until(&self, is_so: impl Fn(&Words) -> bool) -> io::Result<()> {
        spin_until(|| match is_so(self) {
            true => Ok(true),
            false if self.is_over.load(Ordering::Acquire) => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(false),
        })
    }
}

/// One of the two threads.
struct End<'a> {
    input: PipeReader,
    output: PipeWriter,
    words: &'a Words,
    /// How often one has been awake while the other slept.
    turn: u64,
    /// What its calls took that woke the other, one list for each of `Before::all`.
    called: Vec<Vec<f64>>,
    /// The same, until it ran when it was woken.
    until: Vec<Vec<f64>>,
}

/// What both need to know of each other.
struct Took {
    called: Vec<Vec<f64>>,
    until: Vec<Vec<f64>>,
}

impl End<'_> {
    /// The writer's part, who wakes the reader first.
    fn lead(mut self) -> io::Result<Took> {
        let settled = now_ns() + SETTLING_NS;
        loop {
            let message = (now_ns() >= settled).then_some(SETTLED);
            self.wake(message)?;
            if self.sleep()?.is_none() {
                break;
            }
            work_for(SETTLING_WORK_NS);
        }
        self.in_turns(|end, work_ns| {
            work_for(work_ns);
            Ok((end.wake(None)?, end.sleep()?))
        })?;
        self.wake_after_sleeps()?;
        self.sleep_for_sleeps()?;
        Ok(self.took())
    }

    /// The reader's.
    fn answer(mut self) -> io::Result<Took> {
        loop {
            let is_settled = self.sleep()?.is_none();
            work_for(SETTLING_WORK_NS);
            self.wake(is_settled.then_some(SETTLED))?;
            if is_settled {
                break;
            }
        }
        self.in_turns(|end, work_ns| {
            let until = end.sleep()?;
            work_for(work_ns);
            Ok((end.wake(None)?, until))
        })?;
        self.sleep_for_sleeps()?;
        self.wake_after_sleeps()?;
        Ok(self.took())
    }

    fn took(mut self) -> Took {
        Took {
            called: std::mem::take(&mut self.called),
            until: std::mem::take(&mut self.until),
        }
    }

    /// Asleep in turns: what each turn's call took, and until this one ran.
    fn in_turns(
        &mut self,
        turn: impl Fn(&mut Self, u64) -> io::Result<(f64, Option<f64>)>,
    ) -> io::Result<()> {
        for work_ns in WORK_NS {
            let (mut called, mut until) = (Vec::new(), Vec::new());
            for _ in 0..Before::InTurns(work_ns).times() {
                let took = turn(self, work_ns)?;
                called.push(took.0);
                until.extend(took.1);
            }
            self.called.push(called);
            self.until.push(until);
        }
        Ok(())
    }

    /// Is awake while the other sleeps, for each length.
    fn wake_after_sleeps(&mut self) -> io::Result<()> {
        for slept_ns in ASLEEP_NS {
            let mut called = Vec::new();
            for _ in 0..Before::Asleep(slept_ns).times() {
                self.turn += 1;
                self.words.ready.store(self.turn, Ordering::Release);
                let is_asleep = |words: &Words| words.asleep_ns.load(Ordering::Acquire) > 0;
                self.words.wait_until(is_asleep)?;
                let asleep_ns = self.words.asleep_ns.swap(0, Ordering::AcqRel);
                work_until(asleep_ns + slept_ns);
                called.push(self.wake(None)?);
            }
            self.called.push(called);
        }
        Ok(())
    }

    /// Sleeps while the other is awake, as often.
    fn sleep_for_sleeps(&mut self) -> io::Result<()> {
        for slept_ns in ASLEEP_NS {
            let mut until = Vec::new();
            for _ in 0..Before::Asleep(slept_ns).times() {
                self.turn += 1;
                let turn = self.turn;
                let is_ready = |words: &Words| words.ready.load(Ordering::Acquire) >= turn;
                self.words.wait_until(is_ready)?;
                self.words.asleep_ns.store(now_ns(), Ordering::Release);
                until.extend(self.sleep()?);
            }
            self.until.push(until);
        }
        Ok(())
    }

    /// Wakes the other, with that message or else the time. What the call took, in
    /// nanoseconds.
    fn wake(&mut self, message: Option<u64>) -> io::Result<f64> {
        let now = now_ns();
        let message = message.unwrap_or(now);
        self.output.write_all(&message.to_ne_bytes())?;
        Ok((now_ns() - now) as f64)
    }

    /// Sleeps until it is woken. What that took, in nanoseconds; none at the end of
    /// settling.
    fn sleep(&mut self) -> io::Result<Option<f64>> {
        let mut bytes = [0; 8];
        self.input.read_exact(&mut bytes)?;
        Ok(match u64::from_ne_bytes(bytes) {
            SETTLED => None,
            woken_ns => Some(now_ns().saturating_sub(woken_ns) as f64),
        })
    }
}

/// Who waits for one that has failed is told so.
impl Drop for End<'_> {
    fn drop(&mut self) {
        self.words.is_over.store(true, Ordering::Release);
    }
}

fn work_for(ns: u64) {
    work_until(now_ns() + ns);
}
