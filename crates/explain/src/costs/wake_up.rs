//! Waking up a sleeping process.
//!
//! A message goes to another process and comes back; each process sleeps in
//! read(2) until it arrives, and each message carries the time it was sent. A
//! wake-up lasts from the call that causes it until the other process runs: the
//! scheduler, the interrupt where it takes one, the processor's way out of
//! idleness, and the switch. Writing and reading a message that nobody sleeps
//! for is subtracted.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Sampler;
use super::echo::{self, Message, decode, encode, now_ns};
use pipespeed_measure::session::SUBCOMMAND;

/// Round trips in a sample.
const TRIPS: usize = 50;

/// Time for which two processors exchange messages before any counts. On a guest
/// the first tens of milliseconds of a process see cheaper wake-ups, here 18 us
/// instead of 27: the kernel does not stop and restart its timer around every
/// sleep yet.
const SETTLING_NS: u64 = 60_000_000;

/// A waker on the first processor, a sleeper on the second. The values are the
/// wake-up, and what it adds to the waker's call.
pub(super) fn probe(cpus: Option<(usize, usize)>) -> io::Result<Sampler> {
    let Some((here, there)) = cpus else {
        let why = "no such processors to run on here";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    };
    // A processor that switches between both is never idle.
    let settling_ns = if here == there { 0 } else { SETTLING_NS };
    let mut echo = Echo::start(there)?;
    Ok(Box::new(move || {
        on_processor(here, || echo.sample(settling_ns))
    }))
}

/// The other process.
struct Echo {
    child: Child,
    to: Option<PipeWriter>,
    from: PipeReader,
}

impl Echo {
    fn start(cpu: usize) -> io::Result<Self> {
        let (echo_from, to) = io::pipe()?;
        let (from, echo_to) = io::pipe()?;
        let child = on_processor(cpu, || {
            Command::new(std::env::current_exe()?)
                .args([SUBCOMMAND, echo::ROLE])
                .stdin(echo_from)
                .stdout(echo_to)
                .stderr(Stdio::null())
                // A terminal's signals are for us; it ends when its input does.
                .process_group(0)
                .spawn()
        })?;
        Ok(Echo {
            child,
            to: Some(to),
            from,
        })
    }

    fn sample(&mut self, settling_ns: u64) -> io::Result<Vec<f64>> {
        let Some(to) = &mut self.to else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut message = Message::default();
        let (mut wake_ups, mut calls) = (Vec::new(), Vec::new());
        let settled = now_ns() + settling_ns;
        while calls.len() < TRIPS {
            let sent = now_ns();
            to.write_all(&encode(sent, 0))?;
            let written = now_ns();
            self.from.read_exact(&mut message)?;
            let arrived = now_ns();
            let (sent_back, there_ns) = decode(message);
            if sent >= settled {
                wake_ups.push(there_ns as f64);
                wake_ups.push(arrived.saturating_sub(sent_back) as f64);
                calls.push((written - sent) as f64);
            }
        }
        let [write, read] = unslept()?;
        let wake_up = trimmed_mean(wake_ups) - write - read;
        Ok(vec![
            wake_up.max(0.0),
            (trimmed_mean(calls) - write).max(0.0),
        ])
    }
}

/// The echo ends when its input does.
impl Drop for Echo {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.wait();
    }
}

/// Nanoseconds to write and to read a message for which nobody sleeps.
fn unslept() -> io::Result<[f64; 2]> {
    let (mut reader, mut writer) = io::pipe()?;
    let (mut writing, mut reading) = (Vec::new(), Vec::new());
    let mut message = Message::default();
    for _ in 0..TRIPS {
        let started = now_ns();
        writer.write_all(&message)?;
        let written = now_ns();
        reader.read_exact(&mut message)?;
        reading.push((now_ns() - written) as f64);
        writing.push((written - started) as f64);
    }
    Ok([trimmed_mean(writing), trimmed_mean(reading)])
}

/// The mean without the lowest and the highest tenth: an interruption by another
/// process would outweigh all others.
fn trimmed_mean(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let tenth = samples.len() / 10;
    let kept = &samples[tenth..samples.len() - tenth];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// Keeps this thread on one processor while it acts.
fn on_processor<T>(cpu: usize, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    let done = act();
    sched_setaffinity(None, &before)?;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_on_either_side_are_left_out_of_a_mean() {
        let mut samples = vec![10.0; 8];
        samples.extend([0.0, 1e9]);
        assert_eq!(trimmed_mean(samples), 10.0);
        assert_eq!(trimmed_mean(vec![1.0, 2.0]), 1.5);
    }
}
