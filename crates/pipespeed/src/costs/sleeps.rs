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
use super::clock::{now_ns, work_until};
use super::processors::{joined, on_processor};
use super::{Group, Kind, Per, Prepared, Probe, Value};

/// How long the sleeper sleeps before it is woken, in nanoseconds.
pub const SLEEPS_NS: [u64; 8] = [500, 1000, 2000, 4000, 8000, 20_000, 60_000, 200_000];

/// Wake-ups of a sample. Once in some hundreds a processor happens to be awake,
/// so that its sleeper runs before the caller is through with waking it; then
/// two ends that sleep fall in step. That is seldom enough to need many.
const TIMES: u64 = 200;
/// The same where the sleeps are long: the ends of a pipeline seldom sleep so
/// long.
const FEW_TIMES: u64 = 30;
const LONG_NS: u64 = 60_000;

/// Nobody is away for so long.
const PATIENCE_NS: u64 = 5_000_000_000;

/// The names of what a wake-up takes until the sleeper runs, and what it takes
/// its caller.
pub fn names(slept_ns: u64) -> [String; 2] {
    ["wake_up", "wake_call"].map(|what| format!("{what}_after_{slept_ns}ns"))
}

/// One for each length of sleep; the caller's processor and the sleeper's.
pub(super) fn probes(pair: Option<(usize, usize)>) -> Vec<Prepared> {
    let Some(cpus) = pair else {
        return Vec::new();
    };
    let probe = |slept_ns: &u64| -> Prepared {
        Ok(Box::new(Sleep {
            kinds: kinds(*slept_ns),
            cpus,
            slept_ns: *slept_ns,
        }))
    };
    SLEEPS_NS.iter().map(probe).collect()
}

fn kinds(slept_ns: u64) -> Vec<Kind> {
    let slept = slept_ns as f64 / 1e3;
    let [until, call] = names(slept_ns);
    let kind = |name, what: String| Kind::new(Group::Sleeps, Per::WakeUp, name, what);
    vec![
        kind(until, format!("after {slept} us of sleep")),
        kind(call, "    of that, the caller's part".to_owned()),
    ]
}

struct Sleep {
    kinds: Vec<Kind>,
    cpus: (usize, usize),
    slept_ns: u64,
}

impl Probe for Sleep {
    fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn run(&mut self) -> io::Result<Vec<Value>> {
        let ((here, there), slept_ns) = (self.cpus, self.slept_ns);
        // Whoever fails closes an end, which wakes the other.
        let (reader, writer) = io::pipe()?;
        let words = Words::default();
        let (call, until) = thread::scope(|scope| {
            let words = &words;
            let times = times(slept_ns);
            let sleep = move || on_processor(there, || sleep(reader, words, times));
            let sleeper = thread::Builder::new().spawn_scoped(scope, sleep)?;
            let call = on_processor(here, || wake(writer, words, slept_ns, times));
            let until = joined(sleeper);
            Ok::<_, io::Error>((call?, until?))
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
        Ok(vec![
            Value::of_many(until, calls),
            Value::of_many(call, calls / 2.0),
        ])
    }
}

/// What the two threads tell each other.
#[derive(Default)]
struct Words {
    /// How often the caller has been ready.
    ready: AtomicU64,
    /// Since when the sleeper sleeps; 0 while it does not.
    asleep_ns: AtomicU64,
}

fn times(slept_ns: u64) -> u64 {
    match slept_ns < LONG_NS {
        true => TIMES,
        false => FEW_TIMES,
    }
}

fn sleep(mut reader: PipeReader, words: &Words, times: u64) -> io::Result<Vec<f64>> {
    let mut until = Vec::new();
    let mut bytes = [0; 8];
    for time in 1..=times {
        spin_until(|| words.ready.load(Ordering::Acquire) >= time)?;
        words.asleep_ns.store(now_ns(), Ordering::Release);
        reader.read_exact(&mut bytes)?;
        until.push(now_ns().saturating_sub(u64::from_ne_bytes(bytes)) as f64);
    }
    Ok(until)
}

fn wake(mut writer: PipeWriter, words: &Words, slept_ns: u64, times: u64) -> io::Result<Vec<f64>> {
    let mut call = Vec::new();
    for time in 1..=times {
        words.ready.store(time, Ordering::Release);
        spin_until(|| words.asleep_ns.load(Ordering::Acquire) > 0)?;
        let asleep_ns = words.asleep_ns.swap(0, Ordering::AcqRel);
        work_until(asleep_ns + slept_ns);
        let now = now_ns();
        writer.write_all(&now.to_ne_bytes())?;
        call.push((now_ns() - now) as f64);
    }
    Ok(call)
}

fn spin_until(is_so: impl Fn() -> bool) -> io::Result<()> {
    let patience = now_ns() + PATIENCE_NS;
    while !is_so() {
        if now_ns() > patience {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::hint::spin_loop();
    }
    Ok(())
}
