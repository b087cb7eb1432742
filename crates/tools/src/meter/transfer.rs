//! Passing one input on, by relay.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use fastpipe::relay::{self, End, RelayError, Side, relay, relay_inspecting};
use fastpipe::wait::Wait;

use super::session::Session;
use super::units::Unit;

/// Outcome of passing an input on.
#[derive(Debug)]
pub enum Ended {
    /// End of the input.
    Input,
    /// The size to stop at was reached.
    Enough,
    /// The reader of the output is gone.
    ReaderGone,
    /// Reading failed.
    InputFailed(io::Error),
    /// Writing failed.
    OutputFailed(io::Error),
}

/// Passes at most `most` bytes of `input` on to `output`.
pub fn pass(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    most: Option<u64>,
    session: &mut Session<'_>,
) -> Ended {
    session.next_input();
    let requested = session.options();
    let mut options = relay::Options::new()
        .interval(session.interval())
        // A large pipe would add bursts to a limited rate.
        .raise_capacity(requested.rate_limit.is_none())
        .raise_input_capacity(requested.resize_input);
    if requested.copy || requested.block.is_some() {
        options = options.copy();
    }
    if let Some(bytes) = requested.block {
        options = options.block(bytes);
    }
    if requested.rate_limit.is_none() {
        // Saves most wake-ups if writer and reader are equally fast.
        options = options.wait(Wait::Adaptive);
    }
    let in_bytes = requested.unit == Unit::Bytes;
    let remaining = session.remaining();
    let limits = [most, remaining.filter(|_| in_bytes)];
    if let Some(limit) = limits.into_iter().flatten().min() {
        options = options.limit(limit);
    }
    let result = if in_bytes {
        relay(input, output, &options, |progress| {
            session.on_progress(progress)
        })
    } else {
        // Relay never runs both callbacks at once.
        let session = RefCell::new(&mut *session);
        relay_inspecting(
            input,
            output,
            &options,
            |bytes| session.borrow_mut().on_bytes(bytes),
            |progress| session.borrow_mut().on_progress(progress),
        )
    };
    match result {
        Ok(done) => {
            session.set_passed_over(&done.passed_over);
            let enough = session.remaining() == Some(0) || done.end == End::Stopped;
            if enough { Ended::Enough } else { Ended::Input }
        }
        Err(error) => {
            session.set_passed_over(&error.passed_over);
            failed(error)
        }
    }
}

fn failed(error: RelayError) -> Ended {
    match error.side {
        _ if error.reader_is_gone() => Ended::ReaderGone,
        Side::Input => Ended::InputFailed(error.source),
        Side::Output => Ended::OutputFailed(error.source),
    }
}
