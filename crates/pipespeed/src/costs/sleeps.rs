//! A wake-up on another processor, by how long the sleeper has slept.
//!
//! A processor that has just run out of work is not idle at once. Woken on the
//! way there it takes little; later it takes an interrupt, and on a guest the
//! host may have given the processor away by then. Pipelines that keep up with
//! each other sleep for a microsecond now and then, those that don't for tens
//! of them; a ping-pong, where both always sleep, shows the latter only.
//!
//! The one thread says in shared memory when it goes to sleep in a read; the
//! other spins until the time is over, and writes.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::calls::each;
use super::clock::{now_ns, spin_until, work_until};
use super::processors::{joined, on_processor};
use super::{Group, Kind, Per, Prepared, Probe, Value};

/// How long the sleeper sleeps before it is woken, in nanoseconds.
pub const SLEEPS_NS: [u64; 11] = [
    500, 1000, 2000, 4000, 8000, 12_000, 16_000, 20_000, 30_000, 60_000, 200_000,
];

/// Wake-ups of a sample. Once in some hundreds a processor happens to be awake,
/// so that its sleeper runs before the caller is through with waking it; then
/// two ends that sleep fall in step. So they do when the clock's tick comes within
/// the call. That is seldom enough to need many.
const TIMES: u64 = 600;
/// The same where the sleeps are long: the ends of a pipeline seldom sleep so
/// long.
const FEW_TIMES: u64 = 30;
const LONG_NS: u64 = 60_000;

/// The two sleep and wake for so long before anything counts. On a guest a
/// wake-up gets dearer in the first some tens of milliseconds after a process has
/// begun: here from 18 us to 27 or more. Traced: the timer is stopped and set
/// again around every sleep then, 6 us on the way in and 9 on the way out; and
/// the interrupt takes the host longer to hand over.
pub(super) const SETTLING_NS: u64 = 60_000_000;
const SETTLING_SLEEP_NS: u64 = 20_000;
/// What the sleeper reads at the end of that.
const SETTLED: u64 = u64::MAX;

/// The names of what a wake-up takes until the sleeper runs, and what it takes
/// its caller.
pub fn names(slept_ns: u64) -> [String; 2] {
    ["wake_up", "wake_call"].map(|what| format!("{what}_after_{slept_ns}ns"))
}

/// Of all lengths of sleep; the caller's processor and the sleeper's.
pub(super) fn probes(pair: Option<(usize, usize)>) -> Vec<Prepared> {
    let Some(cpus) = pair else {
        return Vec::new();
    };
    let kinds = SLEEPS_NS.into_iter().flat_map(kinds).collect();
    vec![Ok(Box::new(Sleeps { kinds, cpus }))]
}

fn kinds(slept_ns: u64) -> [Kind; 2] {
    let slept = slept_ns as f64 / 1e3;
    let [until, call] = names(slept_ns);
    let kind = |name, what: String| Kind::new(Group::Sleeps, Per::WakeUp, name, what);
    [
        kind(until, format!("after {slept} us of sleep")),
        kind(call, "    of that, the caller's part".to_owned()),
    ]
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
        // Whoever fails closes an end, which wakes the other.
        let (reader, writer) = io::pipe()?;
        let words = &Words::default();
        let (called, until) = thread::scope(|scope| {
            let sleeper = Sleeper {
                reader,
                words,
                times: 0,
            };
            let sleep = move || on_processor(there, || sleep(sleeper));
            let sleeper = thread::Builder::new().spawn_scoped(scope, sleep)?;
            let waker = Waker {
                writer,
                words,
                times: 0,
            };
            let called = on_processor(here, || wake(waker));
            match (called, joined(sleeper)) {
                (Ok(called), Ok(until)) => Ok((called, until)),
                (Err(error), Err(other)) if is_of_the_other(&error) => Err(other),
                (Err(error), _) | (_, Err(error)) => Err(error),
            }
        })?;
        // What the calls take where nobody sleeps.
        let (mut reader, mut writer) = io::pipe()?;
        let calls = on_processor(here, || {
            let started = Instant::now();
            for _ in 0..FEW_TIMES {
                writer.write_all(&[0; 8])?;
                reader.read_exact(&mut [0; 8])?;
            }
            Ok(each(started, FEW_TIMES as u32))
        })?;
        let both = until.into_iter().zip(called);
        let values = both.flat_map(|(until, called)| {
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
    /// How often the caller has been ready.
    ready: AtomicU64,
    /// Since when the sleeper sleeps; 0 while it does not.
    asleep_ns: AtomicU64,
}

struct Sleeper<'a> {
    reader: PipeReader,
    words: &'a Words,
    times: u64,
}

impl Sleeper<'_> {
    /// What it took to wake it, in nanoseconds; none at the end of settling.
    fn once(&mut self) -> io::Result<Option<f64>> {
        self.times += 1;
        spin_until(|| Ok(self.words.ready.load(Ordering::Acquire) >= self.times))?;
        self.words.asleep_ns.store(now_ns(), Ordering::Release);
        let mut bytes = [0; 8];
        self.reader.read_exact(&mut bytes)?;
        Ok(match u64::from_ne_bytes(bytes) {
            SETTLED => None,
            woken_ns => Some(now_ns().saturating_sub(woken_ns) as f64),
        })
    }
}

struct Waker<'a> {
    writer: PipeWriter,
    words: &'a Words,
    times: u64,
}

impl Waker<'_> {
    /// Wakes the other after so long a sleep, with that message or else the
    /// time. What the call took, in nanoseconds.
    fn once(&mut self, slept_ns: u64, message: Option<u64>) -> io::Result<f64> {
        self.times += 1;
        self.words.ready.store(self.times, Ordering::Release);
        spin_until(|| Ok(self.words.asleep_ns.load(Ordering::Acquire) > 0))?;
        let asleep_ns = self.words.asleep_ns.swap(0, Ordering::AcqRel);
        work_until(asleep_ns + slept_ns);
        let now = now_ns();
        let message = message.unwrap_or(now);
        self.writer.write_all(&message.to_ne_bytes())?;
        Ok((now_ns() - now) as f64)
    }
}

fn sleep(mut sleeper: Sleeper<'_>) -> io::Result<Vec<Vec<f64>>> {
    while sleeper.once()?.is_some() {}
    let mut until = Vec::new();
    for slept_ns in SLEEPS_NS {
        let mut each = Vec::new();
        for _ in 0..times(slept_ns) {
            each.extend(sleeper.once()?);
        }
        until.push(each);
    }
    Ok(until)
}

fn wake(mut waker: Waker<'_>) -> io::Result<Vec<Vec<f64>>> {
    let settled = now_ns() + SETTLING_NS;
    while now_ns() < settled {
        waker.once(SETTLING_SLEEP_NS, None)?;
    }
    waker.once(SETTLING_SLEEP_NS, Some(SETTLED))?;
    let mut called = Vec::new();
    for slept_ns in SLEEPS_NS {
        let mut each = Vec::new();
        for _ in 0..times(slept_ns) {
            each.push(waker.once(slept_ns, None)?);
        }
        called.push(each);
    }
    Ok(called)
}

fn times(slept_ns: u64) -> u64 {
    match slept_ns < LONG_NS {
        true => TIMES,
        false => FEW_TIMES,
    }
}
