//! Wake-up latency of a sleeping process.
//!
//! Two processes exchange messages. Each sleeps in read(2) until a message arrives, and
//! each message contains the time at which it was sent. The latency is the time from
//! the waking call until the other process runs. It includes the scheduler, an interrupt
//! to another processor, that processor's exit from its idle state, and the context
//! switch. The times to write and to read a message without a sleeper are subtracted.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::Sampler;
use super::echo::{self, Message};
use pipespeed_base::failure::fork_error;
use pipespeed_base::interrupt::{KilledBySignal, first_signal, signal_name};
use pipespeed_measure::endpoint::counters::monotonic_ns as now_ns;
use pipespeed_measure::session::SUBCOMMAND;

/// Number of round trips in a sample.
const TRIPS: usize = 50;

/// Warm-up on two processors. In a guest, wake-ups are faster in the first tens of
/// milliseconds of a process (18 us instead of 27 in one guest): the kernel does not yet
/// stop and restart its timer around every sleep.
const WARM_UP_NS: u64 = 60_000_000;

/// Wakes a process on the second processor from the first. The values are the wake-up
/// latency, and the time that waking adds to the waker's call.
pub(super) fn probe(cpus: Option<(usize, usize)>) -> io::Result<Sampler> {
    let Some((here, there)) = cpus else {
        let why = "this process may not run on such processors";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    };
    // A processor that runs both processes is never idle.
    let warm_up_ns = if here == there { 0 } else { WARM_UP_NS };
    let mut started = Some(Echo::start(there)?);
    Ok(Box::new(move || {
        let mut echo = match started.take() {
            Some(echo) => echo,
            None => Echo::start(there)?,
        };
        match on_processor(here, || echo.sample(warm_up_ns)) {
            Ok(sample) => {
                started = Some(echo);
                Ok(sample)
            }
            Err(error) => Err(echo.failure(error)),
        }
    }))
}

/// The echo process, and the pipes to and from it.
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
                // A terminal's signals must not end it; it ends with its input.
                .process_group(0)
                .spawn()
                .map_err(fork_error)
        })?;
        Ok(Echo {
            child,
            to: Some(to),
            from,
        })
    }

    fn sample(&mut self, warm_up_ns: u64) -> io::Result<Vec<f64>> {
        let Some(to) = &mut self.to else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let mut message = Message::default();
        let (mut wake_ups, mut calls) = (Vec::new(), Vec::new());
        let warm_up_end = now_ns() + warm_up_ns;
        // It may have been stopped.
        let _watched =
            KilledBySignal::watch(&self.child).map_err(|_| io::ErrorKind::Interrupted)?;
        while calls.len() < TRIPS {
            let sent = now_ns();
            to.write_all(&message)?;
            let written = now_ns();
            self.from.read_exact(&mut message)?;
            let arrived = now_ns();
            let echoed = u64::from_ne_bytes(message);
            if sent >= warm_up_end {
                wake_ups.push(echoed.saturating_sub(sent) as f64);
                wake_ups.push(arrived.saturating_sub(echoed) as f64);
                calls.push((written - sent) as f64);
            }
        }
        let [write, read] = awake_ns()?;
        let wake_up = trimmed_mean(wake_ups) - write - read;
        Ok(vec![
            wake_up.max(0.0),
            (trimmed_mean(calls) - write).max(0.0),
        ])
    }

    /// Why a message got no answer.
    fn failure(mut self, error: io::Error) -> io::Error {
        self.to = None;
        if first_signal().is_some() {
            return io::ErrorKind::Interrupted.into();
        }
        let Ok(status) = self.child.wait() else {
            return error;
        };
        let (kind, ended) = match (status.signal(), status.code()) {
            (Some(signal), _) => (
                io::ErrorKind::BrokenPipe,
                format!("was killed by {}", signal_name(signal)),
            ),
            (None, Some(code)) if code != 0 => {
                (io::ErrorKind::Other, format!("exited with status {code}"))
            }
            _ => return error,
        };
        io::Error::new(kind, format!("the process to be woken {ended}"))
    }
}

/// The echo process may have been stopped, so that it does not end with its input.
impl Drop for Echo {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nanoseconds to write and to read a message while no process sleeps.
fn awake_ns() -> io::Result<[f64; 2]> {
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

/// The mean without the lowest and the highest tenth: a single interruption by another
/// process would dominate it.
fn trimmed_mean(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let tenth = samples.len() / 10;
    let kept = &samples[tenth..samples.len() - tenth];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// Runs `act` with this thread bound to one processor.
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
    fn a_trimmed_mean_ignores_outliers() {
        let mut samples = vec![10.0; 8];
        samples.extend([0.0, 1e9]);
        assert_eq!(trimmed_mean(samples), 10.0);
        assert_eq!(trimmed_mean(vec![1.0, 2.0]), 1.5);
    }
}
