//! One trial: start both processes, watch them, collect, reap.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::anyhow;
use fastpipe::shared::SharedWords;

use super::channels::{self, Ends};
use super::pair::{End, Pair};
use super::port::WORDS;
use super::process::Role;
use super::spec::{Outcome, Said, Spec};
use crate::channel::OpenError;
use crate::endpoint::control::Control;
use crate::endpoint::counters::run_delay_s;
use crate::endpoint::process::SUBCOMMAND;
use crate::record::NotRun;
use crate::trial::own_processor_time;
use pipespeed_base::failure::{out_of_descriptors, start_error};
use pipespeed_base::interrupt::Interrupt;
use pipespeed_base::signal_name;
use pipespeed_host::{NoiseDelta, NoiseProbe};

/// Where and for how long.
#[derive(Debug)]
pub struct Trials {
    /// The program that knows the hidden subcommand: this one.
    pub program: PathBuf,
    /// The sender's processor, and the echo's.
    pub cpus: [Option<usize>; 2],
    /// For how long a deadlock must have lasted to be called one.
    pub limit: Duration,
    /// What ends a run early.
    pub interrupt: Interrupt,
    /// What tells of disturbances.
    pub noise: NoiseProbe,
}

/// A trial that was over.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// What the sender measured.
    pub outcome: Outcome,
    /// For how many seconds each process waited for its processor: the sender
    /// in the timed part, the echo from the start on.
    pub waited_s: [Option<f64>; 2],
    /// What else went on.
    pub noise: NoiseDelta,
}

/// How a trial came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The channel, or this machine, does not do it.
    #[error(transparent)]
    NotRun(#[from] NotRun),
    /// Both ends wait for each other.
    #[error("{0}")]
    Deadlock(String),
    /// A signal.
    #[error("interrupted by {}", signal_name(*.0))]
    Interrupted(i32),
    /// Something went wrong.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl Trials {
    /// Runs one trial. `spec.cpu` is filled in. Neither process is left.
    ///
    /// # Errors
    /// [`TrialError`].
    pub fn run(&self, spec: &Spec) -> Result<Measured, TrialError> {
        let (used_before, before) = (own_processor_time(), self.noise.take());
        let (outcome, echo_waited_s) = self.exchange(spec)?;
        let (after, used_after) = (self.noise.take(), own_processor_time());
        let own_cpu_s = used_after.saturating_sub(used_before).as_secs_f64();
        let cpus: Vec<usize> = self.cpus.into_iter().flatten().collect();
        Ok(Measured {
            noise: after.since(&before, &cpus, own_cpu_s),
            waited_s: [outcome.run_delay_s, echo_waited_s],
            outcome,
        })
    }

    /// Returns with both processes reaped, and with the seconds for which the
    /// echo waited for its processor.
    fn exchange(&self, spec: &Spec) -> Result<(Outcome, Option<f64>), TrialError> {
        let way =
            channels::open(spec.kind, spec.size, spec.pipe_bytes).map_err(|error| match error {
                OpenError::NotRun(not_run) => not_run.into(),
                OpenError::Failed(error) => TrialError::Failed(error),
            })?;
        let words = SharedWords::create(WORDS).map_err(cant("shared memory"))?;
        let sender = self.start(Role::Sender, &way.sender, spec, &words)?;
        let echo = self.start(Role::Echo, &way.echo, spec, &words)?;
        let holds = way.holds;
        // What nobody but a process holds is closed when it ends.
        drop((way.sender, way.echo));
        let mut pair = Pair::new([sender, echo], words, &self.interrupt, spec, self.limit);
        for _ in 0..2 {
            match pair.next()? {
                (_, Said::Ready) => {}
                (role, said) => return Err(pair.blame(role, said)),
            }
        }
        let echo = pair.ends[Role::Echo as usize].child.id();
        let waited_before = run_delay_s(echo);
        for role in [Role::Sender, Role::Echo] {
            if let Err(error) = pair.ends[role as usize].control.send_go() {
                return Err(pair.ends[role as usize].gone(&error));
            }
        }
        let mut said = pair.next();
        // The sender may be seen to leave before it is heard.
        if let Ok((Role::Echo, Said::Left(_))) = said {
            pair.hurry();
            said = pair.next_of(&[Role::Sender]);
        }
        match said {
            Ok((Role::Sender, Said::Done(outcome))) => {
                // Readable until it is reaped.
                let waited = run_delay_s(echo).zip(waited_before);
                Ok((*outcome, waited.map(|(now, then)| now - then)))
            }
            Ok((role, said)) => Err(pair.blame(role, said)),
            Err(TrialError::Deadlock(_)) => Err(pair.explained(spec, &holds)),
            Err(error) => Err(error),
        }
    }

    fn start(
        &self,
        role: Role,
        ends: &Ends,
        spec: &Spec,
        words: &SharedWords,
    ) -> Result<End, TrialError> {
        let (ours, theirs) = UnixStream::pair().map_err(cant("a control socket"))?;
        let child = Command::new(&self.program)
            .args([SUBCOMMAND, role.argument()])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| TrialError::Failed(start_error(role.name(), &self.program, error)))?;
        let mut end = End {
            role,
            child,
            control: Control::new(ours),
        };
        let spec = Spec {
            cpu: self.cpus[role as usize],
            ..spec.clone()
        };
        let mut fds: Vec<BorrowedFd<'_>> = vec![words.as_fd(), ends.input.as_fd()];
        fds.extend(ends.output.as_ref().map(AsFd::as_fd));
        match end.control.send_with(&spec, &fds) {
            Ok(()) => Ok(end),
            Err(error) => Err(end.gone(&error)),
        }
    }
}

fn cant(what: &'static str) -> impl Fn(io::Error) -> TrialError {
    move |error| {
        TrialError::Failed(match out_of_descriptors(&error) {
            Some(hint) => anyhow!("{what}: {hint}"),
            None => anyhow::Error::new(error).context(what),
        })
    }
}
