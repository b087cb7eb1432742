//! One input, by relay.

use std::cell::RefCell;
use std::io;
use std::os::fd::BorrowedFd;

use fastpipe::relay::{self, End, RelayError, Side, relay, relay_inspecting};
use fastpipe::wait::Wait;

use super::session::Session;
use super::units::Unit;

/// How an input came to its end.
#[derive(Debug)]
pub enum Ended {
    /// It has no more.
    Input,
    /// All that is to pass has passed.
    Enough,
    /// Nobody reads the output any more.
    ReaderGone,
    /// It could not be read.
    InputFailed(io::Error),
    /// The output could not be written.
    OutputFailed(io::Error),
}

/// Passes `input` on to `output`, at most `most` bytes of it.
pub fn pass(
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    most: Option<u64>,
    session: &mut Session<'_>,
) -> Ended {
    session.next_input();
    let asked = session.options();
    let mut options = relay::Options::new()
        .interval(session.interval())
        // What a pipe holds comes out of it at once, however slowly it was
        // filled.
        .raise_capacity(asked.rate_limit.is_none())
        .raise_input_capacity(asked.resize_input);
    if asked.copy || asked.block.is_some() {
        options = options.copy();
    }
    if let Some(bytes) = asked.block {
        options = options.block(bytes);
    }
    if asked.rate_limit.is_none() {
        // Between a writer and a reader that keep up it saves most wake-ups;
        // where that does not pay, it sleeps as ever.
        options = options.wait(Wait::Adaptive);
    }
    let in_bytes = asked.unit == Unit::Bytes;
    let to_pass = session.left_to_pass();
    let limits = [most, to_pass.filter(|_| in_bytes)];
    if let Some(limit) = limits.into_iter().flatten().min() {
        options = options.limit(limit);
    }
    let result = if in_bytes {
        relay(input, output, &options, |progress| session.call(progress))
    } else {
        // Both are called by the same relay, one after the other.
        let session = RefCell::new(&mut *session);
        relay_inspecting(
            input,
            output,
            &options,
            |bytes| session.borrow_mut().look(bytes),
            |progress| session.borrow_mut().call(progress),
        )
    };
    match result {
        Ok(done) => {
            session.pass_over(&done.passed_over);
            let enough = session.left_to_pass() == Some(0) || done.end == End::Stopped;
            if enough { Ended::Enough } else { Ended::Input }
        }
        Err(error) => {
            session.pass_over(&error.passed_over);
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
