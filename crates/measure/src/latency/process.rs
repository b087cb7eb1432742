//! One of the two processes of a trial: set up, wait for the start, exchange,
//! report.

use std::io;

use anyhow::Context;

use super::port::Port;
use super::spec::{ExchangeMode, Naive, RoundTripOutcome, Spec};
use super::{closed, naive, open_loop};
use crate::endpoint::control::Control;
use crate::endpoint::serve::{Instructions, serve};
use crate::failure::not_allowed;
use crate::spec::ProcessRole;

/// Runs a sender or an echo and reports to the control socket.
///
/// # Errors
/// If the report can't be sent.
pub(crate) fn main(role: ProcessRole) -> io::Result<()> {
    serve(role, |control, instructions| {
        run(role, control, instructions)
    })
}

fn run(
    role: ProcessRole,
    control: &mut Control,
    mut instructions: Instructions<Spec>,
) -> anyhow::Result<RoundTripOutcome> {
    let input = instructions.fds.next().context("no descriptors received")?;
    let spec = &instructions.spec;
    let mut port = Port::new(
        role,
        spec,
        (input, instructions.fds.next()),
        instructions.words,
    )?;
    if let ExchangeMode::Open(_) = spec.mode {
        // By default, the kernel delays timers by up to 50 us (prctl(2),
        // PR_SET_TIMERSLACK).
        rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN))
            .map_err(|errno| not_allowed("prctl (PR_SET_TIMERSLACK)", &errno.into()))?;
    }
    control.wait_for_start(())?;
    match (role, spec.mode) {
        (ProcessRole::Echo, ExchangeMode::Closed | ExchangeMode::Open(_)) => {
            closed::echo(&mut port)
        }
        (ProcessRole::Echo, ExchangeMode::Naive(Naive::ShortReads)) => {
            naive::echo_with_short_reads(&mut port)
        }
        (ProcessRole::Echo, ExchangeMode::Naive(Naive::WriteFirst)) => {
            naive::echo_writing_first(&mut port)
        }
        (_, ExchangeMode::Closed | ExchangeMode::Naive(Naive::WriteFirst)) => {
            closed::send(&mut port, spec)
        }
        (_, ExchangeMode::Naive(Naive::ShortReads)) => {
            naive::send_with_short_reads(&mut port, spec)
        }
        (_, ExchangeMode::Open(rate)) => open_loop::send(&mut port, spec, rate),
    }
}
