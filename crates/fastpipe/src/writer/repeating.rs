//! Sending of repeated bytes.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use super::reason::refusal_reason;
use super::repeater::Repeater;
use super::send::{MIN_SPLICED, Stage};
use super::{CopyReason, Frozen, Writer};
use crate::transfer::{Incomplete, VmspliceOptions};

/// Repeating at least this many bytes is worth setting up pipes ([`Repeater`]).
const MUCH: u128 = 128 << 20;

/// Bytes that are being repeated.
#[derive(Debug)]
pub(super) struct Repeating {
    data: Frozen,
    /// Number of bytes still to be sent.
    left: u128,
    /// Offset of the next byte within `data`.
    at: usize,
    /// Fast path for many bytes; `None` until it is set up and after it failed.
    repeater: Option<Repeater>,
    repeater_tried: bool,
}

impl Repeating {
    pub(super) fn new(data: Frozen, left: u128) -> Self {
        Repeating {
            data,
            left,
            at: 0,
            repeater: None,
            repeater_tried: false,
        }
    }

    pub(super) fn left(&self) -> u128 {
        self.left
    }

    /// Sets up the fast path if it is worth it. It has to start with the first
    /// byte of the data.
    fn prepare(&mut self) {
        if !self.repeater_tried && self.at == 0 && self.left >= MUCH {
            self.repeater = Repeater::new(self.data.layout(self.left));
            self.repeater_tried = true;
        }
    }

    fn advance(&mut self, bytes: u64) {
        let len = self.data.as_bytes().len();
        self.left -= u128::from(bytes);
        self.at = ((self.at as u64 + bytes) % len as u64) as usize;
    }
}

impl<F: AsFd> Writer<F> {
    /// Sends some of the repeated bytes. Nothing else is queued.
    pub(super) fn repeat_some(&mut self) -> io::Result<()> {
        self.prepare(0);
        // Frozen pages are by far the fastest way, which needs no trial.
        let by_reference = match self.stage {
            Stage::ZeroCopy => true,
            Stage::Copying(CopyReason::NothingFaster | CopyReason::NoHugePages) => {
                match self.find_obstacle() {
                    None => true,
                    Some(reason) => {
                        let _ = self.switch_to_copying(reason, 0);
                        false
                    }
                }
            }
            Stage::First | Stage::Copying(_) => false,
        };
        let sent = self.out_ref().counts().bytes;
        if let Some(auto) = &mut self.auto {
            auto.interrupt(sent);
        }
        let Some(repeating) = &mut self.repeating else {
            return Ok(());
        };
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        if by_reference {
            repeating.prepare();
        }
        if by_reference && let Some(repeater) = &mut repeating.repeater {
            let sent = repeater.send(out, repeating.left);
            let moved = sent.as_ref().map_or_else(|error| error.moved, |n| *n);
            self.spliced += moved;
            repeating.advance(moved);
            return self.after_repeating(sent.err(), true);
        }
        let layout = repeating.data.layout(repeating.left);
        let from = repeating.at;
        let len = ((layout.len() - from) as u128).min(repeating.left) as usize;
        let outcome = if by_reference && len >= MIN_SPLICED {
            let piece = layout.slice(from..from + len);
            let outcome = out.vmsplice(&[piece], VmspliceOptions::default());
            let moved = outcome.as_ref().map_or_else(|e| e.moved, |()| len as u64);
            self.spliced += moved;
            outcome
        } else if len >= MIN_SPLICED || repeating.left == len as u128 {
            out.write(&layout[from..from + len])
        } else {
            // Many small copies: gather them first.
            return self.gather_copies();
        };
        match &outcome {
            Ok(()) => repeating.advance(len as u64),
            Err(incomplete) => repeating.advance(incomplete.moved),
        }
        self.after_repeating(outcome.err(), by_reference)
    }

    /// Handles the outcome of sending repeated bytes: ends the repetition, or
    /// falls back to another technique if pages may not be handed over.
    fn after_repeating(&mut self, error: Option<Incomplete>, by_reference: bool) -> io::Result<()> {
        let Some(repeating) = &mut self.repeating else {
            return Ok(());
        };
        if repeating.left == 0 {
            self.repeating = None;
            self.reset(self.held);
            return Ok(());
        }
        let Some(Incomplete { source, .. }) = error else {
            return Ok(());
        };
        let usual = matches!(
            source.kind(),
            ErrorKind::WouldBlock | ErrorKind::BrokenPipe | ErrorKind::Interrupted
        );
        if !usual && repeating.repeater.take().is_some() {
            // Use another technique. An error of the output, a pipe, will occur again.
            return Ok(());
        }
        match refusal_reason(&source) {
            Some(reason) if by_reference => {
                self.stage = Stage::Copying(reason);
                self.stop_auto();
                Ok(())
            }
            _ => Err(source),
        }
    }

    /// Fills the window with copies of the data, and sends it.
    fn gather_copies(&mut self) -> io::Result<()> {
        self.open_window(1)?;
        if let Some(repeating) = &mut self.repeating {
            while self.filled < self.end && repeating.left > 0 {
                let copy = &repeating.data.as_bytes()[repeating.at..];
                let n = copy.len().min(self.end - self.filled);
                let n = (n as u128).min(repeating.left) as usize;
                let to = self.filled + n;
                self.region.bytes_mut()[self.filled..to].copy_from_slice(&copy[..n]);
                self.filled = to;
                repeating.advance(n as u64);
            }
            self.end = self.filled;
            if repeating.left == 0 {
                self.repeating = None;
            }
        }
        self.send()
    }
}
