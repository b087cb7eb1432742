//! One of the two processes of a trial: set up, wait for the start, exchange,
//! report.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::Context;
use fastpipe::shared::SharedWords;

use super::port::{Left, Port, WORDS};
use super::spec::{Mode, Outcome, Said, Spec};
use super::{closed, naive, open_loop};
use crate::endpoint::control::Control;
use crate::endpoint::process::{die_with_parent, not_allowed, stay_on};
use crate::record::NotRun;
use pipespeed_base::failure::full_message;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends first, and measures.
    Sender,
    /// Sends back what it gets.
    Echo,
}

impl Role {
    /// The argument of the hidden subcommand.
    pub fn argument(self) -> &'static str {
        match self {
            Role::Sender => "latency-sender",
            Role::Echo => "latency-echo",
        }
    }

    /// The word for it in messages.
    pub fn name(self) -> &'static str {
        match self {
            Role::Sender => "sender",
            Role::Echo => "echo",
        }
    }

    /// The reverse of [`argument`](Self::argument).
    pub fn from_argument(argument: &str) -> Option<Self> {
        [Role::Sender, Role::Echo]
            .into_iter()
            .find(|role| role.argument() == argument)
    }
}

/// Runs the process. Its standard input is the control socket.
///
/// # Errors
/// When there is nobody to report to.
pub fn main(role: Role) -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let mut control = Control::new(UnixStream::from(stdin));
    let said = match run(role, &mut control) {
        Ok(outcome) => Said::Done(Box::new(outcome)),
        Err(error) if error.is::<Left>() => Said::Left(error.to_string()),
        Err(error) => match error.downcast_ref() {
            Some(not_run) => Said::NotRun(NotRun::clone(not_run)),
            None => Said::Failed(full_message(&error)),
        },
    };
    control.send(&said)
}

fn run(role: Role, control: &mut Control) -> anyhow::Result<Outcome> {
    let (spec, fds): (Spec, _) = control.receive_with().context("the control socket")?;
    die_with_parent()?;
    let mut fds = fds.into_iter();
    let (words, input) = fds.next().zip(fds.next()).context("no descriptors came")?;
    let words = SharedWords::open(words, WORDS)?;
    if let Some(cpu) = spec.cpu {
        stay_on(cpu)?;
    }
    let mut port = Port::new(role, &spec, (input, fds.next()), words)?;
    if let Mode::Open(_) = spec.mode {
        // Else timers are late by 50 us on purpose (prctl(2), PR_SET_TIMERSLACK).
        rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))
            .map_err(|errno| not_allowed("prctl (PR_SET_TIMERSLACK)", &errno.into()))?;
    }
    control.send(&Said::Ready)?;
    control.receive_go().context("the trial is gone")?;
    match (role, spec.mode) {
        (Role::Sender, Mode::Closed | Mode::Naive) => closed::send(&mut port, &spec),
        (Role::Sender, Mode::Open(rate)) => open_loop::send(&mut port, &spec, rate),
        (Role::Echo, Mode::Closed | Mode::Open(_)) => closed::echo(&mut port),
        (Role::Echo, Mode::Naive) => naive::echo(&mut port),
    }
}
