//! Spinning with pauses between attempts, which the suite `options` compares with spinning.

use std::hint;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use fastpipe::transfer::Incomplete;
use fastpipe::wait::Wait;

use crate::spec::Waiting;

/// First pause under [`Waiting::Backoff`]: about as long as a failed attempt takes.
const MIN_PAUSE: Duration = Duration::from_nanos(125);

/// Upper bound of a pause under [`Waiting::Backoff`].
const MAX_PAUSE: Duration = Duration::from_micros(4);

/// How the transfers of one end wait themselves: not at all if there are pauses in between.
pub(super) fn wait_in_calls(waiting: Waiting) -> Wait {
    match waiting {
        Waiting::Pause | Waiting::Backoff => Wait::Never,
        other => other.into(),
    }
}

/// The pauses of one end.
#[derive(Debug)]
pub(super) struct Pauses {
    waiting: Waiting,
    /// The next pause under [`Waiting::Backoff`].
    next: Duration,
}

impl Pauses {
    pub(super) fn new(waiting: Waiting) -> Self {
        Pauses {
            waiting,
            next: MIN_PAUSE,
        }
    }

    /// Makes a transfer, and goes on with it after a pause where it would have blocked.
    /// `transfer` gets the bytes moved so far.
    ///
    /// # Errors
    /// Those of the transfer, with all bytes moved.
    #[inline]
    pub(super) fn retry<T>(
        &mut self,
        mut transfer: impl FnMut(u64) -> Result<T, Incomplete>,
    ) -> Result<T, Incomplete> {
        let mut moved = 0;
        loop {
            let error = match transfer(moved) {
                Ok(result) => {
                    self.next = MIN_PAUSE;
                    return Ok(result);
                }
                Err(error) => error,
            };
            moved += error.moved;
            let pauses = matches!(self.waiting, Waiting::Pause | Waiting::Backoff);
            if !pauses || error.kind() != ErrorKind::WouldBlock {
                return Err(Incomplete { moved, ..error });
            }
            if error.moved > 0 {
                self.next = MIN_PAUSE;
            }
            self.pause();
        }
    }

    fn pause(&mut self) {
        if self.waiting == Waiting::Pause {
            hint::spin_loop();
            return;
        }
        let since = Instant::now();
        while since.elapsed() < self.next {
            hint::spin_loop();
        }
        self.next = (self.next * 2).min(MAX_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastpipe::transfer::Output;
    use std::io::Read;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn pauses_double_up_to_a_limit_until_an_attempt_succeeds() {
        let mut pauses = Pauses::new(Waiting::Backoff);
        for expected_ns in [125, 250, 500, 1000, 2000, 4000, 4000] {
            let pause = pauses.next;
            assert_eq!(pause, Duration::from_nanos(expected_ns));
            let start = Instant::now();
            pauses.pause();
            assert!(start.elapsed() >= pause);
        }
        pauses.retry(|_| Ok(())).unwrap();
        assert_eq!(pauses.next, MIN_PAUSE);
    }

    #[test]
    fn a_transfer_goes_on_where_it_would_have_blocked() {
        for waiting in [Waiting::Pause, Waiting::Backoff] {
            let (mut reader, writer) = std::io::pipe().unwrap();
            let (begin, may_begin) = mpsc::channel();
            let reading = thread::spawn(move || {
                may_begin.recv().unwrap();
                let mut got = Vec::new();
                reader.read_to_end(&mut got).map(|_| got)
            });
            let bytes: Vec<u8> = (0..3_000_000).map(|n| (n % 251) as u8).collect();
            let mut out = Output::new(writer, wait_in_calls(waiting));
            let sent = Pauses::new(waiting).retry(|moved| {
                let written = out.write(&bytes[moved as usize..]);
                if written.is_err() {
                    // The pipe is full. Later there may be nobody to tell.
                    let _ = begin.send(());
                }
                written
            });
            sent.unwrap();
            drop(out);
            assert!(reading.join().unwrap().unwrap() == bytes, "{waiting}");
        }
    }

    #[test]
    fn other_ways_to_wait_and_other_errors_end_a_transfer() {
        for (waiting, kind) in [
            (Waiting::Pause, ErrorKind::BrokenPipe),
            (Waiting::Backoff, ErrorKind::BrokenPipe),
            (Waiting::Spin, ErrorKind::WouldBlock),
        ] {
            let mut calls = 0;
            let outcome = Pauses::new(waiting).retry(|_| {
                calls += 1;
                Err::<(), _>(Incomplete {
                    moved: 7,
                    source: kind.into(),
                })
            });
            let error = outcome.unwrap_err();
            assert_eq!((error.kind(), error.moved, calls), (kind, 7, 1));
        }
    }
}
